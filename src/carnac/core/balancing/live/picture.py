"""The state of a running cluster, from the segments of the log, the holdings of servers, and moves under way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from carnac.core.balancing.cost.columns import Flags
from carnac.core.balancing.plan.cluster import (
    ClusterState,
    Departures,
    Hold,
    Replicas,
    SegmentTable,
    Server,
)
from carnac.core.time.intervals import Interval

NO_TIME = Interval(0, 1)
"""Interval of a segment that a server holds and the log no longer knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSegment:
    """A segment that the newest revision needs.

    Attributes:
        chunk: The time chunk of its first entry.
        partition: Its partition id there.
        size_bytes: Of its file.
    """

    segment_id: str
    datasource: str
    chunk: Interval
    partition: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """A historical that is alive, and its holdings as far as they are known.

    Attributes:
        capacity_bytes: Bytes that it may hold.
        is_decommissioning: Whether it is emptied and gets nothing new.
        is_draining: Whether it is about to stop; it gets nothing new, and no queries.
        obeys: Whether it has seen the fence of the leading coordinator. Until then an order of an earlier leader may
            still arrive and take any segment away, so its segments are not counted on.
        loaded: Ids of segments on its disk, without those that it was ordered to unload.
        loading: Ids of segments that it was ordered to load, in order.
        unloading: Ids of segments that it was ordered to unload, until it reports that it does not hold them any more.
            An order without a report may still arrive.
        failed: Ids of segments that it could not load.
        sizes: Bytes of segments that it holds, by id; at least of those that the log does not know.
    """

    server_id: str
    tier: str
    capacity_bytes: int
    is_decommissioning: bool = False
    is_draining: bool = False
    obeys: bool = True
    loaded: Set[str] = frozenset()
    loading: Collection[str] = ()
    unloading: Set[str] = frozenset()
    failed: Set[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether its loaded segments are counted on."""
        return self.obeys and not self.is_draining


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveUnderWay:
    """A copy that is loaded elsewhere and leaves when that is done.

    Attributes:
        why: The word of the reason, in reports.
    """

    segment_id: str
    source_id: str
    target_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """A move that has ended: the segment left the server.

    Attributes:
        at_ms: When, epoch milliseconds, UTC.
    """

    segment_id: str
    server_id: str
    at_ms: int


def waited_for(servers: Sequence[ServerView], away: Collection[ServerView]) -> list[ServerView]:
    """Return servers that have gone as those that get nothing, with the copies that need not be made anew yet.

    Those are the ones that another server has loaded and answers for: where none does, nothing is waited for.
    """
    there = {one.server_id for one in servers}
    loaded = {segment_id for one in servers if not one.is_draining for segment_id in one.loaded}
    return [
        ServerView(
            server_id=one.server_id,
            tier=one.tier,
            capacity_bytes=0,
            is_draining=True,
            loaded=one.loaded & loaded,
        )
        for one in away
        if one.server_id not in there
    ]


def is_under_way(move: MoveUnderWay, servers: Mapping[str, ServerView]) -> bool:
    """Whether the move can still end: its source has the segment, and its target has it or is loading it."""
    source, target = servers.get(move.source_id), servers.get(move.target_id)
    if source is None or target is None or move.segment_id not in source.loaded:
        return False
    return move.segment_id in target.loaded or move.segment_id in target.loading


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A cluster, with a flag for each segment that the log needs.

    Attributes:
        used: Flags of the segments that the log needs. Servers still hold the others.
    """

    cluster: ClusterState
    used: Flags


def cluster_of(
    live: Collection[LiveSegment],
    servers: Sequence[ServerView],
    *,
    now_ms: int,
    moves: Collection[MoveUnderWay] = (),
    departed: Collection[Departed] = (),
) -> Picture:
    """Return the state that a run of the planner starts from.

    A copy counts as leaving only while its move can still end. A segment that a server failed to load, or was ordered
    to unload, is no copy to count on, and is not tried there again.

    Args:
        live: Segments that the newest revision needs.
        servers: Those that are alive and have said what they hold.
        now_ms: The present, epoch milliseconds, UTC.
        moves: That were ordered and have not ended.
        departed: Moves that have.
    """
    table, row_of = _table_of(live, servers)
    leaving = _leaving(moves, servers)
    server_of = {server.server_id: number for number, server in enumerate(servers)}
    rows: list[tuple[int, int, int]] = []
    for number, server in enumerate(servers):
        goes: Set[str] = leaving.get(server.server_id, frozenset())
        held = dict.fromkeys((*server.unloading, *server.failed), Hold.BLOCKED)
        held |= dict.fromkeys(server.loading, Hold.LOADING)
        held |= {one: Hold.LEAVING if one in goes else Hold.LOADED for one in server.loaded}
        rows += [(row_of[one], number, int(hold)) for one, hold in held.items()]
    places = np.array(rows, np.int64).reshape(-1, 3)
    past = [one for one in departed if one.segment_id in row_of and one.server_id in server_of]
    cluster = ClusterState(
        servers=tuple(map(_server_of, servers)),
        segments=table,
        replicas=Replicas(
            segment=places[:, 0].copy(),
            server=places[:, 1].astype(np.int32),
            hold=places[:, 2].astype(np.int32),
        ),
        now_ms=now_ms,
        departures=Departures(
            segment=np.array([row_of[one.segment_id] for one in past], np.int64),
            server=np.array([server_of[one.server_id] for one in past], np.int32),
            at_ms=np.array([one.at_ms for one in past], np.int64),
        ),
    )
    used = np.arange(len(table)) < len(live)
    return Picture(cluster=cluster, used=used)


def table_of(segments: Collection[LiveSegment], codes: Mapping[str, int]) -> SegmentTable:
    """Return segments as a table, in their order; `codes` are the numbers of datasources."""
    return SegmentTable(
        ids=[one.segment_id for one in segments],
        datasources=tuple(sorted(codes, key=codes.__getitem__)),
        datasource=np.array([codes[one.datasource] for one in segments], np.int32),
        start_ms=np.array([one.chunk.start_ms for one in segments], np.int64),
        end_ms=np.array([one.chunk.end_ms for one in segments], np.int64),
        size_bytes=np.array([one.size_bytes for one in segments], np.int64),
        partition=np.array([one.partition for one in segments], np.int32),
    )


def codes_of(segments: Collection[LiveSegment]) -> dict[str, int]:
    """Return a number for each datasource, by name."""
    names = sorted({one.datasource for one in segments})
    return {name: code for code, name in enumerate(names)}


def _table_of(
    live: Collection[LiveSegment], servers: Sequence[ServerView]
) -> tuple[SegmentTable, dict[str, int]]:
    """Return the live segments, then what servers hold beside them, as they take room on disks."""
    row_of = {one.segment_id: row for row, one in enumerate(live)}
    others: dict[str, LiveSegment] = {}
    for server in servers:
        for held in (server.loaded, server.loading, server.unloading, server.failed):
            for segment_id in held:
                if segment_id not in row_of and segment_id not in others:
                    others[segment_id] = LiveSegment(
                        segment_id=segment_id,
                        datasource="",
                        chunk=NO_TIME,
                        partition=0,
                        size_bytes=server.sizes.get(segment_id, 0),
                    )
    row_of |= {segment_id: len(row_of) + row for row, segment_id in enumerate(others)}
    rows = [*live, *others.values()]
    return table_of(rows, codes_of(rows)), row_of


def _leaving(moves: Collection[MoveUnderWay], servers: Sequence[ServerView]) -> dict[str, set[str]]:
    by_id = {server.server_id: server for server in servers}
    found: dict[str, set[str]] = {}
    for move in moves:
        if is_under_way(move, by_id):
            found.setdefault(move.source_id, set()).add(move.segment_id)
    return found


def _server_of(server: ServerView) -> Server:
    return Server(
        server_id=server.server_id,
        capacity_bytes=0 if server.is_draining else server.capacity_bytes,
        tier=server.tier,
        decommissioning=server.is_decommissioning,
    )
