"""Druid's filters keep the rows that Druid keeps: in appends, as filters of metrics on Spark, and in queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from carnac.core.segments.segment import ColumnType
from carnac.specs.druid.terms.filters import compile_filter
from carnac.specs.druid.terms.scopes import Scope, with_time
from carnac.specs.druid.terms.values import column
from carnac.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "id": pa.int64(),
    "s": pa.string(),
    "n": pa.int64(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "mv": pa.list_(pa.string()),
}
KINDS = {
    "id": ColumnType.LONG,
    "s": ColumnType.STRING,
    "n": ColumnType.LONG,
    "d": ColumnType.DOUBLE,
    "b": ColumnType.BOOLEAN,
    "mv": ColumnType.STRING_ARRAY,
}
ROWS = [
    (1, "apple", 10, 1.5, True, ["a", "b"]),
    (2, "Banana", 9, 10.1, False, ["b"]),
    (3, None, None, None, None, None),
    (4, "", 100, 0.0, True, []),
    (5, "31", -1, 31.0, False, ["a", None]),
    (6, "4", 4, -2.0, True, ["c"]),
]


def _not(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "not", "field": block}


def _selector(name: str, value: object) -> dict[str, Any]:
    return {"type": "selector", "dimension": name, "value": value}


def _bound(name: str, **fields: object) -> dict[str, Any]:
    return {"type": "bound", "dimension": name, **fields}


FALSE_AND_POSITIVE = {
    "type": "and",
    "fields": [_selector("b", "false"), _bound("n", lower="0", ordering="numeric")],
}

CASES: list[tuple[dict[str, Any], list[int]]] = [
    (_selector("s", "apple"), [1]),
    (_not(_selector("s", "apple")), [2, 4, 5, 6]),
    (_selector("s", None), [3]),
    (_selector("s", ""), [4]),
    (_selector("n", "10"), [1]),
    (_selector("n", "ten"), []),
    (_not(_selector("n", "ten")), [1, 2, 4, 5, 6]),
    (_selector("d", "10.1"), [2]),
    (_selector("b", "true"), [1, 4, 6]),
    (_selector("mv", "b"), [1, 2]),
    (_selector("mv", None), [3, 4, 5]),
    (_not(_selector("mv", "b")), [6]),
    ({"type": "equals", "column": "n", "matchValueType": "LONG", "matchValue": 9}, [2]),
    ({"type": "in", "dimension": "s", "values": ["apple", "4", None]}, [1, 3, 6]),
    ({"type": "in", "dimension": "mv", "values": ["a", "c"]}, [1, 5, 6]),
    ({"type": "in", "dimension": "n", "values": ["4", "9"]}, [2, 6]),
    (_bound("s", lower="31", upper="4"), [5, 6]),
    (_bound("s", lower="4", upper="31", ordering="numeric"), [5, 6]),
    (_bound("s", lower="4", lowerStrict=True, ordering="numeric"), [5]),
    (_bound("s", upper="4"), [3, 4, 5, 6]),
    (_bound("n", lower="5", ordering="numeric"), [1, 2, 4]),
    (_bound("s", lower="31", upper="31", ordering="strlen"), [5]),
    ({"type": "range", "column": "s", "matchValueType": "STRING", "upper": "4"}, [4, 5, 6]),
    (
        {
            "type": "range",
            "column": "n",
            "matchValueType": "LONG",
            "lower": 4,
            "upper": 10,
            "upperOpen": True,
        },
        [2, 6],
    ),
    ({"type": "like", "dimension": "s", "pattern": "%an%"}, [2]),
    ({"type": "regex", "dimension": "s", "pattern": "^[0-9]+$"}, [5, 6]),
    (
        {"type": "search", "dimension": "s", "query": {"type": "contains", "value": "BAN"}},
        [2],
    ),
    (
        {
            "type": "search",
            "dimension": "s",
            "query": {"type": "contains", "value": "BAN", "caseSensitive": True},
        },
        [],
    ),
    (
        {"type": "search", "dimension": "s", "query": {"type": "fragment", "values": ["a", "PP"]}},
        [1],
    ),
    ({"type": "columnComparison", "dimensions": ["s", "n"]}, [3, 6]),
    (
        {
            "type": "arrayContainsElement",
            "column": "mv",
            "elementMatchValueType": "STRING",
            "elementMatchValue": "a",
        },
        [1, 5],
    ),
    (
        {"type": "interval", "dimension": "n", "intervals": ["1970-01-01/1970-01-01T00:00:00.010"]},
        [2, 6],
    ),
    ({"type": "expression", "expression": "n > 5 && !b"}, [2]),
    ({"type": "expression", "expression": "strlen(s)"}, [1, 2, 5, 6]),
    (
        {
            "type": "or",
            "fields": [
                _selector("s", "apple"),
                {
                    "type": "and",
                    "fields": [_selector("b", "false"), _bound("n", lower="0", ordering="numeric")],
                },
            ],
        },
        [1, 2],
    ),
    ({"type": "isfalse", "field": _selector("s", "apple")}, [2, 4, 5, 6]),
    (_not({"type": "istrue", "field": _selector("s", "apple")}), [2, 3, 4, 5, 6]),
    # as Druid 33 answered
    (_not(_bound("s", lower="4", ordering="numeric")), [1, 2, 3, 4]),
    ({"type": "isfalse", "field": _bound("mv", lower="b")}, [3, 4, 5]),
    (_bound("n", upper="9", ordering="numeric"), [2, 5, 6]),
    (_bound("n", upper="9"), [1, 2, 4, 5, 6]),
    ({"type": "equals", "column": "n", "matchValueType": "STRING", "matchValue": "10.0"}, [1]),
    (
        _not({"type": "equals", "column": "s", "matchValueType": "LONG", "matchValue": 4}),
        [1, 2, 4, 5],
    ),
    (
        {
            "type": "range",
            "column": "s",
            "matchValueType": "DOUBLE",
            "upper": 31.0,
            "upperOpen": True,
        },
        [1, 2, 4, 6],
    ),
]


CASES += [
    (_selector("s", "APPLE") | {"extractionFn": {"type": "upper"}}, [1]),
    ({"type": "regex", "dimension": "s", "pattern": "^(?=.*p)a"}, [1]),
]
"""Of which the second is for rows that are loaded: queries take no pattern that looks around."""


def rows() -> pa.Table:
    columns = {
        name: pa.array([row[place] for row in ROWS], kind)
        for place, (name, kind) in enumerate(TYPES.items())
    }
    return pa.table({"t": pa.array([0] * len(ROWS), pa.int64()), **columns})


def spec(datasource: str, **schema: Any) -> dict[str, Any]:
    dimensions = [{"type": "long", "name": "id"}]
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": datasource,
                "timestampSpec": {"column": "t", "format": "millis"},
                "dimensionsSpec": {"dimensions": dimensions},
                "granularitySpec": {"segmentGranularity": "day", "rollup": "metricsSpec" in schema},
                **schema,
            },
            "ioConfig": {"type": "index_parallel", "appendToExisting": True},
        },
    }


def ids(store: Store, sql: str) -> list[int]:
    return sorted(row["id"] for row in store.sql(sql).rows())


@pytest.fixture(scope="module")
def kept(module_store: Store, spark: SparkSession) -> Mapping[str, list[list[int]]]:
    """The ids that each filter keeps, by door."""
    store = module_store
    for place, (block, _) in enumerate(CASES):
        store.append(
            f"kept{place}", rows(), spec=spec(f"kept{place}", transformSpec={"filter": block})
        )
    counts = [
        {"type": "filtered", "filter": block, "aggregator": {"type": "count", "name": f"c{place}"}}
        for place, (block, _) in enumerate(CASES)
    ]
    counted = spec("counted", metricsSpec=counts)
    store.ingest(counted, rows=spark.createDataFrame(rows()))
    there = {one.name for one in store.datasources()}
    return {
        "append": [
            ids(store, f"SELECT id FROM kept{place}") if f"kept{place}" in there else []
            for place in range(len(CASES))
        ],
        "metric": [
            ids(store, f"SELECT id FROM counted WHERE c{place} > 0") for place in range(len(CASES))
        ],
    }


@pytest.mark.parametrize("place", range(len(CASES)), ids=[str(block) for block, _ in CASES])
def test_keeps_what_druid_keeps(kept: Mapping[str, list[list[int]]], place: int) -> None:
    _, wanted = CASES[place]
    assert {door: found[place] for door, found in kept.items()} == dict.fromkeys(kept, wanted)


@pytest.fixture(scope="module")
def everything(module_store: Store) -> Store:
    """A store of all rows."""
    dimensions = [
        {
            "name": name,
            "type": "string" if name == "mv" else KINDS[name].value,
            "multiValueHandling": "ARRAY",
        }
        for name in TYPES
    ]
    dimensions = {"dimensionsSpec": {"dimensions": dimensions}}
    module_store.append("everything", rows(), spec=spec("everything", **dimensions))
    return module_store


@pytest.mark.parametrize(("block", "wanted"), CASES[:-1], ids=[str(one) for one, _ in CASES[:-1]])
def test_a_query_finds_what_druid_finds(
    everything: Store, block: dict[str, Any], wanted: list[int]
) -> None:
    columns = with_time({name: column(name, kind) for name, kind in KINDS.items()})
    condition = compile_filter(block, Scope(columns))
    assert ids(everything, f"SELECT id FROM everything WHERE {condition}") == wanted
