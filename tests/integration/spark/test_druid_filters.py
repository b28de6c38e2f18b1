"""Druid's filters, compiled and run by Spark and by the engine of native queries, keep the rows that Druid keeps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from carnac.api.native.terms.filters import compile_filter as compile_for_engine
from carnac.api.native.terms.scopes import Scope
from carnac.api.native.terms.values import column
from carnac.core.segments.segment import ColumnType
from carnac.specs.druid.spark_filters import compile_filter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "id": "bigint",
    "s": "string",
    "n": "bigint",
    "d": "double",
    "b": "boolean",
    "mv": "array<string>",
}
SCOPE = Scope(
    {
        name: column(name, kind)
        for name, kind in (
            ("s", ColumnType.STRING),
            ("n", ColumnType.LONG),
            ("d", ColumnType.DOUBLE),
            ("b", ColumnType.BOOLEAN),
            ("mv", ColumnType.STRING_ARRAY),
        )
    }
)
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


def kept_by_spark(spark: SparkSession, blocks: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The ids that each filter keeps, from one query."""
    schema = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    tests = (f"({compile_filter(one, TYPES).sql}) AS c{i}" for i, one in enumerate(blocks))
    found = spark.createDataFrame(ROWS, schema).repartition(1).selectExpr("id", *tests).collect()
    return [sorted(row["id"] for row in found if row[f"c{i}"]) for i in range(len(blocks))]


def kept_by_engine(blocks: Sequence[dict[str, Any]]) -> list[list[int]]:
    names = list(TYPES)
    rows = pa.table({name: [row[i] for row in ROWS] for i, name in enumerate(names)})
    with duckdb.connect() as engine:
        engine.register("rows", rows)
        return [
            sorted(
                one
                for (one,) in engine.execute(
                    f"SELECT id FROM rows WHERE {compile_for_engine(block, SCOPE)}"
                ).fetchall()
            )
            for block in blocks
        ]


def generated(count: int) -> list[dict[str, Any]]:
    rng = random.Random(20)
    words = ["apple", "b", "", "31", "4", "10.1", "-2", "ten", "true", "A", "1e1", " 4"]
    columns = ["s", "n", "d", "b", "mv"]

    def leaf() -> dict[str, Any]:
        name, word, other = rng.choice(columns), rng.choice(words), rng.choice(words)
        given: dict[str, Any] = rng.choice(
            [
                _selector(name, rng.choice([word, None, 4, 1.5, True])),
                {"type": "in", "dimension": name, "values": [word, rng.choice([other, None, 9])]},
                _bound(name, lower=word, upper=other, lowerStrict=rng.random() < 0.5),
                _bound(name, upper=word, ordering=rng.choice(["numeric", "strlen"])),
                _bound(name, lower=word, ordering="numeric", lowerStrict=rng.random() < 0.5),
                {"type": "like", "dimension": name, "pattern": rng.choice(["%a%", "_", "a$%"])},
                {"type": "regex", "dimension": name, "pattern": rng.choice(["^[0-9]+$", "a|b"])},
                {"type": "null", "column": name},
                {
                    "type": "equals",
                    "column": name,
                    "matchValueType": rng.choice(["STRING", "LONG", "DOUBLE"]),
                    "matchValue": word,
                },
                {
                    "type": "range",
                    "column": name,
                    "matchValueType": rng.choice(["STRING", "LONG", "DOUBLE"]),
                    "lower": word,
                    "upperOpen": True,
                    "upper": rng.choice([other, 9]),
                },
                {
                    "type": "search",
                    "dimension": name,
                    "query": {
                        "type": rng.choice(["contains", "insensitive_contains"]),
                        "value": rng.choice(["a", "A", "1"]),
                        "caseSensitive": rng.random() < 0.5,
                    },
                },
            ]
        )
        return given

    def nested(depth: int) -> dict[str, Any]:
        kind = rng.choice(["leaf", "not", "and", "or", "istrue", "isfalse"])
        if kind == "leaf" or not depth:
            return leaf()
        if kind in {"and", "or"}:
            return {"type": kind, "fields": [nested(depth - 1), nested(depth - 1)]}
        return {"type": kind, "field": nested(depth - 1)}

    return [nested(2) for _ in range(count)]


@pytest.fixture(scope="module")
def kept(spark: SparkSession) -> list[list[int]]:
    return kept_by_spark(spark, [block for block, _ in CASES])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(block) for block, _ in CASES])
def test_keeps_what_druid_keeps(kept: list[list[int]], index: int) -> None:
    block, ids = CASES[index]
    assert (kept[index], kept_by_engine([block])) == (ids, [ids])


def test_both_engines_keep_the_same(spark: SparkSession) -> None:
    blocks = generated(150)
    by_spark, by_engine = kept_by_spark(spark, blocks), kept_by_engine(blocks)
    differ = [
        (block, one, other)
        for block, one, other in zip(blocks, by_spark, by_engine, strict=True)
        if one != other
    ]
    assert differ == []
    assert len({tuple(ids) for ids in by_spark}) > 20
