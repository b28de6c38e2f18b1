"""Orders, empty values and nulls in groups: as Druid 33 answered over the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.serving import open_door_over
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

ROWS = [
    {"t": 0, "s": "apple", "n": 10, "tags": ["a", "b"]},
    {"t": 1_000, "s": "Banana", "n": 9, "tags": ["b"]},
    {"t": 2_000, "n": None},
    {"t": 61_000, "s": "31", "n": 100, "tags": []},
    {"t": 62_000, "s": "4", "n": 4, "tags": ["a", None]},
]
SPEC = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "odd",
            "timestampSpec": {"column": "t", "format": "millis"},
            "dimensionsSpec": {"dimensions": ["s", {"type": "long", "name": "n"}, "tags"]},
            "granularitySpec": {"segmentGranularity": "day", "rollup": False},
        },
        "ioConfig": {"type": "index_parallel", "appendToExisting": True},
    },
}
SUM = [{"type": "longSum", "name": "sum", "fieldName": "n"}]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door_over(tmp_path_factory.mktemp("orders"), "odd", ROWS, SPEC) as client:
        yield client


def ask(door: InProcessClient, kind: str, **query: object) -> Any:
    asked = {"dataSource": "odd", "intervals": ["1970/1971"], "granularity": "all", **query}
    answer = door.post("/druid/v2", json={"queryType": kind, "aggregations": SUM, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def top(door: InProcessClient, dimension: object, ordering: str, *, inverted: bool = False) -> Any:
    metric: dict[str, object] = {"type": "dimension", "ordering": ordering}
    metric = {"type": "inverted", "metric": metric} if inverted else metric
    [bucket] = ask(door, "topN", dimension=dimension, threshold=10, metric=metric)
    return [next(iter(row.values())) for row in bucket["result"]]


@pytest.mark.parametrize(
    ("dimension", "ordering", "inverted", "values"),
    [
        ("s", "numeric", False, [None, "Banana", "apple", "4", "31"]),
        ("s", "alphanumeric", False, [None, "4", "31", "apple", "Banana"]),
        ("s", "lexicographic", True, [None, "apple", "Banana", "4", "31"]),
        ("n", "lexicographic", False, [None, "10", "100", "4", "9"]),
        ("tags", "lexicographic", False, [None, "a", "b"]),
        (
            {
                "type": "listFiltered",
                "delegate": {"type": "default", "dimension": "tags", "outputName": "tags"},
                "values": ["a"],
            },
            "lexicographic",
            False,
            ["a"],
        ),
        (
            {
                "type": "listFiltered",
                "delegate": {"type": "default", "dimension": "tags", "outputName": "tags"},
                "values": ["a"],
                "isWhitelist": False,
            },
            "lexicographic",
            False,
            [None, "b"],
        ),
    ],
)
def test_a_topn_by_its_dimension(
    door: InProcessClient, dimension: object, ordering: str, inverted: bool, values: list[object]
) -> None:
    assert top(door, dimension, ordering, inverted=inverted) == values


def test_a_limit_spec_orders_within_buckets(door: InProcessClient) -> None:
    columns = [{"dimension": "s", "dimensionOrder": "numeric", "direction": "descending"}]
    query: dict[str, Any] = {
        "granularity": "minute",
        "dimensions": ["s"],
        "limitSpec": {"type": "default", "columns": columns},
    }
    values = [row["event"]["s"] for row in ask(door, "groupBy", **query)]
    assert values == ["apple", "Banana", None, "31", "4"]
    query["context"] = {"sortByDimsFirst": True}
    values = [row["event"]["s"] for row in ask(door, "groupBy", **query)]
    assert values == ["31", "4", "apple", "Banana", None]


def test_a_sum_that_is_null_is_not_four(door: InProcessClient) -> None:
    four = {"type": "equalTo", "aggregation": "sum", "value": 4}
    having = {"type": "not", "havingSpec": four}
    rows = ask(door, "groupBy", dimensions=["s"], having=having)
    assert [row["event"]["s"] for row in rows] == [None, "31", "Banana", "apple"]


def test_nothing_by_zero_is_nothing(door: InProcessClient) -> None:
    fields = [{"type": "fieldAccess", "fieldName": "sum"}, {"type": "constant", "value": 0}]
    post = {"type": "arithmetic", "name": "p", "fn": "/", "fields": fields}
    rows = ask(door, "groupBy", dimensions=["s"], postAggregations=[post])
    assert [row["event"]["p"] for row in rows] == [None, 0, 0, 0, 0]


def test_a_top_n_has_no_values_in_empty_buckets(door: InProcessClient) -> None:
    few = {"filter": {"type": "selector", "dimension": "carrier", "value": "UA"}}
    day: dict[str, Any] = {
        "dataSource": "flights",
        "intervals": "2013-01-01/P1D",
        "granularity": "hour",
    }
    day["aggregations"] = [{"type": "count", "name": "n"}]
    top = {**day, "dimension": "carrier", "metric": "n", "threshold": 1}
    counts = [row["result"]["n"] for row in ask(door, "timeseries", **day, **few)]
    found = ask(door, "topN", **top, **few)
    assert [row["result"] for row in found] == [
        [{"carrier": "UA", "n": one}] if one else [] for one in counts
    ]
    assert 0 in counts
    assert len({row["timestamp"] for row in found}) == len(counts)
    skips = {"context": {"skipEmptyBuckets": True}}
    assert [row for row in found if row["result"]] == ask(door, "topN", **top, **few, **skips)
    nothing = {"filter": {"type": "false"}}
    assert {str(row["result"]) for row in ask(door, "topN", **top, **nothing)} == {"[]"}
    inner = {"type": "query", "query": {"queryType": "topN", **top, **nothing}}
    assert ask(door, "scan", dataSource=inner) == []


def test_texts_are_cut_to_a_number_of_bytes(door: InProcessClient) -> None:
    asked = [
        {"type": kind, "name": kind, "fieldName": "s", "maxStringBytes": 2}
        for kind in ("stringFirst", "stringLast", "stringAny")
    ]
    [row] = ask(door, "timeseries", aggregations=asked, intervals=["1970-01-01/PT1S"])
    assert row["result"] == {"stringFirst": "ap", "stringLast": "ap", "stringAny": "ap"}
