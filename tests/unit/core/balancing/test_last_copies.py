"""What is leaving, waiting, or would fill a disk: decided from what is true when the run begins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.coordination import CoordinatorPlan
from carnac.core.balancing.plan.limits import CoordinatorLimits, LoadLimits, MoveLimits
from carnac.core.balancing.plan.rules import RuleSet, decide_rules, load_forever, parse_rules
from carnac.core.balancing.plan.scoring import index_of
from carnac.errors import Invalid
from tests.clusters import cluster, hour, segment, server
from tests.support.laws.balancing import check_distinct, check_last_copies
from tests.support.planned_clusters import queue_of, reasons_of, run_of

ONE = RuleSet(default=(load_forever({"_default_tier": 1}),))
TWO = RuleSet(default=(load_forever({"_default_tier": 2}),))
BROADCAST = RuleSet(default=parse_rules([{"type": "broadcastForever"}]))
STILL = CoordinatorLimits(moves=MoveLimits(max_moves=0))
SIX = [segment(f"s{n}", n) for n in range(6)]
IDS = [one.segment_id for one in SIX]


def run(state: ClusterState, rules: RuleSet = ONE, **fields: object) -> CoordinatorPlan:
    plan = run_of(state, rules, **{"limits": STILL} | fields)  # type: ignore[arg-type]
    check_distinct(plan.after)
    matches = decide_rules(rules, state.segments, state.now_ms)
    check_last_copies(state, plan.drops, matches, fields.get("used"))  # type: ignore[arg-type]
    return plan


def drops(plan: CoordinatorPlan) -> list[tuple[str, str, str]]:
    """(server, segment, reason) of each drop, sorted."""
    return sorted(
        (one.server_id, one.segment_id, str(one.reason))
        for one in queue_of(plan)
        if one.reason in (Reason.SURPLUS, Reason.DROP_RULE, Reason.UNUSED, Reason.CANCELLED)
    )


def holds(state: ClusterState) -> dict[tuple[str, str], Hold]:
    rows = zip(state.replicas.segment, state.replicas.server, state.replicas.hold, strict=True)
    return {
        (state.servers[at].server_id, state.segments.ids[one]): Hold(hold) for one, at, hold in rows
    }


def without(state: ClusterState, name: str) -> ClusterState:
    """The cluster after a server died."""
    dead = [host.server_id for host in state.servers].index(name)
    kept = state.replicas.where(state.replicas.server != dead)
    renumbered = kept.server - (kept.server > dead).astype(np.int32)
    return replace(
        state,
        servers=(*state.servers[:dead], *state.servers[dead + 1 :]),
        replicas=replace(kept, server=renumbered),
        departures=type(state.departures)(),
    )


def test_ten_segments_stay_ten_when_the_target_of_moves_dies() -> None:
    segments = [segment(f"s{n}", n) for n in range(10)]
    ids = [one.segment_id for one in segments]
    state = cluster([server("h1"), server("h2")], segments, {"h1": ids})
    moving = run(state, limits=CoordinatorLimits()).after
    assert (moving.replicas.hold == Hold.LEAVING).sum() == 5
    plan = run(without(moving, "h2"), limits=CoordinatorLimits())
    assert drops(plan) == []
    assert holds(plan.after) == {("h1", one): Hold.LOADED for one in ids}


def test_a_replica_that_leaves_is_due_when_its_copy_is_loaded_and_not_before() -> None:
    hosts = [server("x"), server("y")]
    on_its_way = cluster(hosts, SIX[:1], {}, loading={"y": ["s0"]}, leaving={"x": ["s0"]})
    assert drops(run(on_its_way)) == []
    assert holds(run(on_its_way).after)["x", "s0"] is Hold.LEAVING
    there = cluster(hosts, SIX[:1], {"y": ["s0"]}, leaving={"x": ["s0"]})
    assert drops(run(there)) == [("x", "s0", "surplus")]
    assert drops(run(run(there).after)) == [("x", "s0", "surplus")], "named until it is gone"


def test_a_load_that_failed_brings_its_source_back() -> None:
    state = cluster([server("x"), server("y")], SIX[:1], {}, leaving={"x": ["s0"]})
    index = index_of(state)
    plan = run(state, index=index)
    assert holds(plan.after) == {("x", "s0"): Hold.LOADED}
    assert index.totals().sum() == pytest.approx(index_of(plan.after).totals().sum())


def test_what_failed_or_was_told_to_go_is_no_copy_and_keeps_its_room() -> None:
    hosts = [server("x", 100), server("y")]
    state = cluster(hosts, SIX[:2], {}, blocked={"x": ["s0"]})
    plan = run(state, limits=replace(STILL, max_fill=1.0))
    assert sorted((one.segment_id, one.server_id) for one in queue_of(plan)) == [
        ("s0", "y"),
        ("s1", "y"),
    ]
    assert reasons_of(plan.loads) == {Reason.FIRST_REPLICA: 2}
    assert holds(plan.after)["x", "s0"] is Hold.BLOCKED
    plan = run(state, used=np.array([False, True]))
    assert drops(plan) == [("x", "s0", "unused")]


def test_of_replicas_that_leave_those_come_back_whose_servers_stay() -> None:
    hosts = [server("x", decommissioning=True), server("y"), server("z")]
    state = cluster(hosts, SIX[:1], {}, leaving={"x": ["s0"], "y": ["s0"], "z": ["s0"]})
    after = run(state).after
    assert holds(after)["y", "s0"] is Hold.LOADED
    assert drops(run(state)) == [("x", "s0", "surplus"), ("z", "s0", "surplus")]


def test_two_replicas_lack_one_when_the_other_server_dies() -> None:
    hosts = [server("x"), server("y")]
    state = cluster(hosts, SIX[:1], {"y": ["s0"]}, leaving={"x": ["s0"]})
    assert holds(run(state, TWO).after) == {("x", "s0"): Hold.LOADED, ("y", "s0"): Hold.LOADED}


def test_the_only_server_keeps_what_it_has_while_it_is_decommissioning() -> None:
    state = cluster([server("x", decommissioning=True)], SIX[:1], {"x": ["s0"]})
    plan = run(state)
    assert drops(plan) == []
    assert plan.skipped[Reason.LAST_COPY] == 1
    leaving = cluster([server("x", decommissioning=True)], SIX[:1], {}, leaving={"x": ["s0"]})
    assert drops(run(leaving)) == []


def test_a_broadcast_segment_stays_on_the_last_server_that_has_it() -> None:
    hosts = [server("x", decommissioning=True), server("y")]
    state = cluster(hosts, SIX[:1], {"x": ["s0"]})
    assert drops(run(state, BROADCAST)) == []
    assert drops(run(cluster(hosts, SIX[:1], {"x": ["s0"], "y": ["s0"]}), BROADCAST)) == [
        ("x", "s0", "surplus")
    ]
    leaving = cluster(hosts, SIX[:1], {}, leaving={"y": ["s0"]})
    assert holds(run(leaving, BROADCAST).after) == {("y", "s0"): Hold.LOADED}


def test_what_no_rule_matches_is_served_again_if_nobody_else_has_it() -> None:
    state = cluster([server("x"), server("y")], SIX[:1], {}, leaving={"x": ["s0"]})
    plan = run(state, RuleSet(default=()))
    assert (drops(plan), holds(plan.after)) == ([], {("x", "s0"): Hold.LOADED})


def test_what_is_dropped_by_a_rule_is_not_served_again() -> None:
    state = cluster([server("x")], SIX[:2], {}, leaving={"x": ["s0", "s1"]})
    rules = RuleSet(
        by_datasource={"a": parse_rules([{"type": "dropByInterval", "interval": str(hour(0))}])},
        default=ONE.default,
    )
    plan = run(state, rules, used=np.array([True, False]))
    assert drops(plan) == [("x", "s0", "drop_rule"), ("x", "s1", "unused")]


def test_loads_that_wait_go_to_a_server_that_joins() -> None:
    segments = [
        segment(f"s{n}", n * 1000) for n in range(12)
    ]  # far apart: none costs another anything
    ids = [one.segment_id for one in segments]
    limits = replace(STILL, loads=LoadLimits(begun=2))
    alone = run(cluster([server("x")], segments, {}), limits=limits)
    assert len(alone.loads) == 12
    joined = replace(alone.after, servers=(*alone.after.servers, server("y")))
    index = index_of(joined)
    plan = run(joined, limits=limits, index=index)
    sent = sorted(one.segment_id for one in queue_of(plan) if one.reason is Reason.REROUTE)
    assert sent == sorted(ids[:4]), "the last in the queue, until it is no longer twice as long"
    assert drops(plan) == [("x", one, "cancelled") for one in sent]
    assert index.totals().sum() == pytest.approx(index_of(plan.after).totals().sum())
    again = run(plan.after, limits=limits)
    assert (len(again.loads), len(again.drops)) == (0, 0)


def test_loads_that_may_have_begun_stay() -> None:
    segments = [segment(f"s{n}", n * 1000) for n in range(4)]
    ids = [one.segment_id for one in segments]
    state = cluster([server("x"), server("y")], segments, {}, loading={"x": ids})
    limits = replace(STILL, loads=LoadLimits(begun=4))
    assert len(run(state, limits=limits).loads) == 0


def test_loads_stay_in_their_tier() -> None:
    state = cluster([server("x"), server("y", tier="cold")], SIX, {}, loading={"x": IDS})
    assert len(run(state, limits=replace(STILL, loads=LoadLimits(begun=0))).loads) == 0


def test_a_load_on_a_decommissioning_server_is_cancelled_and_loaded_elsewhere() -> None:
    hosts = [server("x", decommissioning=True), server("y")]
    plan = run(cluster(hosts, SIX[:1], {}, loading={"x": ["s0"]}), limits=CoordinatorLimits())
    assert [(move.source_id, move.target_id) for move in plan.moves.moves] == [("x", "y")]
    assert drops(plan) == [("x", "s0", "cancelled")]
    assert holds(plan.after) == {("y", "s0"): Hold.LOADING}


def test_a_server_that_is_nearly_full_gets_nothing() -> None:
    hosts = [server("x", 1000), server("y", 2000)]
    segments = [segment(f"s{n}", n, size_bytes=90) for n in range(11)]
    full = [one.segment_id for one in segments[:10]]
    state = cluster(hosts, segments, {"x": full})
    plan = run(state)
    assert [(one.segment_id, one.server_id) for one in queue_of(plan)] == [("s10", "y")]
    assert [host.capacity_bytes for host in plan.after.servers] == [1000, 2000]
    assert len(run(cluster(hosts[:1], segments, {"x": full})).loads) == 0
    plan = run(cluster(hosts[:1], segments, {"x": full}), limits=replace(STILL, max_fill=1.0))
    assert len(plan.loads) == 1


@pytest.mark.parametrize("share", [0.0, 1.01, -1.0])
def test_a_share_of_a_disk_is_a_share(share: float) -> None:
    with pytest.raises(Invalid, match="max_fill"):
        CoordinatorLimits(max_fill=share)
