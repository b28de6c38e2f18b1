"""What a statement says, written as what DuckDB computes with less work: buckets of time, sketches, short lists."""
