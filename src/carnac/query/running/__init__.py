"""The resources of a running query: its cursor, functions and settings of DuckDB, and the files of its scans."""
