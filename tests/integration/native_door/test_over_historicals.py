"""Native queries of a broker over historicals: the answers are those of one process over the same files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.historicals import settled
from tests.support.served import ServedStore
from tests.support.serving import door_of, open_door
from tests.unit.api.conftest import InProcessClient
from tests.unit.broker.conftest import append_day

pytestmark = pytest.mark.http

DAYS = 6
SUM = {"type": "longSum", "name": "sum", "fieldName": "n"}
COUNT = {"type": "count", "name": "rows"}
ALL = {"dataSource": "events", "intervals": ["2013-01-01/2013-02-01"], "granularity": "all"}
LAST = {"type": "longLast", "name": "last", "fieldName": "n"}
CUT = {"type": "stringLast", "name": "cut", "fieldName": "kind", "maxStringBytes": 2}
USERS = {
    "type": "cardinality",
    "name": "kinds",
    "fields": ["kind"],
    "byRow": False,
    "round": True,
}
MEAN = {
    "type": "arithmetic",
    "name": "mean",
    "fn": "/",
    "fields": [
        {"type": "fieldAccess", "fieldName": "sum"},
        {"type": "fieldAccess", "fieldName": "rows"},
    ],
}
QUERIES: dict[str, dict[str, Any]] = {
    "timeseries": {
        **ALL,
        "queryType": "timeseries",
        "granularity": "six_hour",
        "aggregations": [COUNT, SUM, LAST, CUT],
        "postAggregations": [MEAN],
        "context": {"grandTotal": True},
    },
    "topN": {
        **ALL,
        "queryType": "topN",
        "dimension": "kind",
        "metric": "sum",
        "threshold": 2,
        "aggregations": [SUM, USERS],
    },
    "groupBy": {
        **ALL,
        "queryType": "groupBy",
        "granularity": "day",
        "dimensions": ["kind"],
        "aggregations": [COUNT, SUM],
        "having": {"type": "greaterThan", "aggregation": "sum", "value": 10},
        "filter": {"type": "bound", "dimension": "n", "lower": "2", "ordering": "numeric"},
        "limitSpec": {"type": "default", "limit": 7, "columns": [{"dimension": "sum"}]},
    },
    "subtotals": {
        **ALL,
        "queryType": "groupBy",
        "dimensions": ["kind"],
        "aggregations": [COUNT, LAST],
        "subtotalsSpec": [["kind"], []],
    },
    "scan": {
        **ALL,
        "queryType": "scan",
        "columns": ["__time", "n", "kind"],
        "order": "descending",
        "limit": 1,
    },
    "search": {**ALL, "queryType": "search", "query": {"type": "contains", "value": "a"}},
    "nothing": {**ALL, "queryType": "timeseries", "aggregations": []},
    "inner timeseries": {
        **ALL,
        "queryType": "groupBy",
        "dimensions": [],
        "aggregations": [COUNT, {**SUM, "fieldName": "sum"}],
        "dataSource": {
            "type": "query",
            "query": {
                **ALL,
                "queryType": "timeseries",
                "granularity": "hour",
                "filter": {"type": "selector", "dimension": "kind", "value": "a"},
                "aggregations": [SUM],
            },
        },
    },
    "full join": {
        **ALL,
        "queryType": "groupBy",
        "intervals": ["2013-01-02/P1D"],
        "dimensions": ["kind", "r.v"],
        "aggregations": [COUNT, SUM],
        "dataSource": {
            "type": "join",
            "left": "events",
            "right": {"type": "inline", "columnNames": ["k", "v"], "rows": [["a", 1], ["z", 2]]},
            "rightPrefix": "r.",
            "condition": '(kind == "r.k")',
            "joinType": "FULL",
        },
    },
    "inner sketches": {
        **ALL,
        "queryType": "timeseries",
        "aggregations": [{"type": "HLLSketchMerge", "name": "kinds", "fieldName": "kinds"}],
        "dataSource": {
            "type": "query",
            "query": {
                **ALL,
                "queryType": "groupBy",
                "dimensions": [],
                "granularity": "day",
                "aggregations": [USERS],
            },
        },
    },
    "timeBoundary": {"queryType": "timeBoundary", "dataSource": "events"},
}


@pytest.fixture(scope="module")
def doors(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[InProcessClient, InProcessClient]]:
    """Give the doors of a broker over three historicals, and of one process."""
    folder = tmp_path_factory.mktemp("served")
    served = ServedStore(folder, 3)
    for day in range(1, DAYS + 1):
        append_day(served.store, day)
        append_day(served.store, day, rows=5)
    served.assign_all(copies=2)
    for line in served.lines:
        settled(line)
    with open_door(folder / "store") as alone:
        yield door_of(served.open_broker()), alone
    served.close()


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_one_process(
    doors: tuple[InProcessClient, InProcessClient], name: str
) -> None:
    over, alone = (
        one.post("/druid/v2", content=json.dumps(QUERIES[name]).encode()) for one in doors
    )
    assert (over.status_code, alone.status_code) == (200, 200), over.text
    assert over.json() == alone.json()
    assert over.json(), "there are rows"
