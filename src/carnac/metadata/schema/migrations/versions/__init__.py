"""One file for each version of the tables. Never edited once released."""
