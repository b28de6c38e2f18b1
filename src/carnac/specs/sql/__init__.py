"""SQL that loads rows: `INSERT INTO` and `REPLACE INTO` as Druid's clients write them, read into ingestion specs.

`statements` reads what stands around the SELECT: the datasource, what is replaced, time chunks, clusters. `external`
reads the tables in it that are files or inline text (`TABLE(EXTERN(…))`) and leaves a name in the place of each. The
SELECT itself is read by `carnac.query`, like any statement. `parameters` reads the values of a statement's `?`.
"""
