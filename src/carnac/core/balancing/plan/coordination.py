"""One run of the coordinator, as a pure function: rules, segments and servers in; loads, drops and moves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Board, Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.leaving import recall_leaving
from carnac.core.balancing.plan.limits import CoordinatorLimits
from carnac.core.balancing.plan.loads import order_queue, plan_loads
from carnac.core.balancing.plan.moves import plan_moves
from carnac.core.balancing.plan.plans import NOTHING, MovePlan, QueuePlan
from carnac.core.balancing.plan.replication import decide_replication
from carnac.core.balancing.plan.rerouting import plan_reroutes
from carnac.core.balancing.plan.rules import RuleSet, decide_rules
from carnac.core.balancing.plan.scoring import segment_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoordinatorPlan:
    """The decisions of one run.

    Attributes:
        loads: Replicas to load.
        drops: Replicas to drop now. Other replicas of wanted segments are loaded (BL-5). A drop is planned again until
            the replica is gone.
        moves: Moves, planned on the cluster that loads and drops leave.
        skipped: Number of loads and drops that were not done, by reason; `moves.skipped` has its own.
        before: The cluster that the plan was made for. Leaving replicas that are needed there are `LOADED` again.
        after: The same with the plan in its queues: loads and the targets of moves `LOADING`, the rest `LEAVING`.
    """

    loads: QueuePlan
    drops: QueuePlan
    moves: MovePlan
    skipped: Mapping[Reason, int]
    before: ClusterState
    after: ClusterState


def plan_run(
    cluster: ClusterState,
    rules: RuleSet,
    limits: CoordinatorLimits,
    *,
    used: Flags,
    index: CostIndex,
) -> CoordinatorPlan:
    """Return what one run of the coordinator does.

    Rules say which replicas there should be. Missing replicas are loaded, surplus ones are dropped, and the remaining
    cluster is balanced. A replica that leaves for another one is dropped by a run that sees the other one loaded. If
    the other one has died or failed meanwhile, the leaving one is served again.

    Args:
        cluster: The cluster and its time.
        rules: Of all datasources.
        limits: Of the run.
        used: Segments that are a part of the data; others are dropped.
        index: The holdings of the cluster's servers, as in `plan_moves`; it is changed as if the plan had been queued.
    """
    matches = decide_rules(rules, cluster.segments, cluster.now_ms)
    given, hosts = cluster, cluster.servers
    cluster = recall_leaving(_with_reserve(cluster, limits.max_fill), matches, used)
    _keep_in_step(index, given, cluster, NOTHING)
    wanted = decide_replication(cluster, matches, limits.loads, used=used, index=index)
    skipped: Counter[Reason] = Counter(wanted.skipped)
    drops, given = wanted.drops, cluster
    cluster = replace(cluster, broadcast=wanted.broadcast if wanted.broadcast.any() else None)
    _keep_in_step(index, given, cluster, drops)
    replicas = cluster.replicas
    dropped = replicas.among(drops.segment, drops.server, len(cluster.servers))
    kept = replace(cluster, replicas=replicas.left(dropped))
    loads = plan_loads(kept, wanted.requests, limits.loads, index=index)
    skipped.update(loads.skipped)
    loads = _with_broadcast(kept, loads, skipped)
    loaded = replace(kept, replicas=kept.replicas.plus(loads.segment, loads.server, Hold.LOADING))
    reroutes = plan_reroutes(
        loaded, _waiting(kept, len(loaded.replicas)), limits.loads, index=index
    )
    loaded = reroutes.apply(loaded)
    moves = plan_moves(loaded, limits.moves, index=index)
    drops = drops.plus(reroutes.segment, reroutes.source, Reason.CANCELLED)
    loads = loads.plus(reroutes.segment, reroutes.target, Reason.REROUTE)
    return CoordinatorPlan(
        loads=loads.take(order_queue(loads.segment, loads.reason, cluster.segments)),
        drops=drops.plus(*_cancelled(loaded, moves), Reason.CANCELLED),
        moves=moves,
        skipped=dict(skipped),
        before=replace(cluster, servers=hosts),
        after=replace(_queue_moves(loaded, moves), servers=hosts),
    )


def _with_reserve(cluster: ClusterState, max_fill: float) -> ClusterState:
    """Return the cluster with disks as large as they are to be filled."""
    servers = (
        replace(server, capacity_bytes=int(server.capacity_bytes * max_fill))
        for server in cluster.servers
    )
    return replace(cluster, servers=tuple(servers))


def _waiting(cluster: ClusterState, count: int) -> Flags:
    """Return which replicas of `count`, of which the cluster's are the first, wait since an earlier run."""
    waiting = np.zeros(count, np.bool_)
    replicas = cluster.replicas
    waiting[: len(replicas)] = replicas.hold == Hold.LOADING
    if cluster.broadcast is not None:
        waiting[: len(replicas)] &= ~cluster.broadcast[replicas.segment]
    return waiting


def _cancelled(cluster: ClusterState, moves: MovePlan) -> tuple[Ints, Codes]:
    """Return segments and servers of replicas that are moved before they were loaded."""
    segment, source, _ = moves.columns()
    replicas = cluster.replicas.where(cluster.replicas.hold == Hold.LOADING)
    queued = replicas.where(replicas.among(segment, source, len(cluster.servers)))
    return queued.segment, queued.server


def _keep_in_step(
    index: CostIndex, before: ClusterState, after: ClusterState, drops: QueuePlan
) -> None:
    """Take dropped replicas, and those of new broadcast segments, out of an index; take in those that count again."""
    replicas, servers = before.replicas, len(before.servers)
    dropped = replicas.among(drops.segment, drops.server, servers)
    was, is_now = before.counted(), after.counted() & ~dropped
    for change, act in ((was & ~is_now, index.drop_many), (is_now & ~was, index.load_many)):
        rows = replicas.where(change)
        act(rows.server.astype(np.int64), segment_rows(before, rows.segment))


def _queue_moves(cluster: ClusterState, moves: MovePlan) -> ClusterState:
    """Return the cluster with moves in its queues: `LOADING` on the targets, `LEAVING` on the sources."""
    segment, source, target = moves.columns()
    replicas = cluster.replicas
    left = replicas.left(replicas.among(segment, source, len(cluster.servers)))
    return replace(
        cluster,
        replicas=left.plus(segment, target, Hold.LOADING),
        departures=cluster.departures.plus(segment, source, cluster.now_ms),
    )


def _with_broadcast(cluster: ClusterState, loads: QueuePlan, skipped: Counter[Reason]) -> QueuePlan:
    """Return the loads, and those that put broadcast segments on every server that takes segments and has room."""
    if cluster.broadcast is None:
        return loads
    board = Board(cluster)
    board.add_many(loads.segment, loads.server.astype(np.int64))
    found: list[tuple[int, int]] = []
    for segment in map(int, np.flatnonzero(cluster.broadcast)):
        missing = board.active.copy()
        missing[board.holders(segment)] = False
        for server in map(int, np.flatnonzero(missing)):
            if board.free[server] < cluster.segments.size_bytes[segment]:
                skipped[Reason.NO_ROOM] += 1
                continue
            board.add(segment, server)
            found.append((segment, server))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return loads.plus(pairs[:, 0], pairs[:, 1].astype(np.int32), Reason.BROADCAST)
