"""Jobs over rows, on Spark: ingest, compact, delete. `pipeline.SparkPipeline` is what others call.

Only `spark`, `spark_format` and this package may import pyspark, and their modules do so where Spark is first needed:
importing the package itself is cheap.
"""
