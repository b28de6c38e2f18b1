"""A batch ingestion: from files or a DataFrame to segment files that are not yet published.

Pass 1 (`read_pass`) reads, parses, coerces and cuts rows into part files by time chunk; pass 2 (`write_pass`) merges,
rolls up, sorts and writes segments. A spec with transforms goes through Spark's own plan between the two
(`spark_rows`).
"""
