"""The holdings of servers in one tier, and the operations of a strategy on them.

All strategies share the bookkeeping (holdings, free disk, which servers are open); a strategy is only the choice of a
server. So two runs of one scenario differ in the strategy and in nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from carnac.simulation import greedy
from carnac.simulation.arrivals import Codes, Copies, Flags, Ints, Segments
from carnac.simulation.scenario import Scenario, Tier

NOWHERE = -1


@dataclass(slots=True, kw_only=True)
class Holdings:
    """The holdings of servers in one tier: the only state that a simulation changes.

    Attributes:
        server: Server of each copy; NOWHERE before it is placed and after it is dropped.
        source, start, end, segment, size_bytes: Columns of all copies; times in cells.
        free_bytes: Free bytes of each server.
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


class Board(ABC):
    """Places, moves and drops copies of one tier by one strategy.

    Args:
        held: Holdings to change; from now on the board must be the only one that changes them.
    """

    def __init__(self, held: Holdings) -> None:
        self.held = held

    def begin(self, now: int) -> None:  # noqa: B027 - most strategies do not look at the time
        """Take note that a cell of time begins."""

    def place(self, rows: Ints) -> None:
        """Put each copy, in order, on an open server with room that holds no other copy; else nowhere."""
        self.move(rows, len(rows) + 1)

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
