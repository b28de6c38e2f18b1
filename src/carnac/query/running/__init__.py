"""What a query has while it runs: its cursor, the settings of DuckDB, and the files of its scans."""
