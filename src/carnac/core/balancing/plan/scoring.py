"""The cost of a segment on each server."""

from __future__ import annotations

import math

import numpy as np

from carnac.core.balancing.cost.columns import (
    Flags,
    Floats,
    Ints,
    SegmentColumns,
    segment_columns,
)
from carnac.core.balancing.cost.field import cheapest
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.cost.joint import SAME_DATASOURCE, scaled_cost, square_hours
from carnac.core.balancing.plan.board import Board
from carnac.core.balancing.plan.cluster import ClusterState


def segment_rows(cluster: ClusterState, segments: Ints) -> SegmentColumns:
    """Return segments as the cost index takes them, in the order in which they are named."""
    table = cluster.segments
    return segment_columns(
        table.datasource[segments].astype(np.int64),
        table.start_ms[segments],
        table.end_ms[segments],
        sizes_bytes=table.size_bytes[segments],
        copy_of=segments,
    )


def index_of(cluster: ClusterState) -> CostIndex:
    """Return a cost index of all replicas that count towards the cost."""
    index = CostIndex(len(cluster.servers))
    counted = cluster.replicas.where(cluster.counted())
    index.load_many(counted.server.astype(np.int64), segment_rows(cluster, counted.segment))
    return index


class CostScorer:
    """The costs of a cluster's segments by the index, in hours².

    Args:
        board: State of the run.
        index: The holdings of the servers; moves are noted in it, so that the caller's index changes.
    """

    def __init__(self, board: Board, index: CostIndex) -> None:
        self._table, self.index = board.cluster.segments, index
        self._rate = math.log(2) / index.half_life_ms
        self._unit = square_hours(index.half_life_ms)
        self._self_costs: dict[int, float] = {}
        self.time_saved = 0.0

    def _self_cost(self, length_ms: int) -> float:
        cost = self._self_costs.get(length_ms)
        if cost is None:
            scaled = scaled_cost(0, length_ms, 0, length_ms, self._rate)
            cost = self._self_costs[length_ms] = SAME_DATASOURCE * self._unit * scaled
        return cost

    def self_cost(self, segment: int) -> float:
        """Return what two copies of it would cost each other."""
        return self._self_cost(int(self._table.end_ms[segment] - self._table.start_ms[segment]))

    def scores(self, segment: int) -> Floats:
        """Return what a segment costs on each server; lower is better. Servers that hold it count it too."""
        table = self._table
        return self.index.costs(
            int(table.datasource[segment]), int(table.start_ms[segment]), int(table.end_ms[segment])
        )

    def own_score(self, segment: int, server: int, scores: Floats) -> float:
        """Return what it costs on the server that holds it, not against itself."""
        return float(scores[server]) - self.self_cost(segment)

    def move(self, segment: int, source: int, target: int) -> None:
        """Note a move, after the board."""
        table = self._table
        datasource, start_ms = int(table.datasource[segment]), int(table.start_ms[segment])
        end_ms = int(table.end_ms[segment])
        self.index.load(target, datasource, start_ms, end_ms)
        self.index.drop(source, datasource, start_ms, end_ms)


def pick_server(board: Board, scores: Floats, allowed: Flags) -> int:
    """Return the cheapest of the allowed servers, of which there is one at least.

    Of costs that are equal (to `TIE`) the larger free share of the disk wins, then the lower number.
    """
    return cheapest(scores.copy(), allowed, 0, board.free, board.capacity, ~allowed)
