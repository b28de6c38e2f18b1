"""Clusters told by ids, and what becomes of them when plans have been carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold, Replicas, SegmentTable, Server
from carnac.core.balancing.plan.coordination import CoordinatorPlan, plan_run
from carnac.core.balancing.plan.limits import CoordinatorLimits, LoadLimits, MoveLimits
from carnac.core.balancing.plan.loads import LoadRequests, order_queue, plan_loads
from carnac.core.balancing.plan.moves import plan_moves
from carnac.core.balancing.plan.plans import CODES, REASONS, Blocker, MovePlan, QueuePlan
from carnac.core.balancing.plan.rules import RuleSet
from carnac.core.balancing.plan.scoring import index_of
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSegment:
    """The balancer's knowledge of one segment; in bulk it is a row of `SegmentTable`.

    Attributes:
        interval: The time that its cost is counted over, usually the chunk.
        partition: Number of the segment among those of its interval.
    """

    segment_id: str
    datasource: str
    interval: Interval
    size_bytes: int = 0
    partition: int = 0


def segment_table(segments: Iterable[ServedSegment]) -> SegmentTable:
    """Return a table of segments, in their order."""
    rows = list(segments)
    names = tuple(sorted({row.datasource for row in rows}))
    codes = {name: code for code, name in enumerate(names)}
    return SegmentTable(
        ids=tuple(row.segment_id for row in rows),
        datasources=names,
        datasource=np.array([codes[row.datasource] for row in rows], np.int32),
        start_ms=np.array([row.interval.start_ms for row in rows], np.int64),
        end_ms=np.array([row.interval.end_ms for row in rows], np.int64),
        size_bytes=np.array([row.size_bytes for row in rows], np.int64),
        partition=np.array([row.partition for row in rows], np.int32),
    )


def cluster_state(
    servers: Iterable[Server],
    segments: Iterable[ServedSegment],
    held: Mapping[str, Iterable[str]],
    *,
    loading: Mapping[str, Iterable[str]] | None = None,
    leaving: Mapping[str, Iterable[str]] | None = None,
    blocked: Mapping[str, Iterable[str]] | None = None,
    now_ms: int = 0,
) -> ClusterState:
    """Return the state of a cluster that is told by ids.

    Args:
        servers: The servers.
        segments: The segments, whether held or not.
        held: Server id → ids of the segments that it has loaded.
        loading: Server id → ids of the segments in its load queue.
        leaving: Server id → ids of the segments that it is about to drop.
        blocked: Server id → ids of the segments that it failed to load, or was told to drop.
        now_ms: The present.

    Raises:
        Invalid: An id is unknown or given twice, or a server holds a segment twice.
    """
    table = segment_table(segments)
    hosts = tuple(servers)
    segment_of = {segment_id: index for index, segment_id in enumerate(table.ids)}
    server_of = {server.server_id: index for index, server in enumerate(hosts)}
    if len(segment_of) != len(table) or len(server_of) != len(hosts):
        raise Invalid("a server id or a segment id is given twice; ids must differ")
    rows: dict[tuple[int, int], Hold] = {}
    given = (
        (Hold.LOADED, held),
        (Hold.LOADING, loading or {}),
        (Hold.LEAVING, leaving or {}),
        (Hold.BLOCKED, blocked or {}),
    )
    for hold, by_server in given:
        for server_id, segment_ids in by_server.items():
            for segment_id in segment_ids:
                if server_id not in server_of or segment_id not in segment_of:
                    raise Invalid(
                        f"server {server_id} or segment {segment_id} is not in the cluster"
                    )
                place = (segment_of[segment_id], server_of[server_id])
                if place in rows:
                    raise Invalid(f"server {server_id} is said to hold segment {segment_id} twice")
                rows[place] = hold
    return ClusterState(
        servers=hosts,
        segments=table,
        replicas=Replicas(
            segment=np.array([segment for segment, _ in rows], np.int64),
            server=np.array([server for _, server in rows], np.int32),
            hold=np.array(list(rows.values()), np.int32),
        ),
        now_ms=now_ms,
    )


def apply_moves(
    cluster: ClusterState, segment: Ints, source: Codes, target: Codes, *, at_ms: int | None = None
) -> ClusterState:
    """Return the cluster after moves have ended: loaded on the target, gone from the source, noted as departures."""
    count = len(cluster.servers)
    gone = np.isin(
        cluster.replicas.segment * count + cluster.replicas.server, segment * count + source
    )
    return replace(
        cluster,
        replicas=cluster.replicas.where(~gone).plus(segment, target, Hold.LOADED),
        departures=cluster.departures.plus(
            segment, source, cluster.now_ms if at_ms is None else at_ms
        ),
    )


def run_of(
    state: ClusterState,
    rules: RuleSet,
    limits: CoordinatorLimits | None = None,
    *,
    used: Flags | None = None,
    index: CostIndex | None = None,
) -> CoordinatorPlan:
    """Return a run by default limits, over segments that are all used, with an index of its own, unless told other."""
    return plan_run(
        state,
        rules,
        limits or CoordinatorLimits(),
        used=np.ones(len(state.segments), np.bool_) if used is None else used,
        index=index or index_of(state),
    )


def loads_of(
    state: ClusterState, requests: LoadRequests, limits: LoadLimits | None = None
) -> QueuePlan:
    """Return where requests are loaded, by an index of this call."""
    return plan_loads(state, requests, limits or LoadLimits(), index=index_of(state))


def moves_of(state: ClusterState, limits: MoveLimits) -> MovePlan:
    """Return the moves of one run, by an index of this call."""
    return plan_moves(state, limits, index=index_of(state))


PERIOD_MS = 60_000
"""Time between two runs."""
MAX_RUNS = 10_000
"""Runs that `plan_rebalance` plans ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """All that a cluster needs until it settles, if nothing else changes.

    Attributes:
        runs: Runs that had moves.
        moves: Moves of all runs.
        size_bytes: Bytes to load.
        cost_before: Cost at the start.
        cost_after: Cost at the end.
        settled: Whether there was nothing left to do; otherwise it was cut off.
        blockers: Blockers of the last run.
        cluster: The cluster at the end.
    """

    runs: int
    moves: int
    size_bytes: int
    cost_before: float
    cost_after: float
    settled: bool
    blockers: tuple[Blocker, ...]
    cluster: ClusterState


