"""From files to records: lines, CSV, JSON, Parquet, ORC, Arrow. Unreadable records are rejected with their reasons."""
