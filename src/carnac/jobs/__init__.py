"""Jobs over rows, on Spark: ingest, compact, delete. `pipeline.SparkPipeline` is what others call.

`context` says where the tasks of a job run: on Spark, or one after another in the caller's process. `bins` shares work
between tasks. `statements` runs one SELECT on Spark, `read_back` hands a revision to Spark as a DataFrame.
`worker_daemon` and `own_worker_daemon` are Spark's Python workers with imports done before they are forked.

Only `spark`, `spark_format` and this package may import pyspark, and their modules do so where Spark is first needed:
importing the package itself is cheap.
"""
