"""The lockbox as a service: events go to the metadata store, waiting is done here.

Every call is one transaction that any process can make, so there is no server that could be lost: a task's own process
asks, keeps what it got alive, and publishes under its fences. Failures say what to do: Conflict, ask again from the
start; Unavailable, come back later; Revoked, stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.locks.choice import LockChoice, LockContext, choose_lock
from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    EndPublish,
    ExpireLocks,
    Granted,
    LockReply,
    Lost,
    Refused,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
    Standing,
    Waits,
)
from carnac.core.locks.model import Lock, LockState, Reason, describe_end
from carnac.core.locks.waits import LockPicture, picture
from carnac.core.log.commits import LockHeld
from carnac.core.time.intervals import interval_text
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Conflict, Revoked, Unavailable
from carnac.ports import Clock
from carnac.ports.closing import Closing

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

FIRST_PAUSE_MS = 20
LONGEST_PAUSE_MS = 1_000
"""A waiting request is repeated after pauses that double between these."""


class Lockbox(Closing):
    """Locks of a store, for tasks and for operators. Safe for many threads and processes.

    Args:
        holder: Process that asks, for people: host, process, command.
        lease_ms: Time that a lock outlives the last sign of life of its task.
        force_time_chunk_lock: Default for tasks whose context does not set it.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        clock: Clock,
        *,
        holder: str,
        lease_ms: int,
        force_time_chunk_lock: bool | None = None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._holder = holder
        self._force_time_chunk_lock = force_time_chunk_lock
        self.lease_ms = lease_ms

    def choose(
        self,
        context: LockContext,
        *,
        is_append: bool,
        changes_granularity: bool = False,
    ) -> LockChoice:
        """Return the lock that a task asks for, with what the service says where its context says nothing."""
        return choose_lock(
            context,
            is_append=is_append,
            changes_granularity=changes_granularity,
            force_time_chunk_lock=self._force_time_chunk_lock,
        )

    # ------------------------------------------------------------------------------------------- for tasks

    def request(self, request: RequestLock) -> LockReply:
        """Ask once, and say how it stands; asked again, it is the same request. Waits for nothing."""
        named = request if request.holder else replace(request, holder=self._holder)
        return self._metadata.change_locks(named)

    def acquire(self, request: RequestLock) -> Lock:
        """Return the lock, waiting for it as long as its timeout says. A refused request leaves nothing behind.

        Raises:
            Unavailable: The lock was not free in that time; names the task that has it.
            Conflict: Waiting would never end, since others wait for this task: release what it has, and start anew.
            Revoked: The task was preempted, or an operator broke its wait.
        """
        try:
            reply = self._wait(request)
        except BaseException:  # Ctrl-C, or a database that is gone: nobody will come for the lock
            with suppress(CarnacError):
                self._take_back_request(request)
            raise
        if isinstance(reply, Granted):
            return reply.lock
        if isinstance(reply, Waits | Lost):
            self._take_back(reply.lock)
        raise _not_granted(request, reply)

    def _wait(self, request: RequestLock) -> LockReply:
        """Ask until the lock is granted, lost or refused, or the request has waited long enough."""
        asked_at_ms = self._clock.now_ms()
        pause_ms = FIRST_PAUSE_MS
        waits: Waits | None = None
        while True:
            reply = self.request(request)
            now_ms = self._clock.now_ms()
            if isinstance(reply, Lost) and _has_timed_out(reply.lock):
                return waits or reply
            if not isinstance(reply, Waits) or is_over(asked_at_ms, request.timeout_ms, now_ms):
                return reply
            waits = reply
            self._clock.sleep_ms(min(pause_ms, request.timeout_ms - abs(now_ms - asked_at_ms)))
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)

    def acquire_all(self, requests: Sequence[RequestLock]) -> tuple[Lock, ...]:
        """Return all these locks of one task, in order of datasource and time, or none.

        The order is the same for all tasks, so that two tasks for the same chunks do not block each other.

        Raises:
            Unavailable, Conflict, Revoked: As `acquire`; locks that were acquired before are released.
        """
        held: list[Lock] = []
        try:
            for request in sorted(requests, key=_global_order):
                held.append(self.acquire(request))  # noqa: PERF401 - what is held must be known when one fails
        except BaseException:
            for lock in held:
                with suppress(CarnacError):  # its lease ends by itself
                    self._take_back(lock)
            raise
        return tuple(held)

    def renew(self, task_id: str) -> tuple[Lock, ...]:
        """Give a sign of life; return all locks of the task. A revoked one among them says that it should stop."""
        return self._standing(RenewLocks(task_id=task_id))

    def release(self, task_id: str, lock_ids: Sequence[int] | None = None) -> None:
        """Give locks back (None: all of the task's). Idempotent."""
        ids = None if lock_ids is None else tuple(lock_ids)
        self._metadata.change_locks(ReleaseLocks(task_id=task_id, lock_ids=ids))

    @contextmanager
    def publishing(self, locks: Sequence[Lock]) -> Iterator[tuple[LockHeld, ...]]:
        """Be in the publishing section of one task with these locks; yields the requirements for its publication.

        No other task preempts it inside. If the task dies there, the section ends with its lease.

        Raises:
            Revoked: One of the locks is not held any more.
        """
        task_id, ids = locks[0].task_id, tuple(lock.lock_id for lock in locks)
        found = {
            lock.lock_id: lock
            for lock in self._standing(BeginPublish(task_id=task_id, lock_ids=ids))
        }
        for lock in locks:
            now = found.get(lock.lock_id)
            if now is None or now.state is not LockState.HELD or now.fence != lock.fence:
                raise Revoked(
                    f"lock {lock.lock_id} of task {task_id} {describe_end(now)}; nothing was published: stop",
                    lock_id=lock.lock_id,
                    task_id=task_id,
                )
        try:
            yield tuple(LockHeld(lock_id=lock.lock_id, fence=lock.fence) for lock in locks)
        finally:
            # a publication stays; the section ends with the lease
            with suppress(CarnacError):
                self._standing(EndPublish(task_id=task_id, lock_ids=ids))

    # --------------------------------------------------------------------------------------- for operators

    def expire(self) -> tuple[Lock, ...]:
        """End what belongs to tasks that are not heard of any more; return it. For a loop that runs now and then."""
        return self._standing(ExpireLocks())

    def explain(self, datasource: str | None = None) -> tuple[LockPicture, ...]:
        """Return the locks of a datasource (None: of all), each with those that wait for it and that it waits for."""
        return picture(self._metadata.locks(datasource))

    def check_datasource(self, datasource: str) -> None:
        """Check that there is a datasource, or at least a lock on it.

        Raises:
            NotFound: There is neither.
        """
        if not self._metadata.locks(datasource):
            self._metadata.require_datasource(datasource)

    def break_lock(self, lock_id: int) -> Lock:
        """Revoke a lock or a wait of any task; return it.

        This is safe, since the task cannot publish under the lock any more.

        Raises:
            NotFound: There is no such lock.
        """
        return self._standing(BreakLock(lock_id=lock_id))[0]

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._metadata.close()

    # ------------------------------------------------------------------------------------------------------

    def _standing(
        self, event: RenewLocks | BeginPublish | EndPublish | ExpireLocks | BreakLock
    ) -> tuple[Lock, ...]:
        reply = self._metadata.change_locks(event)
        if not isinstance(reply, Standing):
            raise TypeError(f"{type(event).__name__} is not answered by {type(reply).__name__}")
        return reply.locks

    def _take_back(self, lock: Lock) -> None:
        self.release(lock.task_id, (lock.lock_id,))

    def _take_back_request(self, request: RequestLock) -> None:
        """Take back what the task has for a request of which no reply is known."""
        own = [
            lock.lock_id
            for lock in self._metadata.locks(request.datasource)
            if lock.task_id == request.task_id
            and (lock.type, lock.interval, lock.partitions)
            == (request.type, request.interval, request.partitions)
        ]
        self.release(request.task_id, own)


