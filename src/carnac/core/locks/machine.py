"""The lockbox as a state machine: `decide(view, event, at_ms=…)` returns the decision about an event.

A request is granted when no lock of another group keeps it out, or when it may preempt all that do (a higher priority,
none of them publishing), and no request before it wants the same. Else it waits. Waiting requests are looked at again
whenever something around them ends, in order of the queue: by priority, then arrival. So a stream of narrow requests
that come later does not starve a wide one.

Waiting never closes a circle (LK-4): a new request that would is refused, nothing is changed, and its task starts anew,
without its locks. So the task that asked last yields, and those that wait are served. A request that no held lock keeps
out need not wait for those that wait for its own task: it passes them. Priorities are never changed.

Leases: locks and requests of a task that was not heard of for a whole lease end when an event meets them, or with
`ExpireLocks`, whichever is first. Until then a late sign of life keeps them: nobody was waiting.
"""

from __future__ import annotations

from dataclasses import replace

from carnac.core.locks.draft import LockDraft, LockView, Weighing
from carnac.core.locks.events import (
    BeginPublish,
    BreakLock,
    Decision,
    EndPublish,
    ExpireLocks,
    Granted,
    LockEvent,
    LockReply,
    Lost,
    Refused,
    ReleaseLocks,
    RenewLocks,
    RequestLock,
    Standing,
    Waits,
)
from carnac.core.locks.model import Lock, LockState, Reason, includes, may_share
from carnac.core.locks.waits import blockers, find_path
from carnac.core.time.leases import is_over
from carnac.errors import Invalid, NotFound

REVOKED_KEPT_MS = 3_600_000
"""How long a revocation is remembered for an owner that does not acknowledge it."""
TOUCHES_IN_LEASE = 3
"""A repeated request writes its sign of life down when a lease's part of this size has passed since the last one."""


def decide(view: LockView, event: LockEvent, *, at_ms: int) -> Decision:
    """Return the decision about an event at a time. Nothing has happened until the decision is written down.

    Raises:
        Invalid: The event contradicts itself.
    """
    draft = LockDraft(view, at_ms)
    beat = None
    reply: LockReply
    if isinstance(event, RequestLock):
        reply = _request(draft, event)
    elif isinstance(event, ReleaseLocks):
        reply = _release(draft, event)
    elif isinstance(event, RenewLocks):
        reply = _renew(draft, event)
        beat = event.task_id
    elif isinstance(event, ExpireLocks):
        reply = _expire(draft)
    elif isinstance(event, BeginPublish):
        reply = _begin_publish(draft, event)
    elif isinstance(event, EndPublish):
        reply = _end_publish(draft, event)
    else:
        reply = _break(draft, event)
    if isinstance(reply, Refused):
        return Decision(reply=reply, puts=(), removes=(), last_number=None, at_ms=at_ms)
    if _settle(draft) and isinstance(reply, Granted | Waits | Lost):
        reply = _reply(draft, draft.now(reply.lock))
    puts, removes = draft.changes()
    return Decision(
        reply=reply,
        puts=puts,
        removes=removes,
        last_number=draft.number,
        at_ms=at_ms,
        beat=beat,
    )


# ------------------------------------------------------------------------------------------------ requests


def _request(draft: LockDraft, event: RequestLock) -> LockReply:
    if event.lease_ms <= 0 or event.timeout_ms < 0:
        raise Invalid(
            f"task {event.task_id} asks for a lock with a lease of {event.lease_ms} ms and a timeout of "
            f"{event.timeout_ms} ms; a lease is longer than nothing, a timeout not shorter",
            task_id=event.task_id,
        )
    known = _find_same(draft, event)
    if known is None:
        wanted = _new_lock(draft, event)
        known = _find_wider(draft, wanted)
        if known is None:
            return _enter(draft, wanted)
    known = _touch(draft, known)
    if known.state is LockState.WAITING:
        known = _serve(draft, known, draft.weigh(known))
        if known.state is LockState.WAITING and known.waits_until_ms <= draft.at_ms:
            known = draft.revoke(known, Reason.TIMED_OUT)
    return _reply(draft, known)


def _new_lock(draft: LockDraft, event: RequestLock) -> Lock:
    return Lock(
        lock_id=draft.next_number(),
        task_id=event.task_id,
        group_id=event.group_id,
        datasource=event.datasource,
        interval=event.interval,
        partitions=event.partitions,
        type=event.type,
        priority=event.priority,
        state=LockState.WAITING,
        fence=0,
        is_publishing=False,
        holder=event.holder,
        requested_at_ms=draft.at_ms,
        granted_at_ms=None,
        heartbeat_at_ms=draft.at_ms,
        lease_ms=event.lease_ms,
        waits_until_ms=draft.at_ms + event.timeout_ms,
        revocation=None,
    )


def _find_same(draft: LockDraft, event: RequestLock) -> Lock | None:
    """Return the lock or wait of the same request, if it came before."""
    for lock in draft.stored_of(event.task_id):
        if (
            lock.type is event.type
            and lock.interval == event.interval
            and lock.partitions == event.partitions
            and lock.datasource == event.datasource
        ):
            return lock
    return None


def _find_wider(draft: LockDraft, wanted: Lock) -> Lock | None:
    """Return the last held lock of the task that includes what it asks for."""
    found: Lock | None = None
    for lock in draft.stored_of(wanted.task_id):
        if lock.state is LockState.HELD and includes(lock, wanted):
            found = lock
    return found


