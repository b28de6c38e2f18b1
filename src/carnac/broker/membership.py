"""A broker's place in a cluster: its heartbeats, the told revision, and the revision for planning new queries.

The broker announces itself before it reads the told revision. Each heartbeat says which revisions its queries read, so
a coordinator knows what may be unloaded. A broker without a heartbeat for a whole lease answers nothing until the next.
One whose log was replaced by an earlier one (a restore) answers nothing any more: what it keeps of revisions, by their
numbers, may be of commits that are gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.rollout.model import BrokerRevisions
from carnac.core.time.leases import is_over
from carnac.errors import NotFound, Unavailable
from carnac.ports.loops import Loop, safely

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, Head
    from carnac.ports.serving import ServerRecord
    from carnac.store.leases import Reading

FOLLOW_PERIOD_MS = 100
"""Pause between two looks at the told revision; a new revision waits about so long for its first query."""
RENEWALS_IN_LEASE = 3
RESTORED = "the metadata was restored to an earlier time beneath this broker; start it again, or ask another one"

_log = logging.getLogger(__name__)


class Membership:
    """Says which revision to plan on. Safe for threads.

    Args:
        metadata: Store of heartbeats and of the told revision.
        reading: Keeps a revision readable until the block ends.
        record: The broker as it announces itself.

    Attributes:
        loop: The loop that follows the told revision.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        reading: Callable[[int | str | None], AbstractContextManager[Reading]],
        record: ServerRecord,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._reading = reading
        self._record = record
        self._clock = clock
        self._lock = threading.Lock()
        self._revisions = BrokerRevisions(planning=0)
        self._pinned = ExitStack()
        self._head: Head | None = None
        self._is_restored = False
        self._said: tuple[int, int] | None = None
        self._said_at_ms: int | None = None
        self.loop = Loop(
            "heartbeats of the broker",
            self.turn,
            log=_log,
            period_ms=FOLLOW_PERIOD_MS,
            clock=clock,
        )

    def reading(self, at: int | str | None) -> AbstractContextManager[Reading]:
        """Keep a revision readable until the block ends, for a query that asks no historical.

        Raises:
            NotFound: There is no such revision.
            Unavailable: The metadata was restored since the broker was started.
        """
        self._require_same_log()
        return self._reading(at)

    def planning(self) -> int:
        """Return the revision that new queries are planned on."""
        with self._lock:
            return self._revisions.planning

    def start(self) -> None:
        """Announce the broker, read the told revision, and go on doing so.

        Raises:
            Unavailable: The metadata store does not answer.
        """
        self._say(self._record)
        self.turn()
        self.loop.start()

    def turn(self) -> None:
        """Read the told revision, plan on it from now on, and send a heartbeat if that is a change, or if one is due.

        Raises:
            Unavailable: The metadata store does not answer, or was restored since.
        """
        told = self._metadata.told()
        head = self._follow_head()
        with self._lock:
            before = self._revisions
            after = before.follow(None if told is None else told.revision, head)
        if after.planning > before.planning:
            try:
                self._move(after.planning)
            except NotFound:  # trimmed before it was told, or since it was read here
                self._move(head)
        with self._lock:
            now = self._revisions
        spoken = (now.planning, now.oldest)
        said_at_ms = self._said_at_ms
        period_ms = self._record.lease_ms // RENEWALS_IN_LEASE
        if (
            spoken != self._said
            or said_at_ms is None
            or is_over(said_at_ms, period_ms, self._clock.now_ms())
        ):
            self._say(replace(self._record, planning_revision=spoken[0], oldest_revision=spoken[1]))
            self._said = spoken

    def _follow_head(self) -> int:
        """Return the newest revision, of a log that has the one of the last time as it was then."""
        seen, head = self._head, self._metadata.head()
        if seen is not None and head != seen and not self._is_restored:
            self._is_restored = head.revision <= seen.revision or not self._is_there(seen)
        self._require_same_log()
        self._head = head
        return head.revision

    def _is_there(self, seen: Head) -> bool:
        try:
            return self._metadata.resolve(seen.revision) == seen
        except NotFound:  # trimmed
            return True

    def _require_same_log(self) -> None:
        if self._is_restored:
            self.loop.halt(RESTORED)
            raise Unavailable(RESTORED)

    def _move(self, revision: int) -> None:
        """Plan on a revision from now on, and keep it readable for queries that will."""
        with ExitStack() as steps:
            steps.enter_context(self._reading(revision))
            with self._lock:
                self._revisions = replace(
                    self._revisions, planning=max(self._revisions.planning, revision)
                )
                before, self._pinned = self._pinned, steps.pop_all()
        before.close()

    def _say(self, record: ServerRecord) -> None:
        asked_at_ms = self._clock.now_ms()
        self._metadata.put_server(record)
        self._said_at_ms = asked_at_ms

    @contextmanager
    def planned(self, at: int | str | None) -> Iterator[int]:
        """Give the revision that a query is planned on, which counts it until the block ends.

        Args:
            at: Revision, time or tag; None: the planning revision.

        Raises:
            NotFound: There is no such revision.
            Unavailable: The broker was not heard for a whole lease, so the files that it would read may be gone; or
                the metadata was restored since it was started.
        """
        self._require_same_log()
        said_at_ms = self._said_at_ms
        if said_at_ms is None or is_over(said_at_ms, self._record.lease_ms, self._clock.now_ms()):
            raise Unavailable(
                "this broker cannot reach the metadata store and does not know what it may read; ask another one, or "
                "again later"
            )
        wanted = None if at is None else self._metadata.resolve(at).revision
        with self._lock:
            self._revisions = self._revisions.begin(wanted)
            revision = self._revisions.planning if wanted is None else wanted
        try:
            with self._reading(revision):
                yield revision
        finally:
            with self._lock:
                self._revisions = self._revisions.end(revision)

    def close(self) -> None:
        """Say goodbye. Idempotent."""
        self.loop.stop()
        if self._said_at_ms is not None:
            self._said_at_ms = None
            safely(
                _log,
                "saying goodbye",
                lambda: self._metadata.remove_server(self._record.server_id),
            )
        self._pinned.close()
