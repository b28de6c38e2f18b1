"""What `demo cluster` makes of answers: right, wrong, short or failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import carnac
from carnac.cli.demo.cluster.checks import judge
from carnac.cli.demo.cluster.load import Sample
from carnac.console.cluster import Asked, ClusterStory, Moment, Step, draw_cluster
from carnac.store import Store

FLIGHTS = [
    {
        "time": f"2013-0{month}-01T08:00:00Z",
        "origin": "JFK" if month % 2 else "EWR",
        "carrier": "UA",
        "distance": 100 * month,
        "air_time": 10 * month,
        "dep_delay": month,
    }
    for month in range(1, 7)
]
TIMES = ["2013-01-01T08:00:00.000Z", "2013-06-01T08:00:00.000Z"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    opened = carnac.open(tmp_path_factory.mktemp("flights") / "store", create=True)
    opened.append("flights", FLIGHTS[:3])
    opened.append("flights", FLIGHTS[3:])
    return opened


def sample(rows: Sequence[Sequence[object]], **fields: object) -> Sample:
    given: dict[str, object] = {
        "at_ms": 0,
        "took_ms": 5,
        "question": 0,
        "revision": 2,
        "is_complete": True,
        "rows": rows,
    }
    return Sample(**{**given, **fields})  # type: ignore[arg-type]


RIGHT = [[6, 2100, *TIMES]]


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (sample(RIGHT), "right"),
        (sample([[3, 600, TIMES[0], "2013-03-01T08:00:00.000Z"]], revision=1), "right"),
        (sample([["EWR", 3, 120], ["JFK", 3, 90]], question=1), "right"),
        (sample([["UA", 4.0, 3]], question=2), "right"),
        (sample([["UA", 4.0 + 1e-12, 3]], question=2), "right"),
        (sample([["UA", 4.01, 3]], question=2), "wrong"),
        (sample([[7, 2200, *TIMES]]), "wrong"),
        (sample([[5, 2000, *TIMES]]), "short"),
        (sample([["EWR", 3, 120]], question=1), "short"),
        (sample(RIGHT, is_complete=False), "short"),
        (sample([], revision=None, error="status 503"), "failed"),
    ],
)
def test_an_answer_is_held_against_its_own_revision(
    store: Store, one: Sample, verdict: str
) -> None:
    [judged] = judge(store, [one])
    assert judged.verdict == verdict
    assert (judged.why == "") == (verdict == "right")


def test_the_picture_counts_verdicts_and_names_what_happened(tmp_path: Path) -> None:
    story = ClusterStory(
        asked=[
            Asked(at_s=1, took_ms=4, verdict="right"),
            Asked(at_s=2, took_ms=0, verdict="failed"),
        ],
        moments=[Moment(at_s=1.5, text="a server is killed")],
        revisions=[Step(at_s=0, series="published", value=1)],
        segments=[Step(at_s=0, series="historical-1", value=3)],
        lives=[("broker", -1, 3)],
        end_s=3,
    )
    drawn = str(draw_cluster(story))
    assert "2 queries: 1 right, 0 wrong, 0 short, 1 failed" in drawn
    assert "a server is killed" in drawn
