"""Locks as data, and the three rules that everything else follows from: may share, may preempt, is due.

A lock covers instants and partition ids of one datasource. A *time chunk lock* covers every partition id there, also
those that do not exist yet; a *segment lock* covers the ids that it names, and one that names none covers only segments
that its task is going to make.

Source: "Task Locking & Priority" and the segment locking proposal. Its "single exclusive lock per time chunk" is read
per (time, partition id), or two tasks could not lock different segments of one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from carnac.core.segments.version import IdRanges
from carnac.core.time.intervals import Interval, format_ms
from carnac.core.time.leases import is_over


class LockType(StrEnum):
    """The type of a lock: it decides which other locks may overlap it."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    REPLACE = "replace"
    APPEND = "append"


class LockGranularity(StrEnum):
    """Whether a lock covers a stretch of time as a whole, or some segments of it."""

    TIME_CHUNK = "time_chunk"
    SEGMENT = "segment"


class LockState(StrEnum):
    """A lock waits, then it is held; from either it can be revoked. Only its owner's release ends a revoked one."""

    WAITING = "waiting"
    HELD = "held"
    REVOKED = "revoked"


class Reason(StrEnum):
    """Why a lock was revoked."""

    PREEMPTED = "preempted"
    EXPIRED = "expired"
    TIMED_OUT = "timed_out"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """How a lock, or the wait for one, came to its end.

    Attributes:
        by: Of a preemption: the lock that took its place. Of a break: 0. Else 0.
    """

    reason: Reason
    at_ms: int
    by: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One task's right, or its place in the queue for one.

    Attributes:
        lock_id: Arrival number: unique in the store, growing.
        group_id: Tasks of one group share their locks: those of one group never keep one another out.
        partitions: None: a time chunk lock. Else a segment lock on these ids; empty: on segments that are yet to come.
        priority: Of the task. A higher one preempts, and is before it in the queue.
        fence: Given when it is granted; a lock granted later has a higher one. 0 before.
        is_publishing: In its publishing section, where nobody preempts it.
        holder: Process and machine, for people.
        heartbeat_at_ms: Last sign of life of the task.
        lease_ms: How long after it the lock counts as somebody's.
        waits_until_ms: When a waiting one gives up.
        revocation: None unless it is revoked.
    """

    lock_id: int
    task_id: str
    group_id: str
    datasource: str
    interval: Interval
    partitions: IdRanges | None
    type: LockType
    priority: int
    state: LockState
    fence: int
    is_publishing: bool
    holder: str
    requested_at_ms: int
    granted_at_ms: int | None
    heartbeat_at_ms: int
    lease_ms: int
    waits_until_ms: int
    revocation: Revocation | None

    @property
    def granularity(self) -> LockGranularity:
        """Time chunk or segment."""
        if self.partitions is None:
            return LockGranularity.TIME_CHUNK
        return LockGranularity.SEGMENT

    @property
    def rank(self) -> tuple[int, int]:
        """Place in the wait queue, the first one lowest: by priority, then arrival."""
        return (-self.priority, self.lock_id)


BESIDE: Mapping[LockType, frozenset[LockType]] = {
    LockType.EXCLUSIVE: frozenset(),
    LockType.SHARED: frozenset({LockType.SHARED}),
    LockType.APPEND: frozenset({LockType.APPEND, LockType.REPLACE}),
    LockType.REPLACE: frozenset({LockType.APPEND}),
}
"""Types that tasks of different groups may hold on the same (time, partition id). Symmetric.

An append never conflicts with a replacement, whatever their intervals: publish settles where its rows go. (Druid needs
the append's interval inside of the replacement's, since it copies the appended rows to new segment ids.)
"""


def touches(one: Lock, other: Lock) -> bool:
    """Whether both cover some (time, partition id)."""
    mine, theirs = one.interval, other.interval
    if one.datasource != other.datasource:
        return False
    if mine.start_ms >= theirs.end_ms or theirs.start_ms >= mine.end_ms:
        return False
    if one.partitions is None or other.partitions is None:
        return True
    return one.partitions.intersects(other.partitions)


def may_share(one: Lock, other: Lock) -> bool:
    """LK-1: whether both may be held at once."""
    return (
        one.group_id == other.group_id or other.type in BESIDE[one.type] or not touches(one, other)
    )


def may_preempt(request: Lock, held: Lock) -> bool:
    """Whether a request takes the place of a lock that keeps it out.

    LK-2: never while the holder is in its publishing section. LK-3: never at equal priority: the first one stays.
    """
    return request.priority > held.priority and not held.is_publishing


def is_due(lock: Lock, at_ms: int) -> bool:
    """LK-5: whether nobody has to wait for it any more: its task was not heard of for a whole lease."""
    return is_over(lock.heartbeat_at_ms, lock.lease_ms, at_ms)


def includes(lock: Lock, other: Lock) -> bool:
    """Whether the holder of `lock` needs no `other`: same type and granularity, at least the same instants and ids."""
    if (
        lock.type is not other.type
        or lock.datasource != other.datasource
        or not lock.interval.contains(other.interval)
    ):
        return False
    if lock.partitions is None or other.partitions is None:
        return lock.partitions is other.partitions
    return lock.partitions.contains(other.partitions)


def may_publish(lock: Lock | None, fence: int) -> bool:
    """LK-6: whether a task that was once granted a lock with this fence may publish under it now.

    Args:
        lock: As it is in the transaction that publishes; None: there is none any more.
    """
    return lock is not None and lock.state is LockState.HELD and lock.fence == fence


def describe_end(lock: Lock | None) -> str:
    """Return the end of a lock that is not held any more, as the last part of a sentence about it."""
    if lock is None:
        return "is not there any more: its task released it, or was not heard of for long"
    if lock.revocation is None:
        return "is not the one that was granted then"
    at = format_ms(lock.revocation.at_ms)
    if lock.revocation.reason is Reason.PREEMPTED:
        return f"was preempted at {at} by lock {lock.revocation.by}, of a higher priority"
    if lock.revocation.reason is Reason.BROKEN:
        return f"was broken by an operator at {at}"
    if lock.revocation.reason is Reason.TIMED_OUT:
        return f"was waited for in vain until {at}"
    return f"was given to others at {at}: its task was not heard of for {lock.lease_ms} ms"
