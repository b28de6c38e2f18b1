"""The format `carnac`, where Spark looks for formats: in packages that are called `pyspark_…`.

So `spark.read.format("carnac")` works wherever Carnac is installed for Spark's Python, without a registration.
"""

from carnac.spark_format.source import CarnacSource as DefaultSource

__all__ = ["DefaultSource"]
