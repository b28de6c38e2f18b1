"""The laws of the lockbox, checked: LK-1 to LK-7 of `core/invariants.py`."""

from __future__ import annotations

from collections.abc import Iterable

from carnac.core.invariants import check
from carnac.core.locks.model import Lock, LockState, is_due, may_preempt, may_share
from carnac.core.locks.waits import find_any_circle, waits_for


def check_locks(locks: Iterable[Lock]) -> None:
    """Check LK-1 and LK-4 for all locks of a store."""
    known = list(locks)
    held = sorted(
        (lock for lock in known if lock.state is LockState.HELD),
        key=lambda lock: (lock.datasource, lock.interval.start_ms),
    )
    for place, lock in enumerate(held):
        for other in held[place + 1 :]:
            if other.datasource != lock.datasource or (
                other.interval.start_ms >= lock.interval.end_ms
            ):
                break
            check(
                "LK-1",
                may_share(lock, other),
                f"locks {lock.lock_id} of {lock.task_id} and {other.lock_id} of {other.task_id} are held at once",
            )
    circle = find_any_circle(known)
    check("LK-4", not circle, f"tasks {', '.join(circle)} wait for one another")


def check_preemption(request: Lock, victim: Lock) -> None:
    """Check LK-2 and LK-3.

    Args:
        victim: As it was before.
    """
    check(
        "LK-2",
        not victim.is_publishing,
        f"lock {request.lock_id} preempted {victim.lock_id}, which was publishing",
    )
    check(
        "LK-3",
        may_preempt(request, victim),
        f"lock {request.lock_id} of priority {request.priority} preempted {victim.lock_id} of {victim.priority}",
    )


def check_waits(locks: Iterable[Lock], request: Lock, at_ms: int) -> None:
    """Check LK-5 and LK-7 of a request that was told at `at_ms` to wait."""
    blockers = waits_for(list(locks)).get(request.lock_id, ())
    for blocker in blockers:
        check(
            "LK-5",
            not is_due(blocker, at_ms),
            f"request {request.lock_id} waits for {blocker.lock_id}, whose lease is over",
        )
    check(
        "LK-7",
        any(
            blocker.state is LockState.WAITING or not may_preempt(request, blocker)
            for blocker in blockers
        ),
        f"request {request.lock_id} waits though nothing keeps it out",
    )
