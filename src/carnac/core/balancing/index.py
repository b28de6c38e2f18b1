"""Who holds what, and what any segment would cost anywhere."""

from __future__ import annotations

import math

import numpy as np

from carnac.core.balancing.columns import (
    Floats,
    Ints,
    Room,
    SegmentColumns,
    room_for,
)
from carnac.core.balancing.compiled import compiled
from carnac.core.balancing.cost import DAY_MS, scaled_cost, square_hours
from carnac.errors import Invalid

pair_cost = compiled(scaled_cost)
TIE = 1e-9
"""Costs that differ by less than this share of the smaller count as equal."""


class CostIndex:
    """The segments that each server holds, by their intervals, so that the cost of one more is known everywhere.

    Servers and datasources are numbers from 0 up; datasources need not be announced. Costs are in hours².

    Args:
        server_count: How many servers there are, all empty; `add_servers` adds more.
        half_life_ms: Time difference at which two instants count half.
    """

    def __init__(self, server_count: int, *, half_life_ms: int = DAY_MS) -> None:
        self._server_count = server_count
        self._rate = math.log(2) / half_life_ms
        self._unit = square_hours(half_life_ms)
        self._held: dict[tuple[int, int, int, int], int] = {}

    @property
    def server_count(self) -> int:
        """How many servers there are; they are numbered from 0."""
        return self._server_count

    def add_servers(self, count: int = 1) -> int:
        """Add empty servers; return the number of the first."""
        self._server_count += count
        return self._server_count - count

    def load(
        self, server: int, datasource: int, start_ms: int, end_ms: int, *, weight: int = 1
    ) -> None:
        """Add one segment to what the server holds."""
        key = server, datasource, start_ms, end_ms
        self._held[key] = self._held.get(key, 0) + weight

    def drop(
        self, server: int, datasource: int, start_ms: int, end_ms: int, *, weight: int = 1
    ) -> None:
        """Take away one segment that was loaded just so.

        Raises:
            Invalid: The server does not hold it.
        """
        key = server, datasource, start_ms, end_ms
        if self._held.get(key, 0) < weight:
            raise Invalid(
                f"server {server} does not hold {start_ms}/{end_ms} of datasource {datasource}"
            )
        self._held[key] -= weight

    def load_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Add many segments, each to the server of its row; rows with a negative server are left out."""
        for row, server in enumerate(servers):
            if server >= 0:
                self.load(int(server), *_row(segments, row), weight=int(segments.weights[row]))

    def drop_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Take away many segments, each from the server of its row; rows with a negative server are left out."""
        for row, server in enumerate(servers):
            if server >= 0:
                self.drop(int(server), *_row(segments, row), weight=int(segments.weights[row]))

    def costs(self, datasource: int, start_ms: int, end_ms: int) -> Floats:
        """Return what the segment costs against all that each server holds, in hours², one element a server.

        Where a server holds the segment itself, its cost against itself is in there, twice `joint_cost(x, x)`; the
        caller who means another segment takes it away.
        """
        out = np.zeros(self._server_count)
        for (server, other, y0, y1), count in self._held.items():
            cost = pair_cost(start_ms, end_ms, y0, y1, self._rate)
            out[server] += count * cost * (2 if other == datasource else 1)
        return out * self._unit

    def cost(self, server: int, datasource: int, start_ms: int, end_ms: int) -> float:
        """Return what the segment costs against all that one server holds, in hours²."""
        return float(self.costs(datasource, start_ms, end_ms)[server])

    def total(self) -> float:
        """Return the sum over servers of the cost of all pairs of different segments, in hours²."""
        twice = 0.0
        for (server, datasource, start_ms, end_ms), count in self._held.items():
            own = 2 * self._unit * pair_cost(start_ms, end_ms, start_ms, end_ms, self._rate)
            twice += count * (self.cost(server, datasource, start_ms, end_ms) - own)
        return twice / 2

    def place(self, segments: SegmentColumns, room: Room | None = None) -> Ints:
        """Put each segment, in order of rows, on the server where it costs least, and load it there.

        Of servers whose costs are equal (to `TIE`), the one with the larger free share of its disk wins, then the lower
        number. Returns the server of each row; `NOWHERE` where none is allowed or has room.
        """
        room = room or room_for(len(segments), self._server_count)
        free = room.free_bytes.copy()
        taken: dict[int, set[int]] = {}
        chosen = np.full(len(segments), -1, np.int64)
        for row in range(len(segments)):
            costs = self.costs(*_row(segments, row))
            barred = room.barred_servers[room.barred_offsets[row] : room.barred_offsets[row + 1]]
            here = taken.setdefault(int(segments.copy_of[row]), set())
            open_servers = room.allowed[room.kinds[row]] & (free >= segments.sizes_bytes[row])
            open_servers[barred] = False
            open_servers[list(here)] = False
            candidates = np.flatnonzero(open_servers)
            if not len(candidates):
                continue
            cheap = candidates[costs[candidates] <= costs[candidates].min() * (1 + TIE)]
            share = free[cheap] / np.maximum(room.capacity_bytes[cheap], 1)
            server = int(cheap[np.argmax(share)])
            chosen[row] = server
            here.add(server)
            free[server] -= segments.sizes_bytes[row]
            self.load(server, *_row(segments, row), weight=int(segments.weights[row]))
        return chosen


def place(
    segments: SegmentColumns,
    server_count: int,
    *,
    room: Room | None = None,
    half_life_ms: int = DAY_MS,
) -> Ints:
    """Place segments in any order on empty servers; see `CostIndex.place`."""
    return CostIndex(server_count, half_life_ms=half_life_ms).place(segments, room)


def _row(segments: SegmentColumns, row: int) -> tuple[int, int, int]:
    return int(segments.datasources[row]), int(segments.starts_ms[row]), int(segments.ends_ms[row])
