"""Laws of the lockbox about one event: LK-2, LK-3, LK-5, LK-7 and LK-8 of `core/invariants.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from carnac.core.invariants import check
from carnac.core.locks.model import Lock, LockState, includes, is_due, may_preempt, may_share
from carnac.core.locks.waits import waits_by_task, waits_for


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


def check_grants(before: Iterable[Lock], after: Iterable[Lock]) -> None:
    """Check LK-8 for what one event granted.

    Args:
        before: All locks of a store before it.
        after: And after it.
    """
    was, now = list(before), list(after)
    held_before = {lock.lock_id for lock in was if lock.state is LockState.HELD}
    waiting = [lock for lock in now if lock.state is LockState.WAITING]
    for lock in now:
        if lock.state is not LockState.HELD or lock.lock_id in held_before:
            continue
        passed = [one for one in waiting if one.rank < lock.rank and not may_share(one, lock)]
        if not passed or any(
            one.lock_id in held_before and one.group_id == lock.group_id and includes(one, lock)
            for one in now
        ):
            continue
        edges = waits_by_task(was)
        for one in passed:
            check(
                "LK-8",
                lock.task_id in _reach(edges, one.task_id),
                f"lock {lock.lock_id} of {lock.task_id} was granted past {one.lock_id} of {one.task_id}",
            )


def _reach(edges: Mapping[str, frozenset[str]], start: str) -> set[str]:
    """Return what can be reached from a node."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for node in edges.get(ahead.pop(), frozenset()) - found:
            found.add(node)
            ahead.append(node)
    return found
