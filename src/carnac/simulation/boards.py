"""A board holds the copies of one tier and lets a strategy place and move them.

All strategies share the bookkeeping (who holds what, free disk, which servers are open); a strategy is only the choice
of a server. So what differs between two runs of one scenario is the strategy and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.columns import room_for, segment_columns
from carnac.core.balancing.compiled import compiled
from carnac.core.balancing.index import CostIndex
from carnac.simulation import legacy
from carnac.simulation.arrivals import Codes, Copies, Flags, Ints, Segments
from carnac.simulation.scenario import HOUR_MS, Scenario, Strategy, Tier

NOWHERE = -1
MOVE_BATCH = 64
"""Copies that the cost strategy takes up at once: few among so many that each hardly sees the others missing."""


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
    def columns(self) -> tuple[Codes, Codes, Codes, Ints]:
        """Source, start, segment and size of all copies, as the kernels take them."""
        return self.source, self.start, self.segment, self.size_bytes

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
            if is_first and not legacy.holds_copy(segment, server_of, row, server):
                best = server
        if best < 0:
            continue
        if here >= 0:
            free[here] += size[row]
        free[best] -= size[row]
        server_of[row] = best


@compiled
def other_holders(rows: Ints, segment: Codes, server_of: Codes) -> tuple[Ints, Ints]:
    """Return, for each row, which servers hold another copy of its segment: offsets, and the servers one after another.

    Copies are neighbours, and rows that are about to be placed are nowhere yet.
    """
    offsets = np.zeros(rows.size + 1, np.int64)
    barred = np.empty(rows.size * legacy.REPLICAS_MAX, np.int64)
    count = 0
    for position in range(rows.size):
        row = rows[position]
        for step in (-1, 1):
            other = row + step
            while 0 <= other < segment.size and segment[other] == segment[row]:
                if server_of[other] >= 0:
                    barred[count] = server_of[other]
                    count += 1
                other += step
        offsets[position + 1] = count
    return offsets, barred[:count]


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
    def move(self, rows: Ints) -> int:
        """Look at each copy, in order, and move it if another server is liked better; return how many moved."""

    def drop(self, rows: Ints) -> None:
        """Take copies away from their servers."""
        self._forget(rows[self.held.server[rows] >= 0])
        self.held.give_back(rows)

    def _forget(self, rows: Ints) -> None:  # noqa: B027 - a strategy may know nothing
        """Take copies, all of them held, out of what the strategy knows."""


class LegacyBoard(Board):
    """The cost function of Druid before 0.9.1; see `carnac.simulation.legacy`."""

    def __init__(
        self, held: Holdings, segments: Segments, cells: int, *, is_step: bool = True
    ) -> None:
        super().__init__(held)
        self._field = legacy.make_field(
            hours=np.array([source.hours for source in segments.sources], np.int64),
            sizes_bytes=np.array([source.size_bytes for source in segments.sources], np.int64),
            server_count=held.server_count,
            cells=cells,
            is_step=is_step,
        )
        rows = np.flatnonzero(held.server >= 0)
        legacy.shift_rows(self._field, rows, held.columns, held.server, 1)

    def begin(self, now: int) -> None:  # noqa: D102 - as in Board
        legacy.set_now(self._field, now)

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        held = self.held
        legacy.place_all(self._field, rows, held.columns, held.server, held.disks)

    def move(self, rows: Ints) -> int:  # noqa: D102 - as in Board
        held = self.held
        return legacy.move_all(self._field, rows, held.columns, held.server, held.disks)

    def _forget(self, rows: Ints) -> None:
        held = self.held
        legacy.shift_rows(self._field, rows, held.columns, held.server, -1)


class CostBoard(Board):
    """The exact cost of source 2, greedily: a copy goes, or stays, where it costs least.

    Moves are looked at in batches: a batch is taken up, and put down again one copy after the other.
    """

    def __init__(self, held: Holdings, *, half_life_ms: int) -> None:
        super().__init__(held)
        self._all = segment_columns(
            held.source,
            held.start.astype(np.int64) * HOUR_MS,
            held.end.astype(np.int64) * HOUR_MS,
            sizes_bytes=held.size_bytes,
            copy_of=held.segment,
        )
        self._index = CostIndex(held.server_count, half_life_ms=half_life_ms)
        rows = np.flatnonzero(held.server >= 0)
        self._index.load_many(held.server[rows].astype(np.int64), self._all.take(rows))

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        if not len(rows):
            return
        held = self.held
        offsets, barred = other_holders(rows, held.segment, held.server)
        room = room_for(
            len(rows),
            held.server_count,
            allowed=held.is_open,
            free_bytes=held.free_bytes,
            capacity_bytes=np.full(held.server_count, held.disk_bytes),
            barred_offsets=offsets,
            barred_servers=barred,
        )
        server = self._index.place(self._all.take(rows), room)
        held.server[rows] = server
        placed = rows[server >= 0]
        np.subtract.at(held.free_bytes, held.server[placed], held.size_bytes[placed])

    def move(self, rows: Ints) -> int:  # noqa: D102 - as in Board
        held, moved = self.held, 0
        for first in range(0, len(rows), MOVE_BATCH):
            batch = rows[first : first + MOVE_BATCH]
            before = held.server[batch].copy()
            self.drop(batch)
            self.place(batch)
            nowhere = held.server[batch] < 0
            if nowhere.any():
                self._put_back(batch[nowhere], before[nowhere])
            moved += int((held.server[batch] != before).sum())
        return moved

    def _put_back(self, rows: Ints, server: Codes) -> None:
        self.held.server[rows] = server
        np.subtract.at(self.held.free_bytes, server, self.held.size_bytes[rows])
        self._index.load_many(server.astype(np.int64), self._all.take(rows))

    def _forget(self, rows: Ints) -> None:
        self._index.drop_many(self.held.server[rows].astype(np.int64), self._all.take(rows))


class RandomBoard(Board):
    """Any open server that has room, as early Druid did."""

    def __init__(self, held: Holdings, draw: np.random.Generator) -> None:
        super().__init__(held)
        self._draw = draw

    def place(self, rows: Ints) -> None:  # noqa: D102 - as in Board
        self._put(rows)

    def move(self, rows: Ints) -> int:  # noqa: D102 - as in Board
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
    if strategy == "cost":
        return CostBoard(held, half_life_ms=round(scenario.half_life_hours * HOUR_MS))
    if strategy == "random":
        return RandomBoard(held, draw)
    return LegacyBoard(held, segments, scenario.total_hours, is_step=strategy == "legacy")
