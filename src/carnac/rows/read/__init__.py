"""From files to records: lines, CSV, JSON, Parquet, ORC, Arrow; what cannot be read is rejected with its reason."""
