"""Flight SQL: what ADBC and JDBC ask, answered as SQL over HTTP is, in batches of Arrow."""
