"""Druid's filters, compiled and run by Spark, keep the rows that Druid keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from carnac.specs.druid.filters import compile_filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "id": "bigint",
    "s": "string",
    "n": "bigint",
    "d": "double",
    "b": "boolean",
    "mv": "array<string>",
}

ROWS = """
    VALUES (1L, 'apple',  10L,  1.5D, true,  array('a', 'b')),
           (2L, 'Banana', 9L,   10.1D, false, array('b')),
           (3L, NULL,     NULL, NULL, NULL,  NULL),
           (4L, '',       100L, 0.0D, true,  array()),
           (5L, '31',     -1L,  31.0D, false, array('a', NULL)),
           (6L, '4',      4L,   -2.0D, true,  array('c'))
    AS t(id, s, n, d, b, mv)
"""


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
    (_not(_selector("n", "ten")), [1, 2, 3, 4, 5, 6]),
    (_selector("d", "10.1"), [2]),
    (_selector("b", "true"), [1, 4, 6]),
    (_selector("mv", "b"), [1, 2]),
    (_selector("mv", None), [3, 4, 5]),
    (_not(_selector("mv", "b")), [4, 6]),
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
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(f"SELECT * FROM {ROWS}").repartition(1)


@pytest.fixture(scope="module")
def kept(rows: DataFrame) -> list[list[int]]:
    """The ids that each case keeps, from one query."""
    conditions = [compile_filter(block, TYPES).sql for block, _ in CASES]
    found = rows.selectExpr(
        "id", *(f"({sql}) AS c{i}" for i, sql in enumerate(conditions))
    ).collect()
    return [sorted(row["id"] for row in found if row[f"c{i}"] is True) for i in range(len(CASES))]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(block) for block, _ in CASES])
def test_keeps_what_druid_keeps(kept: list[list[int]], index: int) -> None:
    assert kept[index] == CASES[index][1]
