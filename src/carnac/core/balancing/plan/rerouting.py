"""Loads that wait while another server is idle: they are cancelled and queued there.

When a server joins, all loads have been queued on the others before. A waiting load has cost nothing yet, so it may go
to the server that loads it sooner.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Board
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.limits import LoadLimits
from carnac.core.balancing.plan.loads import order_queue
from carnac.core.balancing.plan.scoring import CostScorer, pick_server

MAX_REROUTES = 1_000
"""Loads that a run sends elsewhere."""
SHORTER = 2
"""A load goes to a queue that is so many times shorter, itself counted: so nothing is sent to and fro."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reroutes:
    """Loads that are cancelled on one server and queued on another, as columns."""

    segment: Ints
    source: Codes
    target: Codes

    def apply(self, cluster: ClusterState) -> ClusterState:
        """Return the cluster with these in its queues."""
        replicas = cluster.replicas
        kept = replicas.where(~replicas.among(self.segment, self.source, len(cluster.servers)))
        return replace(cluster, replicas=kept.plus(self.segment, self.target, Hold.LOADING))


def plan_reroutes(
    cluster: ClusterState,
    waiting: Flags,
    limits: LoadLimits,
    *,
    index: CostIndex,
) -> Reroutes:
    """Return the loads that go to a server with a much shorter queue, the last of the longest queues first.

    The first loads of each queue stay: they may have begun. Of the servers that are idle enough, the one where the
    segment costs least takes it.

    Args:
        cluster: With all loads of this run queued.
        waiting: Flags of its `LOADING` replicas that may be sent elsewhere.
        limits: Of the run.
        index: As in `plan_moves`; the change is noted in it.
    """
    board = Board(cluster)
    found: list[tuple[int, int, int]] = []
    rows = _candidates(board, waiting, limits)
    if rows:
        scorer = CostScorer(board, index)
        tiers = {name: cluster.in_tier(name) for name in cluster.tiers}
        for row in rows:
            segment, source = (
                int(cluster.replicas.segment[row]),
                int(cluster.replicas.server[row]),
            )
            idle = tiers[cluster.servers[source].tier] & (
                SHORTER * (board.queued + 1) <= board.queued[source]
            )
            allowed, blocker = board.open_servers(segment, idle, max_queue=limits.max_queue)
            if blocker is not None:
                continue
            target = pick_server(board, scorer.scores(segment), allowed)
            board.reroute(segment, source, target)
            scorer.move(segment, source, target)
            found.append((segment, source, target))
            if len(found) == MAX_REROUTES:
                break
    table = np.array(found, np.int64).reshape(-1, 3)
    return Reroutes(
        segment=table[:, 0],
        source=table[:, 1].astype(np.int32),
        target=table[:, 2].astype(np.int32),
    )


def _candidates(board: Board, waiting: Flags, limits: LoadLimits) -> list[int]:
    """Return rows that wait while some server of their tier is idle: the last of the longest queues first."""
    cluster = board.cluster
    replicas = cluster.replicas
    idlest = np.full(len(cluster.servers), np.iinfo(np.int64).max // 4)
    for name in cluster.tiers:
        tier = cluster.in_tier(name)
        if (tier & board.active).any():
            idlest[tier] = board.queued[tier & board.active].min()
    long = board.active & (SHORTER * (idlest + 1) <= board.queued)
    rows = np.flatnonzero((replicas.hold == Hold.LOADING) & long[replicas.server])
    first = order_queue(replicas.segment[rows], np.zeros(len(rows), np.int32), cluster.segments)
    rows = rows[first]
    rows = rows[np.argsort(replicas.server[rows], kind="stable")]
    server = replicas.server[rows]
    index = np.arange(len(rows)) - np.searchsorted(server, server, side="left")
    last = np.argsort(-index, kind="stable")
    return [int(row) for row in rows[last[(index[last] >= limits.begun) & waiting[rows[last]]]]]
