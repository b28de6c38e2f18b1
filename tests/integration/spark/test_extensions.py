"""The machine learning of Spark is left out of sessions that nobody can use it in, and of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from carnac.spark import extensions
from carnac.spark.extensions import take_no_numpy, without_machine_learning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def loader_of(spark: SparkSession) -> object:
    """The loader of classes of the thread of the JVM that serves this one."""
    return spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()


def finds(loader: object) -> bool:
    return bool(loader.getResources(extensions._LISTED).hasMoreElements())  # type: ignore[attr-defined]


def test_extensions_are_not_found_in_the_block_and_classes_are(spark: SparkSession) -> None:
    before = loader_of(spark)
    assert finds(before)
    with without_machine_learning(spark.sparkContext):
        assert not finds(loader_of(spark))
        other = spark.newSession()
    assert loader_of(spark).equals(before)  # type: ignore[attr-defined]
    assert other.range(3).count() == 3


def test_extensions_of_others_are_found(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them are of Spark, the names of jars say."""
    monkeypatch.setattr(extensions, "_OF_SPARK", "/no-such-jar_")
    with without_machine_learning(spark.sparkContext):
        assert finds(loader_of(spark))


def test_of_numpy_is_nothing_that_jobs_hand_over(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = spark.sparkContext._gateway
    client = gateway._gateway_client  # type: ignore[union-attr]
    monkeypatch.setattr(client, "converters", client.converters)
    take_no_numpy(gateway)
    kinds = [type(one).__name__ for one in client.converters]
    assert "ListConverter" in kinds
    assert not [name for name in kinds if "Numpy" in name]
    assert spark.createDataFrame([(1, [2.0])], "n long, d array<double>").first() == (1, [2.0])
