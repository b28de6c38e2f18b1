"""The laws of all locks of a store, checked: LK-1 and LK-4 of `core/invariants.py`."""

from __future__ import annotations

from collections.abc import Iterable

from carnac.core.invariants import check
from carnac.core.locks.model import Lock, LockState, may_share
from carnac.core.locks.waits import find_any_circle


def check_locks(locks: Iterable[Lock]) -> None:
    """Check LK-1 and LK-4 for all locks of a store."""
    known = list(locks)
    held = sorted(
        (lock for lock in known if lock.state is LockState.HELD),
        key=lambda lock: (lock.datasource, lock.interval.start_ms),
    )
    for index, lock in enumerate(held):
        for other in held[index + 1 :]:
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
