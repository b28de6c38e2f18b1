"""From rules to replicas, drops and whole runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.coordination import CoordinatorPlan
from carnac.core.balancing.plan.limits import CoordinatorLimits, LoadLimits
from carnac.core.balancing.plan.replication import decide_replication
from carnac.core.balancing.plan.rules import (
    RuleSet,
    decide_rules,
    load_forever,
    parse_rules,
)
from carnac.core.balancing.plan.scoring import index_of
from tests.clusters import START_MS, cluster, held_by, hour, segment, server
from tests.support.laws.balancing import check_distinct
from tests.support.planned_clusters import finish_queues, queue_of, reasons_of, run_of


def rules(**replicas: int) -> RuleSet:
    """Return rules that load everything."""
    return RuleSet(default=(load_forever(replicas),))


def run(state: ClusterState, rule_set: RuleSet, **fields: object) -> CoordinatorPlan:
    plan = run_of(state, rule_set, **fields)  # type: ignore[arg-type]
    check_distinct(plan.after)
    return plan


def settle(state: ClusterState, rule_set: RuleSet, runs: int = 10) -> ClusterState:
    for _ in range(runs):
        state = finish_queues(run(state, rule_set).after)
    return state


def dropped(state: ClusterState, plan: CoordinatorPlan) -> set[tuple[str, str]]:
    pairs = zip(plan.drops.segment, plan.drops.server, strict=True)
    return {(state.segments.ids[one], state.servers[at].server_id) for one, at in pairs}


def test_every_tier_gets_its_replicas() -> None:
    servers = [server(f"h{n}", tier="hot") for n in range(3)] + [
        server("c0", tier="cold"),
        server("idle", tier="x"),
    ]
    state = cluster(servers, [segment(f"s{n}", n) for n in range(4)], {})
    plan = run(state, rules(hot=2, cold=1))
    assert reasons_of(plan.loads) == {Reason.FIRST_REPLICA: 8, Reason.FURTHER_REPLICA: 4}
    after = held_by(finish_queues(plan.after))
    assert after["c0"] == {"s0", "s1", "s2", "s3"}
    assert sum(len(after[f"h{n}"]) for n in range(3)) == 8
    assert after["idle"] == set()
    again = run(finish_queues(plan.after), rules(hot=2, cold=1))
    assert (len(again.loads), len(again.drops)) == (0, 0)


def test_a_tier_without_enough_servers_gets_as_many_as_it_has() -> None:
    servers = [server("x"), server("y"), server("z", decommissioning=True)]
    state = cluster(servers, [segment("s")], {})
    plan = run(state, RuleSet(default=(load_forever({"_default_tier": 5, "nowhere": 1}),)))
    assert len(plan.loads) == 2
    assert plan.skipped == {Reason.NO_SERVER: 4}


def test_what_is_queued_is_counted() -> None:
    state = cluster([server("x"), server("y")], [segment("s")], {}, loading={"x": ["s"]})
    assert queue_of(run(state, rules(_default_tier=1))) == []


def test_further_replicas_are_throttled_and_first_ones_are_not() -> None:
    segments = [segment(f"s{n}", n) for n in range(6)]
    state = cluster([server("x"), server("y")], segments, {"x": ["s0", "s1", "s2"]})
    limits = CoordinatorLimits(loads=LoadLimits(max_replicas=2))
    plan = run(state, rules(_default_tier=2), limits=limits)
    assert reasons_of(plan.loads) == {Reason.FIRST_REPLICA: 3, Reason.FURTHER_REPLICA: 2}
    assert plan.skipped == {Reason.THROTTLED: 4}
    further = [one.segment_id for one in queue_of(plan) if one.reason is Reason.FURTHER_REPLICA]
    assert further == ["s5", "s4"], "the newest first"
    busy = cluster(
        [server("x"), server("y")], segments[:2], {"x": ["s0", "s1"]}, loading={"y": ["s0"]}
    )
    one = CoordinatorLimits(loads=LoadLimits(max_replicas=1))
    assert len(run(busy, rules(_default_tier=2), limits=one).loads) == 0, "one is under way"


def test_surplus_goes_from_where_it_costs_most() -> None:
    segments = [segment("s", 0), *[segment(f"n{n}", n) for n in range(1, 6)]]
    near = [one.segment_id for one in segments[1:]]
    state = cluster(
        [server("x"), server("y"), server("z")],
        segments,
        {"x": ["s"], "y": ["s", *near], "z": ["s"]},
    )
    plan = run(state, rules(_default_tier=1))
    assert ("s", "y") in dropped(state, plan)
    assert len(plan.drops) == 2
    assert reasons_of(plan.drops) == {Reason.SURPLUS: 2}


def test_surplus_goes_from_queues_first_then_from_decommissioning_servers() -> None:
    servers = [server("x"), server("y", decommissioning=True), server("z")]
    state = cluster(servers, [segment("s")], {"x": ["s"], "y": ["s"]}, loading={"z": ["s"]})
    assert dropped(state, run(state, rules(_default_tier=2))) == {("s", "z")}
    plan = run(state, rules(_default_tier=1))
    assert dropped(state, plan) == {("s", "z"), ("s", "y")}
    held = dict(
        zip(plan.after.replicas.server.tolist(), plan.after.replicas.hold.tolist(), strict=True)
    )
    assert held == {0: Hold.LOADED, 1: Hold.LEAVING}, "what was only queued is gone at once"


def test_nothing_is_dropped_before_all_that_is_asked_for_is_served() -> None:
    servers = [server("x", tier="hot"), server("y", tier="cold")]
    state = cluster(servers, [segment("s")], {"x": ["s"]})
    plan = run(state, rules(cold=1))
    assert len(plan.drops) == 0
    assert plan.skipped == {Reason.LAST_COPY: 1}
    assert held_by(settle(state, rules(cold=1), 2)) == {"x": set(), "y": {"s"}}


def test_a_rule_without_replicas_serves_nothing_and_keeps_the_data() -> None:
    state = cluster([server("x")], [segment("s")], {"x": ["s"]})
    plan = run(state, rules())
    assert dropped(state, plan) == {("s", "x")}
    assert reasons_of(plan.drops) == {Reason.SURPLUS: 1}


def test_drop_rules_drop_everywhere() -> None:
    servers = [server("x"), server("y", tier="cold")]
    state = cluster(
        servers, [segment("s"), segment("t", 5)], {"x": ["s", "t"]}, loading={"y": ["s"]}
    )
    rule_set = RuleSet(
        by_datasource={"a": parse_rules([{"type": "dropByInterval", "interval": str(hour(0))}])},
        default=(load_forever({"_default_tier": 1}),),
    )
    plan = run(state, rule_set)
    assert dropped(state, plan) == {("s", "x"), ("s", "y")}
    assert reasons_of(plan.drops) == {Reason.DROP_RULE: 2}


def test_segments_that_are_not_used_are_dropped() -> None:
    state = cluster([server("x")], [segment("s"), segment("t")], {"x": ["s", "t"]})
    plan = run(state, rules(_default_tier=1), used=np.array([False, True]))
    assert dropped(state, plan) == {("s", "x")}
    assert reasons_of(plan.drops) == {Reason.UNUSED: 1}


def test_what_no_rule_matches_is_left_alone() -> None:
    state = cluster(
        [server("x"), server("y")], [segment("s"), segment("t")], {"x": ["s"], "y": ["s"]}
    )
    plan = run(state, RuleSet(default=()))
    assert (len(plan.loads), len(plan.drops)) == (0, 0)
    assert plan.skipped == {Reason.NO_RULE: 2}


def test_broadcast_goes_to_every_server_of_every_tier_that_has_room() -> None:
    servers = [
        server("x"),
        server("y", tier="cold"),
        server("z", 10),
        server("w", decommissioning=True),
    ]
    state = cluster(servers, [segment("s")], {"x": ["s"], "w": ["s"]})
    rule_set = RuleSet(default=parse_rules([{"type": "broadcastForever"}]))
    plan = run(state, rule_set)
    assert [(one.server_id, one.reason) for one in queue_of(plan)] == [
        ("w", Reason.SURPLUS),
        ("y", Reason.BROADCAST),
    ]
    assert plan.skipped == {Reason.NO_ROOM: 1}
    assert plan.moves.moves == ()


def test_the_queue_is_drops_first_replicas_further_ones_then_moves_newest_first() -> None:
    segments = [segment(f"s{n}", n) for n in range(12)]
    held = {"x": [f"s{n}" for n in range(10)], "y": ["s0"]}
    state = cluster([server("x"), server("y"), server("z")], segments, held)
    rule_set = RuleSet(
        default=parse_rules(
            [
                {"type": "dropByInterval", "interval": str(hour(1))},
                {"type": "loadByInterval", "interval": str(hour(9, 3)), "tieredReplicants": {"_default_tier": 2}},
                {"type": "loadForever", "tieredReplicants": {"_default_tier": 1}},
            ]
        )
    )  # fmt: skip
    queue = queue_of(run(state, rule_set))
    ranks = {
        Reason.SURPLUS: 0, Reason.DROP_RULE: 0, Reason.FIRST_REPLICA: 1, Reason.FURTHER_REPLICA: 2, Reason.SAVE: 3
    }  # fmt: skip
    keys = [(ranks[one.reason], -int(one.segment_id[1:])) for one in queue]
    assert keys == sorted(keys)
    assert {key for key, _ in keys} == {0, 1, 2, 3}


def test_a_decommissioning_server_is_emptied_by_runs() -> None:
    servers = [server("x", decommissioning=True), server("y"), server("z")]
    segments = [segment(f"s{n}", n) for n in range(8)]
    ids = [one.segment_id for one in segments]
    state = cluster(servers, segments, {"x": ids, "y": ids[:4]})
    after = held_by(settle(state, rules(_default_tier=2)))
    assert after["x"] == set()
    assert after["y"] == after["z"] == set(ids)


def test_runs_settle() -> None:
    segments = [segment(f"s{n}", n % 9, datasource="abc"[n % 3]) for n in range(40)]
    state = cluster(
        [server(f"h{n}") for n in range(4)],
        segments,
        {"h0": [one.segment_id for one in segments[:20]]},
    )
    state = settle(state, rules(_default_tier=2))
    plan = run(state, rules(_default_tier=2))
    assert (len(plan.loads), len(plan.drops), len(plan.moves.moves)) == (0, 0, 0)


def test_a_kept_index_stays_in_step() -> None:
    segments = [segment(f"s{n}", n, datasource="ab"[n % 2]) for n in range(12)]
    held = {"x": [f"s{n}" for n in range(12)], "y": ["s0", "s1"]}
    state = cluster([server("x"), server("y"), server("z")], segments, held)
    rule_set = RuleSet(
        by_datasource={
            "b": parse_rules([{"type": "broadcastByInterval", "interval": str(hour(0, 4))}])
        },
        default=(
            *parse_rules([{"type": "dropByInterval", "interval": str(hour(10, 2))}]),
            load_forever({"_default_tier": 1}),
        ),
    )
    index = index_of(state)
    for _ in range(3):
        plan = run(state, rule_set, index=index)
        assert index.totals().sum() == pytest.approx(index_of(plan.after).totals().sum(), rel=1e-9)
        state = finish_queues(plan.after)


def test_moves_see_the_loads_before_them() -> None:
    # y has room for two; the first replica takes one place, so one move is left.
    segments = [segment("old1", 0), segment("old2", 0), segment("old3", 0), segment("new", 50)]
    state = cluster([server("x", 300), server("y", 200)], segments, {"x": ["old1", "old2", "old3"]})
    plan = run(state, rules(_default_tier=1), limits=CoordinatorLimits(max_fill=1.0))
    assert len(plan.loads) == 1
    assert len(plan.moves.moves) == 1


def test_rules_by_age_move_data_from_tier_to_tier() -> None:
    hot = {"type": "loadByPeriod", "period": "PT6H", "tieredReplicants": {"hot": 1}}
    cold = {"type": "loadByPeriod", "period": "PT12H", "tieredReplicants": {"cold": 1}}
    rule_set = RuleSet(default=parse_rules([hot, cold, {"type": "dropForever"}]))
    state = cluster([server("h", tier="hot"), server("c", tier="cold")], [segment("s")], {})
    seen: list[Mapping[str, set[str]]] = []
    for hours in (1, 8, 20):
        state = replace(state, now_ms=START_MS + hours * 3_600_000)
        state = settle(state, rule_set, 2)
        seen.append(held_by(state))
    assert [sorted(name for name, ids in held.items() if ids) for held in seen] == [
        ["h"],
        ["c"],
        [],
    ]


def test_an_empty_cluster() -> None:
    plan = run(cluster([], [], {}), RuleSet())
    assert (len(plan.loads), len(plan.drops), plan.moves.moves, queue_of(plan)) == (0, 0, (), [])
    nobody = run(cluster([], [segment("s")], {}), RuleSet())
    assert nobody.skipped == {Reason.NO_SERVER: 2}


def test_replication_alone() -> None:
    state = cluster([server("x")], [segment("s")], {})
    matches = decide_rules(RuleSet(), state.segments, 0)
    every = np.ones(1, np.bool_)
    wanted = decide_replication(state, matches, LoadLimits(), used=every, index=index_of(state))
    assert wanted.requests.tiers == ("_default_tier",)
    assert len(wanted.requests) == 1
