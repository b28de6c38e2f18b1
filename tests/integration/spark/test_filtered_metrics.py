"""Metrics with a filter, held against DuckDB's `FILTER`: on every way in, without rollup, and through compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carnac.errors import Invalid
from carnac.spark.session import SparkHolder
from carnac.specs.load import load_spec
from carnac.store import Store

pytestmark = pytest.mark.spark

ROWS: list[dict[str, Any]] = [
    {
        "t": f"2024-01-0{1 + i % 2}T{(7 * i) % 24:02d}:{i % 60:02d}:00Z",
        "d": ["a", "b", None, "c's", ""][i % 5],
        "n": None if i % 11 == 0 else i - 40,
        "x": None if i % 7 == 0 else i / 4,
        "at": f"2023-0{1 + i % 9}-01T00:00:00Z",
        "tags": [["p", "q"], ["q"], None][i % 3],
    }
    for i in range(120)
]
EQUALS = {"type": "selector", "dimension": "d", "value": "a"}
FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "selector": (EQUALS, "d = 'a'"),
    "in": ({"type": "in", "dimension": "d", "values": ["b", "c's"]}, "d IN ('b', 'c''s')"),
    "bound": (
        {
            "type": "bound",
            "dimension": "n",
            "lower": "-9",
            "upper": "60",
            "upperStrict": True,
            "ordering": "numeric",
        },
        "n >= -9 AND n < 60",
    ),
    "range": (
        {
            "type": "range",
            "column": "x",
            "matchValueType": "DOUBLE",
            "lower": 2.5,
            "lowerOpen": True,
        },
        "x > 2.5",
    ),
    "equals": (
        {"type": "equals", "column": "n", "matchValueType": "LONG", "matchValue": 7},
        "n = 7",
    ),
    "null": ({"type": "null", "column": "d"}, "d IS NULL"),
    "like": ({"type": "like", "dimension": "d", "pattern": "c%"}, "d LIKE 'c%'"),
    "not": ({"type": "not", "field": EQUALS}, "NOT (d = 'a')"),
    "and": (
        {"type": "and", "fields": [EQUALS, {"type": "null", "column": "x"}]},
        "d = 'a' AND x IS NULL",
    ),
    "or": (
        {"type": "or", "fields": [EQUALS, {"type": "null", "column": "n"}]},
        "d = 'a' OR n IS NULL",
    ),
    "array": ({"type": "selector", "dimension": "tags", "value": "p"}, "list_contains(tags, 'p')"),
    "expression": ({"type": "expression", "expression": "n > 0 && x > 5"}, "n > 0 AND x > 5"),
    "time": (
        {"type": "interval", "dimension": "__time", "intervals": ["2024-01-01T06/2024-01-02"]},
        "t >= '2024-01-01T06' AND t < '2024-01-02'",
    ),
    "made": (
        {"type": "bound", "dimension": "double_n", "lower": "1", "ordering": "numeric"},
        "n * 2 >= 1",
    ),
    "never": ({"type": "false"}, "false"),
}
INNER: dict[str, tuple[dict[str, Any], str]] = {
    "sum": ({"type": "longSum", "fieldName": "n"}, "sum(n) FILTER"),
    "sum_made": ({"type": "longSum", "fieldName": "double_n"}, "sum(n * 2) FILTER"),
    "max": ({"type": "doubleMax", "fieldName": "x"}, "max(x) FILTER"),
    "first": ({"type": "longFirst", "fieldName": "n"}, "(min({'at': t, 'v': n}) FILTER).v"),
    "last": ({"type": "stringLast", "fieldName": "d"}, "(max({'at': t, 'v': d}) FILTER).v"),
    "last_by": (
        {"type": "doubleLast", "fieldName": "x", "timeColumn": "at"},
        "(max({'at': \"at\", 'n': x IS NOT NULL, 'v': x}) FILTER).v",
    ),
    "latest": (
        {"type": "longMax", "fieldName": "__time"},
        "max(epoch_ms(CAST(t AS TIMESTAMPTZ))) FILTER",
    ),
    "users": (
        {"type": "thetaSketch", "fieldName": "d"},
        "CASE WHEN count(d) FILTER > 0 THEN " + "count(DISTINCT nullif(d, '')) FILTER END",
    ),
}
PIECES = (ROWS[:50], ROWS[50:])
CONDITION, CONDITION_SQL = FILTERS["bound"]


def metrics() -> list[dict[str, Any]]:
    counts = [
        {"type": "filtered", "filter": block, "aggregator": {"type": "count", "name": f"n_{name}"}}
        for name, (block, _) in FILTERS.items()
    ]
    others = [
        {
            "type": "filtered",
            "name": name,
            "filter": CONDITION,
            "aggregator": {**inner, "name": "x"},
        }
        for name, (inner, _) in INNER.items()
    ]
    return [{"type": "count", "name": "rows"}, *counts, *others]


def druid_spec(source: dict[str, Any], file_format: str, *, rollup: bool) -> dict[str, Any]:
    dimensions = ["d"] if rollup else ["d", {"type": "long", "name": "n"}]
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": "events",
                "timestampSpec": {"column": "t", "format": "iso"},
                "dimensionsSpec": {"dimensions": dimensions},
                "metricsSpec": metrics(),
                "granularitySpec": {
                    "segmentGranularity": "day",
                    "queryGranularity": "day" if rollup else "none",
                    "rollup": rollup,
                },
                "transformSpec": {
                    "transforms": [
                        {"type": "expression", "name": "double_n", "expression": "n * 2"}
                    ]
                },
            },
            "ioConfig": {
                "inputSource": source,
                "inputFormat": {"type": file_format},
                "appendToExisting": True,
            },
        },
    }


def frame_spec(kind: str) -> dict[str, Any]:
    """The same in Carnac's own form, for rows in memory."""
    spec = load_spec(druid_spec({"type": "inline", "data": "{}"}, "json", rollup=True))
    return {**json.loads(spec.to_json()), "input": {"type": "frame", "frame": kind}}


