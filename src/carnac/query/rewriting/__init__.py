"""Parts of statements rewritten so that DuckDB computes them with less work: buckets of time, sketches, short lists."""
