"""Who waits for whom. A task waits for the tasks whose locks, held or wanted earlier, keep one of its requests out.

A circle of such waits would never end, so no event may close one (LK-4). Edges come into being only with a new request:
of the requesting task to those before it, and of lower-ranked waiting ones to it. What happens later (grants in order
of the queue, releases, revocations) only takes edges away or leaves them. So it is enough to look when a task asks, and
to look only for circles through that task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from carnac.core.locks.draft import LockDraft
from carnac.core.locks.model import Lock, LockState, may_share


def blockers(request: Lock, others: Iterable[Lock]) -> tuple[Lock, ...]:
    """Return what a waiting request waits for: held locks and waiting ones before it that it cannot share with."""
    group, rank, found = request.group_id, request.rank, []
    for other in others:
        if (
            other.group_id != group
            and (
                other.state is LockState.HELD
                or (other.state is LockState.WAITING and other.rank < rank)
            )
            and not may_share(other, request)
        ):
            found.append(other)  # noqa: PERF401 - a generator costs twice as much, and this is the inner loop
    return tuple(found)


def waits_for(locks: Sequence[Lock]) -> Mapping[int, tuple[Lock, ...]]:
    """Return, for each waiting request of all locks of a store, what it waits for."""
    by_datasource: dict[str, list[Lock]] = {}
    for lock in locks:
        by_datasource.setdefault(lock.datasource, []).append(lock)
    return {
        lock.lock_id: blockers(lock, by_datasource[lock.datasource])
        for lock in locks
        if lock.state is LockState.WAITING
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LockPicture:
    """A lock, for people.

    Attributes:
        waits_for: What a waiting one waits for.
        waiters: The waiting ones that wait for it, in order of the queue.
    """

    lock: Lock
    waits_for: tuple[Lock, ...]
    waiters: tuple[Lock, ...]


def picture(locks: Sequence[Lock]) -> tuple[LockPicture, ...]:
    """Return all locks of a store, or of a datasource, with who waits for whom, in their order."""
    waited = waits_for(locks)
    waiters: dict[int, list[Lock]] = {}
    for lock in sorted(locks, key=lambda lock: lock.rank):
        for blocker in waited.get(lock.lock_id, ()):
            waiters.setdefault(blocker.lock_id, []).append(lock)
    return tuple(
        LockPicture(
            lock=lock,
            waits_for=waited.get(lock.lock_id, ()),
            waiters=tuple(waiters.get(lock.lock_id, ())),
        )
        for lock in locks
    )


def find_circle(draft: LockDraft, task_id: str, only: Lock | None = None) -> tuple[str, ...]:
    """Return tasks of which each waits for the next, from the given one back to it; empty if there are none.

    Args:
        only: The one request of the task through which a circle could go; None: any.
    """
    came_from: dict[str, str] = {}
    open_tasks = [task_id]
    while open_tasks:
        task = open_tasks.pop()
        is_first = task == task_id
        for request in (only,) if is_first and only is not None else draft.of_task(task):
            if request.state is not LockState.WAITING:
                continue
            for blocker in blockers(request, draft.around(request)):
                if blocker.task_id == task_id:
                    return _path(came_from, task_id, task)
                if blocker.task_id not in came_from:
                    came_from[blocker.task_id] = task
                    open_tasks.append(blocker.task_id)
    return ()


def find_any_circle(locks: Sequence[Lock]) -> tuple[str, ...]:
    """Return a circle of waits among all locks of a store; empty if there is none (LK-4)."""
    edges: dict[str, set[str]] = {}
    owners = {lock.lock_id: lock.task_id for lock in locks}
    for lock_id, waited in waits_for(locks).items():
        edges.setdefault(owners[lock_id], set()).update(lock.task_id for lock in waited)
    done: set[str] = set()
    for start in sorted(edges):
        path, branches = [start], [iter(sorted(edges[start]))]
        while path and start not in done:
            following = next(branches[-1], None)
            if following is None:
                done.add(path.pop())
                branches.pop()
            elif following in path:
                return tuple(path[path.index(following) :])
            elif following not in done and following in edges:
                path.append(following)
                branches.append(iter(sorted(edges[following])))
    return ()


def _path(came_from: Mapping[str, str], start: str, end: str) -> tuple[str, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))
