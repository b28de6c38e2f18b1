"""`carnac streams`: positions of writers are listed, moved and forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

import carnac
from carnac import OffsetRange
from tests.e2e.conftest import Run

SPEC = {"dataSource": "edits", "timestampSpec": {"column": "time"}, "dimensions": ["page"]}
ROW = {"time": "2024-03-04T09:00:00Z", "page": "Menhir"}


@pytest.fixture
def followed(tmp_path: Path) -> str:
    """A store in which two writers have read something."""
    name = str(tmp_path / "followed")
    with carnac.open(name, create=True) as store:
        clicks = OffsetRange(writer="clicks", end={"0 kafka": "17", "1 kafka": "3"})
        store.append("edits", [ROW], spec=SPEC, offsets=clicks)
        store.append("edits", [ROW], offsets=OffsetRange(writer="views", end={"topic/0": "4"}))
    return name


def test_positions_are_listed(run: Run, followed: str) -> None:
    found = run("streams", "list", "--store", followed, "--json").json["streams"]
    assert [(one["writer"], one["source"], one["offset"], one["revision"]) for one in found] == [
        ("clicks", "0 kafka", "17", 1),
        ("clicks", "1 kafka", "3", 1),
        ("views", "topic/0", "4", 2),
    ]
    lines = run("streams", "list", "--store", followed).out.splitlines()
    assert lines[0].split()[:2] == ["writer", "source"]
    assert len(lines) == 5


def test_a_position_is_moved_in_a_commit(run: Run, followed: str) -> None:
    done = run("streams", "move", "clicks", "0 kafka", "20", "--store", followed)
    assert "revision 3: clicks goes on in 0 kafka from 20" in done.out
    assert "position of clicks, no rows" in run("log", "--store", followed).out
    shown = run("show", "3", "--store", followed).out
    assert "17 to 20" in shown
    assert "clicks" in shown
    assert run("log", "--store", followed, "--json").json["commits"][0]["after"] == {
        "0 kafka": "17"
    }
    wrong = run("streams", "move", "clicks", "2 kafka", "20", "--store", followed, code=5)
    assert "it has one in '0 kafka', '1 kafka'" in wrong.err


def test_a_revert_says_that_the_position_stays(run: Run, followed: str) -> None:
    done = run("revert", "1", "--store", followed)
    assert "the position of clicks stays: its rows are not read again" in done.err
    assert "17" in run("streams", "list", "--store", followed).out


def test_a_position_is_forgotten(run: Run, followed: str) -> None:
    run("streams", "forget", "clicks", "--source", "1 kafka", "--store", followed)
    done = run("streams", "forget", "clicks", "--store", followed, "--json").json
    assert done == {"revision": 4, "writer": "clicks", "sources": ["0 kafka"]}
    found = run("streams", "list", "--store", followed, "--json").json["streams"]
    assert [one["writer"] for one in found] == ["views"]
    assert "17 to nowhere" in run("show", "4", "--store", followed).out
    gone = run("streams", "forget", "clicks", "--store", followed, code=5)
    assert "writer 'clicks' has no position; there are those of views" in gone.err
    assert "problems" not in run("doctor", "--store", followed).out
