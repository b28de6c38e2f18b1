"""Data sources of native queries: other queries, values that a query brings, joins, and lists in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.cli import make_store
from tests.integration.native_door.test_native import ALL, ask
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


def test_a_column_may_have_any_name(door: InProcessClient) -> None:
    row = {"type": "inline", "columnNames": ["t", "one"], "rows": [["x,y", "!"]]}
    listed = {"type": "expression", "name": "a", "expression": "string_to_mv(t, ',')"}
    added = {"type": "expression", "name": "v", "expression": "array_to_string(a + one, ',')"}
    assert rows_of(door, row, "v", virtualColumns=[listed, added]) == [["x!,y!"]]
    test = {"type": "expression", "expression": "concat(a, one) == 'y!'"}
    assert rows_of(door, row, "one", virtualColumns=[listed], filter=test) == [["!"]]
    named = [{"type": "expression", "name": "w", "expression": "lookup(k, 'names')"}]
    assert rows_of(door, NAMES, "w", virtualColumns=named) == [["American"], [None]]