def plan_rebalance(
    cluster: ClusterState,
    limits: MoveLimits | None = None,
    *,
    max_runs: int = MAX_RUNS,
) -> Rebalance:
    """Return what it takes until the cluster settles: run after run, each on what the one before has left."""
    limits = limits or MoveLimits()
    start, state = cluster.now_ms, cluster
    runs = moves = size_bytes = elapsed_ms = 0
    plan = moves_of(state, limits)
    first = plan
    while plan.moves and runs < max_runs:
        runs, moves = runs + 1, moves + len(plan.moves)
        size_bytes += sum(move.size_bytes for move in plan.moves)
        state = apply_moves(state, *plan.columns())
        elapsed_ms += PERIOD_MS
        state = replace(state, now_ms=start + elapsed_ms)
        plan = moves_of(state, limits)
    return Rebalance(
        runs=runs,
        moves=moves,
        size_bytes=size_bytes,
        cost_before=first.cost_before,
        cost_after=plan.cost_before,
        settled=not plan.moves,
        blockers=plan.blockers,
        cluster=state,
    )


def requests_for(cluster: ClusterState, segment: Ints, tier: str) -> LoadRequests:
    """Return requests for one first replica of each segment in a tier, as a placement from scratch makes them."""
    count = len(segment)
    return LoadRequests(
        segment=segment,
        tier=np.zeros(count, np.int32),
        reason=np.full(count, CODES[Reason.FIRST_REPLICA], np.int32),
        tiers=(tier,),
    ).take(
        order_queue(
            segment, np.full(count, CODES[Reason.FIRST_REPLICA], np.int32), cluster.segments
        )
    )


def finish_queues(cluster: ClusterState) -> ClusterState:
    """Return the cluster when all queues are done: queued segments are loaded, and leaving ones are gone."""
    replicas = cluster.replicas.where(cluster.replicas.hold < Hold.LEAVING)
    loaded = np.full(len(replicas), Hold.LOADED, np.int32)
    return replace(
        cluster,
        replicas=Replicas(segment=replicas.segment, server=replicas.server, hold=loaded),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A line of a server's load queue.

    Attributes:
        reason: Why; tells drops, loads and moves apart.
    """

    segment_id: str
    server_id: str
    reason: Reason


def reasons_of(plan: QueuePlan) -> dict[Reason, int]:
    """Return how many requests there are, by reason."""
    found = np.bincount(plan.reason, minlength=len(REASONS))
    return {reason: int(found[code]) for code, reason in enumerate(REASONS) if found[code]}


def queue_of(plan: CoordinatorPlan) -> list[Request]:
    """Return all requests in the order of the load queues: drops, first replicas, further ones, moves."""
    segment, _, target = plan.moves.columns()
    parts = (
        (plan.drops.segment, plan.drops.server, plan.drops.reason),
        (plan.loads.segment, plan.loads.server, plan.loads.reason),
        (
            segment,
            target,
            np.array([CODES[move.reason] for move in plan.moves.moves], np.int32),
        ),
    )
    segments, servers, reasons = (np.concatenate([part[n] for part in parts]) for n in range(3))
    order = order_queue(segments, reasons.astype(np.int32), plan.before.segments)
    ids, hosts = plan.before.segments.ids, plan.before.servers
    return [
        Request(
            segment_id=ids[int(segments[row])],
            server_id=hosts[int(servers[row])].server_id,
            reason=REASONS[int(reasons[row])],
        )
        for row in order
    ]
