"""Spark SQL's expressions without Spark: a part of them as trees, and as DuckDB's SQL where both mean the same."""
