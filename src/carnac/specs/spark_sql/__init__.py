"""Spark SQL's expressions without Spark, for appends that no JVM is worth.

`syntax` reads the forms that are written most into trees. `duck` decides which of them mean the same in DuckDB, and
writes these as its SQL; the others are refused by name: `ingest` takes them, on Spark.
"""
