"""What the simulator is for: the stories of source 2, on clusters small enough for a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from carnac.simulation.load import change_scenario, load_preset
from carnac.simulation.measures import measure_answers
from carnac.simulation.report import describe_outcome, faster_by
from carnac.simulation.run import Layout, Outcome, Simulation

DAY_MS = 86_400_000


def simulate(preset: str, strategies: tuple[Any, ...], **changes: Any) -> Outcome:
    return Simulation(change_scenario(load_preset(preset), changes), seed=3).run(strategies)


@pytest.fixture(scope="module")
def story() -> Outcome:
    return simulate("small", ("cost", "legacy", "random"))


def unevenness(layout: Layout, servers: int) -> float:
    """Return the mean over days of most over mean segments a server."""
    day = (layout.start_ms - layout.start_ms.min()) // DAY_MS
    counts = np.zeros((servers, int(day.max()) + 1))
    np.add.at(counts, (layout.server, day), 1)
    inner = counts[:, 1:-1]  # the first and the last day are not whole
    return float((inner.max(axis=0) / inner.mean(axis=0)).mean())


@pytest.mark.slow
def test_the_old_function_makes_clusters_and_the_new_one_dissolves_them(story: Outcome) -> None:
    assert unevenness(story.before, 24) > 4
    assert unevenness(story.futures[0].after, 24) < 1.6


@pytest.mark.slow
def test_only_the_step_in_the_gap_factor_makes_clusters() -> None:
    history = {"days": 45, "strategy": "legacy-linear", "movesPerHour": 10}
    changes: dict[str, Any] = {
        "days": 1,
        "events": [],
        "tiers": [{"servers": 8}],
        "datasources": [{"name": "a", "partitions": 4, "load": [{"days": 45}]}],
    }
    sloped = simulate("small", (), **changes, history=history)
    stepped = simulate("small", (), **changes, history={**history, "strategy": "legacy"})
    assert unevenness(sloped.before, 8) < 1.4
    assert unevenness(stepped.before, 8) > 2.5


@pytest.mark.slow
def test_cost_beats_legacy_and_random_on_the_trace(story: Outcome) -> None:
    cost, legacy, random = (measure_answers(future.answers) for future in story.futures)
    before = measure_answers(story.answers_before)
    assert cost.mean_ratio < random.mean_ratio < legacy.mean_ratio
    assert cost.mean_unused < random.mean_unused < legacy.mean_unused
    assert cost.mean_makespan < 1.3 * cost.mean_ideal
    assert faster_by(before, cost) > 0.3
    assert faster_by(before, random) < faster_by(before, cost)


@pytest.mark.slow
def test_the_total_cost_falls_under_cost_until_little_is_left_to_move(story: Outcome) -> None:
    measures = story.futures[0].measures
    totals = [measure.total_cost for measure in measures]
    assert totals[-1] < 0.55 * totals[0]
    moves = np.diff([measure.moves for measure in measures])
    assert moves[-1] < moves[0] / 2


@pytest.mark.slow
def test_a_replaced_server_fills_again_and_nothing_is_lost(story: Outcome) -> None:
    (change,) = story.changes
    after = story.futures[0].after
    counts = np.bincount(after.server, minlength=24)
    assert counts[change.servers[0]] > 0.9 * counts.mean()
    assert story.futures[0].measures[-1].reloads > 500
    assert all(tier.unplaced == 0 for m in story.futures[0].measures for tier in m.tiers)


@pytest.mark.slow
def test_lost_copies_come_back_no_faster_than_the_throttle_allows() -> None:
    outcome = simulate(
        "small", ("cost",), days=1, history={"days": 20}, reloadsPerHour=50, measureEveryHours=1,
        events=[{"atHour": 2, "kind": "fail"}],
    )  # fmt: skip
    waiting = [measure.tiers[0].unplaced for measure in outcome.futures[0].measures]
    assert waiting[:3] == [0, 0, 0]
    assert waiting[3] > 250
    assert waiting[4] <= waiting[3] - 50
    assert waiting[-1] == 0


@pytest.mark.slow
def test_decommissioning_servers_are_emptied_and_leave() -> None:
    outcome = simulate("tiers", ("cost",), days=5, history={"days": 11}, measureEveryHours=24)
    (cold,) = [tier for tier in outcome.futures[0].measures[-1].tiers if tier.name == "cold"]
    assert cold.servers == 9  # 8, and 2 added, and 1 decommissioned
    hot = outcome.futures[0].measures[-1].tiers[0]
    assert hot.servers == 11  # 10, and 2 added, and 1 lost


def test_a_full_tier_keeps_what_does_not_fit_waiting_and_says_so() -> None:
    tiers = [{"name": "main", "servers": 24, "diskGb": 50}]
    outcome = simulate("small", ("cost",), days=1, history={"days": 12}, tiers=tiers, events=[])
    last = outcome.futures[0].measures[-1].tiers[0]
    assert last.unplaced > 0
    assert last.disk.most <= 1


@pytest.mark.slow
def test_a_report_is_plain_values(story: Outcome) -> None:
    report = describe_outcome(story)
    assert report["seed"] == 3
    futures = report["futures"]
    assert isinstance(futures, list)
    assert [future["strategy"] for future in futures] == ["cost", "legacy", "random"]
    assert "sum of makespans" in str(report["speed_formula"])
