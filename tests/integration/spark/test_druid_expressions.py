"""Druid's expressions give what Druid gives wherever rows come in: an append, files and a DataFrame on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carnac.store import Store
from tests.integration.spark.druid_oracle import CASES as ORACLE
from tests.integration.spark.druid_oracle import ROW, TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}
DOORS = ("append", "files", "frame")
LOOKING_AROUND = [
    ("regexp_like('foobar', 'foo(?=bar)')", 1),
    ("regexp_extract(x, '(.)\\\\1', 1)", "o"),
    ("regexp_extract(x, '(?<a>.)\\\\k<a>')", "oo"),
    ("regexp_replace(x, '(o)(?!o)', '<$1>')", "fo<o>"),
    ("regexp_like(x, 'o++o')", 0),
    ("regexp_like(nothing, 'o++o')", None),
]
"""Patterns that are for rows that are loaded: a query whose pattern takes any time would be one for all."""
CASES = [*ORACLE, *LOOKING_AROUND]


def rows() -> pa.Table:
    columns = {name: pa.array([ROW[name]], ARROW[kind]) for name, kind in TYPES.items()}
    return pa.table({"t": pa.array([ROW["__time"]], pa.int64()), **columns})


def spec(datasource: str, source: Mapping[str, Any]) -> dict[str, Any]:
    transforms = [
        {"type": "expression", "name": f"v{place}", "expression": expression}
        for place, (expression, _) in enumerate(CASES)
    ]
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": datasource,
                "timestampSpec": {"column": "t", "format": "millis"},
                "dimensionsSpec": {"useSchemaDiscovery": True},
                "transformSpec": {"transforms": transforms},
                "granularitySpec": {"segmentGranularity": "day", "rollup": False},
            },
            "ioConfig": {"type": "index_parallel", "appendToExisting": True, **source},
        },
    }


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, module_store: Store, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What each door made of each expression."""
    file = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(rows(), file)
    files = {
        "inputSource": {"type": "local", "files": [str(file)]},
        "inputFormat": {"type": "parquet"},
    }
    module_store.append("append", rows(), spec=spec("append", {}))
    module_store.ingest(spec("files", files))
    module_store.ingest(spec("frame", {}), rows=spark.createDataFrame(rows()))
    answers = {}
    for door in DOORS:
        [row] = module_store.sql(f"SELECT * FROM {door}").arrow().to_pylist()
        answers[door] = {text: row.get(f"v{place}") for place, (text, _) in enumerate(CASES)}
    return answers


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_gives_what_druid_gives(
    found: dict[str, dict[str, Any]], expression: str, expected: object
) -> None:
    for door in DOORS:
        actual = found[door][expression]
        if isinstance(expected, float) and isinstance(actual, float):
            assert actual == pytest.approx(expected, nan_ok=True), door
        else:
            assert actual == expected, door
            assert type(actual) is type(expected), door


@pytest.mark.parametrize(
    "condition", [{"type": "like", "dimension": "x", "pattern": "f%!"}, "x = 'foo!'"]
)
def test_both_languages_may_stand_in_one_spec(
    spark: SparkSession, module_store: Store, tmp_path: Path, condition: object
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(rows().select(["t", "x", "y"]), file)
    block = {
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensionsSpec": {"dimensions": ["a", "x"]},
        "metricsSpec": [
            {"type": "count", "name": "of_spark", "filter": "c > 2"},
            {"type": "longSum", "name": "of_druid", "fieldName": "c", "filter": {"type": "equals", "column": "c",
             "matchValueType": "LONG", "matchValue": 3}},
        ],
        "granularitySpec": {"rollup": True},
        "transformSpec": {
            "transforms": [
                {"name": "a", "type": "spark", "expression": "upper(x)"},
                {"name": "x", "type": "druid", "expression": "concat(x, '!')"},
                {"name": "c", "type": "spark", "expression": "y + 1"},
            ],
            "filter": condition,
        },
    }  # fmt: skip
    kind = "text" if isinstance(condition, str) else "block"
    frame = spark.createDataFrame(rows().select(["t", "x", "y"]))
    module_store.append(f"here_{kind}", rows(), spec={"dataSource": f"here_{kind}", **block})
    module_store.ingest({"dataSource": f"frame_{kind}", **block}, rows=frame)
    module_store.ingest(
        {
            "dataSource": f"files_{kind}",
            "input": str(file),
            **block,
        }
    )
    for door in ("here", "frame", "files"):
        found = module_store.sql(f"SELECT a, x, of_spark, of_druid FROM {door}_{kind}").rows()
        assert found == [{"a": "FOO", "x": "foo!", "of_spark": 1, "of_druid": 3}], door
