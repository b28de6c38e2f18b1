"""Plans of moves: decommissioning servers are emptied first, then the moves that help most are made."""

from __future__ import annotations

from collections import Counter

import numpy as np

from carnac.core.balancing.cost.columns import Flags
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Board, Reason
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.limits import MoveLimits
from carnac.core.balancing.plan.plans import Blocker, Move, MovePlan
from carnac.core.balancing.plan.rebalancing import (
    Chooser,
    Found,
    Scanner,
    choose_best,
)
from carnac.core.balancing.plan.scoring import CostScorer

MAX_PASSES = 8
"""Passes over all segments in a run that has moves left."""


class _Run:
    """One run over all tiers."""

    def __init__(
        self,
        cluster: ClusterState,
        limits: MoveLimits,
        index: CostIndex,
    ) -> None:
        self.cluster, self.limits = cluster, limits
        self.board = Board(cluster, return_window_ms=limits.return_window_ms)
        self.scorer = CostScorer(self.board, index)
        self.scanner = Scanner(self.board, self.scorer)
        self.cost_before = self.saved_before = 0.0
        self.skipped: Counter[Reason] = Counter()
        self.moves: list[Move] = []
        self.blocked: dict[tuple[str, Reason], list[int]] = {}

    def note(self, found: Found, reason: Reason) -> None:
        """Keep a move for the plan."""
        cluster = self.cluster
        self.moves.append(
            Move(
                segment=found.segment,
                source=found.source,
                target=found.target,
                segment_id=cluster.segments.ids[found.segment],
                source_id=cluster.servers[found.source].server_id,
                target_id=cluster.servers[found.target].server_id,
                size_bytes=int(cluster.segments.size_bytes[found.segment]),
                saving=found.saving,
                reason=reason,
            )
        )

    def evacuate(self, chooser: Chooser, tier: Flags, budget: int) -> int:
        """Move segments off decommissioning servers, the newest first; return how many."""
        replicas, segments = self.cluster.replicas, self.cluster.segments
        leaving = tier & ~self.board.active
        if not leaving.any():
            return 0
        rows = np.flatnonzero(leaving[replicas.server] & self.cluster.counted())
        at = replicas.segment[rows]
        rows = rows[np.lexsort((-segments.start_ms[at], -segments.end_ms[at]))]
        done = 0
        for row in rows:
            segment, source = int(replicas.segment[row]), int(replicas.server[row])
            allowed, blocker = self.board.open_servers(
                segment, tier, max_queue=self.limits.max_queue
            )
            if blocker is not None:  # better where it came from than on a server that is to end
                allowed, blocker = self.board.open_servers(
                    segment, tier, max_queue=self.limits.max_queue, may_return=True
                )
            if blocker is not None:
                self.skipped[blocker] += 1
                server_id = self.cluster.servers[source].server_id
                self.blocked.setdefault((server_id, blocker), []).append(segment)
            elif done == budget:
                self.skipped[Reason.THROTTLED] += 1
            else:
                found = chooser.pick(segment, source, allowed)
                chooser.make(found)
                self.note(found, Reason.EVACUATE)
                done += 1
        return done

    def rebalance(self, chooser: Chooser, budget: int) -> None:
        """Make the moves that save most. Moves that those of a pass make worthwhile are found in the next pass."""
        for number in range(MAX_PASSES):
            candidates = self.scanner.find(chooser.tier, self.limits)
            if number == 0:
                self.note_cost(candidates.cost)
            found = choose_best(chooser, self.scorer, candidates, budget)
            for move in found:
                self.note(move, Reason.SAVE)
            budget -= len(found)
            if not found or not budget:
                break

    def note_cost(self, cost: float) -> None:
        """Note what a tier costs now, after the moves that were planned in it so far."""
        self.cost_before += cost + self.scorer.time_saved - self.saved_before

    def run_tier(self, name: str, max_moves: int) -> None:
        """Plan the moves of one tier."""
        tier, scorer = self.cluster.in_tier(name), self.scorer
        self.saved_before = scorer.time_saved
        budget = max(0, max_moves - moves_under_way(self.cluster, tier))
        chooser = Chooser(self.board, scorer, tier, limits=self.limits, skipped=self.skipped)
        budget -= self.evacuate(chooser, tier, budget)
        if budget:
            self.rebalance(chooser, budget)
        else:  # no pass was made that would have told
            self.note_cost(float(scorer.index.totals()[tier].sum()))

    def blockers(self) -> tuple[Blocker, ...]:
        """Return the reasons why servers cannot be emptied."""
        table = self.cluster.segments
        return tuple(
            Blocker(
                server_id=server_id,
                reason=reason,
                segments=len(segments),
                size_bytes=int(table.size_bytes[segments].sum()),
                example_id=table.ids[segments[0]],
            )
            for (server_id, reason), segments in sorted(self.blocked.items())
        )


def plan_moves(
    cluster: ClusterState,
    limits: MoveLimits,
    *,
    index: CostIndex,
) -> MovePlan:
    """Return the moves of one run: first off decommissioning servers, then what helps most, tier by tier.

    The same arguments give the same plan. A plan without moves, carried out, gives a plan without moves (BL-1).

    Args:
        cluster: The cluster.
        limits: Of the run.
        index: The holdings of the cluster's servers; it is changed as if the plan had been carried out.
    """
    run = _Run(cluster, limits, index)
    for name in cluster.tiers:
        run.run_tier(name, limits.max_moves)
    return MovePlan(
        moves=tuple(run.moves),
        skipped=dict(run.skipped),
        blockers=run.blockers(),
        cost_before=run.cost_before,
        cost_after=run.cost_before - run.scorer.time_saved,
    )


def moves_under_way(cluster: ClusterState, tier: Flags) -> int:
    """Return how many moves of earlier runs have not ended: leaving a server of the tier, queued on another."""
    replicas = cluster.replicas
    leaving, loading = (
        np.flatnonzero(replicas.hold == hold) for hold in (Hold.LEAVING, Hold.LOADING)
    )
    leaving, loading = (rows[tier[replicas.server[rows]]] for rows in (leaving, loading))
    return int(np.isin(replicas.segment[leaving], replicas.segment[loading]).sum())
