"""A batch ingestion: from files or a DataFrame to segment files that are not yet published.

How does a row get from a CSV into a segment?

1. `readers` finds the files and shares them out among tasks of Spark: one large file, or several small ones, for each
   task. Large files of JSON lines and CSV that are not compressed are cut into ranges (`carnac.rows.read.ranges`).
2. Pass 1 (`read_pass`): the task reads records (`carnac.rows.read`), converts the fields to the types of the spec
   (`carnac.rows.normalise`), combines rows already where a rollup gains by it, and writes them into one part file for
   each time chunk (`carnac.rows.parts`). A row that cannot be read goes to quarantine with its reason. Druid's
   expressions are computed by DuckDB in between (`computing`). Rows of Spark SQL and of a DataFrame come out of Spark's
   own plan (`spark_rows`, `spark_expressions`).
3. Pass 2 (`write_pass`) merges the part files of a chunk, rolls up if the spec says so, sorts, and writes Parquet files
   of about the wanted number of rows, with a hash of their rows. Small chunks share a task; a large one may be divided.
4. The records of these files go back to `carnac.store.writing`, which publishes them. Until then nobody sees the rows.

An append takes the same steps in the caller's process, without Spark: `here` has pass 1, `jobs.context` runs the tasks
one after another, and DuckDB computes the Spark SQL that means the same in both.
"""
