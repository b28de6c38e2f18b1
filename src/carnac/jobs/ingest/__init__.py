"""A batch ingestion: from files or a DataFrame to segment files that are not yet published.

How does a row get from a CSV into a segment?

1. `ingest` lists the files and divides large ones into splits; each split is a task of Spark.
2. Pass 1 (`read_pass`): the task reads its lines (`carnac.rows.read`), parses the fields, coerces them to the
   types of the spec (`carnac.rows.normalise`) and writes the row into a part file of its time chunk. A row that
   cannot be read goes to quarantine with its reason. A spec with transforms goes through Spark's own plan on
   the way (`spark_rows`).
3. Pass 2 (`write_pass`): a task for each time chunk, the largest first, merges the part files, rolls up if the
   spec says so, sorts, and writes Parquet files of about the wanted number of rows, with a hash of their rows
   (`carnac.rows`).
4. The records of these files go back to `carnac.store.writing`, which publishes them. Until then nobody sees
   them.

An append takes the same steps without Spark: both passes run in the caller's process (`here`).
"""
