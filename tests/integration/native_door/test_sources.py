"""Data sources of native queries: other queries, values that a query brings, joins, and lists in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.cli import ROWS, make_store
from tests.integration.native_door.test_native import ALL, COUNT, TEXTS, ask, post
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

FLOATS = {
    "type": "inline",
    "columnNames": ["f"],
    "columnTypes": ["FLOAT"],
    "rows": [[0.1], [0.2], [None]],
}
LISTS = {
    "type": "inline",
    "columnNames": ["a", "b"],
    "columnTypes": ["ARRAY<STRING>", "ARRAY<STRING>"],
    "rows": [[["x", "y"], ["1", "2", "3"]], [None, []]],
}
NAMES = {
    "type": "inline",
    "columnNames": ["k", "v"],
    "rows": [["AA", "American"], ["ZZ", "Nobody"]],
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    store = tmp_path_factory.mktemp("door") / "store"
    make_store(store)
    with open_store(store) as opened:
        opened.set_lookup("names", {"AA": "American"})
    with open_door(store) as client:
        yield client


def inner(kind: str, **query: object) -> dict[str, Any]:
    """Return a data source that is a query."""
    return {"type": "query", "query": {**ALL, "queryType": kind, **query}}


def rows_of(door: InProcessClient, source: object, *columns: str, **query: object) -> list[Any]:
    batches = ask(
        *(door, "scan"),
        **{"dataSource": source, "columns": columns, "resultFormat": "compactedList", **query},
    )
    return [row for batch in batches for row in batch["events"]]


def test_queries_nest(door: InProcessClient) -> None:
    inner = {
        **ALL,
        "queryType": "groupBy",
        "granularity": "day",
        "dimensions": ["carrier"],
        "aggregations": COUNT,
    }
    source = {"dataSource": {"type": "query", "query": inner}, "granularity": "day"}
    most = [{"type": "longMax", "name": "most", "fieldName": "n"}, *COUNT]
    rows = ask(door, "timeseries", aggregations=most, **source)
    assert [row["result"]["n"] for row in rows] == [1, 1, 1]
    assert sum(row["result"]["most"] for row in rows) == ROWS


def test_joins_and_lists_make_rows(door: InProcessClient) -> None:
    names = {"type": "inline", "columnNames": ["k", "v"], "rows": [["AA", "American"]]}
    joined = {
        "type": "join",
        "left": "flights",
        "right": names,
        "rightPrefix": "r.",
        "condition": '(carrier == "r.k")',
        "joinType": "LEFT",
    }
    found = ask(door, "groupBy", dataSource=joined, dimensions=["r.v"], aggregations=COUNT)
    assert [one["event"] for one in found] == [{"r.v": None, "n": 6}, {"r.v": "American", "n": 11}]
    split = {"type": "expression", "name": "one", "expression": "string_to_mv(t, '')"}
    each = {"type": "unnest", "base": TEXTS, "virtualColumn": split}
    kept = {"unnestFilter": {"type": "selector", "dimension": "one", "value": "a"}}
    [batch] = ask(door, "scan", dataSource={**each, **kept}, columns=["t", "one"])
    assert [event["t"] for event in batch["events"]] == ["a10", "a9"]


def test_first_and_last_may_be_null(door: InProcessClient) -> None:
    rows = [[0, None, "x"], [1, 5, "y"], [2, 6, None]]
    inline = {
        "type": "inline",
        "columnNames": ["__time", "n", "t"],
        "columnTypes": ["LONG", "LONG", "STRING"],
    }
    aggregations = [
        {"type": "longFirst", "name": "f", "fieldName": "n"},
        {"type": "longLast", "name": "l", "fieldName": "n"},
        {"type": "stringLast", "name": "t", "fieldName": "t"},
    ]
    source = {"dataSource": {**inline, "rows": rows}, "intervals": ["1970/1971"]}
    [row] = ask(door, "timeseries", aggregations=aggregations, **source)
    assert row["result"] == {"f": None, "l": 6, "t": None}


@pytest.mark.parametrize(
    ("made", "merged", "field", "expected"),
    [
        ("HLLSketchBuild", "HLLSketchMerge", "delay", ROWS),
        ("HLLSketchBuild", "HLLSketchBuild", "delay", ROWS),
        ("hyperUnique", "hyperUnique", "carrier", 2),
        ("thetaSketch", "thetaSketch", "delay", ROWS),
        ("quantilesDoublesSketch", "quantilesDoublesSketch", "delay", 3.0),
    ],
)
def test_sketches_of_an_inner_query_are_merged(
    door: InProcessClient, made: str, merged: str, field: str, expected: float
) -> None:
    source = inner(
        *("groupBy",),
        dimensions=["carrier"],
        aggregations=[{"type": made, "name": "u", "fieldName": field}],
    )
    aggregations = [{"type": merged, "name": "u", "fieldName": "u"}]
    quantile = {
        "type": "quantilesDoublesSketchToQuantile",
        "name": "most",
        "field": {"type": "fieldAccess", "fieldName": "u"},
        "fraction": 1,
    }
    posts = [quantile] if made.startswith("quantiles") else []
    found = ask(
        *(door, "groupBy"),
        dataSource=source,
        dimensions=[],
        aggregations=aggregations,
        postAggregations=posts,
    )
    event = found[0]["event"]
    assert event.get("most", event["u"]) == pytest.approx(320 if posts else expected, abs=0.01)


def test_an_inner_query_is_sorted_by_what_its_sketches_estimate(door: InProcessClient) -> None:
    for kind, name in (("HLLSketchBuild", "hll"), ("quantilesDoublesSketch", "quantiles")):
        made = [{"type": kind, "name": name, "fieldName": "delay"}]
        most = {"dimension": "carrier", "metric": name, "threshold": 1, "aggregations": made}
        assert rows_of(door, inner("topN", **most), "carrier") == [["AA"]]
        columns = [{"dimension": name, "direction": "DESC"}]
        limit = {"limitSpec": {"type": "default", "limit": 1, "columns": columns}}
        first = inner("groupBy", dimensions=["carrier"], aggregations=made, **limit)
        assert rows_of(door, first, "carrier") == [["AA"]]


def test_an_inner_query_gives_estimates_if_it_says_so(door: InProcessClient) -> None:
    made = [{"type": "HLLSketchBuild", "name": "u", "fieldName": "delay"}]
    final = {"context": {"finalize": True}}
    source = inner("groupBy", dimensions=["carrier"], aggregations=made, **final)
    added = [{"type": "doubleSum", "name": "u", "fieldName": "u"}]
    [row] = ask(door, "timeseries", dataSource=source, aggregations=added)
    assert row["result"]["u"] == pytest.approx(ROWS, abs=0.01)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {"buckets": 4, "rows": 3}),
        ({"limit": 3}, {"buckets": 3, "rows": 1}),
        ({"limit": 1, "descending": True}, {"buckets": 1, "rows": 2}),
        ({"context": {"skipEmptyBuckets": True}}, {"buckets": 2, "rows": 3}),
        ({"granularity": "all", "limit": 1}, {"buckets": 1, "rows": 3}),
        (
            {
                "granularity": {
                    "type": "period",
                    "period": "P1D",
                    "timeZone": "America/Los_Angeles",
                },
                "intervals": "2013/2014",
            },
            {"buckets": 3, "rows": 6},  # a fourth begins before the interval of the query around it
        ),
    ],
)
def test_an_inner_timeseries_has_its_limit_and_its_empty_buckets(
    door: InProcessClient, query: dict[str, Any], expected: object
) -> None:
    few = {
        "type": "bound",
        "dimension": "delay",
        "lower": "113",
        "upper": "211",
        "ordering": "numeric",
    }
    asked = {"granularity": "six_hour", "intervals": "2013-01-01/P1D", **query}
    source = inner("timeseries", filter=few, aggregations=COUNT, **asked)
    aggregations = [
        {"type": "count", "name": "buckets"},
        {"type": "longSum", "name": "rows", "fieldName": "n"},
    ]
    [row] = ask(door, "groupBy", dataSource=source, dimensions=[], aggregations=aggregations)
    assert row["event"] == expected


def test_an_inner_timeseries_has_no_grand_total(door: InProcessClient) -> None:
    source = inner("timeseries", aggregations=COUNT, context={"grandTotal": True})
    answer = post(door, {**ALL, "queryType": "scan", "dataSource": source})
    assert answer.status_code == 400
    assert "a timeseries that is a data source has no grandTotal" in answer.json()["errorMessage"]


@pytest.mark.parametrize(
    ("block", "count"),
    [
        ({"type": "bound", "dimension": "f", "upper": "0.1", "ordering": "numeric"}, 1),
        ({"type": "bound", "dimension": "f", "lower": "0.2", "ordering": "numeric"}, 1),
        (
            {
                "type": "bound",
                "dimension": "f",
                "lower": "0.1",
                "lowerStrict": True,
                "ordering": "numeric",
            },
            1,
        ),
        ({"type": "bound", "dimension": "f", "upper": "1e300", "ordering": "numeric"}, 2),
        ({"type": "range", "column": "f", "matchValueType": "DOUBLE", "upper": 0.1}, 1),
        ({"type": "selector", "dimension": "f", "value": "1e300"}, 0),
    ],
)
def test_floats_are_compared_as_floats(
    door: InProcessClient, block: dict[str, object], count: int
) -> None:
    assert len(rows_of(door, FLOATS, "f", filter=block)) == count


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        ("ARRAY<STRING>", [["x", "y"], [], None], [["x", "y"], [], None]),
        ("ARRAY<LONG>", [[1, None, "2"]], [[1, None, 2]]),
        ("STRING", [["x", 1], "z"], [["x", "1"], ["z"]]),
        (None, [[1, 2.5], 3, None], [[1.0, 2.5], [3.0], None]),
        (
            "COMPLEX<json>",
            [{"k": [1]}, [1], "t", "5", 7, None],
            [{"k": [1]}, [1], "t", "5", 7, None],
        ),
        (None, [{"k": 1}, [2]], [{"k": 1}, [2]]),
    ],
)
def test_lists_and_objects_that_a_query_brings_stay_what_they_are(
    door: InProcessClient, kind: str | None, values: list[object], shown: list[object]
) -> None:
    types = [kind] if kind else []
    rows = [[one] for one in values]
    source = {"type": "inline", "columnNames": ["c"], "columnTypes": types, "rows": rows}
    assert [value for [value] in rows_of(door, source, "c")] == shown


def test_a_list_is_no_number(door: InProcessClient) -> None:
    source = {"type": "inline", "columnNames": ["c"], "columnTypes": ["LONG"], "rows": [[[1]]]}
    answer = post(door, {**ALL, "queryType": "scan", "dataSource": source})
    assert answer.status_code == 400
    assert "[1] stands where a text, a number or null must be" in answer.json()["errorMessage"]


def test_a_text_that_is_no_json_is_sent_as_a_text(door: InProcessClient) -> None:
    virtual = [
        {"type": "expression", "name": "v", "expression": "t", "outputType": "COMPLEX<json>"}
    ]
    found = rows_of(door, TEXTS, "v", virtualColumns=virtual)
    assert [value for [value] in found] == ["a10", "a9", "", None, "b"]


def test_two_lists_are_grouped_by_every_combination(door: InProcessClient) -> None:
    found = ask(door, "groupBy", dataSource=LISTS, dimensions=["a", "b"], aggregations=COUNT)
    pairs = [(one["event"]["a"], one["event"]["b"], one["event"]["n"]) for one in found]
    assert pairs == [(None, None, 1), *((a, b, 1) for a in "xy" for b in "123")]


def test_a_column_may_have_any_name(door: InProcessClient) -> None:
    row = {"type": "inline", "columnNames": ["t", "one"], "rows": [["x,y", "!"]]}
    listed = {"type": "expression", "name": "a", "expression": "string_to_mv(t, ',')"}
    added = {"type": "expression", "name": "v", "expression": "array_to_string(a + one, ',')"}
    assert rows_of(door, row, "v", virtualColumns=[listed, added]) == [["x!,y!"]]
    test = {"type": "expression", "expression": "concat(a, one) == 'y!'"}
    assert rows_of(door, row, "one", virtualColumns=[listed], filter=test) == [["!"]]
    named = [{"type": "expression", "name": "w", "expression": "lookup(k, 'names')"}]
    assert rows_of(door, NAMES, "w", virtualColumns=named) == [["American"], [None]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INNER", []),
        ("LEFT", [(None, 6)]),
        ("RIGHT", [("American", 1), ("Nobody", 1)]),
        ("FULL", [(None, 6), ("American", 1), ("Nobody", 1)]),
    ],
)
def test_intervals_are_of_the_left_side_of_a_join(
    door: InProcessClient, kind: str, expected: object
) -> None:
    join = {
        "type": "join",
        "left": "flights",
        "right": NAMES,
        "rightPrefix": "r.",
        "condition": '(carrier == "r.k")',
        "joinType": kind,
    }
    outer = {**join, "left": join, "rightPrefix": "s.", "joinType": "LEFT"}
    for source in (join, outer, {"type": "filter", "base": join, "filter": {"type": "true"}}):
        asked = {"dataSource": source, "intervals": "2013-01-02/P1D"}
        found = ask(door, "groupBy", **asked, dimensions=["r.v"], aggregations=COUNT)
        assert [(one["event"]["r.v"], one["event"]["n"]) for one in found] == expected


def test_rows_without_a_time_have_no_buckets(door: InProcessClient) -> None:
    join = {
        "type": "join",
        "left": "flights",
        "right": NAMES,
        "rightPrefix": "r.",
        "condition": '(carrier == "r.k")',
        "joinType": "FULL",
    }
    query = {**ALL, "queryType": "timeseries", "dataSource": join, "granularity": "day"}
    answer = post(door, query)
    assert answer.status_code == 400
    assert "ask for granularity all" in answer.json()["errorMessage"]
