"""Plans before the cost functions are machine code, and how they become it.

Compiling them takes some ten seconds of a processor, once after each installation, and minutes on a busy machine.
Meanwhile new segments are loaded by room alone. No plan that is made here calls a compiled function.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from carnac.core.balancing.cost.columns import (
    NOWHERE,
    Ints,
    Room,
    SegmentColumns,
    room_for,
)
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.live.news import Newcomers
from carnac.core.balancing.live.picture import LiveSegment, MoveUnderWay, ServerView, cluster_of
from carnac.core.balancing.live.planning import ClusterFacts, plan_cluster
from carnac.core.balancing.plan.limits import throttled
from carnac.core.balancing.plan.rules import RuleSet
from carnac.core.time.intervals import Interval

SAMPLE_SEGMENTS = 40
DAY_MS = 86_400_000


class RoomIndex(CostIndex):
    """Knows no costs: each segment goes to the server whose free share is the largest, then to the lower number."""

    def place(self, segments: SegmentColumns, room: Room | None = None) -> Ints:
        """Return the server of each row; `NOWHERE` where none is allowed or has room. Time: rows by servers."""
        room = room or room_for(segments.row_count, self.server_count)
        free = room.free_bytes.copy()
        chosen = np.full(segments.row_count, NOWHERE, np.int64)
        homes: dict[int, list[int]] = {}
        for row in range(segments.row_count):
            size, held = segments.sizes_bytes[row], homes.setdefault(int(segments.copy_of[row]), [])
            barred = room.barred_servers[slice(*room.barred_offsets[row : row + 2])]
            fits = room.allowed[room.kinds[row]] & (free >= size)
            fits[[*held, *barred]] = False
            if fits.any():
                share = free / np.maximum(room.capacity_bytes, 1)
                best = int(np.argmax(np.where(fits, share, -np.inf)))
                chosen[row] = best
                free[best] -= size
                held.append(best)
        return chosen

    def drop_many(self, servers: Ints, segments: SegmentColumns) -> None:
        """Do nothing: it knows nothing of what servers hold."""


def plan_by_room(facts: ClusterFacts) -> list[tuple[str, str, str]]:
    """Return where segments that nobody holds are loaded, in the order of the queues: segment, server, why."""
    servers = list(facts.servers)
    held = {
        one
        for view in servers
        for holds in (view.loaded, view.loading, view.unloading, view.failed)
        for one in holds
    }
    cluster = cluster_of(facts.live, servers, now_ms=facts.now_ms).cluster
    limits = throttled(facts.throttles, len(facts.live))
    free = (cluster.capacity_bytes() * limits.max_fill).astype(np.int64) - cluster.used_bytes()
    index = RoomIndex(len(servers))
    newcomers = Newcomers(cluster, free, index, facts.rules, limits.loads)
    return newcomers.place(
        [one for one in facts.live if one.segment_id not in held], now_ms=facts.now_ms
    )


@cache
def compile_all() -> None:
    """Have each function compiled that runs of the planner call, by small runs that call them all: once a process."""
    days = [_segment(number) for number in range(SAMPLE_SEGMENTS)]
    ids = [one.segment_id for one in days]
    half = frozenset(ids[::2])
    full, empty = _server("a", frozenset(ids)), _server("b")
    leaving = replace(_server("c", half), is_decommissioning=True)
    move = MoveUnderWay(segment_id=ids[0], source_id="a", target_id="b", why="sample")
    for servers, moves in (
        ([full], []),
        ([full, empty], []),
        ([full, replace(empty, loaded=half), _server("c", frozenset(ids)), leaving], []),
        ([full, replace(empty, loading=tuple(ids[:9])), _server("d")], [move]),
    ):
        facts = ClusterFacts(live=days, servers=servers, rules=RuleSet(), now_ms=0, moves=moves)
        plan_cluster(facts).newcomers.place([_segment(SAMPLE_SEGMENTS)], now_ms=0)


def _segment(number: int) -> LiveSegment:
    return LiveSegment(
        segment_id=f"s{number}",
        datasource="sample",
        chunk=Interval(number * DAY_MS, (number + 1) * DAY_MS),
        partition=0,
        size_bytes=1_000,
    )


def _server(server_id: str, loaded: frozenset[str] = frozenset()) -> ServerView:
    return ServerView(
        server_id=server_id, tier="_default_tier", capacity_bytes=1 << 30, loaded=loaded
    )
