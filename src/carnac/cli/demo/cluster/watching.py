"""Observations of a cluster while it is queried: the head, loaded segments, events."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.console.cluster import Asked, ClusterStory, Moment, Step
from carnac.errors import CarnacError
from carnac.flight.client import FlightSegmentServer
from carnac.ports.serving import HoldState, Role

if TYPE_CHECKING:
    from carnac.cli.demo.cluster.checks import Judged
    from carnac.cli.demo.cluster.processes import Life
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.store import Store

PERIOD_S = 0.5
ASK_TIMEOUT_MS = 2_000
"""Time limit for asking a historical that may just have been killed."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Looks at a cluster twice a second, in a thread of its own, until `stop`.

    Attributes:
        names: Names of the historicals, by server id.
        started_ms: Where the picture begins, epoch milliseconds.
    """

    metadata: MetadataStore
    store: Store
    clock: Clock
    names: dict[str, str] = field(default_factory=dict)
    started_ms: int = 0
    _moments: list[tuple[int, str]] = field(default_factory=list)
    _revisions: list[tuple[int, str, int]] = field(default_factory=list)
    _segments: list[tuple[int, str, int]] = field(default_factory=list)
    _clients: dict[str, FlightSegmentServer] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self.started_ms = self.clock.now_ms()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking. Idempotent."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def note(self, text: str) -> None:
        """Write down that something happened."""
        self._moments.append((self.clock.now_ms(), text))

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            with suppress(CarnacError):  # the next look is soon
                self._look()

    def _look(self) -> None:
        self._revisions.append((self.clock.now_ms(), "published", self.store.head().revision))
        for server in self.metadata.servers(Role.HISTORICAL):
            name = self.names.get(server.server_id)
            if name is None:
                continue
            loaded = 0
            with suppress(CarnacError):  # it was killed, and its lease is not over yet
                loaded = self._count_loaded(server.url)
            self._segments.append((self.clock.now_ms(), name, loaded))

    def _count_loaded(self, url: str) -> int:
        if url not in self._clients:
            self._clients[url] = FlightSegmentServer(url, call_timeout_ms=ASK_TIMEOUT_MS)
        holdings = self._clients[url].inventory().holdings
        return sum(one.state is HoldState.LOADED for one in holdings)

    def story(self, judged: Sequence[Judged], lives: Sequence[Life], end_ms: int) -> ClusterStory:
        """Return what the picture shows."""

        def seconds(at_ms: int) -> float:
            return (min(at_ms, end_ms) - self.started_ms) / 1000

        steps = [*self._revisions, *_answered(judged)]
        return ClusterStory(
            asked=[
                Asked(
                    at_s=seconds(one.sample.at_ms), took_ms=one.sample.took_ms, verdict=one.verdict
                )
                for one in judged
            ],
            moments=[
                Moment(at_s=seconds(at_ms), text=text)
                for at_ms, text in self._moments
                if at_ms >= self.started_ms
            ],
            revisions=[
                Step(at_s=seconds(at), series=name, value=value) for at, name, value in steps
            ],
            segments=[
                Step(at_s=seconds(at), series=name, value=value)
                for at, name, value in self._segments
            ],
            lives=[
                (one.name, seconds(one.started_ms), seconds(one.ended_ms or end_ms))
                for one in sorted(lives, key=lambda life: (life.name, life.started_ms))
            ],
            end_s=seconds(end_ms),
        )


def _answered(judged: Sequence[Judged]) -> list[tuple[int, str, int]]:
    """Return when the answers were there, and the revision of each, without repetitions."""
    ends = sorted(
        (one.sample.at_ms + one.sample.took_ms, one.sample.revision)
        for one in judged
        if one.sample.revision is not None
    )
    found: list[tuple[int, str, int]] = []
    for at_ms, revision in ends:
        if not found or found[-1][2] != revision:
            found.append((at_ms, "answered", revision))
    return found
