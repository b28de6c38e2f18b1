"""All historicals that are alive, each with its link."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING

from carnac.coordinator.links import Link
from carnac.core.time.leases import is_over
from carnac.ports.loops import safely

if TYPE_CHECKING:
    from carnac.core.balancing.live.picture import ServerView
    from carnac.core.segments.segment import Segment
    from carnac.ports import Clock
    from carnac.ports.serving import SegmentServer, ServerRecord

SILENT_MS = 5_000
"""How long a server that has joined is waited for, to say what it holds, before others get that."""

RESTART_GRACE_MS = 60_000
"""How long a server that has gone is waited for, unless it is said otherwise."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A server that has gone and may be back soon.

    Attributes:
        view: View of the server when it was there.
        since_ms: When it was missed first, epoch milliseconds, UTC.
    """

    view: ServerView
    since_ms: int


class Fleet:
    """The links. The deciding thread alone calls methods that change them; others read copies, under `mutex`.

    Args:
        connect: Reaches a historical; asked again after it failed.
        disconnect: Lets go of a connection that `connect` made.
        has_threads: See `Link`.
        on_news: Called from any thread when there is something to take in.
        grace_ms: How long a server that has gone is waited for.

    Attributes:
        number: Grows with each change of what is known.
        away: Servers that have gone and are waited for, by id.
        joined: Servers that came, or take segments again, since somebody took note of it.
    """

    def __init__(
        self,
        connect: Callable[[ServerRecord], SegmentServer],
        clock: Clock,
        *,
        disconnect: Callable[[SegmentServer], object],
        has_threads: bool,
        on_news: Callable[[], object],
        grace_ms: int = RESTART_GRACE_MS,
    ) -> None:
        self.mutex = Lock()
        self.number = 0
        self.joined: set[str] = set()
        self.left: set[str] = set()
        self.away: dict[str, Away] = {}
        self._connect, self._disconnect, self._clock = connect, disconnect, clock
        self._has_threads, self._on_news = has_threads, on_news
        self._grace_ms = grace_ms
        self._links: dict[str, Link] = {}
        self._fence = 0
        self._numbers = count(1)
        self._views: tuple[int, list[ServerView]] = (-1, [])

    def __len__(self) -> int:
        return len(self._links)

    def __iter__(self) -> Iterator[Link]:
        return iter([*self._links.values()])

    def lead(self, fence: int) -> None:
        """Let all hear the fence under which orders come from now on."""
        self._fence = fence
        self.number += 1
        for link in self:
            link.greet(fence)

    def follow(self, records: Sequence[ServerRecord]) -> None:
        """Take up with historicals that came, and leave those that are gone; all are live."""
        found = {record.server_id: record for record in records}
        for server_id in [one for one in self._links if one not in found]:
            self._leave(server_id)
        for server_id, record in found.items():
            link = self._links.get(server_id)
            if link is not None and record.is_other_than(link.record):
                self._leave(server_id)
                link = None
            if link is None:
                safely(_log, f"reaching {server_id} at {record.url}", partial(self._join, record))
            elif link.record != record:
                self._note_record(link, record)
        self._wait_no_more()

    def _wait_no_more(self) -> None:
        """Forget servers that are back and have said what they hold, and those that were waited for long enough."""
        now_ms = self._clock.now_ms()
        for server_id, one in [*self.away.items()]:
            link = self._links.get(server_id)
            is_late = is_over(one.since_ms, self._grace_ms, now_ms)
            if is_late or (link is not None and link.is_known):
                del self.away[server_id]
                self.number += 1
                self.left.add(server_id)  # so that there is a run
                if is_late:
                    _log.info("%s is not waited for any more", server_id)

    def _join(self, record: ServerRecord) -> None:
        server = self._connect(record)
        link = Link(
            record,
            server,
            self._clock,
            numbers=self._numbers,
            disconnect=self._disconnect,
            has_threads=self._has_threads,
            on_news=self._on_news,
        )
        with self.mutex:
            self._links[record.server_id] = link
        if self._fence:
            link.greet(self._fence)
        self.number += 1
        self.joined.add(record.server_id)
        _log.info("%s has joined: tier %s, %s", record.server_id, record.tier, record.url)

    def _leave(self, server_id: str) -> None:
        link = self._links[server_id]
        if link.is_known and not link.record.is_decommissioning:
            view = link.view(fence=self._fence)
            self.away.setdefault(server_id, Away(view=view, since_ms=self._clock.now_ms()))
        with self.mutex:
            del self._links[server_id]
        self.number += 1
        self.left.add(server_id)
        self.joined.discard(server_id)
        _log.info("%s is gone", server_id)
        link.end()
        if self._has_threads:  # one that hangs keeps nobody waiting
            Thread(target=link.close, name=f"carnac-leave-{server_id}", daemon=True).start()
        else:
            link.close()

    def _note_record(self, link: Link, record: ServerRecord) -> None:
        was, link.record = link.record, record
        before = (was.is_draining, was.is_decommissioning, was.tier, was.capacity_bytes)
        now = (record.is_draining, record.is_decommissioning, record.tier, record.capacity_bytes)
        if before != now:
            self.number += 1
            self.joined.add(record.server_id)

    def load(self, server_id: str, segments: Sequence[tuple[Segment, str]], *, fence: int) -> None:
        """Have a server load segments, each for a reason; nothing if it is gone."""
        link = self._links.get(server_id)
        if link is not None and segments:
            with self.mutex:
                link.load(segments, fence=fence)
            self.number += 1

    def unload(self, server_id: str, segment_ids: Sequence[str], *, fence: int) -> None:
        """Have a server forget segments; nothing if it is gone."""
        link = self._links.get(server_id)
        if link is not None and segment_ids:
            with self.mutex:
                link.unload(segment_ids, fence=fence)
            self.number += 1

    def exchange(self) -> None:
        """Send and ask here and now, where links have no threads; then take in what there is."""
        if not self._has_threads:
            for link in self:
                safely(_log, f"telling {link.record.server_id} what to load", link.send)
                safely(_log, f"asking {link.record.server_id} what it holds", link.ask)
        with self.mutex:
            for link in self:
                if link.absorb():
                    self.number += 1

    @property
    def revoked_by(self) -> int | None:
        """The highest fence for which a server has refused ours; None: none has."""
        heard = [link.revoked_by for link in self if link.revoked_by is not None]
        return max(heard, default=None)

    @property
    def has_silent(self) -> bool:
        """Whether a server has joined and is about to say what it holds."""
        now_ms = self._clock.now_ms()
        return any(
            not link.is_known and not is_over(link.joined_at_ms, SILENT_MS, now_ms) for link in self
        )

    def views(self) -> list[ServerView]:
        """Return what is known of each server that has said what it holds, in order of id."""
        if self._views[0] != self.number:
            known = sorted(
                (link for link in self if link.is_known), key=lambda one: one.record.server_id
            )
            self._views = (self.number, [link.view(fence=self._fence) for link in known])
        return self._views[1]

    def close(self) -> None:
        """Leave all. Idempotent."""
        for server_id in [*self._links]:
            self._leave(server_id)
