"""A board holds the copies of one tier and lets a strategy place and move them.

All strategies share the bookkeeping (who holds what, free disk, which servers are open); a strategy is only the choice
of a server. So what differs between two runs of one scenario is the strategy and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.compiled import compiled
from carnac.simulation import exact, greedy, legacy
from carnac.simulation.arrivals import Codes, Copies, Flags, Ints, Segments
from carnac.simulation.greedy import holds_copy
from carnac.simulation.scenario import Scenario, Strategy, Tier

NOWHERE = -1


@dataclass(slots=True, kw_only=True)
class Holdings:
    """Who holds what in one tier. The one thing that a simulation changes.

    Attributes:
        server: Of each copy; NOWHERE before it is placed and after it is dropped.
        source, start, end, segment, size_bytes: Of each copy; times in cells.
        free_bytes: Of each server.
        is_open: Whether a server takes new copies.
        is_up: Whether a server is part of the cluster.
    """

    server: Codes
    source: Codes
    start: Codes
    end: Codes
    segment: Codes
    size_bytes: Ints
    free_bytes: Ints
    is_open: Flags
    is_up: Flags
    disk_bytes: int

    @property
    def server_count(self) -> int:
        """How many servers there ever are."""
        return len(self.free_bytes)

    @property
    def columns(self) -> greedy.Columns:
        """Source, start, segment, size and server of all copies, as the kernels take them."""
        return self.source, self.start, self.segment, self.size_bytes, self.server

    @property
    def disks(self) -> tuple[Ints, Flags]:
        """Free bytes and which servers are open, as the kernels take them."""
        return self.free_bytes, self.is_open

    def counts(self) -> Ints:
        """Return how many copies each server holds."""
        held = self.server[self.server >= 0]
        return np.bincount(held, minlength=self.server_count)

    def give_back(self, rows: Ints) -> None:
        """Free the disk that the copies take, and note that nobody holds them."""
        held = rows[self.server[rows] >= 0]
        np.add.at(self.free_bytes, self.server[held], self.size_bytes[held])
        self.server[held] = NOWHERE


def make_holdings(scenario: Scenario, segments: Segments, copies: Copies, tier: Tier) -> Holdings:
    """Return the holdings of a tier before anything has arrived."""
    servers = scenario.servers_of(tier)
    disk_bytes = round(tier.disk_gb * 1e9)
    is_up = np.arange(servers) < tier.servers
    return Holdings(
        server=np.full(len(copies), NOWHERE, np.int32),
        source=segments.source[copies.segment],
        start=segments.start[copies.segment],
        end=segments.end[copies.segment],
        segment=copies.segment,
        size_bytes=segments.sizes_bytes()[copies.segment],
        free_bytes=np.full(servers, disk_bytes, np.int64),
        is_open=is_up.copy(),
        is_up=is_up,
        disk_bytes=disk_bytes,
    )


@compiled
def _put_at_random(
    rows: Ints,
    order: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    columns: tuple[Codes, Ints],
    server_of: Codes,
    disks: tuple[Ints, Flags],
) -> None:
    """Put each row on the allowed server with the smallest number in `order`; where it is counts as allowed."""
    segment, size = columns
    free, is_open = disks
    for position in range(rows.size):
        row = rows[position]
        here = server_of[row]
        best = here if here >= 0 and is_open[here] else -1
        for server in range(free.size):
            if server == here or not is_open[server] or free[server] < size[row]:
                continue
            is_first = best < 0 or order[position, server] < order[position, best]
            if is_first and not holds_copy(segment, server_of, row, server):
                best = server
        if best < 0:
            continue
        if here >= 0:
            free[here] += size[row]
        free[best] -= size[row]
        server_of[row] = best


class Board(ABC):
    """Places, moves and drops copies of one tier by one strategy.

    Args:
        held: What is changed; the board must be the only one that changes it from now on.
    """

    def __init__(self, held: Holdings) -> None:
        self.held = held

    def begin(self, now: int) -> None:  # noqa: B027 - most strategies do not look at the time
        """Take note that a cell of time begins."""

    @abstractmethod
    def place(self, rows: Ints) -> None:
        """Put each copy, in order, on an open server with room that holds no other copy; else nowhere."""

    @abstractmethod
    def move(self, rows: Ints, limit: int) -> int:
        """Look at each copy, in order, and move it if another server is liked better, up to `limit` moves.

        Returns:
            How many moved.
        """

    def drop(self, rows: Ints) -> None:
        """Take copies away from their servers."""
        self._forget(rows[self.held.server[rows] >= 0])
        self.held.give_back(rows)

    def _forget(self, rows: Ints) -> None:  # noqa: B027 - a strategy may know nothing
        """Take copies, all of them held, out of what the strategy knows."""


class GreedyBoard(Board):
    """Every copy goes where it costs least, by one of the cost functions."""

    def __init__(self, held: Holdings, fields: greedy.Fields) -> None:
        super().__init__(held)
        self._fields = fields
        rows = np.flatnonzero(held.server >= 0)
        greedy.shift_rows(fields, rows, held.columns, 1)

    def begin(self, now: int) -> None:  # noqa: D102 - as in Board
        if not self._fields.is_exact:
            legacy.set_now(self._fields.old, now)

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        held = self.held
        greedy.settle(self._fields, rows, held.columns, held.disks, len(rows) + 1)

    def move(self, rows: Ints, limit: int) -> int:  # noqa: D102 - as in Board
        held = self.held
        return greedy.settle(self._fields, rows, held.columns, held.disks, limit)

    def _forget(self, rows: Ints) -> None:
        held = self.held
        greedy.shift_rows(self._fields, rows, held.columns, -1)


class RandomBoard(Board):
    """Any open server that has room, as early Druid did."""

    def __init__(self, held: Holdings, draw: np.random.Generator) -> None:
        super().__init__(held)
        self._draw = draw

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        self._put(rows)

    def move(self, rows: Ints, limit: int) -> int:  # noqa: D102 - as in Board
        rows = rows[:limit]
        before = self.held.server[rows].copy()
        self._put(rows)
        return int((self.held.server[rows] != before).sum())

    def _put(self, rows: Ints) -> None:
        held = self.held
        order = self._draw.random((len(rows), held.server_count), dtype=np.float32)
        _put_at_random(rows, order, (held.segment, held.size_bytes), held.server, held.disks)


def make_board(
    strategy: Strategy,
    held: Holdings,
    segments: Segments,
    scenario: Scenario,
    draw: np.random.Generator,
) -> Board:
    """Return the board of a strategy, over what is held already."""
    if strategy == "random":
        return RandomBoard(held, draw)
    return GreedyBoard(held, make_fields(strategy, held.server_count, segments, scenario))


def make_fields(
    strategy: Strategy, server_count: int, segments: Segments, scenario: Scenario
) -> greedy.Fields:
    """Return the fields of empty servers for one of the cost functions.

    Raises:
        Invalid: They would take more memory than a laptop has.
    """
    is_exact = strategy == "cost"
    hours = np.array([source.hours for source in segments.sources], np.int64)
    sizes = np.array([source.size_bytes for source in segments.sources], np.int64)
    nothing = np.empty(0, np.int64)
    return greedy.Fields(
        old=legacy.make_field(
            hours=nothing if is_exact else hours,
            sizes_bytes=nothing if is_exact else sizes,
            server_count=server_count,
            cells=0 if is_exact else scenario.total_hours,
            is_step=strategy != "legacy-linear",
        ),
        exact=exact.make_field(
            hours=hours if is_exact else nothing,
            server_count=server_count if is_exact else 0,
            cells=scenario.total_hours if is_exact else 0,
            half_life_hours=scenario.half_life_hours,
        ),
        is_exact=is_exact,
        min_saving=scenario.min_saving if is_exact else 0.0,
        out=np.empty(server_count),
    )
