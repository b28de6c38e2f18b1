"""The rows of Druid's tutorial on transforms, through a spec's transforms and filter on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from carnac.specs import load_spec
from carnac.specs.ingest.transforms import compile_transforms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ANIMALS = """
    VALUES (TIMESTAMP'2018-01-01T07:01:35Z', 'octopus', 1L, 100L),
           (TIMESTAMP'2018-01-01T05:01:35Z', 'mongoose', 2L, 200L),
           (TIMESTAMP'2018-01-01T06:01:35Z', 'snake', 3L, 300L),
           (TIMESTAMP'2018-01-01T01:01:35Z', 'lion', 4L, 300L)
    AS t(__time, animal, location, number)
"""

SPEC = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "animals",
            "timestampSpec": {"column": "timestamp", "format": "iso"},
            "dimensionsSpec": {"dimensions": ["animal", {"name": "location", "type": "long"}]},
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
        "ioConfig": {
            "inputSource": {"type": "inline", "data": "{}"},
            "inputFormat": {"type": "json"},
        },
    },
}


def test_transforms_hide_inputs_and_the_filter_sees_them(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT * FROM {ANIMALS}")
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    transforms = compile_transforms(load_spec(SPEC), types)
    made = {name for name, _ in transforms.columns}
    kept = [f"`{name}`" for name in rows.columns if name not in made]
    computed = [f"{sql} AS `{name}`" for name, sql in transforms.columns]
    assert transforms.filter is not None
    result = rows.selectExpr(*kept, *computed).where(transforms.filter)
    assert dict(result.dtypes)["__time"] == "timestamp"
    found = {
        (row["animal"], row["triple-number"], row["location"], row["hour"])
        for row in result.selectExpr("*", "date_format(`__time`, 'HH:mm') AS hour").collect()
    }
    assert found == {
        ("super-octopus", 300, 1, "07:00"),
        ("super-mongoose", 600, 2, "05:00"),
        ("super-snake", 900, 3, "06:00"),
    }
