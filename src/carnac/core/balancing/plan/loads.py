"""Plans of loads: which server gets which replica. New data first; each goes where it costs least."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints, Room, room_for
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.plan.board import Board, Reason
from carnac.core.balancing.plan.cluster import ClusterState, SegmentTable
from carnac.core.balancing.plan.limits import LoadLimits
from carnac.core.balancing.plan.plans import REASONS, QueuePlan
from carnac.core.balancing.plan.scoring import segment_rows

_RANKS = {
    Reason.DROP_RULE: 0,
    Reason.UNUSED: 0,
    Reason.SURPLUS: 0,
    Reason.CANCELLED: 0,
    Reason.FIRST_REPLICA: 1,
    Reason.BROADCAST: 1,
    Reason.REROUTE: 1,
    Reason.FURTHER_REPLICA: 2,
    Reason.EVACUATE: 3,
    Reason.SAVE: 3,
}
"""The order of a load queue: drops make room, then first replicas, then further replicas, then moves."""


def order_queue(segment: Ints, reason: Codes, table: SegmentTable) -> Ints:
    """Return the order of a load queue: by kind (`_RANKS`), then the newest interval first, by end, then by start.

    Source: the request order of Druid's load queues.
    """
    ranks = np.array([_RANKS.get(known, len(_RANKS)) for known in REASONS], np.int64)
    order = np.lexsort((segment, -table.start_ms[segment], -table.end_ms[segment], ranks[reason]))
    return order.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadRequests:
    """Replicas that are wanted, as columns, in any order.

    Attributes:
        segment: Index of the segment; named n times to ask for n more replicas.
        tier: Index into `tiers`.
        reason: Index into `plans.REASONS`.
        tiers: Names of tiers.
    """

    segment: Ints
    tier: Codes
    reason: Codes
    tiers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.segment)

    def take(self, rows: Ints | Flags) -> LoadRequests:
        """Return the rows that are named or flagged, in that order."""
        return LoadRequests(
            segment=self.segment[rows],
            tier=self.tier[rows],
            reason=self.reason[rows],
            tiers=self.tiers,
        )


def plan_loads(
    cluster: ClusterState,
    requests: LoadRequests,
    limits: LoadLimits,
    *,
    index: CostIndex,
) -> QueuePlan:
    """Return a server for each wanted replica, in the order of the load queue.

    Each replica goes to the server of its tier where it costs least, of those with room and no copy yet. The next
    replica is placed with this one counted.

    Args:
        cluster: The cluster.
        requests: The wanted replicas; throttles have been applied.
        limits: Of the run.
        index: The holdings of the cluster's servers, as in `plan_moves`; the loads are noted in it.
    """
    requests = requests.take(order_queue(requests.segment, requests.reason, cluster.segments))
    board = Board(cluster)
    server = _place(board, requests, limits, index)
    done = server >= 0
    return QueuePlan(
        segment=requests.segment[done],
        server=server[done].astype(np.int32),
        reason=requests.reason[done],
        skipped=_why_not(board, requests.take(~done), limits),
    )


def _tier_flags(board: Board, tiers: tuple[str, ...]) -> Flags:
    """Return for each tier which servers take segments of it."""
    rows = [board.cluster.in_tier(tier) & board.active for tier in tiers]
    return np.array(rows, np.bool_).reshape(len(tiers), len(board.free))


def _place(board: Board, requests: LoadRequests, limits: LoadLimits, index: CostIndex) -> Ints:
    """Return the server of each request, or -1.

    The index does not know queues: loads that overflow one are taken back and placed again without that server. Each
    round but the last fills at least one queue, so there are at most as many rounds as servers, and one.
    """
    rows = segment_rows(board.cluster, requests.segment)
    server = np.full(len(requests), -1, np.int64)
    allowed = _tier_flags(board, requests.tiers)
    todo = np.arange(len(requests))
    while len(todo):
        if limits.max_queue:
            allowed &= board.queued < limits.max_queue
        part = requests.take(todo)
        chosen = index.place(rows.take(todo), _room(board, part, allowed))
        over = np.zeros(len(todo), np.bool_)
        if limits.max_queue:
            over = _overflow(chosen, limits.max_queue - board.queued)
            index.drop_many(chosen[over], rows.take(todo[over]))
        kept = (chosen >= 0) & ~over
        server[todo[kept]] = chosen[kept]
        board.add_many(part.segment[kept], chosen[kept])
        todo = todo[over]
    return server


def _overflow(chosen: Ints, slots: Ints) -> Flags:
    """Return which rows come after their server's last free slot."""
    order = np.argsort(chosen, kind="stable")
    ordered = chosen[order]
    first = np.searchsorted(ordered, ordered, side="left")
    rank = np.arange(len(chosen)) - first
    over = np.zeros(len(chosen), np.bool_)
    over[order] = (ordered >= 0) & (rank >= slots[ordered])
    return over


def _room(board: Board, requests: LoadRequests, allowed: Flags) -> Room:
    """Return where requests may go."""
    bounds, held_by = board.holders_of_many(requests.segment)
    return room_for(
        len(requests),
        len(board.free),
        allowed=allowed,
        kinds=requests.tier.astype(np.int64),
        free_bytes=board.free,
        capacity_bytes=board.capacity,
        barred_offsets=bounds,
        barred_servers=held_by,
    )


def _why_not(board: Board, requests: LoadRequests, limits: LoadLimits) -> Counter[Reason]:
    """Return why requests were not placed, as `Board.open_servers` would say, for many at once."""
    found: Counter[Reason] = Counter()
    flags = _tier_flags(board, requests.tiers)
    for code, tier in enumerate(flags):
        segments = requests.segment[requests.tier == code]
        if not len(segments):
            continue
        if not tier.any():
            found[Reason.NO_SERVER] += len(segments)
            continue
        queue_full = bool(limits.max_queue) and not (tier & (board.queued < limits.max_queue)).any()
        holders = np.array([int(tier[board.holders(int(one))].sum()) for one in segments])
        held_by_all = holders >= tier.sum()
        found[Reason.ALL_HOLD_IT] += int(held_by_all.sum())
        found[Reason.QUEUE_FULL if queue_full else Reason.NO_ROOM] += int((~held_by_all).sum())
    return +found
