"""The resources of a running query: its cursor, the settings of DuckDB, and the files of its scans."""