def _touch(draft: LockDraft, lock: Lock) -> Lock:
    """Take note of a sign of life, unless the last one is recent."""
    if lock.state is LockState.REVOKED:
        return lock
    if not is_over(lock.heartbeat_at_ms, lock.lease_ms // TOUCHES_IN_LEASE, draft.at_ms):
        return lock
    return draft.put(replace(lock, heartbeat_at_ms=draft.at_ms))


def _enter(draft: LockDraft, request: Lock) -> LockReply:
    """Grant a new request, have it wait, or refuse it because waiting would never end."""
    weighing = draft.weigh(request)
    is_free = weighing.may_enter(request) and all(
        find_path(draft, one.task_id, request.task_id) for one in weighing.ahead
    )
    draft.add(request)
    request = draft.grant(request, weighing) if is_free else _serve(draft, request, weighing)
    circle = _find_circle(draft, request, weighing)
    return Refused(circle=circle) if circle else _reply(draft, request)


def _serve(draft: LockDraft, request: Lock, weighing: Weighing) -> Lock:
    """Grant a waiting request whose turn it is; return how it stands."""
    is_first = weighing.may_enter(request) and not weighing.ahead
    # Locks that have just ended may let requests in that are before it, and may preempt its group: they come first.
    may_join = weighing.is_covered and not draft.has_freed and not _is_waiting(draft, request)
    return draft.grant(request, weighing) if is_first or may_join else request


def _is_waiting(draft: LockDraft, request: Lock) -> bool:
    """Whether the request's task waits for another one."""
    return any(
        one.state is LockState.WAITING and one.lock_id != request.lock_id
        for one in draft.of_task(request.task_id)
    )


def _find_circle(draft: LockDraft, request: Lock, weighing: Weighing) -> tuple[str, ...]:
    """Return a circle that a new request, granted or waiting, closes; empty if it closes none.

    It goes through the request's task, which must both wait and be waited for.
    """
    if request.state is LockState.HELD:
        may_close = _is_waiting(draft, request)
    else:
        may_close = weighing.has_followers or any(
            one.state is not LockState.REVOKED and one.lock_id != request.lock_id
            for one in draft.of_task(request.task_id)
        )
    return find_path(draft, request.task_id, request.task_id) if may_close else ()


# ------------------------------------------------------------------------------- everything else that happens


def _release(draft: LockDraft, event: ReleaseLocks) -> Standing:
    for lock in draft.stored_of(event.task_id):
        if event.lock_ids is None or lock.lock_id in event.lock_ids:
            draft.remove(lock)
    return Standing(locks=())


def _renew(draft: LockDraft, event: RenewLocks) -> Standing:
    return Standing(
        locks=tuple(heard_of(lock, draft.at_ms) for lock in draft.stored_of(event.task_id))
    )


def heard_of(lock: Lock, at_ms: int) -> Lock:
    """Return the lock after a sign of life of its task."""
    if lock.state is LockState.REVOKED:
        return lock
    return replace(lock, heartbeat_at_ms=at_ms)


def _expire(draft: LockDraft) -> Standing:
    ended = []
    for lock in draft.due():
        if lock.revocation is None:
            now = draft.end_if_due(lock)
            if now.state is LockState.REVOKED:
                ended.append(now)
        elif lock.revocation.at_ms + REVOKED_KEPT_MS <= draft.at_ms:
            draft.remove(lock)
    return Standing(locks=tuple(ended))


def _begin_publish(draft: LockDraft, event: BeginPublish) -> Standing:
    locks = [lock for lock in draft.find(event.lock_ids) if lock.task_id == event.task_id]
    if len(locks) == len(set(event.lock_ids)) and all(
        lock.state is LockState.HELD for lock in locks
    ):
        locks = [
            draft.put(replace(heard_of(lock, draft.at_ms), is_publishing=True)) for lock in locks
        ]
    return Standing(locks=tuple(locks))


def _end_publish(draft: LockDraft, event: EndPublish) -> Standing:
    locks = []
    for lock in draft.find(event.lock_ids):
        if lock.task_id == event.task_id:
            locks.append(lock)
            if lock.is_publishing:
                locks[-1] = draft.put(replace(lock, is_publishing=False))
                draft.look_again(locks[-1])
    return Standing(locks=tuple(locks))


def _break(draft: LockDraft, event: BreakLock) -> Standing:
    locks = draft.find([event.lock_id])
    if not locks:
        raise NotFound(
            f"there is no lock {event.lock_id}; carnac locks lists what there is",
            lock_id=event.lock_id,
        )
    if locks[0].state is LockState.REVOKED:
        return Standing(locks=tuple(locks))
    return Standing(locks=(draft.revoke(locks[0], Reason.BROKEN),))


# --------------------------------------------------------------------------------------------- what follows


def _settle(draft: LockDraft) -> bool:
    """Look again at requests that waited for ended locks, in order of the queue, until nothing more follows.

    Locks that a grant ends are of lower priority, and so are requests that wait for them: no grant is taken back here.

    Returns:
        Whether there was anything to look at.
    """
    is_change = draft.has_freed
    while freed := draft.take_freed():
        waiting = {
            lock.lock_id: lock
            for one in freed
            for lock in draft.around(one)
            if lock.state is LockState.WAITING and not may_share(lock, one)
        }
        for lock in sorted(waiting.values(), key=lambda lock: lock.rank):
            request = draft.now(lock)
            if request.state is LockState.WAITING:
                weighing = draft.weigh(request)
                if weighing.may_enter(request) and not weighing.ahead:
                    draft.grant(request, weighing)
    return is_change


def _reply(draft: LockDraft, lock: Lock) -> LockReply:
    if lock.state is LockState.HELD:
        return Granted(lock=lock)
    if lock.state is LockState.REVOKED:
        return Lost(lock=lock)
    return Waits(lock=lock, blockers=blockers(lock, draft.around(lock)))