def _not_granted(request: RequestLock, reply: LockReply) -> CarnacError:
    """Return what to raise when a request came to nothing."""
    if isinstance(reply, Refused):
        return _closes_circle(request, reply)
    if isinstance(reply, Lost) and not _has_timed_out(reply.lock):
        return Revoked(
            f"lock {reply.lock.lock_id} of task {request.task_id} {describe_end(reply.lock)}; stop",
            lock_id=reply.lock.lock_id,
            task_id=request.task_id,
        )
    blockers = reply.blockers if isinstance(reply, Waits) else ()
    named = ", ".join(
        f"lock {lock.lock_id} of {lock.task_id} ({lock.holder or 'unknown holder'})"
        for lock in blockers[:3]
    )
    return Unavailable(
        f"task {request.task_id} waited {request.timeout_ms} ms for {request.datasource} "
        f"{interval_text(request.interval)} in vain"
        f"{': it is kept out by ' + named if named else ''}; retry later, or look at carnac locks",
        task_id=request.task_id,
        blockers=[lock.lock_id for lock in blockers],
    )


def _has_timed_out(lock: Lock) -> bool:
    return lock.revocation is not None and lock.revocation.reason is Reason.TIMED_OUT


def _closes_circle(request: RequestLock, reply: Refused) -> Conflict:
    others = ", then ".join(reply.circle[1:])
    return Conflict(
        f"task {request.task_id} cannot wait for {request.datasource} "
        f"{interval_text(request.interval)}: it would wait for {others}, "
        f"then for itself; release its locks and start anew",
        task_id=request.task_id,
        circle=list(reply.circle),
    )


def _global_order(request: RequestLock) -> tuple[str, int, int, str]:
    return (
        request.datasource,
        request.interval.start_ms,
        request.interval.end_ms,
        "" if request.partitions is None else str(request.partitions),
    )
