"""Druid's expressions in native queries give what they give where rows are loaded: the values that Druid gives."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.spark.druid_oracle import CASES, ROW, TYPES
from tests.support.serving import open_door_over
from tests.unit.api.conftest import InProcessClient

pytestmark = [pytest.mark.http, pytest.mark.slow]

_KINDS = {"bigint": "long", "int": "long", "double": "double", "boolean": "long"}
DIMENSIONS: list[dict[str, Any]] = [
    {"type": "auto", "name": name}
    if kind == "array<bigint>"
    else {"type": _KINDS.get(kind, "string"), "name": name, "multiValueHandling": "ARRAY"}
    for name, kind in TYPES.items()
]
SPEC = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {
            "dataSource": "oracle",
            "timestampSpec": {"column": "t", "format": "millis"},
            "dimensionsSpec": {"dimensions": DIMENSIONS},
            "granularitySpec": {"segmentGranularity": "day", "rollup": False},
        },
        "ioConfig": {"type": "index_parallel", "appendToExisting": True},
    },
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    row = {("t" if name == "__time" else name): value for name, value in ROW.items()} | {"flag": 1}
    with open_door_over(tmp_path_factory.mktemp("door"), "oracle", [row], SPEC) as client:
        yield client


def value_of(door: InProcessClient, expression: str) -> Any:
    query = {
        "queryType": "scan",
        "dataSource": "oracle",
        "intervals": ["1900-01-01/2100-01-01"],
        "resultFormat": "compactedList",
        "columns": ["v"],
        "virtualColumns": [{"type": "expression", "name": "v", "expression": expression}],
    }
    response = door.post("/druid/v2", json=query)
    assert response.status_code == 200, response.text
    [[value]] = response.json()[0]["events"]
    return value


def told(value: object) -> object:
    """Return a value as answers of native queries have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("expression", "expected"),
    CASES,
    ids=[case[0] for case in CASES],
)
def test_gives_what_druid_gives(door: InProcessClient, expression: str, expected: object) -> None:
    found = value_of(door, expression)
    if isinstance(found, dict | list) and isinstance(expected, str):
        expected = json.loads(expected)  # a document is one in an answer
    if isinstance(expected, float) and math.isfinite(expected):
        assert found == pytest.approx(expected)
    else:
        assert found == told(expected)
        assert type(found) is type(told(expected))
