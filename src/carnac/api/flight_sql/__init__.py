"""Flight SQL: requests of ADBC and JDBC are answered as SQL over HTTP is, in batches of Arrow."""
