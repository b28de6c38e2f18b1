"""Laws of plans: for any cluster, no plan breaks a constraint, and a cluster left alone settles."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.limits import LoadLimits, MoveLimits
from tests.clusters import clusters, naive_joint_cost, naive_total_cost
from tests.support.laws.balancing import (
    check_distinct,
    check_move_plan,
    check_no_return,
    check_placements,
    check_settled,
)
from tests.support.planned_clusters import (
    apply_moves,
    loads_of,
    moves_of,
    plan_rebalance,
    requests_for,
)

PERIOD_MS = 60_000
limits = st.builds(
    MoveLimits,
    max_moves=st.sampled_from([1, 3, 100]),
    max_queue=st.sampled_from([0, 0, 2]),
    min_saving=st.sampled_from([1e-6, 0.05]),
)


@given(clusters(), limits)
def test_no_move_breaks_a_constraint_and_evacuations_are_accounted_for(
    state: ClusterState, bounds: MoveLimits
) -> None:
    plan = moves_of(state, bounds)
    check_move_plan(state, plan)
    check_distinct(apply_moves(state, *plan.columns()))


@given(clusters(), st.data())
def test_no_load_breaks_a_constraint(state: ClusterState, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, max(0, len(state.segments) - 1)), max_size=20))
    tier = data.draw(st.sampled_from(["hot", "cold"]))
    queue = data.draw(st.sampled_from([0, 1, 3]))
    requests = requests_for(state, np.array(wanted[: 99 * len(state.segments)], np.int64), tier)
    plan = loads_of(state, requests, LoadLimits(max_queue=queue))
    check_placements(state, plan.segment, plan.server.astype(np.int64), [tier] * len(plan))
    assert len(plan) + sum(plan.skipped.values()) == len(requests)
    loading = state.replicas.server[state.replicas.hold == Hold.LOADING]
    queued = np.bincount(np.concatenate([loading, plan.server]), minlength=len(state.servers))
    assert not queue or (queued[plan.server] <= queue).all()


@given(clusters(), limits)
def test_each_move_saves_what_it_says(state: ClusterState, bounds: MoveLimits) -> None:
    plan = moves_of(state, bounds)
    assert plan.cost_before == pytest.approx(naive_total_cost(state), rel=1e-8, abs=1e-8)
    for n, move in enumerate(plan.moves):
        before, after = (_after(state, plan.columns(), count) for count in (n, n + 1))
        saved = naive_total_cost(before) - naive_total_cost(after)
        # A replica that was queued on a dying server is loaded elsewhere: it counts either way.
        assert move.saving == pytest.approx(saved, rel=1e-6, abs=1e-6)
        assert move.saving > 0 or move.reason is Reason.EVACUATE
    expected = naive_total_cost(_after(state, plan.columns(), len(plan.moves)))
    assert plan.cost_after == pytest.approx(expected, rel=1e-8, abs=1e-8)


def _after(state: ClusterState, columns: tuple[np.ndarray, ...], count: int) -> ClusterState:
    segment, source, target = (column[:count] for column in columns)
    return apply_moves(state, segment, source, target)


@given(clusters(), limits)
def test_a_cluster_that_is_left_alone_settles_and_nothing_goes_back(
    state: ClusterState, bounds: MoveLimits
) -> None:
    plans, history = [], []
    for _ in range(200):
        plan = moves_of(state, bounds)
        plans.append(plan)
        history += [
            (state.now_ms, move.segment, move.source, move.target, move.reason)
            for move in plan.moves
        ]
        state = replace(apply_moves(state, *plan.columns()), now_ms=state.now_ms + PERIOD_MS)
        if len(plans) > 3 and not any(plan.moves for plan in plans[-3:]):
            break
    check_settled(plans)
    check_no_return(history, bounds.return_window_ms)
    assert not plans[-1].moves


@given(clusters(max_segments=14))
def test_a_settled_cluster_has_no_move_that_is_worth_it(state: ClusterState) -> None:
    bounds = MoveLimits(max_moves=1000, max_queue=0, min_saving=0.05)
    state = plan_rebalance(state, bounds).cluster
    state = replace(state, departures=type(state.departures)())
    if moves_of(state, bounds).moves:  # only the window held something back
        return
    used, table = state.used_bytes(), state.segments
    keys = list(
        zip(table.datasource.tolist(), table.start_ms.tolist(), table.end_ms.tolist(), strict=True)
    )
    rows = list(
        zip(state.replicas.segment, state.replicas.server, state.replicas.hold, strict=True)
    )
    for one, source, hold in rows:
        if hold != Hold.LOADED or state.servers[source].decommissioning:
            continue
        here = _cost(keys, rows, one, source)
        for target, host in enumerate(state.servers):
            fits = used[target] + table.size_bytes[one] <= host.capacity_bytes
            holds = any(x == one and at == target for x, at, _ in rows)
            if host.tier != state.servers[source].tier or host.decommissioning or holds or not fits:
                continue
            saving = here - _cost(keys, rows, one, target)
            assert (
                saving <= bounds.min_saving * naive_joint_cost(keys[one], keys[one]) * 1.001 + 1e-9
            )


def _cost(
    keys: list[tuple[int, int, int]], rows: list[tuple[int, int, int]], one: int, at: int
) -> float:
    others = [x for x, server, hold in rows if server == at and x != one and hold < Hold.LEAVING]
    return sum(naive_joint_cost(keys[one], keys[x]) for x in others)
