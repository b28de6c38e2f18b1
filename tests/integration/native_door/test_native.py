"""The door for native queries: what its answers say of themselves, what parts of queries mean, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from carnac.api.native.queries import ETERNAL
from tests.e2e.cli import ROWS
from tests.support.serving import open_door_over
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

COUNT = [{"type": "count", "name": "n"}]
ALL = {"dataSource": "flights", "intervals": ["2013-01-01/2013-02-01"], "granularity": "all"}
TEXTS = {
    "type": "inline",
    "columnNames": ["t", "n"],
    "columnTypes": ["STRING", "LONG"],
    "rows": [["a10", 1], ["a9", 2], ["", 3], [None, 4], ["b", None]],
}

ROLLED = [
    {"time": f"2013-01-01T0{hour}:10:00Z", "d": "x", "v": hour, "who": f"u{hour % 3}"}
    for hour in range(6)
]
ROLLUP = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "rolled",
            "timestampSpec": {"column": "time", "format": "iso"},
            "dimensionsSpec": {"dimensions": ["d"]},
            "metricsSpec": [
                {"type": "count", "name": "n"},
                {"type": "stringLast", "name": "last", "fieldName": "who"},
                {"type": "HLLSketchBuild", "name": "users", "fieldName": "who"},
            ],
            "granularitySpec": {
                "segmentGranularity": "day",
                "queryGranularity": "six_hour",
                "rollup": True,
            },
        },
        "ioConfig": {"type": "index_parallel", "appendToExisting": True},
    },
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door_over(tmp_path_factory.mktemp("door"), "rolled", ROLLED, ROLLUP) as client:
        yield client


def post(door: InProcessClient, query: dict[str, Any], *, headers: Any = None) -> httpx.Response:
    how = {"content-type": "application/json", **(headers or {})}
    return door.post("/druid/v2", json=query, headers=how)


def ask(door: InProcessClient, kind: str, **query: object) -> Any:
    answer = post(door, {**ALL, "queryType": kind, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def matched(door: InProcessClient, block: object) -> list[Any]:
    """Return the texts of the rows that a filter keeps."""
    return [
        event["t"]
        for batch in ask(door, "scan", dataSource=TEXTS, columns=["t"], filter=block)
        for event in batch["events"]
    ]


def test_an_answer_says_what_it_rests_on(door: InProcessClient) -> None:
    query = {**ALL, "queryType": "timeseries", "aggregations": COUNT, "context": {"queryId": "q"}}
    answer = post(door, query)
    assert answer.json() == [{"timestamp": "2013-01-01T02:30:00.000Z", "result": {"n": ROWS}}]
    said = answer.headers
    assert (said["x-druid-query-id"], said["x-druid-response-context"]) == ("q", "{}")
    assert (said["content-type"], said["x-carnac-revision"]) == ("application/json", "4")
    again = post(door, query, headers={"if-none-match": said["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = post(door, {**query, "granularity": "day"}, headers={"if-none-match": said["etag"]})
    assert other.status_code == 200
    then = post(door, {**query, "context": {"at": 1}})
    assert (then.json()[0]["result"], then.headers["x-carnac-revision"]) == ({"n": 6}, "1")


@pytest.mark.parametrize(
    ("interval", "start"),
    [
        ("-5000/5000", "-5000-01-01T00:00:00.000Z"),
        (ETERNAL, "-146136543-09-08T08:23:32.096Z"),
        ("1999-01-01/2114-01-01", "1999-01-01T00:00:00.000Z"),
    ],
)
def test_all_of_time_is_written_in_many_ways(
    door: InProcessClient, interval: str, start: str
) -> None:
    found = ask(door, "groupBy", dimensions=[], aggregations=COUNT, intervals=[interval])
    assert found == [{"version": "v1", "timestamp": start, "event": {"n": ROWS}}]
    [row] = ask(door, "timeseries", aggregations=COUNT, intervals=[interval])
    assert row["timestamp"] == "2013-01-01T02:30:00.000Z"


def test_trailing_slash_and_pretty_are_taken(door: InProcessClient) -> None:
    query = {"queryType": "timeBoundary", "dataSource": "flights"}
    for path in ("/druid/v2", "/druid/v2/", "/druid/v2/?pretty", "/druid/v2?pretty"):
        [found] = door.post(path, json=query).json()
        assert found["result"]["minTime"] == "2013-01-01T02:30:00.000Z"


def test_empty_buckets_are_filled_between_the_rows_of_a_segment(door: InProcessClient) -> None:
    one = {"filter": {"type": "selector", "dimension": "carrier", "value": "AA"}}
    day = {"intervals": "2013-01-01/P1D", "granularity": "six_hour", "aggregations": COUNT}
    counts = [row["result"]["n"] for row in ask(door, "timeseries", **day, **one)]
    assert counts == [1, 2, 1, 2]
    nothing = {"filter": {"type": "false"}}
    filled = ask(door, "timeseries", **day, **nothing)
    assert [row["result"]["n"] for row in filled] == [0, 0, 0, 0]
    skips = {"context": {"skipEmptyBuckets": "true"}}
    assert ask(door, "timeseries", **day, **nothing, **skips) == []
    assert ask(door, "timeseries", aggregations=COUNT, **nothing, **skips) == []
    without = ask(door, "timeseries", **{**day, "aggregations": []}, **nothing)
    assert [row["result"] for row in without] == [{}, {}, {}, {}]
    assert len(ask(door, "timeseries", aggregations=[])) == 1
    posts = [{"type": "expression", "name": "more", "expression": "n + 1"}]
    with_posts = ask(door, "timeseries", **day, **nothing, postAggregations=posts, limit=1)
    assert [row["result"] for row in with_posts] == [{"n": 0, "more": 1}]
    last = ask(door, "timeseries", **day, descending=True, context={"grandTotal": True})
    assert [row["timestamp"] for row in last[::4]] == ["2013-01-01T18:00:00.000Z", None]


def test_unknown_datasources_are_empty(door: InProcessClient) -> None:
    for kind, more in (
        ("timeseries", {"granularity": "hour", "aggregations": COUNT}),
        ("groupBy", {"dimensions": [], "aggregations": COUNT}),
        ("topN", {"dimension": "x", "metric": "n", "threshold": 1, "aggregations": COUNT}),
        ("scan", {}),
        ("search", {"query": {"type": "contains", "value": "x"}}),
        ("timeBoundary", {}),
        ("dataSourceMetadata", {}),
        ("segmentMetadata", {}),
    ):
        assert ask(door, kind, dataSource="nope", **more) == [], kind
    [row] = ask(door, "timeseries", dataSource="nope", aggregations=COUNT)
    assert row == {"timestamp": "2013-01-01T00:00:00.000Z", "result": {"n": 0}}


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        ({"type": "selector", "dimension": "t", "value": None}, [None]),
        ({"type": "selector", "dimension": "t", "value": ""}, [""]),
        (
            {"type": "not", "field": {"type": "selector", "dimension": "t", "value": "b"}},
            ["a10", "a9", ""],
        ),
        (
            {"type": "bound", "dimension": "t", "lower": "a2", "ordering": "alphanumeric"},
            ["a10", "a9", "b"],
        ),
        (
            {"type": "bound", "dimension": "t", "lower": "a2", "upper": "a9", "alphaNumeric": True},
            ["a9"],
        ),
        (
            {"type": "bound", "dimension": "t", "lower": "a", "upper": "aa", "ordering": "strlen"},
            ["a9", "b"],
        ),
        ({"type": "bound", "dimension": "t", "lower": "a2"}, ["a9", "b"]),
        ({"type": "bound", "dimension": "t", "upper": "a"}, ["", None]),
        (
            {"type": "bound", "dimension": "t", "lower": "b", "ordering": "strlen"},
            ["a10", "a9", "b"],
        ),
        (
            {
                "type": "bound",
                "dimension": "n",
                "lower": "10",
                "alphaNumeric": True,
                "ordering": "numeric",
            },
            [],
        ),
        (
            {"type": "bound", "dimension": "t", "upper": "7", "ordering": "numeric"},
            ["a10", "a9", "", None, "b"],
        ),
        ({"type": "bound", "dimension": "t", "lower": "7", "ordering": "numeric"}, []),
        ({"type": "bound", "dimension": "t", "lower": "a9", "ordering": "numeric"}, ["a9", "b"]),
        (
            {"type": "bound", "dimension": "n", "lower": "x", "ordering": "numeric"},
            ["a10", "a9", "", None],
        ),
        (
            {
                "type": "range",
                "column": "n",
                "matchValueType": "LONG",
                "lower": 3,
                "lowerOpen": True,
            },
            [None],
        ),
        ({"type": "in", "dimension": "n", "values": ["1", 2.0]}, ["a10", "a9"]),
        ({"type": "equals", "column": "t", "matchValueType": "LONG", "matchValue": "a9"}, []),
        ({"type": "like", "dimension": "t", "pattern": "a_"}, ["a9"]),
        ({"type": "regex", "dimension": "t", "pattern": "[0-9]{2}"}, ["a10"]),
        (
            {
                "type": "selector",
                "dimension": "t",
                "value": "3",
                "extractionFn": {"type": "strlen"},
            },
            ["a10"],
        ),
        ({"type": "not", "field": {"type": "equals", "column": "nope", "matchValue": 1}}, []),
        ({"type": "null", "column": "nope"}, ["a10", "a9", "", None, "b"]),
        ({"type": "expression", "expression": "strlen(t) == 2 || n == 1"}, ["a10", "a9"]),
        (
            {"type": "isfalse", "field": {"type": "selector", "dimension": "t", "value": "b"}},
            ["a10", "a9", ""],
        ),
    ],
)
def test_filters(door: InProcessClient, block: object, kept: list[Any]) -> None:
    assert matched(door, block) == kept


def test_dimensions_are_texts_unless_a_type_is_said(door: InProcessClient) -> None:
    plain = {"dataSource": TEXTS, "aggregations": COUNT}
    typed = {"type": "default", "dimension": "n", "outputName": "n2", "outputType": "LONG"}
    events = [
        one["event"]
        for one in ask(door, "groupBy", dimensions=["n"], **{**plain, "aggregations": []})
    ]
    assert events == [{"n": None}, {"n": "1"}, {"n": "2"}, {"n": "3"}, {"n": "4"}]
    limit = {
        "limitSpec": {
            "type": "default",
            "limit": 2,
            "columns": [{"dimension": "n2", "direction": "DESC"}],
        }
    }
    found = ask(door, "groupBy", dimensions=[typed], **plain, **limit)
    assert [one["event"] for one in found] == [{"n2": 4, "n": 1}, {"n2": 3, "n": 1}]


def test_texts_that_are_no_numbers_are_counted_as_druid_does(door: InProcessClient) -> None:
    aggregations = [
        {"type": f"double{name}", "name": name, "fieldName": "carrier"}
        for name in ("Sum", "Min", "Max")
    ]
    aggregations.append({"type": "doubleSum", "name": "nope", "fieldName": "nope"})
    [row] = ask(door, "timeseries", aggregations=aggregations)
    assert row["result"] == {"Sum": 0.0, "Min": "Infinity", "Max": "-Infinity", "nope": None}


def test_subtotals_having_and_arrays(door: InProcessClient) -> None:
    spec = {"dimensions": ["carrier"], "aggregations": COUNT, "subtotalsSpec": [["carrier"], []]}
    total = ask(
        door, "groupBy", **spec, having={"type": "greaterThan", "aggregation": "n", "value": 10}
    )
    assert total[-1]["event"] == {"carrier": None, "n": ROWS}
    rows = ask(door, "groupBy", **spec, context={"resultAsArray": True})
    assert rows[-1] == [None, ROWS]
    names = [{"type": "expression", "name": "of", "expression": "nvl(carrier, 'all')"}]
    rows = ask(door, "groupBy", **spec, postAggregations=names)
    assert [one["event"]["of"] for one in rows] == ["AA", "UA", "all"]
    one = {"type": "dimSelector", "dimension": "carrier", "value": "AA"}
    [row] = ask(door, "groupBy", **spec, having=one, limitSpec={"type": "NoopLimitSpec"})
    assert row["event"]["carrier"] == "AA"


def test_sketches_and_what_is_made_of_them(door: InProcessClient) -> None:
    aggregations = [
        {"type": "thetaSketch", "name": "t", "fieldName": "carrier"},
        {
            "type": "cardinality",
            "name": "c",
            "fields": ["carrier", "delay"],
            "byRow": True,
            "round": True,
        },
        {"type": "quantilesDoublesSketch", "name": "q", "fieldName": "delay"},
    ]
    zero = {"type": "constant", "value": 0}
    count = {"type": "finalizingFieldAccess", "fieldName": "q"}
    posts = [
        {
            "type": "quantilesDoublesSketchToQuantiles",
            "name": "p",
            "field": {"type": "fieldAccess", "fieldName": "q"},
            "fractions": [0, 1],
        },
        {"type": "arithmetic", "name": "per", "fn": "/", "fields": [count, zero]},
    ]
    [row] = ask(door, "timeseries", aggregations=aggregations, postAggregations=posts)
    assert row["result"] == {"t": 2.0, "c": ROWS, "q": ROWS, "p": [102.0, 320.0], "per": 0.0}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"queryType": "select"}, "queryType 'select' is not supported; use scan"),
        ({"queryType": "scan", "dataSource": None}, "dataSource must be said"),
        (
            {"queryType": "scan", "dataSource": {"type": "external"}},
            "data source 'external' is not supported",
        ),
        (
            {"queryType": "timeseries", "aggregations": [{"type": "javascript", "name": "j"}]},
            "aggregator 'javascript'",
        ),
        ({"queryType": "timeseries", "context": {"bySegment": True}}, "bySegment is not supported"),
        (
            {"queryType": "timeseries", "granularity": "fortnight"},
            "'fortnight' is not a granularity",
        ),
        (
            {"queryType": "topN", "dimension": "carrier", "metric": "x", "threshold": 1},
            "topN has no aggregator 'x'",
        ),
        (
            {"queryType": "groupBy", "dimensions": ["carrier"], "subtotalsSpec": [["carier"]]},
            "subtotalsSpec names 'carier', which is the output name of no dimension",
        ),
        (
            {"queryType": "groupBy", "limitSpec": {"type": "nope"}},
            "there is no limitSpec 'nope'",
        ),
        (
            {
                "queryType": "scan",
                "filter": {"type": "selector", "dimension": "carrier", "value": ["AA"]},
            },
            "['AA'] stands where a text, a number or null must be",
        ),
        (
            {
                "queryType": "scan",
                "filter": {
                    "type": "equals",
                    "column": "carrier",
                    "matchValueType": "ARRAY<STRING>",
                    "matchValue": 5,
                },
            },
            "matchValue must be a list, not 5",
        ),
        (
            {"queryType": "scan", "orderBy": [{"columnName": "__time", "order": "up"}]},
            "order must be none, ascending or descending, not 'up'",
        ),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(
    door: InProcessClient, query: dict[str, Any], message: str
) -> None:
    answer = post(door, {**ALL, **query})
    assert answer.status_code == 400
    body = answer.json()
    assert (body["error"], list(body)) == (
        "Unknown exception",
        ["error", "errorMessage", "errorClass", "host"],
    )
    assert message in body["errorMessage"]


def test_a_wrong_id_is_named_as_it_is_said(door: InProcessClient) -> None:
    answer = post(door, {**ALL, "queryType": "scan", "context": {"queryId": "a b"}})
    assert answer.status_code == 400
    assert answer.json()["errorMessage"].startswith("queryId must be at most 200 letters")


def test_buckets_have_a_limit_with_a_way_out(door: InProcessClient) -> None:
    query = {**ALL, "queryType": "timeseries", "granularity": "none", "aggregations": COUNT}
    answer = post(door, query)
    assert answer.status_code == 400
    assert "skipEmptyBuckets" in answer.json()["errorMessage"]
    rows = post(door, {**query, "context": {"skipEmptyBuckets": True}}).json()
    assert len(rows) == ROWS


def test_nothing_is_left_running(door: InProcessClient) -> None:
    """A query of the same id can be asked again and again, whatever became of the one before."""
    for query in (
        {"queryType": "groupBy", "dataSource": "nope", "dimensions": [], "aggregations": COUNT},
        {"queryType": "timeseries", "granularity": "hour", "aggregations": COUNT},
        {"queryType": "timeseries", "filter": {"type": "nope"}},
        {"queryType": "scan"},
    ):
        for _ in range(3):
            answer = post(door, {**ALL, **query, "context": {"queryId": "same"}})
            assert answer.status_code in {200, 400}, answer.text
            assert json.loads(answer.content) is not None
    assert door.request("DELETE", "/druid/v2/same").status_code == 202


def test_columns_are_described(door: InProcessClient) -> None:
    [found] = ask(
        door, "segmentMetadata", merge=True, analysisTypes=["cardinality", "minmax", "size"]
    )
    carrier, delay = (found["columns"][name] for name in ("carrier", "delay"))
    assert (carrier["type"], carrier["cardinality"], carrier["hasNulls"]) == ("STRING", 1, False)
    assert (carrier["minValue"], carrier["maxValue"]) == ("AA", "UA")
    assert (delay["type"], delay["cardinality"], delay["minValue"]) == ("LONG", None, None)
    assert (found["numRows"], found["intervals"], found["size"] > 0) == (ROWS, None, True)
    some = {"type": "list", "columns": ["delay"]}
    [last] = ask(door, "segmentMetadata", intervals=None, toInclude=some)
    assert (list(last["columns"]), last["numRows"]) == (["delay"], ROWS)


EXPRESSIONS: dict[str, object] = {
    "delay / 100": 1,
    "-7 / 2": -3,
    "7.0 / 2": 3.5,
    "2 ^ 3": 8,
    "round(2.567, 2)": 2.57,
    "safe_divide(1, 0)": None,
    "case_simple(carrier, 'AA', 1, 2)": 1,
    "nvl(nope, 'x') + carrier": "xAA",
    "strlen(concat(carrier, '-', delay))": 6,
    "substring(carrier, 1, -1)": "A",
    "substring(carrier, 9, 1)": None,
    "regexp_extract('ab12', '([a-z]+)([0-9]+)', 2)": "12",
    "lpad('a', 3, 'x')": "xxa",
    "timestamp_floor(__time, 'P1D', null, 'America/New_York')": 1356930000000,
    "timestamp_extract(__time, 'HOUR', 'America/New_York')": 21,
    "timestamp_format(__time, 'yyyy-MM-dd HH')": "2013-01-01 02",
    "timestamp_shift(__time, 'P1M', -1)": 1354329000000,
    "timestamp_parse('2013-01-01', null, 'America/New_York')": 1357016400000,
    "array_to_string(string_to_mv('a,b', ','), '-')": "a-b",
    "array_ordinal([1, 2], 2)": 2,
    "json_value('{\"a\": {\"b\": 5}}', '$.a.b', 'LONG')": 5,
    "!(delay > 1) || carrier == 'AA'": 1,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(door: InProcessClient, text: str) -> None:
    virtual = [{"type": "expression", "name": "v", "expression": text}]
    first = {"order": "ascending", "limit": 1, "columns": ["__time", "v"]}
    [batch] = ask(door, "scan", virtualColumns=virtual, **first)
    assert batch["events"][0]["v"] == EXPRESSIONS[text]


def test_what_was_rolled_up_is_merged(door: InProcessClient) -> None:
    source = {"dataSource": "rolled"}
    aggregations = [
        {"type": "longSum", "name": "rows", "fieldName": "n"},
        {"type": "HLLSketchMerge", "name": "users", "fieldName": "users", "round": True},
        {"type": "stringLast", "name": "last", "fieldName": "last"},
    ]
    [row] = ask(door, "timeseries", aggregations=aggregations, **source)
    assert row["result"] == {"rows": 6, "users": 3, "last": "u2"}
    [batch] = ask(door, "scan", **source)
    assert batch["columns"] == ["__time", "d", "n", "last", "users"]
    looked = {"analysisTypes": ["aggregators", "rollup", "queryGranularity"]}
    [found] = ask(door, "segmentMetadata", merge=True, **source, **looked)
    assert found["rollup"] is True
    assert {name: one["type"] for name, one in found["aggregators"].items()} == {
        "n": "longSum",
        "last": "stringLast",
        "users": "HLLSketchMerge",
    }


def test_sets_of_sketches_of_no_rows_are_empty(door: InProcessClient) -> None:
    never = {"type": "selector", "dimension": "carrier", "value": "nope"}
    whole = {"type": "thetaSketch", "name": "all", "fieldName": "carrier"}
    none = {"type": "filtered", "filter": never, "aggregator": {**whole, "name": "none"}}
    fields = [{"type": "fieldAccess", "fieldName": name} for name in ("all", "none")]
    posts = [
        {
            "type": "thetaSketchEstimate",
            "name": func,
            "field": {"type": "thetaSketchSetOp", "name": "x", "func": func, "fields": fields},
        }
        for func in ("UNION", "INTERSECT", "NOT")
    ]
    query = {"aggregations": [whole, none], "postAggregations": posts}
    [row] = ask(door, "timeseries", **query)
    assert row["result"] == {"all": 2.0, "none": 0.0, "UNION": 2.0, "INTERSECT": 0.0, "NOT": 2.0}
    [row] = ask(door, "timeseries", **query, filter=never)
    assert set(row["result"].values()) == {0.0}
