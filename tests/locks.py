"""Common parts of tests of locks: short requests, and a naive oracle straight from the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    Decision,
    EndPublish,
    LockEvent,
    LockReply,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
)
from carnac.core.locks.machine import decide
from carnac.core.locks.model import LockType
from carnac.core.segments.version import id_ranges
from carnac.core.time.intervals import Interval
from tests.support.lock_table import LockTable

HOUR_MS = 3_600_000
LEASE_MS = 60_000


def hours(first: int, end: int | None = None) -> Interval:
    """Return hours since the epoch: `hours(3)` is one, `hours(0, 24)` a day."""
    return Interval(first * HOUR_MS, (first + 1 if end is None else end) * HOUR_MS)


def wants(
    task_id: str,
    where: Interval,
    *ids: int,
    type: LockType = LockType.EXCLUSIVE,  # noqa: A002 - the word of the port
    priority: int = 50,
    group: str | None = None,
    is_new: bool = False,
    timeout_ms: int = 300_000,
    datasource: str = "events",
) -> RequestLock:
    """Return a request: for the time chunk, or for the segments named, or with `is_new` for those to come."""
    return RequestLock(
        task_id=task_id,
        group_id=group or task_id,
        datasource=datasource,
        interval=where,
        partitions=id_ranges(ids) if ids or is_new else None,
        type=type,
        priority=priority,
        timeout_ms=timeout_ms,
        lease_ms=LEASE_MS,
    )


class Box:
    """A lockbox in memory: every decision is written down at once."""

    def __init__(self) -> None:
        self.table = LockTable()
        self.at_ms = 0
        self.last: Decision | None = None

    def __call__(self, event: LockEvent) -> LockReply:
        self.last = decide(self.table, event, at_ms=self.at_ms)
        self.table.apply(self.last)
        return self.last.reply


@dataclass
class Known:
    """A lock as the oracle knows it."""

    number: int
    request: RequestLock
    state: str
    heard_ms: int
    until_ms: int
    is_publishing: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.request.priority, self.number)


@dataclass
class Oracle:
    """The rules of the lockbox, written down as they are said, over a plain list: slow and obvious.

    Expiry is eager: call `pass_time` before every event.
    """

    locks: list[Known] = field(default_factory=list)
    at_ms: int = 0

    # -- what is said of two locks

    @staticmethod
    def touch(one: RequestLock, other: RequestLock) -> bool:
        """Some hour of both has a partition id of both; a time chunk lock has all of them."""
        shared_hours = {
            hour
            for hour in range(one.interval.start_ms // HOUR_MS, one.interval.end_ms // HOUR_MS)
            if other.interval.holds(hour * HOUR_MS)
        }
        if one.datasource != other.datasource or not shared_hours:
            return False
        if one.partitions is None or other.partitions is None:
            return True
        return bool(set(one.partitions) & set(other.partitions))

    def collide(self, one: RequestLock, other: RequestLock) -> bool:
        pair = {one.type, other.type}
        compatible = pair in (
            {LockType.SHARED},
            {LockType.APPEND},
            {LockType.APPEND, LockType.REPLACE},
        )
        return one.group_id != other.group_id and not compatible and self.touch(one, other)

    @staticmethod
    def covers(one: RequestLock, other: RequestLock) -> bool:
        if (one.type, one.datasource) != (other.type, other.datasource):
            return False
        if not one.interval.contains(other.interval):
            return False
        if one.partitions is None or other.partitions is None:
            return one.partitions is None and other.partitions is None
        return set(other.partitions) <= set(one.partitions)

    # -- what is said of one among all

    def against(self, known: Known) -> tuple[list[Known], list[Known]]:
        """Held ones and waiting ones before it that keep it out."""
        rivals = [
            one
            for one in self.locks
            if one is not known and self.collide(one.request, known.request)
        ]
        held = [one for one in rivals if one.state == "held"]
        return held, [one for one in rivals if one.state == "waiting" and one.rank < known.rank]

    def waits(self) -> dict[str, set[str]]:
        """The tasks whose end each task awaits, over any number of others. A held lock of lower priority gives way."""
        reach: dict[str, set[str]] = {}
        for known in self.locks:
            if known.state == "waiting":
                held, ahead = self.against(known)
                stay = [one for one in held if one.request.priority >= known.request.priority]
                tasks = {one.request.task_id for one in (*stay, *ahead)}
                reach.setdefault(known.request.task_id, set()).update(tasks)
        for _ in range(len(reach) + 1):
            for targets in reach.values():
                targets |= {further for task in targets for further in reach.get(task, ())}
        return reach

    def has_circle(self) -> bool:
        return any(task in targets for task, targets in self.waits().items())

    def may_enter(self, known: Known) -> bool:
        held, _ = self.against(known)
        return all(
            one.request.priority < known.request.priority and not one.is_publishing for one in held
        )

    def is_covered(self, known: Known) -> bool:
        return any(
            one.state == "held"
            and one.request.group_id == known.request.group_id
            and self.covers(one.request, known.request)
            for one in self.locks
        )

    # -- events

    def pass_time(self, at_ms: int) -> None:
        self.at_ms = at_ms
        for known in self.locks:
            is_late = known.state == "waiting" and known.until_ms <= at_ms
            if known.state != "revoked" and (known.heard_ms + LEASE_MS <= at_ms or is_late):
                known.state, known.is_publishing = "revoked", False
        self.settle()

    def forget_revoked(self, kept: set[int]) -> None:
        """Forget the revoked ones that are not kept: how long they are is not the oracle's business."""
        self.locks = [one for one in self.locks if one.state != "revoked" or one.number in kept]

    def on(self, event: LockEvent) -> str:
        """Return `held`, `waiting`, `revoked` or `refused` for a request, else nothing."""
        if isinstance(event, RequestLock):
            return self.request(event)
        if isinstance(event, ReleaseLocks):
            self.locks = [
                one
                for one in self.locks
                if one.request.task_id != event.task_id
                or (event.lock_ids is not None and one.number not in event.lock_ids)
            ]
        for known in self.locks:
            is_own = not isinstance(event, BreakLock) and (
                known.request.task_id == getattr(event, "task_id", None)
            )
            if isinstance(event, RenewLocks) and is_own and known.state != "revoked":
                known.heard_ms = self.at_ms
            elif isinstance(event, BreakLock) and known.number == event.lock_id:
                known.state, known.is_publishing = "revoked", False
            elif isinstance(event, EndPublish) and is_own and known.number in event.lock_ids:
                known.is_publishing = False
        if isinstance(event, BeginPublish):
            self.begin(event)
        self.settle()
        return ""

    def begin(self, event: BeginPublish) -> None:
        mine = [
            one
            for one in self.locks
            if one.number in event.lock_ids and one.request.task_id == event.task_id
        ]
        if len(mine) == len(event.lock_ids) and all(one.state == "held" for one in mine):
            for one in mine:
                one.is_publishing, one.heard_ms = True, self.at_ms

    def request(self, request: RequestLock) -> str:
        mine = [one for one in self.locks if one.request.task_id == request.task_id]
        same = [
            one
            for one in mine
            if (
                one.request.type,
                one.request.interval,
                one.request.partitions,
                one.request.datasource,
            )
            == (request.type, request.interval, request.partitions, request.datasource)
        ]
        wider = [one for one in mine if one.state == "held" and self.covers(one.request, request)]
        for known in same[:1] or wider[-1:]:
            if known.state != "revoked" and self.at_ms - known.heard_ms >= LEASE_MS // 3:
                known.heard_ms = self.at_ms
            if known.state == "waiting" and self.may_join(known):
                known.state = "held"
            self.settle()
            return known.state
        number = max([0, *(one.number for one in self.locks), self.last_number]) + 1
        until_ms = self.at_ms + request.timeout_ms
        known = Known(number, request, "waiting", self.at_ms, until_ms)
        return self.place(known)

    last_number = 0

    def may_join(self, known: Known) -> bool:
        task = known.request.task_id
        others = [one for one in self.locks if one is not known and one.request.task_id == task]
        return self.is_covered(known) and all(one.state != "waiting" for one in others)

    def place(self, known: Known) -> str:
        """Let a new request in, have it wait, or refuse it, and leave everything as it was."""
        before = [(one, one.state) for one in self.locks]
        waits = self.waits()
        self.locks.append(known)
        _, ahead = self.against(known)
        all_wait_for_it = bool(ahead) and all(
            known.request.task_id in waits.get(one.request.task_id, ()) for one in ahead
        )
        if self.may_enter(known) and (not ahead or all_wait_for_it):
            self.grant(known)
        elif self.may_join(known):
            known.state = "held"
        if self.has_circle():
            self.locks.remove(known)
            for one, state in before:
                one.state = state
            return "refused"
        self.settle()
        return known.state

    def grant(self, known: Known) -> None:
        for victim in self.against(known)[0]:
            victim.state = "revoked"
        known.state = "held"

    def settle(self) -> None:
        """Grant, in order of the queue, until nobody can be granted any more."""
        while any(self.try_grant(one) for one in sorted(self.locks, key=lambda one: one.rank)):
            pass

    def try_grant(self, known: Known) -> bool:
        if known.state != "waiting" or not self.may_enter(known) or self.against(known)[1]:
            return False
        self.grant(known)
        return True
