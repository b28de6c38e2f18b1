"""What a segment costs on each server: time, and what else is weighed."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from carnac.core.balancing.cost.columns import (
    Flags,
    Floats,
    Ints,
    SegmentColumns,
    segment_columns,
)
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.index import TIE, CostIndex
from carnac.core.balancing.cost.joint import DAY_MS, SAME_DATASOURCE, scaled_cost, square_hours
from carnac.core.balancing.plan.board import Board
from carnac.core.balancing.plan.cluster import ClusterState, Hold
from carnac.core.balancing.plan.limits import Weights

HEAT_STEPS = 8
"""The weight of a segment of average heat: weights are whole numbers, so that costs stay exact."""
MAX_WEIGHT = 10_000


def segment_weights(cluster: ClusterState, weights: Weights, group_of: Ints | None = None) -> Ints:
    """Return the weight of each segment: 1 without heat, else about `HEAT_STEPS` on average.

    A segment's heat is the mean over its interval and datasource, since a query reads them all.

    Args:
        cluster: With query counts.
        weights: How much heat counts.
        group_of: Group of each segment; needed if heat counts.
    """
    heat = cluster.segments.heat
    if weights.heat == 0 or heat is None or group_of is None or not np.any(heat > 0):
        return np.ones(len(cluster.segments), np.int64)
    sums = np.bincount(group_of, weights=heat)
    mean = (sums / np.bincount(group_of))[group_of] / np.mean(heat)
    exact = HEAT_STEPS * (1 - weights.heat + weights.heat * mean)
    return np.clip(np.rint(exact), 1, MAX_WEIGHT).astype(np.int64)


def segment_rows(cluster: ClusterState, segments: Ints, weights: Ints) -> SegmentColumns:
    """Return segments as the cost index takes them, in the order in which they are named."""
    table = cluster.segments
    return segment_columns(
        table.datasource[segments].astype(np.int64),
        table.start_ms[segments],
        table.end_ms[segments],
        sizes_bytes=table.size_bytes[segments],
        weights=weights[segments],
        copy_of=segments,
    )


def index_of(
    cluster: ClusterState, *, half_life_ms: int = DAY_MS, weights: Ints | None = None
) -> CostIndex:
    """Return a cost index of all replicas that count towards the cost.

    Args:
        cluster: The cluster.
        half_life_ms: Time difference at which two instants count half.
        weights: By segment; None: all 1.
    """
    index = CostIndex(len(cluster.servers), half_life_ms=half_life_ms)
    counted = cluster.replicas.where(cluster.counted())
    all_weights = np.ones(len(cluster.segments), np.int64) if weights is None else weights
    index.load_many(
        counted.server.astype(np.int64), segment_rows(cluster, counted.segment, all_weights)
    )
    return index


class CostScorer:
    """The cost of time from the index, and the other terms of `Weights`. In hours².

    Args:
        board: Where the run stands.
        index: What the servers hold; loads and moves are noted in it, so it is the caller's to keep or to lose.
        weights: What counts beside time.
        segment_weight: By segment; as in the index.
        half_life_ms: As in the index.
    """

    def __init__(
        self,
        board: Board,
        index: CostIndex,
        weights: Weights,
        *,
        segment_weight: Ints,
        half_life_ms: int = DAY_MS,
    ) -> None:
        self._board, self.index, self._weights = board, index, weights
        self._table = board.cluster.segments
        self._weight = segment_weight
        self._rate, self._unit = math.log(2) / half_life_ms, square_hours(half_life_ms)
        self._moved: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._self_costs: dict[int, float] = {}
        self.time_saved = 0.0
        self.mean_weight = float(np.mean(segment_weight)) if len(segment_weight) else 1.0
        self.disk = self._disk_term() if weights.disk else np.zeros(len(board.free))

    def _disk_term(self) -> Floats:
        """Return by server what a byte costs per byte on the disk: a full disk costs `disk` average segments."""
        sizes, lengths = self._table.size_bytes, self._table.end_ms - self._table.start_ms
        shown, counts = np.unique(lengths, return_counts=True)
        costs = [self._self_cost(int(length)) for length in shown]
        average = float(np.average(costs, weights=counts)) if len(counts) else 0.0
        mean_size = max(float(np.mean(sizes)) if len(sizes) else 1.0, 1.0)
        factor = self._weights.disk * average * self.mean_weight**2 / mean_size
        disk: Floats = factor / np.maximum(self._board.capacity, 1)
        return disk

    def _self_cost(self, length_ms: int) -> float:
        cost = self._self_costs.get(length_ms)
        if cost is None:
            scaled = scaled_cost(0, length_ms, 0, length_ms, self._rate)
            cost = self._self_costs[length_ms] = SAME_DATASOURCE * self._unit * scaled
        return cost

    def self_cost(self, segment: int) -> float:
        """Return what two copies of it would cost each other, for weight 1."""
        return self._self_cost(int(self._table.end_ms[segment] - self._table.start_ms[segment]))

    def time_costs(self, segment: int) -> Floats:
        """Return what it costs against the times that each server holds, itself included."""
        table = self._table
        costs = self.index.costs(
            int(table.datasource[segment]), int(table.start_ms[segment]), int(table.end_ms[segment])
        )
        weighted: Floats = costs * float(self._weight[segment])
        return weighted

    def scores(self, segment: int) -> Floats:
        """Return what a segment costs on each server; lower is better. Servers that hold it count it too."""
        scores = self.time_costs(segment)
        weight, weights = float(self._weight[segment]), self._weights
        if weights.spread:
            scores += weights.spread * self.self_cost(segment) * weight * self._peers(segment)
        if weights.disk:
            size = float(self._table.size_bytes[segment])
            scores += self.disk * size * (self._board.projected + size / 2)
        return scores

    def own_score(self, segment: int, server: int, scores: Floats) -> float:
        """Return what it costs on the server that holds it, not against itself."""
        weight, size = float(self._weight[segment]), float(self._table.size_bytes[segment])
        itself = (1 + self._weights.spread) * self.self_cost(segment) * weight**2
        return float(scores[server]) - itself - float(self.disk[server]) * size * size

    def least_saving(self, segment: int, share: float) -> float:
        """Return what a move of the segment must save at least."""
        return share * self.self_cost(segment) * float(self._weight[segment]) * self.mean_weight

    def _peers(self, segment: int) -> Floats:
        """Return by server the weight of its segments of the same interval and datasource, itself included."""
        board = self._board
        group = int(board.groups.of_segment[segment])
        found = np.zeros(len(board.free))
        replicas = board.cluster.replicas
        for peer in board.by_group.of(group):
            rows = board.by_segment.of(int(peer))
            stay = rows[replicas.hold[rows] < Hold.LEAVING]
            np.add.at(found, replicas.server[stay], float(self._weight[peer]))
        for server, change in self._moved.get(group, ()):
            found[server] += change
        return found

    def add(self, segment: int, server: int) -> None:
        """Note a load, after the board."""
        self._change(segment, server, 1)

    def move(self, segment: int, source: int, target: int) -> None:
        """Note a move, after the board; what it saves in time alone is added up in `time_saved`."""
        costs = self.time_costs(segment)
        itself = self.self_cost(segment) * float(self._weight[segment]) ** 2
        self.time_saved += float(costs[source] - costs[target]) - itself
        self._change(segment, target, 1)
        self._change(segment, source, -1)

    def _change(self, segment: int, server: int, sign: int) -> None:
        table, weight = self._table, int(self._weight[segment])
        act = self.index.load if sign > 0 else self.index.drop
        datasource, start_ms = int(table.datasource[segment]), int(table.start_ms[segment])
        act(server, datasource, start_ms, int(table.end_ms[segment]), weight=weight)
        if self._weights.spread:
            self._moved[int(self._board.groups.of_segment[segment])].append((server, sign * weight))


def pick_server(board: Board, scores: Floats, allowed: Flags) -> int:
    """Return the cheapest of the allowed servers, of which there is one at least.

    Of costs that are equal (to `TIE`) the larger free share of the disk wins, then the lower number.
    """
    return _cheapest(scores, allowed, board.free, board.capacity)


@compiled
def _cheapest(scores: Floats, allowed: Flags, free: Ints, capacity: Ints) -> int:
    lowest = np.inf
    for server in range(len(scores)):
        if allowed[server]:
            lowest = min(lowest, scores[server])
    best, best_share = -1, -np.inf
    for server in range(len(scores)):
        if allowed[server] and scores[server] <= lowest + abs(lowest) * TIE:
            share = free[server] / max(capacity[server], 1)
            if share > best_share:
                best, best_share = server, share
    return best
