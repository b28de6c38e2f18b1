"""All locks of a store in memory, found by task and by time, for the simulations of tests.

Intervals are indexed by how long they are: those of one length class (a power of two) that overlap something start
within a range that the class bounds. So a lock on an hour is found beside a million others, and beside one on eternity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from carnac.core.locks.events import Decision
from carnac.core.locks.machine import heard_of
from carnac.core.locks.model import Lock, LockState, is_due
from carnac.core.time.intervals import Interval


class LockTable:
    """The locks of a store (a `LockView`)."""

    def __init__(self) -> None:
        self._locks: dict[int, Lock] = {}
        self._by_task: dict[str, dict[int, None]] = {}
        self._by_time: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._locks)

    def __iter__(self) -> Iterator[Lock]:
        return iter(self._locks.values())

    def last_number(self) -> int:
        """Return the highest arrival number or fence given so far."""
        return self._last_number

    def get(self, lock_id: int) -> Lock | None:
        """Return a lock; None if there is none."""
        return self._locks.get(lock_id)

    def overlapping(self, datasource: str, interval: Interval) -> Iterator[Lock]:
        """Yield the locks of the datasource that share an instant with `interval`."""
        start_ms, end_ms = interval.start_ms, interval.end_ms
        for size, places in self._by_time.get(datasource, {}).items():
            first = bisect_right(places, (start_ms - (1 << size), 0))
            last = bisect_left(places, (end_ms, 0), lo=first)
            for _, lock_id in places[first:last]:
                lock = self._locks[lock_id]
                if lock.interval.end_ms > start_ms:
                    yield lock

    def of_task(self, task_id: str) -> Iterator[Lock]:
        """Yield all locks of the task, in order of arrival."""
        for lock_id in self._by_task.get(task_id, ()):
            yield self._locks[lock_id]

    def find(self, lock_ids: Sequence[int]) -> Iterator[Lock]:
        """Yield those of the locks that there are."""
        for lock_id in lock_ids:
            if lock_id in self._locks:
                yield self._locks[lock_id]

    def due(self, at_ms: int) -> Iterator[Lock]:
        """Yield the locks past their lease, those that waited long enough, and the revoked ones."""
        for lock in self._locks.values():
            if (
                is_due(lock, at_ms)
                or lock.state is LockState.REVOKED
                or (lock.state is LockState.WAITING and lock.waits_until_ms <= at_ms)
            ):
                yield lock

    def apply(self, decision: Decision) -> None:
        """Write a decision down."""
        for lock_id in decision.removes:
            self._remove(self._locks.pop(lock_id))
        if decision.beat is not None:
            for lock_id in self._by_task.get(decision.beat, ()):
                self._locks[lock_id] = heard_of(self._locks[lock_id], decision.at_ms)
        for lock in decision.puts:
            if lock.lock_id not in self._locks:
                self._add(lock)
            self._locks[lock.lock_id] = lock
        if decision.last_number is not None:
            self._last_number = decision.last_number

    def _add(self, lock: Lock) -> None:
        self._by_task.setdefault(lock.task_id, {})[lock.lock_id] = None
        places = self._by_time.setdefault(lock.datasource, {}).setdefault(_size(lock.interval), [])
        insort(places, (lock.interval.start_ms, lock.lock_id))

    def _remove(self, lock: Lock) -> None:
        owned = self._by_task[lock.task_id]
        del owned[lock.lock_id]
        if not owned:
            del self._by_task[lock.task_id]
        sizes = self._by_time[lock.datasource]
        places = sizes[_size(lock.interval)]
        del places[bisect_left(places, (lock.interval.start_ms, lock.lock_id))]
        if not places:
            del sizes[_size(lock.interval)]
        if not sizes:
            del self._by_time[lock.datasource]


def _size(interval: Interval) -> int:
    """Return the length class: an interval of class n is at most 2**n long."""
    return interval.duration_ms.bit_length()
