"""Plans of moves: what is moved, what is not, and what the plan says about itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Departures
from carnac.core.balancing.plan.limits import MoveLimits
from carnac.core.balancing.plan.moves import plan_moves
from carnac.core.balancing.plan.scoring import index_of
from carnac.errors import InvariantError
from tests.clusters import START_MS, cluster, counts_by_server, naive_total_cost, segment, server
from tests.support.laws.balancing import check_move_plan, check_settled
from tests.support.planned_clusters import PERIOD_MS, apply_moves, moves_of, plan_rebalance

LIMITS = MoveLimits(max_moves=1000, max_queue=0)


def lopsided(count: int = 24, *, servers: int = 3, **fields: object) -> ClusterState:
    """All segments on the first server."""
    segments = [segment(f"s{n}", n) for n in range(count)]
    hosts = [server(f"h{n}", **fields) for n in range(servers)]  # type: ignore[arg-type]
    return cluster(hosts, segments, {"h0": [one.segment_id for one in segments]})


def test_a_lopsided_cluster_is_evened_out_and_settles() -> None:
    done = plan_rebalance(lopsided(), LIMITS)
    assert counts_by_server(done.cluster) == [8, 8, 8]
    assert done.settled
    assert done.moves == 16
    assert done.cost_before == pytest.approx(naive_total_cost(lopsided()))
    assert done.cost_after == pytest.approx(naive_total_cost(done.cluster))


def test_what_has_settled_stays_for_a_hundred_runs() -> None:
    state = plan_rebalance(lopsided(40, servers=5), LIMITS).cluster
    plans = [moves_of(replace(state, now_ms=START_MS + n * PERIOD_MS), LIMITS) for n in range(100)]
    check_settled(plans)
    assert [len(plan.moves) for plan in plans] == [0] * 100


def test_neighbours_in_time_end_up_on_different_servers() -> None:
    state = plan_rebalance(lopsided(), LIMITS).cluster
    order = np.argsort(state.segments.start_ms[state.replicas.segment])
    at = state.replicas.server[order]
    assert np.mean(at[1:] != at[:-1]) > 0.8, "by chance it would be two thirds"


def test_what_helps_most_is_moved_first() -> None:
    # Two clumps on one server: three of one hour, two of another. The first move takes one of the three.
    segments = [
        *[segment(f"x{n}", 0, partition=n) for n in range(3)],
        segment("y0", 5000),
        segment("y1", 5000),
    ]
    state = cluster(
        [server("h0"), server("h1")], segments, {"h0": [one.segment_id for one in segments]}
    )
    plan = moves_of(state, replace(LIMITS, max_moves=1))
    assert [move.segment_id[0] for move in plan.moves] == ["x"]
    assert str(plan.moves[0]).startswith(f"{plan.moves[0].segment_id} from h0 to h1: saves ")


def test_the_plan_counts_bytes_and_cost() -> None:
    state = lopsided(4, servers=2)
    plan = moves_of(state, LIMITS)
    after = apply_moves(state, *plan.columns())
    assert len(plan.moves) == 2
    assert sum(move.size_bytes for move in plan.moves) == 200
    assert plan.cost_before == pytest.approx(naive_total_cost(state))
    assert plan.cost_after == pytest.approx(naive_total_cost(after))
    assert plan.cost_after < plan.cost_before


def test_a_rebalance_takes_a_period_a_run() -> None:
    done = plan_rebalance(lopsided(), replace(LIMITS, max_moves=4))
    assert done.runs >= 4
    assert done.cluster.now_ms == lopsided().now_ms + done.runs * 60_000
    assert done.size_bytes == done.moves * 100
    cut = plan_rebalance(lopsided(), replace(LIMITS, max_moves=4), max_runs=1)
    assert (cut.runs, cut.moves, cut.settled) == (1, 4, False)


def test_small_savings_are_not_worth_a_move() -> None:
    segments = [
        segment("a", 0),
        segment("b", 400, datasource="b"),
    ]  # 400 hours apart: they cost next to nothing
    state = cluster([server("x"), server("y")], segments, {"x": ["a", "b"]})
    assert moves_of(state, LIMITS).moves == ()
    eager = moves_of(state, replace(LIMITS, min_saving=1e-9))
    assert len(eager.moves) == 1


def test_full_disks_take_nothing_and_the_space_of_a_move_is_not_given_away_before_it_is_done() -> (
    None
):
    state = lopsided(6, servers=2)
    full = replace(state, servers=(state.servers[0], replace(state.servers[1], capacity_bytes=100)))
    plan = moves_of(full, LIMITS)
    assert len(plan.moves) == 1
    check_move_plan(full, plan)
    swap = [
        segment("a0", 0, partition=0),
        segment("a1", 0, partition=1),
        segment("b0", 900),
        segment("b1", 900),
    ]
    state = cluster(
        [server("x", 200), server("y", 200)], swap, {"x": ["a0", "a1"], "y": ["b0", "b1"]}
    )
    assert moves_of(state, LIMITS).moves == ()


def test_replicas_never_meet() -> None:
    segments = [segment(f"s{n}", n) for n in range(6)]
    ids = [one.segment_id for one in segments]
    state = cluster([server("x"), server("y"), server("z")], segments, {"x": ids, "y": ids})
    plan = moves_of(state, LIMITS)
    assert {move.target_id for move in plan.moves} == {"z"}
    assert len({move.segment for move in plan.moves}) == len(plan.moves) == 4
    check_move_plan(state, plan)


def test_tiers_do_not_mix() -> None:
    segments = [segment(f"s{n}", n) for n in range(6)]
    servers = [server("x", tier="hot"), server("y", tier="cold"), server("z", tier="hot")]
    state = cluster(servers, segments, {"x": [one.segment_id for one in segments]})
    plan = moves_of(state, replace(LIMITS, max_moves=2))
    assert [move.target_id for move in plan.moves] == ["z", "z"]


def test_only_what_is_loaded_and_stays_is_moved() -> None:
    segments = [segment(f"s{n}", n) for n in range(6)]
    ids = [one.segment_id for one in segments]
    state = cluster(
        [server("x"), server("y")], segments, {}, loading={"x": ids[:3]}, leaving={"x": ids[3:]}
    )
    assert moves_of(state, LIMITS).moves == ()


def test_moves_under_way_count_towards_the_limit() -> None:
    segments = [segment(f"s{n}", n) for n in range(9)]
    ids = [one.segment_id for one in segments]
    state = cluster(
        [server("x"), server("y")], segments, {"x": ids[:7]}, loading={"y": ids[7:]}, leaving={"x": ids[7:]}
    )  # fmt: skip
    assert len(moves_of(state, replace(LIMITS, max_moves=3)).moves) == 1
    assert moves_of(state, replace(LIMITS, max_moves=2)).moves == ()


def test_broadcast_segments_stay() -> None:
    state = lopsided(6, servers=2)
    everywhere = replace(state, broadcast=np.ones(6, np.bool_))
    assert moves_of(everywhere, LIMITS).moves == ()


def test_a_decommissioning_server_is_emptied_newest_first() -> None:
    state = lopsided(9)
    dying = replace(
        state, servers=(replace(state.servers[0], decommissioning=True), *state.servers[1:])
    )
    plan = moves_of(dying, replace(LIMITS, max_moves=4))
    assert [move.segment_id for move in plan.moves] == ["s8", "s7", "s6", "s5"]
    assert {move.reason for move in plan.moves} == {Reason.EVACUATE}
    assert plan.skipped[Reason.THROTTLED] == 5
    assert plan.blockers == ()
    assert str(plan.moves[0]).endswith("h0 is decommissioning")
    done = plan_rebalance(dying, LIMITS)
    assert counts_by_server(done.cluster)[0] == 0


@pytest.mark.parametrize(
    ("servers", "held", "limits", "reason"),
    [
        ([server("x", decommissioning=True)], {"x": ["s"]}, LIMITS, Reason.NO_SERVER),
        ([server("x", decommissioning=True), server("y", tier="other")], {"x": ["s"]}, LIMITS, Reason.NO_SERVER),
        ([server("x", decommissioning=True), server("y", 99)], {"x": ["s"]}, LIMITS, Reason.NO_ROOM),
        ([server("x", decommissioning=True), server("y")], {"x": ["s"], "y": ["s"]}, LIMITS, Reason.ALL_HOLD_IT),
    ],
)  # fmt: skip
def test_what_keeps_a_decommissioning_server_is_named(
    servers: list[object], held: dict[str, list[str]], limits: MoveLimits, reason: Reason
) -> None:
    state = cluster(servers, [segment("s")], held)  # type: ignore[arg-type]
    plan = moves_of(state, limits)
    assert [(blocker.server_id, blocker.reason, blocker.segments) for blocker in plan.blockers] == [
        ("x", reason, 1)
    ]
    assert str(plan.blockers[0]) == f"x keeps 1 segment (100 bytes), such as s: {reason}"
    check_move_plan(state, plan)


def test_full_queues_are_named_too() -> None:
    servers = [server("x", decommissioning=True), server("y")]
    state = cluster(servers, [segment("s"), segment("t", 9)], {"x": ["s"]}, loading={"y": ["t"]})
    plan = moves_of(state, replace(LIMITS, max_queue=1))
    assert plan.blockers[0].reason is Reason.QUEUE_FULL


def test_nothing_goes_back_within_the_window() -> None:
    state = lopsided(2, servers=2)
    held_back, free = {Reason.CAME_FROM: 2}, {Reason.TOO_LITTLE: 1}
    for age_ms, moves, skipped in ((0, 0, held_back), (999, 0, held_back), (1000, 1, free)):
        left = Departures().plus(np.array([0, 1]), np.array([1, 1], np.int32), START_MS - age_ms)
        plan = moves_of(replace(state, departures=left), replace(LIMITS, return_window_ms=1000))
        assert (len(plan.moves), plan.skipped) == (moves, skipped)


def test_a_server_that_is_to_end_is_emptied_to_where_segments_came_from_of_late() -> None:
    def emptied(*names: str) -> list[str]:
        servers = [server("x", decommissioning=True), *map(server, names)]
        state = cluster(servers, [segment("s")], {"x": ["s"]})
        left = Departures().plus(np.array([0]), np.array([1], np.int32), START_MS)
        state = replace(state, departures=left)
        plan = moves_of(state, LIMITS)
        check_move_plan(state, plan)
        assert not plan.blockers
        return [move.target_id for move in plan.moves]

    assert emptied("y") == ["y"]
    assert emptied("y", "z") == ["z"], "it left y a short while ago, and z takes it as well"


def test_a_server_that_joins_gets_its_share_of_the_newest_day() -> None:
    segments = [segment(f"s{n}", n // 5, partition=n % 5) for n in range(24 * 20)]
    ids = [one.segment_id for one in segments]
    before = plan_rebalance(
        cluster([server(f"h{n}") for n in range(4)], segments, {"h0": ids}), LIMITS
    )
    joined = replace(before.cluster, servers=(*before.cluster.servers, server("new")))
    after = plan_rebalance(joined, LIMITS).cluster
    newest = after.segments.start_ms[after.replicas.segment] >= START_MS + (24 * 4 - 24) * 3_600_000
    counts = np.bincount(after.replicas.server[newest], minlength=5)
    assert counts[4] <= 1.2 * newest.sum() / 5
    assert counts_by_server(after)[4] >= 0.8 * len(segments) / 5


def test_a_dead_server_is_just_not_there() -> None:
    state = lopsided(6)
    dead = replace(state, servers=state.servers[:2])
    assert counts_by_server(plan_rebalance(dead, LIMITS).cluster) == [3, 3]


def test_an_index_that_is_kept_gives_the_same_plans() -> None:
    state = lopsided(30)
    index = index_of(state)
    for _ in range(4):
        limits = replace(LIMITS, max_moves=5)
        plan, kept = moves_of(state, limits), plan_moves(state, limits, index=index)
        chosen = [(move.segment, move.source, move.target) for move in plan.moves]
        assert [(move.segment, move.source, move.target) for move in kept.moves] == chosen
        assert kept.cost_before == pytest.approx(plan.cost_before, rel=1e-12)
        state = apply_moves(state, *plan.columns())
    assert index.totals().sum() == pytest.approx(naive_total_cost(state), rel=1e-9)


def test_the_law_of_settling_can_fail() -> None:
    busy, idle = moves_of(lopsided(), LIMITS), moves_of(lopsided(0), LIMITS)
    check_settled([busy, idle, idle])
    with pytest.raises(InvariantError, match="BL-1"):
        check_settled([busy, idle, busy])
