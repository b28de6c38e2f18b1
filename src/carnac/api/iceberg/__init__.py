"""`/iceberg`: the catalog in which Spark, Trino, PyIceberg and others find datasources as tables."""
