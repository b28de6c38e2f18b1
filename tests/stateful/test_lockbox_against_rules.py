"""Random events on a lockbox: it does what the naive oracle does, and the laws of locks hold after each."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    EndPublish,
    ExpireLocks,
    Granted,
    LockEvent,
    Lost,
    Refused,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
    Waits,
)
from carnac.core.locks.laws import check_locks
from carnac.core.locks.model import Lock, LockState, LockType, Reason
from tests.locks import LEASE_MS, Box, Oracle, hours, wants
from tests.support.laws import locks as laws

TASKS = {
    "a": ("g", 50),
    "b": ("g", 50),
    "c": ("c", 50),
    "d": ("d", 25),
    "e": ("e", 75),
    "f": ("f", 50),
}
NAMES = {Granted: "held", Waits: "waiting", Lost: "revoked", Refused: "refused"}

tasks = st.sampled_from(sorted(TASKS))
places = st.sampled_from(
    [hours(0), hours(1), hours(2), hours(3), hours(0, 2), hours(1, 4), hours(0, 4)]
)
types = st.sampled_from(
    [LockType.EXCLUSIVE, LockType.EXCLUSIVE, LockType.SHARED, LockType.REPLACE, LockType.APPEND]
)
partitions = st.one_of(st.none(), st.sampled_from([(), (1,), (2,), (1, 2), (2, 3)]))
picks = st.integers(0, 7)


class LockboxMachine(RuleBasedStateMachine):
    """`is_eager`: leases end before every event, as in the oracle. Else they end when an event comes upon them."""

    @initialize(is_eager=st.booleans())
    def open_box(self, is_eager: bool) -> None:
        self.box = Box()
        self.oracle = Oracle() if is_eager else None
        self.heard: dict[str, int] = {}
        self.fences: list[int] = []

    @rule(
        task=tasks,
        place=places,
        kind=types,
        ids=partitions,
        own_priority=st.sampled_from([None, None, None, 0, 25, 60, 90]),
        timeout_ms=st.sampled_from([20_000, 300_000]),
    )
    def request(
        self,
        *,
        task: str,
        place: object,
        kind: LockType,
        ids: tuple[int, ...] | None,
        own_priority: int | None,
        timeout_ms: int,
    ) -> None:
        group, priority = TASKS[task]
        priority = priority if own_priority is None else own_priority
        self.ask(
            wants(
                task, place, *(ids or ()), type=kind, priority=priority, group=group,
                is_new=ids == (), timeout_ms=timeout_ms,
            )
        )  # fmt: skip

    @rule(pick=picks)
    def ask_again(self, pick: int) -> None:
        lock = self.pick(pick)
        if lock is not None:
            self.ask(
                RequestLock(
                    task_id=lock.task_id, group_id=lock.group_id, datasource=lock.datasource,
                    interval=lock.interval, partitions=lock.partitions, type=lock.type,
                    priority=lock.priority, timeout_ms=300_000, lease_ms=lock.lease_ms,
                )
            )  # fmt: skip

    @rule(pick=picks, is_all=st.booleans())
    def release(self, pick: int, is_all: bool) -> None:
        lock = self.pick(pick)
        if lock is not None:
            self.send(
                ReleaseLocks(task_id=lock.task_id, lock_ids=None if is_all else (lock.lock_id,))
            )

    @rule(task=tasks)
    def renew(self, task: str) -> None:
        self.heard[task] = self.box.at_ms
        self.send(RenewLocks(task_id=task))

    @rule(by_ms=st.sampled_from([1, 19_000, 40_000, LEASE_MS, 4 * 3_600_000]))
    def pass_time(self, by_ms: int) -> None:
        self.box.at_ms += by_ms
        if self.oracle is not None:
            self.box(ExpireLocks())
            self.oracle.pass_time(self.box.at_ms)
            kept = {lock.lock_id for lock in self.box.table}
            self.oracle.forget_revoked(kept)

    @rule()
    def expire(self) -> None:
        self.send(ExpireLocks())

    @rule(pick=picks, is_all=st.booleans())
    def begin_publish(self, pick: int, is_all: bool) -> None:
        lock = self.pick(pick)
        if lock is not None:
            mine = [one.lock_id for one in self.box.table.of_task(lock.task_id)]
            self.send(
                BeginPublish(
                    task_id=lock.task_id, lock_ids=tuple(mine if is_all else [lock.lock_id])
                )
            )

    @rule(pick=picks)
    def end_publish(self, pick: int) -> None:
        publishing = [one for one in self.box.table if one.is_publishing]
        if publishing:
            lock = publishing[pick % len(publishing)]
            self.send(EndPublish(task_id=lock.task_id, lock_ids=(lock.lock_id,)))

    @rule(pick=picks)
    def break_lock(self, pick: int) -> None:
        lock = self.pick(pick)
        if lock is not None:
            self.send(BreakLock(lock_id=lock.lock_id))

    @invariant()
    def the_laws_hold(self) -> None:
        if not hasattr(self, "box"):
            return
        locks = list(self.box.table)
        check_locks(locks)
        for lock in locks:
            assert lock.heartbeat_at_ms <= self.box.at_ms
            assert (lock.revocation is not None) == (lock.state is LockState.REVOKED)
            assert not (lock.is_publishing and lock.state is not LockState.HELD)
            assert (lock.fence > 0) >= (lock.state is LockState.HELD)
        fences = [lock.fence for lock in locks if lock.fence]
        assert len(set(fences)) == len(fences)

    def pick(self, number: int) -> Lock | None:
        locks = list(self.box.table)
        return locks[number % len(locks)] if locks else None

    def ask(self, request: RequestLock) -> None:
        reply = self.send(request)
        if isinstance(reply, Waits):
            assert reply.blockers
            laws.check_waits(list(self.box.table), reply.lock, self.box.at_ms)
        if isinstance(reply, Refused):
            assert reply.circle[0] == request.task_id

    def send(self, event: LockEvent) -> object:
        before = {lock.lock_id: lock for lock in self.box.table}
        last = self.box.table.last_number()
        reply = self.box(event)
        after = {lock.lock_id: lock for lock in self.box.table}
        for lock_id, lock in after.items():
            was = before.get(lock_id)
            if was is not None and isinstance(event, EndPublish) and lock_id in event.lock_ids:
                was = replace(was, is_publishing=False)  # who waits for that moment takes it
            self.check_change(was, lock, after, last)
        laws.check_grants(list(before.values()), list(after.values()))
        if self.oracle is not None:
            self.compare(event, reply, last)
        return reply

    @staticmethod
    def check_change(was: Lock | None, lock: Lock, after: dict[int, Lock], last: int) -> None:
        if lock.fence and (was is None or not was.fence):
            assert lock.fence > last, "a lock granted later has a higher fence"
        if was is not None and was.fence:
            assert lock.fence == was.fence
        if was is not None and was.state is LockState.REVOKED:
            assert lock == was, "a revocation stands until it is released"
        elif lock.revocation is not None and lock.revocation.reason is Reason.PREEMPTED:
            assert was is not None
            assert was.fence, "no grant is taken back by the event that made it"
            laws.check_preemption(after[lock.revocation.by], was)

    def compare(self, event: LockEvent, reply: object, last: int) -> None:
        assert self.oracle is not None
        self.oracle.last_number = last
        told = self.oracle.on(event)
        if isinstance(event, RequestLock):
            assert NAMES[type(reply)] == told
        mine = {lock.lock_id: (str(lock.state), lock.is_publishing) for lock in self.box.table}
        theirs = {one.number: (one.state, one.is_publishing) for one in self.oracle.locks}
        assert mine == theirs


TestLockbox = LockboxMachine.TestCase
