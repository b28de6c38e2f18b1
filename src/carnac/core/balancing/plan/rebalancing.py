"""The moves that help most: the best one, then the best one after it, until none is worth it.

All segments of all servers of a tier are costed in one pass (`CostIndex.scan`). The best are then looked at one by
one, best first, each against the cluster as the moves before it have left it. A candidate whose saving has shrunk goes
back into the heap.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Floats, Ints
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.field import Held, Takers
from carnac.core.balancing.cost.grouping import held_of, self_costs
from carnac.core.balancing.plan.board import UNBOUNDED, Board, Reason
from carnac.core.balancing.plan.limits import MoveLimits
from carnac.core.balancing.plan.scoring import CostScorer, pick_server

MAX_PEERS = 16
"""Segments of one interval on one server that are tried before the next interval."""
ALMOST_BEST = 0.5
"""A move is made at once if it saves at least this share of what the best other candidate promised at its last look."""
LOOKS_PER_MOVE = 64
"""A run looks at so many candidates for each move that it may make, ..."""
MIN_LOOKS = 10_000
"""... but at no fewer than these; a bound on its time, far above what is needed. So many are sorted at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A move that was found: indexes, and the saving."""

    segment: int
    source: int
    target: int
    saving: float


class Chooser:
    """Looks for moves in one tier.

    Args:
        board: State of the run; moves are noted on it.
        scorer: Costs of segments; moves are noted in it.
        tier: Flags of the servers in the tier.
        limits: Of the run.
        skipped: Gets counts of the segments that were looked at and not moved.
    """

    def __init__(
        self,
        board: Board,
        scorer: CostScorer,
        tier: Flags,
        *,
        limits: MoveLimits,
        skipped: Counter[Reason],
    ) -> None:
        self.board, self.tier, self.limits = board, tier, limits
        self._scorer, self._skipped = scorer, skipped
        self.moved: set[int] = set()

    def look(self, segment: int, source: int, least: float) -> Found | None:
        """Return the best move of a segment, or None if it has none that saves at least `least` (and more than 0)."""
        allowed, blocker = self.board.open_servers(
            segment, self.tier, max_queue=self.limits.max_queue
        )
        if blocker is not None:
            self._skipped[blocker] += 1
            return None
        found = self.pick(segment, source, allowed)
        if found.saving <= max(least, 0.0):
            self._skipped[Reason.TOO_LITTLE] += 1
            return None
        return found

    def pick(self, segment: int, source: int, allowed: Flags) -> Found:
        """Return the move to the cheapest of the allowed servers."""
        scores = self._scorer.scores(segment)
        target = pick_server(self.board, scores, allowed)
        saving = self._scorer.own_score(segment, source, scores) - float(scores[target])
        return Found(segment=segment, source=source, target=target, saving=saving)

    def make(self, found: Found) -> None:
        """Note a move."""
        self.moved.add(found.segment)
        self.board.move(found.segment, found.source, found.target)
        self._scorer.move(found.segment, found.source, found.target)
        self._scorer.time_saved += found.saving


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Servers and groups whose segments may cost less elsewhere, as columns.

    Attributes:
        saving: Approximate saving by a move of one of them.
        group: Group of the segments.
        server: Server that holds them.
        cost: Cost of time of the whole tier, hours².
    """

    saving: Floats
    group: Ints
    server: Ints
    cost: float

    def blocks(self, size: int) -> Iterator[list[tuple[float, int, int]]]:
        """Yield them as heaps of (minus saving, group, server), the best ones in the first."""
        left = np.arange(len(self.saving))
        while len(left):
            if len(left) > size:
                order = np.argpartition(-self.saving[left], size)
                block, left = left[order[:size]], left[order[size:]]
            else:
                block, left = left, left[:0]
            columns = (-self.saving[block], self.group[block], self.server[block])
            heap = list(zip(*(column.tolist() for column in columns), strict=True))
            heapq.heapify(heap)
            yield heap


