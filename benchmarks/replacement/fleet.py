"""Servers that load one segment after the other, and one of which dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from benchmarks.replacement.scenario import Replacement
from carnac.core.log.entries import Entry


@dataclass(slots=True, kw_only=True)
class Server:
    """The segments of a server.

    Attributes:
        loaded: Ids of the segments on its disk.
        queue: Segments that it is to load; the first one is on its way.
        left_s: Seconds until that one is there.
    """

    server_id: str
    loaded: set[str] = field(default_factory=set)
    queue: deque[Entry] = field(default_factory=deque)
    left_s: int = 0
    is_alive: bool = True

    @property
    def loading(self) -> Set[str]:
        """Ids of what it is to load."""
        return {entry.segment_id for entry in self.queue}


class Fleet:
    """All servers. Those that have died count as alive until that is noticed.

    Attributes:
        now_s: The second that it is.
        known: Servers that coordinator and broker take for alive.
    """

    def __init__(self, scenario: Replacement) -> None:
        self._scenario = scenario
        self._servers = tuple(
            Server(server_id=f"server-{number + 1}") for number in range(scenario.servers)
        )
        for entry, on in zip(scenario.old_entries, scenario.old_on, strict=True):
            self._servers[on].loaded.add(entry.segment_id)
        self._died_s: int | None = None
        self.known: tuple[Server, ...] = self._servers
        self.now_s = -1

    @property
    def announced(self) -> Set[str]:
        """Ids of the segments of which it is thought that they are loaded."""
        return {one for server in self.known for one in server.loaded}

    @property
    def readable(self) -> Set[str]:
        """Ids of the segments that a server that lives has loaded."""
        return {one for server in self._servers if server.is_alive for one in server.loaded}

    def kill(self) -> None:
        """The victim dies at the beginning of the next second, and its segments are gone with it."""
        self._servers[self._scenario.victim].is_alive = False
        self._died_s = self.now_s + 1

    def advance(self) -> None:
        """One more second: loads go on, and a death may be noticed."""
        self.now_s += 1
        if self._died_s is not None and self.now_s >= self._died_s + self._scenario.notice_s:
            self.known = tuple(server for server in self._servers if server.is_alive)
        for server in self._servers:
            if server.is_alive and server.queue:
                server.left_s -= 1
                if not server.left_s:
                    server.loaded.add(server.queue.popleft().segment_id)
                    self._begin(server)

    def place(self, wanted: Iterable[Entry]) -> None:
        """Let the known server with the fewest segments load each that no known server has or loads."""
        held = {one for server in self.known for one in server.loaded | server.loading}
        for entry in wanted:
            if entry.segment_id in held:
                continue
            server = min(self.known, key=lambda one: len(one.loaded) + len(one.queue))
            server.queue.append(entry)
            if len(server.queue) == 1:
                self._begin(server)

    def unload(self, server_id: str, segment_id: str) -> None:
        """A server drops a segment, and loads it no further."""
        for server in self._servers:
            if server.server_id != server_id or not server.is_alive:
                continue
            server.loaded.discard(segment_id)
            first = server.queue[0] if server.queue else None
            server.queue = deque(one for one in server.queue if one.segment_id != segment_id)
            if server.queue and server.queue[0] is not first:
                self._begin(server)

    def _begin(self, server: Server) -> None:
        server.left_s = self._scenario.load_s_of(server.queue[0]) if server.queue else 0
