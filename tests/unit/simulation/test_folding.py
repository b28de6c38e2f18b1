from __future__ import annotations

import random
from dataclasses import replace

import pytest

from carnac.console.folding_chart import MOMENTS_MAX, draw_folding
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.log.commits import Commit, CommitKind
from carnac.core.time.intervals import MAX_MS
from carnac.errors import Invalid
from carnac.simulation.folding import (
    Arrival,
    FoldingOutcome,
    FoldingSimulation,
    Pace,
    arrivals_of,
    make_arrivals,
    repeated,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 20_000 * DAY_MS
HOURLY = CompactionSettings(
    target=CompactionTarget(target_bytes=500 << 20, segment_granularity="HOUR")
)


def simulate(days: float = 0.5, size_bytes: int = 2 << 20, **more: object) -> FoldingOutcome:
    how = {"capacity": Capacity(tasks=2), "pace": Pace(), **more}
    arrivals = make_arrivals(
        start_ms=START_MS,
        days=days,
        every_ms=60_000,
        size_bytes=size_bytes,
        rows=1000,
        late_share=0.3,
        lateness_ms=5 * DAY_MS,
        rng=random.Random(1),
    )
    simulation = FoldingSimulation(HOURLY, **how)  # type: ignore[arg-type]
    return simulation.run(arrivals, until_ms=START_MS + round((days + 0.1) * DAY_MS))


def test_with_room_enough_all_is_stable_at_the_end_and_never_far_from_it() -> None:
    outcome = simulate()
    last = outcome.moments[-1]
    assert outcome.settled_at_ms is not None
    assert outcome.conflicts == 0
    assert max(one.surplus_max for one in outcome.moments) <= 2
    assert (last.waiting, last.running, last.deferred) == (0, 0, 0)
    assert last.write_amplification <= HOURLY.write_amplification_max
    latencies = [one.latency_ms for one in outcome.moments if one.latency_ms is not None]
    assert 0 < min(latencies) <= max(latencies) < DAY_MS


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(0.2) == simulate(0.2)


def test_more_than_can_be_done_is_shed_and_the_queue_keeps_its_maximum() -> None:
    outcome = simulate(
        1.0,
        size_bytes=100 << 20,
        capacity=Capacity(tasks=1, queue_max=3),
        pace=Pace(bytes_per_s=1 << 20),
    )
    assert all(one.waiting <= 3 for one in outcome.moments)
    assert any(one.deferred for one in outcome.moments)
    assert outcome.settled_at_ms is None
    assert outcome.groups > 0, "what is worth most is done all the same"


def test_arrivals_come_from_the_log_and_again() -> None:
    with pytest.raises(Invalid, match="no arrivals of clicks"):
        arrivals_of([Commit(revision=1, kind=CommitKind.APPEND, at_ms=0)], "clicks")
    day = [Arrival(at_ms=h * HOUR_MS, time_ms=0, size_bytes=1, rows=1) for h in range(3)]
    found = list(repeated(day, 2.05))
    assert [one.at_ms // HOUR_MS for one in found] == [0, 1, 2, 24, 25, 26, 48, 49]
    assert found[3].time_ms == DAY_MS
    never = Arrival(at_ms=0, time_ms=MAX_MS - 1, size_bytes=1, rows=1)
    assert {one.time_ms for one in repeated([never], 3)} == {MAX_MS - 1}, "no later time is there"


def test_the_chart_keeps_the_last_moment_and_not_too_many() -> None:
    moments = [simulate(0.05).moments[-1]]
    many = [replace(moments[0], at_ms=START_MS + n * HOUR_MS) for n in range(1, 1000)]
    chart = draw_folding(many, title="t", subtitle="s")
    panels = chart["vconcat"]
    assert isinstance(panels, list)
    assert len(panels) == 4
    values = [one for one in panels[0]["data"]["values"] if one["line"] == "waiting"]
    assert len(values) <= MOMENTS_MAX + 1
    assert values[-1]["day"] == pytest.approx(999 / 24, abs=0.001)


@pytest.mark.parametrize(
    ("waiting", "scale", "ticks"), [(0, {"domain": [0, 1]}, [0, 1]), (3, {}, [0, 1, 2, 3])]
)
def test_a_panel_stands_on_zero_also_where_nothing_is_above_it(
    waiting: int, scale: dict[str, object], ticks: list[int]
) -> None:
    one = replace(simulate(0.05).moments[-1], waiting=waiting, running=0, deferred=0)
    panels = draw_folding([one], title="t", subtitle="s")["vconcat"]
    assert isinstance(panels, list)
    axis = panels[0]["encoding"]["y"]
    assert (axis["scale"], axis["axis"]["values"]) == (scale, ticks)
