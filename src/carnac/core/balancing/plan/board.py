"""The state that a run works on: room on disks and in queues, the holders of segments, and moves that may not go back.

A run plans on a board, so that each decision sees the ones before it. The cluster that it was made of does not change.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from functools import cached_property

import numpy as np

from carnac.core.balancing.cost.columns import Flags, Ints
from carnac.core.balancing.cost.grouping import (
    Groups,
    RowsByKey,
    group_segments,
    rows_by_key,
    rows_of_groups,
)
from carnac.core.balancing.plan.cluster import ClusterState, Hold

UNBOUNDED = 1 << 62


class Reason(StrEnum):
    """Why something was planned, or was not. The value is the word in reports."""

    FIRST_REPLICA = "first_replica"
    """The tier does not serve the segment yet."""
    FURTHER_REPLICA = "further_replica"
    """The rule asks for more replicas than the tier has."""
    BROADCAST = "broadcast"
    """Its rule puts it on every server."""
    EVACUATE = "evacuate"
    """Its server is decommissioning."""
    SAVE = "save"
    """It costs less elsewhere."""
    REROUTE = "reroute"
    """It waited in a queue that is much longer."""

    SURPLUS = "surplus"
    """More replicas are served than the rule asks for."""
    DROP_RULE = "drop_rule"
    """A drop rule matches it."""
    UNUSED = "unused"
    """It is not a part of the data any more."""
    CANCELLED = "cancelled"
    """It was not loaded yet, and is loaded elsewhere instead."""

    NO_SERVER = "no_server"
    """The tier has no server that takes segments."""
    ALL_HOLD_IT = "all_hold_it"
    """Every server of the tier that takes segments holds it already."""
    CAME_FROM = "came_from"
    """It left the only servers that are left to choose from a short while ago (BL-2)."""
    QUEUE_FULL = "queue_full"
    """The load queues of the servers that are left to choose from are full."""
    NO_ROOM = "no_room"
    """No disk of the servers that are left to choose from has room."""
    THROTTLED = "throttled"
    """The run has done as much as it may; the next one goes on."""
    LAST_COPY = "last_copy"
    """Not dropped before its rule's replicas are served."""
    NO_RULE = "no_rule"
    """No rule matches it; it is left as it is."""
    TOO_LITTLE = "too_little"
    """Moving it would save less than a move must."""


