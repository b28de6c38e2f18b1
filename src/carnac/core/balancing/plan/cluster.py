"""A cluster as the balancer sees it: servers, segments, and which server holds what.

Bulk state is kept in arrays, one element per segment or replica, because a plan over three million of them must not
make three million objects. A segment or a server is its index into the tables; the edge speaks of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Flags, Ints
from carnac.errors import Invalid

DEFAULT_TIER = "_default_tier"
"""Druid's name of the tier of servers that name none."""


class Hold(IntEnum):
    """How a server holds a replica."""

    LOADED = 0
    """It is there and serves."""
    LOADING = 1
    """It is in the load queue. Counts towards disk and cost as if it were there."""
    LEAVING = 2
    """It serves until it is dropped: at once, or when its copy elsewhere has loaded. On disk; not in the cost."""
    BLOCKED = 3
    """It serves nothing and is no copy to count on, but has its room and keeps others off its server: it could not be
    loaded, or the server was told to drop it and may have done so by now. Not in the cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that holds segments on its disk.

    Attributes:
        capacity_bytes: Bytes that it may hold, queued loads included; >= 0.
        decommissioning: Whether it gets nothing new and is emptied.
    """

    server_id: str
    capacity_bytes: int
    tier: str = DEFAULT_TIER
    decommissioning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentTable:
    """Segments as columns.

    Attributes:
        ids: Segment ids by index; anything that can be indexed, so that a simulator need not make strings.
        datasources: Names by datasource code.
        datasource: Code of each segment's datasource.
        start_ms: Interval start, epoch ms.
        end_ms: Interval end, exclusive.
    """

    ids: Sequence[str]
    datasources: tuple[str, ...]
    datasource: Codes
    start_ms: Ints
    end_ms: Ints
    size_bytes: Ints
    partition: Codes

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.datasource), len(self.start_ms), len(self.end_ms)}
        lengths |= {len(self.size_bytes), len(self.partition)}
        if len(lengths) > 1:
            raise Invalid(
                "the columns of a segment table differ in length; give each one element per segment"
            )
        if np.any(self.start_ms >= self.end_ms):
            worst = int(np.argmax(self.start_ms >= self.end_ms))
            raise Invalid(f"segment {self.ids[worst]} must end after it starts", segment=worst)
        if np.any(self.size_bytes < 0):
            worst = int(np.argmin(self.size_bytes))
            raise Invalid(f"segment {self.ids[worst]} has a negative size", segment=worst)

    def __len__(self) -> int:
        return len(self.datasource)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicas:
    """Pairs of a segment and a server that holds it, one element each. A segment is on a server once at most."""

    segment: Ints
    server: Codes
    hold: Codes

    def __len__(self) -> int:
        return len(self.segment)

    def among(self, segment: Ints, server: Codes | Ints, server_count: int) -> Flags:
        """Return which are among some pairs of segment and server."""
        keys = self.segment * server_count + self.server
        return np.isin(keys, segment * server_count + server.astype(np.int64))

    def left(self, leaving: Flags) -> Replicas:
        """Return these with some of them leaving; a load that is only queued is cancelled and gone at once."""
        hold = np.where(leaving, np.int32(Hold.LEAVING), self.hold)
        marked = Replicas(segment=self.segment, server=self.server, hold=hold)
        return marked.where(~(leaving & (self.hold == Hold.LOADING)))

    def where(self, mask: Flags) -> Replicas:
        """Return those for which the mask is true."""
        return Replicas(segment=self.segment[mask], server=self.server[mask], hold=self.hold[mask])

    def plus(self, segment: Ints, server: Codes, hold: Hold) -> Replicas:
        """Return these and more, all held in one way."""
        return Replicas(
            segment=np.concatenate([self.segment, segment]),
            server=np.concatenate([self.server, server]),
            hold=np.concatenate([self.hold, np.full(len(segment), hold, np.int32)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Departures:
    """Moves of late, by which nothing moves back too soon (BL-2): which segment left which server, and when."""

    segment: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    server: Codes = field(default_factory=lambda: np.empty(0, np.int32))
    at_ms: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def since(self, at_ms: int) -> Departures:
        """Return those after an instant."""
        late = self.at_ms > at_ms
        return Departures(
            segment=self.segment[late], server=self.server[late], at_ms=self.at_ms[late]
        )

    def plus(self, segment: Ints, server: Codes, at_ms: int) -> Departures:
        """Return these and more, all at one instant."""
        return Departures(
            segment=np.concatenate([self.segment, segment]),
            server=np.concatenate([self.server, server]),
            at_ms=np.concatenate([self.at_ms, np.full(len(segment), at_ms, np.int64)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterState:
    """All that a plan depends on.

    Attributes:
        now_ms: The present, epoch ms.
        broadcast: Segments that are on every server and never balanced; None if there are none.
    """

    servers: tuple[Server, ...]
    segments: SegmentTable
    replicas: Replicas
    now_ms: int = 0
    departures: Departures = field(default_factory=Departures)
    broadcast: Flags | None = None

    @property
    def tiers(self) -> tuple[str, ...]:
        """The names of the tiers, sorted."""
        return tuple(sorted({server.tier for server in self.servers}))

    def capacity_bytes(self) -> Ints:
        """Return capacity by server."""
        return np.array([server.capacity_bytes for server in self.servers], np.int64)

    def used_bytes(self) -> Ints:
        """Return what is on each disk or queued for it."""
        used = np.zeros(len(self.servers), np.int64)
        np.add.at(used, self.replicas.server, self.segments.size_bytes[self.replicas.segment])
        return used

    def decommissioning(self) -> Flags:
        """Return which servers are to be emptied."""
        return np.array([server.decommissioning for server in self.servers], np.bool_)

    def in_tier(self, tier: str) -> Flags:
        """Return which servers are in a tier."""
        return np.array([server.tier == tier for server in self.servers], np.bool_)

    def counted(self) -> Flags:
        """Return which replicas count towards the cost: loaded or queued, and not broadcast."""
        counted: Flags = self.replicas.hold < Hold.LEAVING
        if self.broadcast is not None:
            counted &= ~self.broadcast[self.replicas.segment]
        return counted
