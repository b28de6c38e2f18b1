"""A segment: one immutable Parquet file, described by its record; its version, its columns, its partition."""