class Board:
    """A cluster in the course of a run.

    Attributes:
        cluster: The cluster at the start of the run.
        free: Free bytes of each disk; queued loads and leaving replicas count as used. May be negative.
        capacity: The size of each disk.
        projected: Bytes of each server once its queue is done.
        queued: Loads in each queue.
        active: Flags of the servers that take segments.
        server_after: The server of each of the cluster's replicas when the moves that were planned are done.
    """

    def __init__(self, cluster: ClusterState, *, return_window_ms: int = 0) -> None:
        replicas, sizes = cluster.replicas, cluster.segments.size_bytes
        self.cluster = cluster
        self.capacity = cluster.capacity_bytes()
        used = cluster.used_bytes()
        self.free = self.capacity - used
        self.active: Flags = ~cluster.decommissioning()
        count = len(cluster.servers)
        leaves = np.flatnonzero(replicas.hold >= Hold.LEAVING)
        self.projected = used
        np.subtract.at(self.projected, replicas.server[leaves], sizes[replicas.segment[leaves]])
        loading = replicas.server[replicas.hold == Hold.LOADING]
        self.queued = np.bincount(loading, minlength=count)
        self._added: dict[int, list[int]] = defaultdict(list)
        self.server_after = replicas.server.copy()
        self._unsorted: list[tuple[Ints, Ints]] = []
        self._departed: dict[int, set[int]] = defaultdict(set)
        late = cluster.departures.since(cluster.now_ms - return_window_ms)
        for segment, server in zip(late.segment.tolist(), late.server.tolist(), strict=True):
            self._departed[segment].add(server)

    @cached_property
    def by_segment(self) -> RowsByKey:
        """The rows of the cluster's replicas by segment."""
        return rows_by_key(self.cluster.replicas.segment, len(self.cluster.segments))

    @cached_property
    def groups(self) -> Groups:
        """The segments by datasource and interval."""
        table = self.cluster.segments
        return group_segments(table.datasource.astype(np.int64), table.start_ms, table.end_ms)

    @cached_property
    def by_group(self) -> RowsByKey:
        """The segments of each group."""
        return rows_of_groups(self.groups)

    def holders(self, segment: int) -> Ints:
        """Return the servers that hold a segment in any way, or will after what the run has planned."""
        rows = self.by_segment.of(segment)
        held = self.cluster.replicas.server[rows].astype(np.int64)
        while self._unsorted:
            segments, servers = self._unsorted.pop()
            for one, server in zip(segments.tolist(), servers.tolist(), strict=True):
                self._added[one].append(server)
        added = self._added.get(segment)
        return held if added is None else np.concatenate([held, np.array(added, np.int64)])

    def holders_of_many(self, segments: Ints) -> tuple[Ints, Ints]:
        """Return the same for many segments: where each one's servers begin, and the servers."""
        if self._added or self._unsorted:
            lists = [self.holders(int(segment)) for segment in segments]
            count = np.array([len(servers) for servers in lists], np.int64)
            servers = np.concatenate([*lists, np.empty(0, np.int64)])
        else:
            offsets, rows = self.by_segment.offsets, self.by_segment.rows
            count = np.diff(offsets)[segments]
            ends = np.cumsum(count)
            within = np.arange(count.sum()) - np.repeat(ends - count, count)
            at = rows[np.repeat(offsets[segments], count) + within]
            servers = self.cluster.replicas.server[at].astype(np.int64)
        return np.concatenate([[0], np.cumsum(count)]).astype(np.int64), servers

    def add(self, segment: int, server: int) -> None:
        """Plan a load."""
        size = int(self.cluster.segments.size_bytes[segment])
        self._added[segment].append(server)
        self.free[server] -= size
        self.projected[server] += size
        self.queued[server] += 1

    def add_many(self, segments: Ints, servers: Ints) -> None:
        """Plan many loads."""
        sizes = self.cluster.segments.size_bytes[segments]
        np.subtract.at(self.free, servers, sizes)
        np.add.at(self.projected, servers, sizes)
        self.queued += np.bincount(servers, minlength=len(self.free))
        self._unsorted.append((segments, servers))

    def move(self, segment: int, source: int, target: int) -> None:
        """Plan a move. The source's disk is not free before it is done."""
        self.add(segment, target)
        self.projected[source] -= int(self.cluster.segments.size_bytes[segment])
        rows = self.by_segment.of(segment)
        row = rows[self.cluster.replicas.server[rows] == source][0]
        self.server_after[row] = target

    def reroute(self, segment: int, source: int, target: int) -> None:
        """Plan to load a segment on the target instead of on the source, in whose queue it waits."""
        self.add(segment, target)
        size = int(self.cluster.segments.size_bytes[segment])
        self.free[source] += size
        self.projected[source] -= size
        self.queued[source] -= 1

    def open_servers(
        self, segment: int, among: Flags, *, max_queue: int = 0, may_return: bool = False
    ) -> tuple[Flags, Reason | None]:
        """Return which servers could take a segment; if none, the reason.

        Args:
            segment: The segment.
            among: The servers to choose from, usually a tier.
            max_queue: Loads that a server may have queued; 0 is no limit.
            may_return: Whether it may go where it left a short while ago.
        """
        left = among & self.active
        left[self.holders(segment)] = False
        departed = self._departed.get(segment)
        if departed and not may_return:
            left[list(departed)] = False
        if max_queue:
            left &= self.queued < max_queue
        left &= self.free >= self.cluster.segments.size_bytes[segment]
        return left, None if left.any() else self._why_none(segment, among, max_queue)

    def _why_none(self, segment: int, among: Flags, max_queue: int) -> Reason:
        """Return the reason why no server could take a segment."""
        left = among & self.active
        if not left.any():
            return Reason.NO_SERVER
        left[self.holders(segment)] = False
        if not left.any():
            return Reason.ALL_HOLD_IT
        left[list(self._departed.get(segment, ()))] = False
        if not left.any():
            return Reason.CAME_FROM
        if max_queue and not (left & (self.queued < max_queue)).any():
            return Reason.QUEUE_FULL
        return Reason.NO_ROOM
