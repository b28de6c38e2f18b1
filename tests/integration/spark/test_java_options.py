"""Options that the Java of a local Spark is started with, as it says itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from carnac.spark.java import COMPILES_LATE


def test_java_compiles_late(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    own = list(java.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    assert COMPILES_LATE in own
