"""Laws of every simulation, whatever the scenario."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.simulation.load import load_scenario
from carnac.simulation.report import describe_outcome
from carnac.simulation.run import Layout, Simulation
from carnac.simulation.scenario import Scenario

KINDS = st.fixed_dictionaries(
    {
        "granularity": st.sampled_from(["hour", "six_hour", "day"]),
        "count": st.integers(1, 3),
        "partitions": st.sampled_from([0.5, 1, 2.5]),
        "skew": st.sampled_from([0, 1]),
        "sizeMb": st.sampled_from([50, 400]),
        "load": st.builds(
            lambda replicas, days: [{"replicas": replicas, "days": days}],
            st.integers(1, 3),
            st.integers(1, 6),
        ),
    }
)
EVENTS = st.fixed_dictionaries(
    {
        "atHour": st.integers(-60, 40),
        "kind": st.sampled_from(["add", "fail", "replace", "decommission"]),
    }
)
STRATEGIES = st.sampled_from(["cost", "legacy", "random"])


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kinds: list[dict[str, Any]] = draw(st.lists(KINDS, min_size=1, max_size=2))
    return load_scenario(
        {
            "days": 2,
            "movesPerHour": draw(st.sampled_from([0, 7, 60])),
            "looksPerMove": draw(st.integers(1, 3)),
            "reloadsPerHour": draw(st.sampled_from([0, 5])),
            "history": {"days": 3, "strategy": draw(STRATEGIES), "movesPerHour": 20},
            "tiers": [{"servers": draw(st.integers(7, 12)), "diskGb": draw(st.sampled_from([5, 500]))}],
            "datasources": [{"name": f"d{n}", **kind} for n, kind in enumerate(kinds)],
            "queries": {"count": 25, "meanAgeHours": 20},
            "events": draw(st.lists(EVENTS, max_size=3)),
            "measureEveryHours": 8,
        }
    )  # fmt: skip


def layouts(scenario: Scenario, seed: int, strategy: Any) -> tuple[Layout, Layout]:
    outcome = Simulation(scenario, seed=seed).run((strategy,))
    return outcome.before, outcome.futures[0].after


@settings(max_examples=min(6, max(2, settings().max_examples // 8)))
@given(scenarios(), st.integers(0, 9), STRATEGIES)
def test_one_seed_gives_one_run(scenario: Scenario, seed: int, strategy: Any) -> None:
    first, second = (Simulation(scenario, seed=seed).run((strategy,)) for _ in range(2))
    assert describe_outcome(first) == describe_outcome(second)
    for one, other in (
        (first.before, second.before),
        (first.futures[0].after, second.futures[0].after),
    ):
        assert np.array_equal(one.server, other.server)
    assert all(
        np.array_equal(one, other)
        for one, other in zip(first.futures[0].film.frames, second.futures[0].film.frames, strict=True)
    )  # fmt: skip


@settings(max_examples=min(12, max(3, settings().max_examples // 4)))
@given(scenarios(), STRATEGIES)
def test_nothing_is_lost_doubled_or_put_where_it_must_not_be(
    scenario: Scenario, strategy: Any
) -> None:
    simulation = Simulation(scenario)
    outcome = simulation.run((strategy,))
    total_hours = scenario.total_hours
    for layout, now in (
        (outcome.before, scenario.history_hours),
        (outcome.futures[0].after, total_hours),
    ):
        due: dict[tuple[int, int], int] = {}
        for segment in range(len(outcome.segments)):
            source, end = int(outcome.segments.source[segment]), int(outcome.segments.end[segment])
            rule = scenario.datasources[outcome.segments.sources[source].group].load[0]
            if end <= now < end + rule.days * 24:
                key = (
                    source,
                    scenario.origin_ms + int(outcome.segments.start[segment]) * 3_600_000,
                )
                due[key] = due.get(key, 0) + rule.replicas
        held: dict[tuple[int, int], int] = {}
        for source, start in zip(layout.source.tolist(), layout.start_ms.tolist(), strict=True):
            held[source, start] = held.get((source, start), 0) + 1
        assert all(count <= due[key] for key, count in held.items())
        if now == total_hours:
            (tier,) = outcome.futures[0].measures[-1].tiers
            assert sum(due.values()) == sum(held.values()) + tier.unplaced
            assert tier.disk.most <= 1
            assert tier.servers >= 1


@settings(max_examples=min(12, max(3, settings().max_examples // 4)))
@given(scenarios(), STRATEGIES)
def test_no_query_beats_the_ideal_and_no_move_exceeds_the_throttle(
    scenario: Scenario, strategy: Any
) -> None:
    outcome = Simulation(scenario).run((strategy,))
    future = outcome.futures[0]
    for answers in (outcome.answers_before, future.answers):
        assert (answers.makespan >= answers.ideal).all()
        assert (answers.makespan <= answers.segments).all()
        assert (answers.used <= np.minimum(answers.segments, answers.servers)).all()
        assert (answers.makespan * answers.used >= answers.segments).all()
    for measure in future.measures:
        assert measure.moves <= measure.hour * scenario.moves_per_hour


@settings(max_examples=min(12, max(3, settings().max_examples // 4)))
@given(scenarios())
def test_copies_of_a_segment_are_on_different_servers(scenario: Scenario) -> None:
    simulation = Simulation(scenario)
    simulation.run(())
    for tier in simulation.tiers:
        held = tier.held
        rows = np.flatnonzero(held.server >= 0)
        pairs = np.stack([held.segment[rows], held.server[rows]], axis=1)
        assert len(np.unique(pairs, axis=0)) == len(pairs)
