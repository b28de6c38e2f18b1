"""The locks of one attempt, as the writes that it makes ask for them (port `WriteGuard`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from carnac.core.locks.choice import LockChoice, LockContext
from carnac.core.locks.events import RequestLock
from carnac.core.locks.model import Lock, LockGranularity, LockType
from carnac.core.log.allocation import AllocationLock
from carnac.core.log.commits import LockHeld
from carnac.core.segments.version import IdRanges, id_ranges
from carnac.core.tasks.model import Attempt, Task
from carnac.core.time.intervals import Interval, IntervalSet, interval_text
from carnac.errors import Revoked
from carnac.overlord.lockbox import Lockbox
from carnac.ports.places import PlaceTerms

LOCKS_MAX = 256
"""Where a write touches more stretches of time than this, one lock covers them all."""


class TaskGuard:
    """Gets locks under the attempt's own name, in the group of its task. Safe for threads.

    Args:
        is_current: Whether the attempt still has its right to the task, by the store.
        on_wait: Called with a text when the attempt waits, and with None when it goes on.
    """

    def __init__(
        self,
        lockbox: Lockbox,
        task: Task,
        attempt: Attempt,
        context: LockContext,
        *,
        is_current: Callable[[], bool],
        on_wait: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._lockbox = lockbox
        self._task = task
        self._attempt = attempt
        self._context = context
        self._is_current = is_current
        self._on_wait = on_wait
        self._mutex = threading.Lock()
        self._held: list[Lock] = []

    def lock_inputs(
        self,
        datasource: str,
        where: IntervalSet,
        *,
        partitions: Mapping[IntervalSet, tuple[int, ...]] | None = None,
        changes_granularity: bool = False,
    ) -> None:
        """Get the locks of a replacement before its inputs are read.

        Parts of `where` without segments to lock are locked as time chunks: two tasks that fill one would double the
        rows.
        """
        choice = self._choose(is_append=False, changes_granularity=changes_granularity)
        requests: list[RequestLock] = []
        rest = where
        if choice.granularity is LockGranularity.SEGMENT and partitions is not None:
            for place, ids in partitions.items():
                span = place.span()
                if span is not None and ids:
                    requests.append(self._request(choice, datasource, span, id_ranges(ids)))
                    rest = rest.minus(place)
        requests += [self._request(choice, datasource, one, None) for one in _few(rest)]
        self._acquire(requests)

    def lock_output(self, datasource: str, where: IntervalSet) -> None:
        """Get the locks of an append on the time chunks that it adds segments to; those that it has it keeps."""
        choice = self._choose(is_append=True)
        new = IdRanges() if choice.granularity is LockGranularity.SEGMENT else None
        self._acquire([self._request(choice, datasource, one, new) for one in _few(where)])

    @contextmanager
    def publishing(
        self, datasource: str, where: IntervalSet, *, is_append: bool
    ) -> Iterator[tuple[LockHeld, ...]]:
        """Be in the publishing section; yields what the publication must require."""
        if is_append:
            self.lock_output(datasource, where)
        locks = self._of(datasource, where)
        # Locks first, this question second: whoever ends the attempt takes its locks in the same step.
        if not locks or not self._is_current():
            raise Revoked(
                f"attempt {self._attempt.number} of task {self._task.task_id} has no right to publish any more; stop",
                task_id=self._task.task_id,
            )
        with self._lockbox.publishing(locks) as requirements:
            yield requirements

    def place_terms(self, *, is_append: bool) -> PlaceTerms | None:
        """Return on which terms the write's segments get places.

        Under segment locks they are asked for, with the lock; under a time-chunk lock, and where a replacement makes
        a version of its own, the job numbers its segments. Appends beside others leave it to publish. A lock that
        keeps others out is held while segments are written, not only while they are published.
        """
        choice, owner = self._choose(is_append=is_append), self._attempt.lock_owner
        if not is_append:
            return PlaceTerms(owner=owner, is_alone=True)
        if choice.type is LockType.APPEND:
            return None
        if choice.granularity is LockGranularity.TIME_CHUNK:
            is_alone = choice.type is LockType.EXCLUSIVE
            return PlaceTerms(owner=owner, is_alone=is_alone, locks_first=True)
        lock = AllocationLock(
            group_id=self._task.group_id,
            type=choice.type,
            granularity=choice.granularity,
            priority=self._task.priority,
            timeout_ms=choice.timeout_ms,
            lease_ms=self._lockbox.lease_ms,
            holder=self._attempt.holder,
        )
        return PlaceTerms(owner=owner, lock=lock)

    def _choose(self, *, is_append: bool, changes_granularity: bool = False) -> LockChoice:
        return self._lockbox.choose(
            self._context,
            is_append=is_append,
            changes_granularity=changes_granularity,
        )

    def _request(
        self, choice: LockChoice, datasource: str, interval: Interval, ids: IdRanges | None
    ) -> RequestLock:
        return RequestLock(
            task_id=self._attempt.lock_owner,
            group_id=self._task.group_id,
            datasource=datasource,
            interval=interval,
            partitions=ids,
            type=choice.type,
            priority=self._task.priority,
            timeout_ms=choice.timeout_ms,
            lease_ms=self._lockbox.lease_ms,
        )

    def _acquire(self, requests: list[RequestLock]) -> None:
        if not requests:
            return
        places = ", ".join(
            f"{one.datasource} {interval_text(one.interval)}" for one in requests[:3]
        )
        self._on_wait(places)
        try:
            locks = self._lockbox.acquire_all(requests)
        finally:
            self._on_wait(None)
        with self._mutex:
            known = {lock.lock_id for lock in self._held}
            self._held += [lock for lock in locks if lock.lock_id not in known]

    def _of(self, datasource: str, where: IntervalSet) -> list[Lock]:
        with self._mutex:
            return [
                lock
                for lock in self._held
                if lock.datasource == datasource and where.overlaps(lock.interval)
            ]


def _few(where: IntervalSet) -> IntervalSet:
    """Return the pieces to lock: all of them, or one around them if they are too many."""
    span = where.span()
    return where if span is None or len(tuple(where)) <= LOCKS_MAX else IntervalSet((span,))
