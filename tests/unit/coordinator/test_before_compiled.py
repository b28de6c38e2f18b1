"""A coordinator whose planner is not compiled yet takes what is new all the same; nothing waits for the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.core.balancing.cost import field, grouping
from carnac.core.balancing.live.picture import LiveSegment, ServerView
from carnac.core.balancing.live.planning import ClusterFacts, plan_cluster
from carnac.core.balancing.live.readiness import compile_all, plan_by_room
from carnac.core.balancing.plan import rebalancing, scoring
from carnac.core.balancing.plan.rules import RuleSet
from carnac.core.time.intervals import Interval
from tests.clusters_live import live_cluster

HOUR_MS = 3_600_000
PLAN_BY_ROOM = """
from tests.unit.coordinator.test_before_compiled import facts
from carnac.core.balancing.live.readiness import plan_by_room
print(len(plan_by_room(facts(segments=9))))
"""


def facts(*, segments: int, capacities: tuple[int, ...] = (1_000, 1_000, 1_000)) -> ClusterFacts:
    """Segments of ten bytes, each of an hour, and empty servers."""
    live = [
        LiveSegment(
            segment_id=f"s{number}",
            datasource=f"d{number % 2}",
            chunk=Interval(number * HOUR_MS, (number + 1) * HOUR_MS),
            partition=0,
            size_bytes=10,
        )
        for number in range(segments)
    ]
    servers = [
        ServerView(server_id=f"h{number}", tier="_default_tier", capacity_bytes=capacity)
        for number, capacity in enumerate(capacities)
    ]
    return ClusterFacts(live=live, servers=servers, rules=RuleSet(), now_ms=segments * HOUR_MS)


def test_what_is_published_is_loaded_and_told_before_the_planner_is_compiled() -> None:
    with live_cluster("h1", "h2", "h3") as cluster:
        planner = cluster.coordinator.planner
        planner.is_ready = lambda: False
        cluster.publish("e1", "e2", "e3")
        cluster.settle()
        told = cluster.publish("e4")
        cluster.settle()
        assert planner.last is None
        assert cluster.told == told
        assert {name: len(where) for name, where in cluster.copies().items()} == {
            "e1": 2, "e2": 2, "e3": 2, "e4": 2,
        }  # fmt: skip
        cluster.join("h4")
        cluster.kill("h1")
        cluster.settle()
        planner.is_ready = lambda: True
        cluster.settle()
        assert planner.last is not None
        assert all(len(where) == 2 for where in cluster.copies().values())


def test_a_revision_does_not_wait_for_what_has_no_place_before_the_planner_is_compiled() -> None:
    with live_cluster() as cluster:
        cluster.join("h1", capacity_bytes=15)
        cluster.coordinator.planner.is_ready = lambda: False
        cluster.publish("e1")
        cluster.settle()
        told = cluster.publish("e2", "e3")
        cluster.settle()
        assert cluster.told == told
        assert cluster.coordinator.planner.memory.unplaced


def test_by_room_the_emptiest_server_is_next_and_no_disk_is_filled_up() -> None:
    placed = plan_by_room(facts(segments=20, capacities=(100, 400, 0)))
    homes = [server_id for _, server_id, _ in placed]
    assert len({(segment_id, server_id) for segment_id, server_id, _ in placed}) == len(placed)
    assert homes.count("h0") <= 9  # of 95 bytes
    assert homes.count("h1") == 20
    assert "h2" not in homes


@pytest.mark.slow
def test_by_room_nothing_is_compiled(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PLAN_BY_ROOM],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "18\n"
    assert not list(tmp_path.rglob("*.nb?"))


def test_after_it_was_compiled_no_run_compiles_anything() -> None:
    compile_all()
    before = _signatures()
    assert before
    given = facts(segments=50)
    ids = [one.segment_id for one in given.live]
    held = [
        ServerView(
            server_id="a", tier="_default_tier", capacity_bytes=1_000, loaded=frozenset(ids)
        ),
        ServerView(
            server_id="b", tier="_default_tier", capacity_bytes=1_000, loading=tuple(ids[:5])
        ),
        ServerView(server_id="c", tier="hot", capacity_bytes=1_000, is_decommissioning=True),
    ]
    plan_cluster(given)
    plan = plan_cluster(
        ClusterFacts(live=given.live, servers=held, rules=given.rules, now_ms=given.now_ms)
    )
    assert plan.loads
    assert _signatures() == before


def _signatures() -> dict[str, int]:
    """How many versions of each function were compiled or read from the cache."""
    return {
        f"{module.__name__}.{name}": len(found.signatures)
        for module in (field, grouping, scoring, rebalancing)
        for name, found in vars(module).items()
        if hasattr(found, "signatures")
    }