class Scanner:
    """Costs all segments of a tier on all its servers; keeps what all passes of a run share.

    Args:
        board: Where the run stands; each pass sees the moves before it.
        scorer: Tells costs.
    """

    def __init__(self, board: Board, scorer: CostScorer) -> None:
        self._board, self._index = board, scorer.index
        self._self_cost = self_costs(board.groups, scorer.index.half_life_ms)
        self._smallest = np.full(len(board.groups), UNBOUNDED, np.int64)
        np.minimum.at(self._smallest, board.groups.of_segment, board.cluster.segments.size_bytes)
        self._counted = np.flatnonzero(board.cluster.counted())

    def find(self, tier: Flags, limits: MoveLimits) -> Candidates:
        """Return the candidates for moves in a tier."""
        board = self._board
        held = self._held(tier)
        queue_open = (board.queued < limits.max_queue) | (limits.max_queue == 0)
        takers = Takers(
            smallest_bytes=self._smallest,
            free_bytes=np.where(tier & board.active & queue_open, board.free, -1),
        )
        own, least = self._index.scan(board.groups, held, takers)
        group = np.repeat(np.arange(len(least)), np.diff(held.offsets))
        beside = own - self._self_cost[group]
        saving = beside - least[group]
        worth = board.active[held.server] & (saving > limits.min_saving * self._self_cost[group])
        return Candidates(
            saving=saving[worth],
            group=group[worth],
            server=held.server[worth],
            cost=float(held.copies @ beside) / 2,
        )

    def _held(self, tier: Flags) -> Held:
        board = self._board
        server = board.server_after[self._counted]
        segment = board.cluster.replicas.segment[self._counted]
        here = tier[server]
        return held_of(
            board.groups.of_segment[segment[here]], server[here], len(board.groups), len(tier)
        )


def choose_best(
    chooser: Chooser, scorer: CostScorer, candidates: Candidates, budget: int
) -> list[Found]:
    """Return the moves that save most, at most `budget`, each worth it by the limits."""
    chosen: list[Found] = []
    looks = max(MIN_LOOKS, LOOKS_PER_MOVE * budget)
    for heap in candidates.blocks(MIN_LOOKS):
        while heap and len(chosen) < budget and looks > 0:
            looks -= 1
            _, group, server = heapq.heappop(heap)
            found = _best_of(chooser, scorer, group, server)
            if found is None:
                continue
            if heap and found.saving < -heap[0][0] * ALMOST_BEST:
                heapq.heappush(heap, (-found.saving, group, server))
                continue
            chooser.make(found)
            chosen.append(found)
            heapq.heappush(heap, (-found.saving, group, server))
        if len(chosen) == budget or looks == 0:
            break
    return chosen


def _best_of(chooser: Chooser, scorer: CostScorer, group: int, server: int) -> Found | None:
    """Return a move of one of a server's segments of a group; they all have the same cost."""
    board, at = chooser.board, 0
    replicas, peers = board.cluster.replicas, board.by_group.of(group)
    held = (board.by_segment.offsets, board.by_segment.rows, replicas.server, replicas.hold)
    for _ in range(MAX_PEERS):
        at = _next_loaded(peers, at, held, server)
        if at == len(peers):
            return None
        segment = int(peers[at])
        at += 1
        if segment in chooser.moved or _is_everywhere(board, segment):
            continue
        least = chooser.limits.min_saving * scorer.self_cost(segment)
        found = chooser.look(segment, server, least)
        if found is not None:
            return found
    return None


@compiled
def _next_loaded(
    peers: Ints, start: int, held: tuple[Ints, Ints, Codes, Codes], server: int
) -> int:
    """Return where, from `start` on, the next segment is that the server has loaded; past the end if none is."""
    offsets, rows, servers, holds = held
    for at in range(start, len(peers)):
        for index in range(offsets[peers[at]], offsets[peers[at] + 1]):
            row = rows[index]
            if servers[row] == server and holds[row] == 0:  # Hold.LOADED
                return at
    return len(peers)


def _is_everywhere(board: Board, segment: int) -> bool:
    broadcast = board.cluster.broadcast
    return broadcast is not None and bool(broadcast[segment])
