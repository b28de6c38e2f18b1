"""Where loads go, in which order, and why some go nowhere."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import DEFAULT_TIER, ClusterState
from carnac.core.balancing.plan.limits import LoadLimits
from carnac.core.balancing.plan.loads import LoadRequests, plan_loads
from carnac.core.balancing.plan.plans import CODES, REASONS, QueuePlan
from carnac.core.balancing.plan.scoring import index_of
from tests.clusters import cluster, segment, server
from tests.support.planned_clusters import loads_of, reasons_of, requests_for


def load_all(state: ClusterState, *, limits: LoadLimits | None = None) -> QueuePlan:
    requests = requests_for(state, np.arange(len(state.segments)), DEFAULT_TIER)
    return loads_of(state, requests, limits)


def placed(state: ClusterState, plan: QueuePlan) -> list[tuple[str, str]]:
    names = [state.servers[at].server_id for at in plan.server]
    return list(zip([state.segments.ids[one] for one in plan.segment], names, strict=True))


def test_new_data_goes_first() -> None:
    ends = {"old": 1, "new": 9, "newest": 20}
    state = cluster([server("h")], [segment(name, at) for name, at in ends.items()], {})
    assert [name for name, _ in placed(state, load_all(state))] == ["newest", "new", "old"]


def test_kinds_go_before_times() -> None:
    state = cluster(
        [server("x"), server("y")], [segment("old", 1), segment("new", 9)], {"x": ["new"]}
    )
    requests = LoadRequests(
        segment=np.array([1, 0]),
        tier=np.zeros(2, np.int32),
        reason=np.array([CODES[Reason.FURTHER_REPLICA], CODES[Reason.FIRST_REPLICA]], np.int32),
        tiers=(DEFAULT_TIER,),
    )
    plan = loads_of(state, requests)
    assert placed(state, plan)[0][0] == "old"
    assert placed(state, plan)[1] == ("new", "y")
    assert reasons_of(plan) == {Reason.FIRST_REPLICA: 1, Reason.FURTHER_REPLICA: 1}


def test_each_datasource_is_spread_over_both_servers() -> None:
    # The source: two servers, two datasources with two segments each over the same two hours.
    segments = [segment(f"{name}{at}", at, datasource=name) for name in "ab" for at in (0, 1)]
    state = cluster([server("x"), server("y")], segments, {})
    by_server: dict[str, set[str]] = {"x": set(), "y": set()}
    for one, at in placed(state, load_all(state)):
        by_server[at].add(one[0])
    assert by_server == {"x": {"a", "b"}, "y": {"a", "b"}}


def test_disks_are_never_overfilled_and_queued_loads_count() -> None:
    segments = [segment(f"s{n}", n) for n in range(6)]
    state = cluster([server("x", 250), server("y", 400)], segments, {}, loading={"x": ["s0"]})
    plan = load_all(state)
    assert np.bincount(plan.server, minlength=2).tolist() == [1, 4]
    assert plan.skipped == {Reason.NO_ROOM: 1}


def test_replicas_are_on_different_servers() -> None:
    state = cluster(
        [server("x"), server("y"), server("z")], [segment("s")], {}, leaving={"z": ["s"]}
    )
    requests = requests_for(state, np.array([0, 0, 0]), DEFAULT_TIER)
    plan = loads_of(state, requests)
    assert sorted(plan.server) == [0, 1]
    assert plan.skipped == {Reason.ALL_HOLD_IT: 1}


def test_tiers_and_decommissioning_servers() -> None:
    servers = [
        server("hot", tier="hot"),
        server("leaving", tier="hot", decommissioning=True),
        server("cold", tier="cold"),
        server("gone", tier="ice", decommissioning=True),
    ]
    state = cluster(servers, [segment("s")], {})
    requests = LoadRequests(
        segment=np.zeros(4, np.int64),
        tier=np.arange(4, dtype=np.int32),
        reason=np.full(4, CODES[Reason.FIRST_REPLICA], np.int32),
        tiers=("hot", "cold", "ice", "nowhere"),
    )
    plan = loads_of(state, requests)
    assert sorted(placed(state, plan)) == [("s", "cold"), ("s", "hot")]
    assert plan.skipped == {Reason.NO_SERVER: 2}


def test_queues_have_an_end() -> None:
    segments = [segment(f"s{n}", n) for n in range(9)]
    state = cluster([server("x"), server("y")], segments, {}, loading={"x": ["s0", "s1"]})
    requests = requests_for(state, np.arange(2, 9), DEFAULT_TIER)
    plan = loads_of(state, requests, LoadLimits(max_queue=3))
    assert np.bincount(plan.server, minlength=2).tolist() == [1, 3]
    assert plan.skipped == {Reason.QUEUE_FULL: 3}
    assert sorted(plan.segment) == [5, 6, 7, 8], "the newest were queued"


def test_of_equal_costs_the_emptier_disk_wins() -> None:
    servers = [server("x", 1000), server("y", 4000), server("z", 3000)]
    state = cluster(servers, [segment("far", 900), segment("s")], {"y": ["far"], "x": []})
    far = cluster([server("x", 1000), server("y", 1000)], [segment("s")], {})
    assert placed(far, load_all(far)) == [("s", "x")], "then the lower number"
    plan = loads_of(state, requests_for(state, np.array([1]), DEFAULT_TIER))
    assert placed(state, plan) == [("s", "x")], (
        "both x and z are empty; z costs the same, and has no larger share"
    )
    used = cluster(
        [server("x", 1000), server("y", 1000)],
        [segment("s"), segment("t")],
        {},
        leaving={"x": ["t"]},
    )
    assert placed(used, loads_of(used, requests_for(used, np.array([0]), DEFAULT_TIER))) == [
        ("s", "y")
    ]


def test_an_index_that_is_kept_sees_the_loads() -> None:
    state = cluster(
        [server("x"), server("y")], [segment(f"s{n}", n) for n in range(8)], {"x": ["s0"]}
    )
    index = index_of(state)
    requests = requests_for(state, np.arange(1, 8), DEFAULT_TIER)
    plan = plan_loads(state, requests, LoadLimits(), index=index)
    replicas = state.replicas.plus(plan.segment, plan.server, 0)  # type: ignore[arg-type]
    after = index_of(cluster([server("x"), server("y")], [segment(f"s{n}", n) for n in range(8)], {
        name: [f"s{one}" for one in replicas.segment[replicas.server == at]] for at, name in enumerate("xy")
    }))  # fmt: skip
    assert index.totals().sum() == pytest.approx(after.totals().sum(), rel=1e-12)


def test_reasons_have_codes() -> None:
    assert all(REASONS[CODES[reason]] is reason for reason in Reason)
