"""Intervals of the type `segments`: segments that are named one by one, as the web console previews them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from carnac.bootstrap.store import open_store
from tests.e2e.cli import make_store
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

LISTED = """SELECT "start" || '/' || "end" AS itvl, version AS ver, partition_num AS part, num_rows FROM sys.segments
ORDER BY 1, 3"""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(make_store(tmp_path_factory.mktemp("door") / "store")) as client:
        yield client


def listed(door: InProcessClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = door.post("/druid/v2/sql", json={"query": LISTED}).json()
    return found


def scan(door: InProcessClient, source: str, intervals: object) -> httpx.Response:
    query = {"queryType": "scan", "dataSource": source, "intervals": intervals}
    return door.post("/druid/v2", json={**query, "columns": ["__time"]})


def rows(door: InProcessClient, *segments: dict[str, Any]) -> int:
    answer = scan(door, "flights", {"type": "segments", "segments": list(segments)})
    assert answer.status_code == 200, answer.text
    return sum(len(batch["events"]) for batch in answer.json())


def test_segments_that_are_named_are_read_and_no_others(door: InProcessClient) -> None:
    first, second, third = listed(door)
    assert rows(door, second) == second["num_rows"]
    assert rows(door, third, first) == first["num_rows"] + third["num_rows"]
    assert rows(door, {**first, "ver": "2000-01-01T00:00:00.000Z"}) == 0
    assert rows(door, {**first, "part": 7}) == 0
    assert rows(door) == 0


def test_some_segments_of_a_time_chunk_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as opened:
        for who in "ab":
            opened.append("split", [{"time": "2024-01-01T10:00:00Z", "who": who}])
    with open_door(tmp_path / "store") as client:
        both = listed(client)
        whole = scan(client, "split", {"type": "segments", "segments": both})
        assert len(whole.json()[0]["events"]) == len(both) == 2
        half = scan(client, "split", {"type": "segments", "segments": both[:1]})
    words = "name all 2 segments of 2024-01-01"
    assert (half.status_code, words in half.json()["errorMessage"]) == (400, True), half.text


def test_intervals_of_another_type_are_refused(door: InProcessClient) -> None:
    answer = scan(door, "flights", {"type": "nope"})
    assert (answer.status_code, answer.json()["errorMessage"]) == (
        400,
        "intervals are of the type intervals or segments, not 'nope'",
    )
