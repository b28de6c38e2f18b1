"""Makespans that can be counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from carnac.core.balancing.cost.index import CostIndex
from carnac.simulation.arrivals import make_copies, make_segments
from carnac.simulation.holdings import Holdings, make_holdings
from carnac.simulation.load import load_scenario
from carnac.simulation.trace import Asker, Trace, draw_trace

HOUR_MS = 3_600_000


def cluster(**changes: Any) -> tuple[Any, Any, Holdings]:
    """Return a scenario of two servers and one day, its segments and its holdings, all nowhere."""
    scenario = load_scenario(
        {
            "tiers": [{"servers": 2}],
            "datasources": [{"name": "a", "partitions": 2}],
            "history": {"days": 1},
            "days": 1,
            **changes,
        }
    )
    segments = make_segments(scenario)
    copies = make_copies(scenario, segments, scenario.tiers[0])
    return scenario, segments, make_holdings(scenario, segments, copies, scenario.tiers[0])


def ask(segments: Any, held: Holdings, *, span: int, age: int = 0, now: int = 24) -> Any:
    trace = Trace(
        source=np.zeros(1, np.int64),
        span=np.array([span], np.int64),
        age=np.array([age], np.int64),
    )
    return Asker(segments, [held]).ask(trace, now)


def test_makespan_is_the_most_that_one_server_scans() -> None:
    _, segments, held = cluster()
    held.server[held.end <= 24] = 0
    held.server[:6] = [0, 1, 0, 1, 0, 1]  # three hours, one partition on each server
    early = ask(segments, held, span=3, now=3)
    assert (early.segments[0], early.makespan[0], early.ideal[0], early.used[0]) == (6, 3, 3, 2)
    late = ask(segments, held, span=4)
    assert (late.segments[0], late.makespan[0], late.ideal[0], late.used[0]) == (8, 8, 4, 1)
    assert late.ratio()[0] == 2
    assert late.unused()[0] == 0.5


def test_a_query_that_finds_nothing_is_left_out() -> None:
    _, segments, held = cluster()
    assert len(ask(segments, held, span=4)) == 0


def test_long_segments_that_reach_into_the_interval_are_read() -> None:
    _, segments, held = cluster(datasources=[{"name": "a", "granularity": "six_hour"}])
    held.server[held.end <= 24] = 0
    assert ask(segments, held, span=1).segments[0] == 1
    assert ask(segments, held, span=7).segments[0] == 2
    assert ask(segments, held, span=6, age=6).segments[0] == 1


def test_of_several_copies_the_one_on_the_idler_server_is_read() -> None:
    _, segments, held = cluster(
        datasources=[{"name": "a", "load": [{"replicas": 2}]}],
    )
    held.server[:8] = [0, 1, 0, 1, 0, 1, 1, 0]
    found = ask(segments, held, span=4, now=4)
    assert (found.segments[0], found.makespan[0], found.used[0]) == (4, 2, 2)


def test_the_total_cost_is_that_of_the_core() -> None:
    scenario, segments, held = cluster(
        datasources=[
            {"name": "a", "partitions": 2},
            {"name": "b", "granularity": "six_hour", "partitions": 3},
        ]
    )
    draw = np.random.default_rng(3)
    held.server[:] = draw.integers(-1, 2, len(held.server))
    index = CostIndex(2)
    for row in np.flatnonzero(held.server >= 0):
        start, end = (int(column[row]) * HOUR_MS for column in (held.start, held.end))
        index.load(int(held.server[row]), int(held.source[row]), start, end)
    total = Asker(segments, [held]).total_cost(scenario.total_hours, 24)
    assert total == pytest.approx(index.totals().sum(), rel=1e-10)


def test_a_trace_goes_by_popularity_and_weights() -> None:
    scenario, segments, _ = cluster(
        datasources=[{"name": "a", "popularity": 9}, {"name": "b"}, {"name": "c", "popularity": 0}],
        queries={"count": 4_000, "spans": [{"hours": 1}, {"hours": 5, "weight": 3}], "meanAgeHours": 10},
    )  # fmt: skip
    trace = draw_trace(scenario.queries, segments.sources, np.random.default_rng(1))
    counts = np.bincount(trace.source, minlength=3) / len(trace)
    assert counts == pytest.approx([0.9, 0.1, 0], abs=0.03)
    assert (trace.span == 5).mean() == pytest.approx(0.75, abs=0.03)
    assert trace.age.mean() == pytest.approx(9.5, abs=1)
