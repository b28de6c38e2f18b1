"""Native queries with a part that is wrong: each is answered, or refused in a sentence; nothing breaks the server."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cli import make_store
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

REQUESTS = 150
COUNT = {"type": "count", "name": "n"}
FIELD = {"type": "fieldAccess", "fieldName": "n"}
SPEC = {
    "type": "extraction",
    "dimension": "carrier",
    "outputName": "d",
    "extractionFn": {"type": "substring", "index": 0, "length": 1},
}
FILTER = {
    "type": "and",
    "fields": [
        {"type": "bound", "dimension": "delay", "lower": "100", "ordering": "numeric"},
        {"type": "not", "field": {"type": "in", "dimension": "carrier", "values": ["AA", None]}},
        {"type": "equals", "column": "delay", "matchValueType": "LONG", "matchValue": 107},
    ],
}
QUERIES: list[dict[str, Any]] = [
    {
        "queryType": "timeseries",
        "granularity": {"type": "period", "period": "PT6H", "timeZone": "Europe/Berlin"},
        "filter": FILTER,
        "aggregations": [
            COUNT,
            {"type": "longSum", "name": "s", "fieldName": "delay"},
            {"type": "cardinality", "name": "c", "fields": ["carrier"], "round": True},
        ],
        "postAggregations": [
            {"type": "arithmetic", "name": "a", "fn": "/", "fields": [FIELD, FIELD]},
            {"type": "expression", "name": "e", "expression": "n + 1"},
        ],
        "context": {"grandTotal": True, "priority": 1, "timeout": 10000},
    },
    {
        "queryType": "topN",
        "granularity": "day",
        "dimension": SPEC,
        "metric": {"type": "inverted", "metric": {"type": "numeric", "metric": "n"}},
        "threshold": 2,
        "aggregations": [COUNT],
    },
    {
        "queryType": "groupBy",
        "granularity": "all",
        "dimensions": ["carrier", {"type": "default", "dimension": "v", "outputType": "LONG"}],
        "virtualColumns": [{"type": "expression", "name": "v", "expression": "delay / 100"}],
        "aggregations": [COUNT],
        "having": {"type": "greaterThan", "aggregation": "n", "value": 1},
        "limitSpec": {
            "type": "default",
            "limit": 5,
            "columns": [{"dimension": "n", "direction": "descending"}],
        },
        "subtotalsSpec": [["carrier"], []],
    },
    {
        "queryType": "scan",
        "columns": ["__time", "carrier"],
        "order": "ascending",
        "limit": 3,
        "offset": 1,
    },
    {
        "queryType": "search",
        "query": {"type": "contains", "value": "A"},
        "sort": {"type": "strlen"},
    },
    {
        "queryType": "segmentMetadata",
        "toInclude": {"type": "list", "columns": ["delay"]},
        "analysisTypes": ["size"],
    },
]
WRONG: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    "x",
    "n",
    "__time",
    [],
    {},
    [1],
    [[]],
    {"type": "x"},
    1 << 62,
    "9" * 30,
]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    store = tmp_path_factory.mktemp("door") / "store"
    make_store(store)
    with open_door(store) as client:
        yield client


@pytest.mark.parametrize("seed", range(3))
def test_no_query_breaks_the_server(door: InProcessClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(REQUESTS):
        query = changed(
            chance, {"dataSource": "flights", "intervals": ["2013/2014"], **chance.choice(QUERIES)}
        )
        answer = door.request("POST", "/druid/v2", json=query)
        assert answer.status_code in {200, 400}, (seed, query, answer.text)
        body = answer.json()
        assert isinstance(body, list) if answer.status_code == 200 else body["errorMessage"]


def changed(chance: random.Random, query: dict[str, Any]) -> dict[str, Any]:
    """Return a query of which one part is left out, or something else."""
    query = copy.deepcopy(query)
    *path, last = chance.choice([path for path in paths(query) if len(path) > 0])
    owner: Any = query
    for step in path:
        owner = owner[step]
    if chance.random() < 0.25:
        del owner[last]
    else:
        owner[last] = chance.choice(WRONG)
    return query


def paths(value: object, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all parts of a value."""
    yield before
    items: Any = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, part in items:
        yield from paths(part, (*before, step))
