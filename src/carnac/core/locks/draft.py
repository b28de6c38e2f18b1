"""The lockbox while an event is being decided: the stored locks, with the changes that the event has made so far.

Locks are looked at in order of arrival, whatever order they are stored in, so that every store decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol, TypeAlias

from carnac.core.locks.model import (
    Lock,
    LockState,
    Reason,
    Revocation,
    includes,
    is_due,
    may_preempt,
    may_share,
)
from carnac.core.time.intervals import Interval


class LockView(Protocol):
    """The stored locks that a decision may read; the answers hold until the decision is written down."""

    def last_number(self) -> int:
        """Return the highest arrival number or fence given so far."""
        ...

    def overlapping(self, datasource: str, interval: Interval) -> Iterable[Lock]:
        """Return the locks of the datasource that share an instant with `interval`, whatever their state."""
        ...

    def of_task(self, task_id: str) -> Iterable[Lock]:
        """Return all locks of the task."""
        ...

    def find(self, lock_ids: Sequence[int]) -> Iterable[Lock]:
        """Return those of the locks that there are."""
        ...

    def due(self, at_ms: int) -> Iterable[Lock]:
        """Return at least the locks that are past their lease, those that waited long enough, and the revoked ones."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """The locks and requests that conflict with a request.

    Attributes:
        held: Locks of others that it may not share with.
        ahead: Waiting requests before it in the queue that it could not share with.
        is_covered: Its group has what it asks for, so that it queues behind nobody.
        has_followers: Some that wait after it could not share with it.
    """

    held: tuple[Lock, ...]
    ahead: tuple[Lock, ...]
    is_covered: bool
    has_followers: bool

    def may_enter(self, request: Lock) -> bool:
        """Whether no held lock keeps the request out: there is none, or it may preempt all of them."""
        return all(may_preempt(request, lock) for lock in self.held)


_Place: TypeAlias = tuple[str, int, int]
_by_arrival = attrgetter("lock_id")


class LockDraft:
    """The stored locks, with the changes of one event on top."""

    def __init__(self, view: LockView, at_ms: int) -> None:
        self._view = view
        self._changed: dict[int, Lock | None] = {}
        self._new: list[Lock] = []
        self._freed: list[Lock] = []
        self._stored: dict[_Place, Sequence[Lock]] = {}
        self._around: dict[_Place, tuple[int, list[Lock]]] = {}
        self._changes = 0
        self._of_task: dict[str, Sequence[Lock]] = {}
        self.number: int | None = None
        self.at_ms = at_ms

    # -------------------------------------------------------------------------------------------- reading

    def around(self, lock: Lock) -> list[Lock]:
        """Return the locks that overlap this one in time, and itself. Those that are due end as they are met."""
        place = (lock.datasource, lock.interval.start_ms, lock.interval.end_ms)
        known = self._around.get(place)
        if known is not None and known[0] == self._changes:
            return known[1]
        if place not in self._stored:
            found = self._view.overlapping(lock.datasource, lock.interval)
            self._stored[place] = sorted(found, key=_by_arrival)
        met = [self._met(one) for one in self._current(self._stored[place])]
        met += [
            one
            for one in self._new
            if one.datasource == lock.datasource and one.interval.overlaps(lock.interval)
        ]
        self._around[place] = (self._changes, met)
        return met

    def of_task(self, task_id: str) -> list[Lock]:
        """Return the locks of a task as they are now. Those that are due end as they are met."""
        return [self._met(one) for one in self.stored_of(task_id)] + [
            one for one in self._new if one.task_id == task_id
        ]

    def stored_of(self, task_id: str) -> list[Lock]:
        """Return the locks of a task that were there before the event, as they are now."""
        if task_id not in self._of_task:
            self._of_task[task_id] = sorted(self._view.of_task(task_id), key=_by_arrival)
        return self._current(self._of_task[task_id])

    def find(self, lock_ids: Sequence[int]) -> list[Lock]:
        """Return those of the locks that there are, as they are now."""
        found = sorted(self._view.find(lock_ids), key=_by_arrival) if lock_ids else []
        return self._current(found)

    def due(self) -> list[Lock]:
        """Return what `LockView.due` does."""
        return self._current(sorted(self._view.due(self.at_ms), key=_by_arrival))

    def now(self, lock: Lock) -> Lock:
        """Return the lock as it is now; itself if it was removed."""
        return self._changed.get(lock.lock_id) or lock

    def weigh(self, request: Lock) -> Weighing:
        """Return the locks and requests that conflict with a waiting request."""
        held, ahead = [], []
        is_covered = has_followers = False
        for other in self.around(request):
            if other.state is LockState.REVOKED or other.lock_id == request.lock_id:
                continue
            if other.group_id == request.group_id:
                is_covered |= other.state is LockState.HELD and includes(other, request)
            elif may_share(other, request):
                continue
            elif other.state is LockState.HELD:
                held.append(other)
            elif other.rank < request.rank:
                ahead.append(other)
            else:
                has_followers = True
        return Weighing(
            held=tuple(held),
            ahead=tuple(ahead),
            is_covered=is_covered,
            has_followers=has_followers,
        )

    # ------------------------------------------------------------------------------------------- changing

    def next_number(self) -> int:
        """Return an arrival number or fence never given before."""
        if self.number is None:
            self.number = self._view.last_number()
        self.number += 1
        return self.number

    def add(self, lock: Lock) -> None:
        """Add a new one."""
        self._changes += 1
        self._new.append(lock)
        self._changed[lock.lock_id] = lock

    def put(self, lock: Lock) -> Lock:
        """Change one; return it."""
        self._changes += 1
        self._changed[lock.lock_id] = lock
        if self._new:
            self._new = [lock if one.lock_id == lock.lock_id else one for one in self._new]
        return lock

    def remove(self, lock: Lock) -> None:
        """Remove one; a request that waited for it may be next."""
        self._changes += 1
        self._changed[lock.lock_id] = None
        if self._new:
            self._new = [one for one in self._new if one.lock_id != lock.lock_id]
        if lock.state is not LockState.REVOKED:
            self._freed.append(lock)

    def revoke(self, lock: Lock, reason: Reason, by: int = 0) -> Lock:
        """Revoke one; a request that waited for it may be next."""
        self._freed.append(lock)
        return self.put(
            replace(
                lock,
                state=LockState.REVOKED,
                is_publishing=False,
                revocation=Revocation(reason=reason, at_ms=self.at_ms, by=by),
            )
        )

    def grant(self, request: Lock, weighing: Weighing) -> Lock:
        """Grant a waiting request, in place of those that stand against it."""
        for victim in weighing.held:
            self.revoke(victim, Reason.PREEMPTED, request.lock_id)
        return self.put(
            replace(
                request, state=LockState.HELD, fence=self.next_number(), granted_at_ms=self.at_ms
            )
        )

    def look_again(self, lock: Lock) -> None:
        """Take note that a lock may be preempted now."""
        self._freed.append(lock)

    @property
    def has_freed(self) -> bool:
        """Whether there are locks that have come to keep fewer out."""
        return bool(self._freed)

    def take_freed(self) -> list[Lock]:
        """Return the locks that have come to keep fewer out since it was last asked."""
        freed, self._freed = self._freed, []
        return freed

    def end_if_due(self, lock: Lock) -> Lock:
        """Revoke what is past its lease or has waited long enough; return the lock as it is now."""
        if lock.state is LockState.REVOKED:
            return lock
        if is_due(lock, self.at_ms):
            return self.revoke(lock, Reason.EXPIRED)
        if lock.state is LockState.WAITING and lock.waits_until_ms <= self.at_ms:
            return self.revoke(lock, Reason.TIMED_OUT)
        return lock

    def changes(self) -> tuple[tuple[Lock, ...], tuple[int, ...]]:
        """Return the locks that are new or changed, and the ids of those that are no more."""
        puts = tuple(lock for lock in self._changed.values() if lock is not None)
        gone = (lock_id for lock_id, lock in self._changed.items() if lock is None)
        return puts, tuple(gone)

    def _current(self, stored: Iterable[Lock]) -> list[Lock]:
        changed = self._changed
        if not changed:
            return list(stored)
        current = [changed.get(lock.lock_id, lock) for lock in stored]
        return [lock for lock in current if lock is not None]

    def _met(self, lock: Lock) -> Lock:
        """Return the lock, ended if that is due."""
        at_ms = self.at_ms
        if (
            not is_due(lock, at_ms) and lock.waits_until_ms > at_ms
        ) or lock.state is LockState.REVOKED:
            return lock
        return self.end_if_due(lock)