def expected(*, rollup: bool) -> list[tuple[Any, ...]]:
    """What DuckDB makes of the rows."""
    counts = [f"count(*) FILTER (WHERE {sql})" for _, sql in FILTERS.values()]
    others = [sql.replace("FILTER", f"FILTER (WHERE {CONDITION_SQL})") for _, sql in INNER.values()]
    group = "d, t[:10]" if rollup else 'd, t[:10], t, n, x, "at", tags'
    with duckdb.connect() as con:
        con.register("events", pa.Table.from_pylist(ROWS))
        found = con.execute(
            f"SELECT d, t[:10], count(*), {', '.join([*counts, *others])} FROM events GROUP BY {group}"
        ).fetchall()
    return sorted(found, key=repr)


def stored(store: Store) -> list[tuple[Any, ...]]:
    names = ", ".join([f"n_{name}" for name in FILTERS] + list(INNER)[:-1])
    users = "CAST(round(theta_estimate(users)) AS BIGINT)"
    table = store.sql(
        f"SELECT d, strftime(__time, '%Y-%m-%d'), rows, {names}, {users} FROM events"
    ).arrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.fixture
def store(spark_store: Store) -> Store:
    return spark_store


def write(rows: list[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Write rows as the file's ending says; return the input source."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"type": "local", "files": [str(path)]}


def test_each_metric_has_the_rows_that_its_filter_keeps(store: Store, tmp_path: Path) -> None:
    source = write(ROWS, tmp_path / "rows.parquet")
    store.ingest(druid_spec(source, "parquet", rollup=True))
    assert stored(store) == expected(rollup=True)


def test_a_data_frame_is_filtered_likewise(store: Store, spark_holder: SparkHolder) -> None:
    frame = spark_holder.session().createDataFrame(pa.Table.from_pylist(ROWS))
    store.ingest(frame_spec("dataframe"), frame)
    assert stored(store) == expected(rollup=True)


def test_without_rollup_each_row_has_its_own(store: Store, tmp_path: Path) -> None:
    source = write(ROWS, tmp_path / "rows.json")
    store.ingest(druid_spec(source, "json", rollup=False))
    assert stored(store) == expected(rollup=False)


def test_compaction_merges_what_the_filters_left(store: Store, tmp_path: Path) -> None:
    for number in range(2):
        source = write(PIECES[number], tmp_path / f"{number}.json")
        store.ingest(druid_spec(source, "json", rollup=True))
    halves = len(stored(store))
    report = store.compact_interval("events")
    assert [one.error for one in report.groups] == [None] * len(report.groups)
    assert stored(store) == expected(rollup=True)
    assert len(expected(rollup=True)) < halves


def test_a_filter_that_does_not_fit_is_one_sentence(store: Store) -> None:
    spec = frame_spec("arrow")
    spec["metricsSpec"] = [{"name": "a", "type": "count", "filter": "nowhere = 1"}]
    with pytest.raises(Invalid, match=r"^the filter of metric 'a' is wrong: "):
        store.ingest(spec, pa.Table.from_pylist(ROWS))
    assert store.head().revision == 0
