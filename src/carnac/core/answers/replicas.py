"""The choice of a server for each segment of a query, and the time that its answer may take."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A historical that may be asked.

    Attributes:
        loaded: Segments on its disk.
        loading: Those on their way to it.
        running: Queries that it runs.
    """

    server_id: str
    loaded: Set[str] = frozenset()
    loading: Set[str] = frozenset()
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The segments that each server is asked for.

    Attributes:
        parts: Segment ids by server, those of each in the order in which they were given.
        left: Segments that nobody can be asked for any more.
    """

    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left: Sequence[str] = ()


def plan_reads(
    sizes: Mapping[str, int],
    servers: Sequence[Server],
    tried: Mapping[str, Set[str]],
    *,
    part_bytes: int = 0,
) -> Assignment:
    """Return the server to ask for each segment.

    A server that has the segment loaded is asked before one that loads it, and this one before any other, which reads
    it from deep storage. Among servers without it, rendezvous hashing always chooses the same one, so that the part of
    the file that this server keeps is used again. Among several that have it, one that is already asked for little is
    chosen, so that one server answers a light query. Otherwise rendezvous hashing chooses among those whose load is at
    most an eighth above the fair part, so that a dashboard finds the results that servers kept of its last answers.
    Each query that a server runs beyond those of the least busy one counts as much as a fair part of this query. When
    all have their part, the server with the least load is chosen.

    Servers keep results of sets of segments, so one more segment should move no other one. So the newest is dealt last
    of its size, and the fair part, of a total that is rounded up by at most an eighth, changes rarely.

    Source: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2018).

    Args:
        sizes: Bytes of each segment's file, by segment id.
        servers: Servers that live and do not drain.
        tried: Servers that could not read a segment, by segment id; they are not asked again.
        part_bytes: Bytes that are asked of one server before another one is asked, if not all servers are needed. Each
            of several servers has about the same load.
    """
    fair_bytes = max(1, _rounded_up(sum(sizes.values())) // max(1, len(servers)))
    bound_bytes = fair_bytes + fair_bytes // 8
    is_light = sum(sizes.values()) <= part_bytes and not any(tried.values())
    part_bytes = _even_part(sum(sizes.values()), part_bytes, len(servers))
    least = min((one.running for one in servers), default=0)
    load = {one.server_id: (one.running - least) * fair_bytes for one in servers}
    part = dict.fromkeys(load, 0)
    chosen: dict[str, str] = {}
    for segment_id in sorted(sizes, key=lambda one: (-(sizes[one].bit_length() // 2), one)):
        there = [one for one in servers if one.server_id not in tried.get(segment_id, ())]
        if not there:
            continue
        holders = [one for one in there if segment_id in one.loaded]
        if holders:
            size = sizes[segment_id]
            begun = [one for one in holders if 0 < part[one.server_id] <= part_bytes - size]
            free = [one for one in holders if load[one.server_id] + size <= bound_bytes]
            found = (
                min(begun or holders, key=lambda one: (load[one.server_id], one.server_id))
                if begun or not free
                else max(free, key=lambda one: rendezvous(segment_id, one.server_id))
            )
        else:
            coming = [one for one in there if segment_id in one.loading]
            found = max(coming or there, key=lambda one: rendezvous(segment_id, one.server_id))
        if is_light and sizes[segment_id] and sizes.keys() <= found.loaded:
            return Assignment(parts={found.server_id: list(sizes)})  # all others follow the first
        load[found.server_id] += sizes[segment_id]
        part[found.server_id] += sizes[segment_id]
        chosen[segment_id] = found.server_id
    return _assignment(sizes, chosen)


def _assignment(sizes: Mapping[str, int], chosen: Mapping[str, str]) -> Assignment:
    parts: dict[str, list[str]] = {}
    for segment_id in filter(chosen.get, sizes):
        parts.setdefault(chosen[segment_id], []).append(segment_id)
    return Assignment(parts=parts, left=[one for one in sizes if one not in chosen])


def _even_part(total_bytes: int, part_bytes: int, servers: int) -> int:
    """Return how much one server is asked for: with an even part of as many as are needed, an eighth more at most.

    0: all are needed, and each is asked for what it is always asked for.
    """
    if not part_bytes or total_bytes <= part_bytes:
        return part_bytes
    needed = -(-total_bytes // part_bytes)
    return min(part_bytes, total_bytes // needed * 9 // 8) if needed < servers else 0


def _rounded_up(total_bytes: int) -> int:
    """Return the next number of which only the four highest bits are set."""
    step = 1 << max(0, total_bytes.bit_length() - 4)
    return -(-total_bytes // step) * step


def rendezvous(segment_id: str, server_id: str) -> int:
    """Return how much a segment belongs to a server: the server with the highest number has it while that is there."""
    text = f"{segment_id}/{server_id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


TIMES_USUAL = 5
"""A server that takes so many times as long as it did of late hangs."""
LEAST_MS = 1_000
"""One that is usually fast may be slow for a moment: it is waited for so long in any case."""
USUAL_SHARE = 0.9
"""How much of what was usual is left after an answer that came sooner."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one server's answers take, as far as was seen. Each change is a new value.

    Attributes:
        most_ms: The limit is never higher.
        usual_ms: How long its answers take that need no computing: of late, at the most.
    """

    most_ms: int
    usual_ms: float = 0.0

    @property
    def limit_ms(self) -> int:
        """How long an answer is waited for."""
        return min(self.most_ms, max(LEAST_MS, int(TIMES_USUAL * self.usual_ms)))

    def heard(self, took_ms: float) -> Patience:
        """Take note of an answer."""
        return replace(self, usual_ms=max(0.0, took_ms, USUAL_SHARE * self.usual_ms))

    def missed(self) -> Patience:
        """Take note of an answer that did not come in time: the next one is waited for twice as long."""
        return replace(self, usual_ms=2 * self.limit_ms / TIMES_USUAL)
