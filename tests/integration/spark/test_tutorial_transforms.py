"""Druid's tutorial on transforms, by an append and on Spark: transforms hide inputs, the filter sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from carnac.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ANIMALS = [
    {"timestamp": "2018-01-01T07:01:35Z", "animal": "octopus", "location": 1, "number": 100},
    {"timestamp": "2018-01-01T05:01:35Z", "animal": "mongoose", "location": 2, "number": 200},
    {"timestamp": "2018-01-01T06:01:35Z", "animal": "snake", "location": 3, "number": 300},
    {"timestamp": "2018-01-01T01:01:35Z", "animal": "lion", "location": 4, "number": 300},
]

SPEC = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "animals",
            "timestampSpec": {"column": "timestamp", "format": "iso"},
            "dimensionsSpec": {
                "dimensions": [
                    "animal",
                    {"name": "location", "type": "long"},
                    {"name": "triple-number", "type": "long"},
                ]
            },
            "transformSpec": {
                "transforms": [
                    {
                        "type": "expression",
                        "name": "animal",
                        "expression": "concat('super-', animal)",
                    },
                    {"type": "expression", "name": "triple-number", "expression": "number * 3"},
                    {
                        "type": "expression",
                        "name": "__time",
                        "expression": "timestamp_floor(__time, 'PT1H')",
                    },
                ],
                "filter": {
                    "type": "or",
                    "fields": [
                        {"type": "selector", "dimension": "animal", "value": "super-mongoose"},
                        {"type": "selector", "dimension": "triple-number", "value": "300"},
                        {"type": "selector", "dimension": "location", "value": "3"},
                    ],
                },
            },
        },
        "ioConfig": {"type": "index_parallel", "appendToExisting": True},
    },
}


def test_transforms_hide_inputs_and_the_filter_sees_them(
    spark: SparkSession, spark_store: Store
) -> None:
    spark_store.append("animals", ANIMALS, spec=SPEC)
    by_append = spark_store.sql("SELECT * FROM animals").rows()
    assert {
        (row["animal"], row["triple-number"], row["location"], f"{row['__time']:%H:%M}")
        for row in by_append
    } == {
        ("super-octopus", 300, 1, "07:00"),
        ("super-mongoose", 600, 2, "05:00"),
        ("super-snake", 900, 3, "06:00"),
    }
    spark_store.ingest(SPEC, rows=spark.createDataFrame(ANIMALS))
    assert spark_store.sql("SELECT DISTINCT * FROM animals").rows() == by_append
