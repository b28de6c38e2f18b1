"""Events of the lockbox, and its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from carnac.core.locks.model import Lock, LockType
from carnac.core.segments.version import IdRanges
from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLock:
    """A task wants a lock. Idempotent: asked again, it says how the first request stands now.

    Attributes:
        partitions: None: the time chunk. Else segments, by partition id; empty: those that are yet to come.
        timeout_ms: How long the request waits at most (`taskLockTimeout`).
        lease_ms: How long the lock outlives the task's last sign of life; > 0.
    """

    task_id: str
    group_id: str
    datasource: str
    interval: Interval
    partitions: IdRanges | None
    type: LockType
    priority: int
    timeout_ms: int
    lease_ms: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLocks:
    """A task gives locks back, or takes requests back. Ids that it does not have are no error.

    Attributes:
        lock_ids: None: all of the task's.
    """

    task_id: str
    lock_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewLocks:
    """A sign of life of a task: it keeps what it has for another lease. Answers with all of its locks."""

    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireLocks:
    """Time has passed: revoke what belongs to tasks that are not heard of any more, and forget old revocations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginPublish:
    """A task enters its publishing section with these locks: all of them, or none if one is not held."""

    task_id: str
    lock_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPublish:
    """A task leaves its publishing section; its locks can be preempted again."""

    task_id: str
    lock_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakLock:
    """An operator revokes a lock or a wait, whatever its priority. Safe: a publish that it carries is refused."""

    lock_id: int


LockEvent: TypeAlias = (
    RequestLock | ReleaseLocks | RenewLocks | ExpireLocks | BeginPublish | EndPublish | BreakLock
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The lock is held."""

    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The request is in the queue; ask again later.

    Attributes:
        blockers: The locks that keep it out, and the waiting ones before it that would.
    """

    lock: Lock
    blockers: tuple[Lock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The lock, or the place in the queue, was revoked; it stays so until the task releases it."""

    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Waiting would close a circle in which nobody ever moves; nothing was changed.

    Attributes:
        circle: Tasks, each of which would wait for the next, the last one for the first.
    """

    circle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the locks that the event was about stand after it, by lock id; released ones are not there any more."""

    locks: tuple[Lock, ...]


LockReply: TypeAlias = Granted | Waits | Lost | Refused | Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of an event.

    Attributes:
        puts: Locks as they are after it: new ones and changed ones.
        removes: Ids of locks that are no more.
        last_number: The highest arrival number or fence given so far; None: none was given here.
        beat: A task whose held and waiting locks, those of `puts` aside, were heard of at `at_ms`.
    """

    reply: LockReply
    puts: tuple[Lock, ...]
    removes: tuple[int, ...]
    last_number: int | None
    at_ms: int
    beat: str | None = None

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.puts or self.removes or self.beat is not None)
