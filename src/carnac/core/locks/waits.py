"""Waits between tasks. A task waits for the tasks whose locks, held or wanted earlier, keep one of its requests out.

A circle of such waits would never end, so no event may close one (LK-4). Of lower priority are only held locks that a
request takes the place of as soon as nothing else keeps it out, or as soon as they are published under; a publishing
section waits for nobody. So nobody waits for their end, and each wait is for an equal or higher priority.

Waits come into being only with a new request: of the requesting task for those before it, and of lower-ranked waiting
ones for it. Later events (grants in order of the queue, releases, revocations) only take waits away or leave them. So
it is enough to look when a task asks, and to look only for circles through that task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from carnac.core.locks.draft import LockDraft
from carnac.core.locks.model import Lock, LockState, may_share


def blockers(request: Lock, others: Iterable[Lock]) -> tuple[Lock, ...]:
    """Return the blockers of a waiting request: held locks and waiting ones before it that it cannot share with."""
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
    """Return, for each waiting request of all locks of a store, its blockers."""
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
        waits_for: The locks that a waiting one waits for.
        waiters: The waiting ones that wait for it, in order of the queue.
    """

    lock: Lock
    waits_for: tuple[Lock, ...]
    waiters: tuple[Lock, ...]


def picture(locks: Sequence[Lock]) -> tuple[LockPicture, ...]:
    """Return all locks of a store, or of a datasource, with what waits for what, in their order."""
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


def must_end(request: Lock, blocker: Lock) -> bool:
    """Whether a waiting request is let in only after the end of what it waits for: it cannot take its place."""
    return blocker.state is LockState.WAITING or blocker.priority >= request.priority


def find_path(draft: LockDraft, start: str, end: str) -> tuple[str, ...]:
    """Return tasks of which each waits for the next, and the last for `end`; empty if there are none.

    Args:
        start: The first of them.
        end: May be `start`: then they are a circle.
    """
    came_from: dict[str, str] = {}
    open_tasks = [start]
    while open_tasks:
        task = open_tasks.pop()
        for request in draft.of_task(task):
            if request.state is not LockState.WAITING:
                continue
            for blocker in blockers(request, draft.around(request)):
                if not must_end(request, blocker):
                    continue
                if blocker.task_id == end:
                    return _path(came_from, start, task)
                if blocker.task_id not in came_from and blocker.task_id != start:
                    came_from[blocker.task_id] = task
                    open_tasks.append(blocker.task_id)
    return ()


def waits_by_task(locks: Sequence[Lock]) -> Mapping[str, frozenset[str]]:
    """Return, for each task that waits, the tasks whose end it waits for, of all locks of a store."""
    edges: dict[str, set[str]] = {}
    known = {lock.lock_id: lock for lock in locks}
    for lock_id, waited in waits_for(locks).items():
        request = known[lock_id]
        edges.setdefault(request.task_id, set()).update(
            one.task_id for one in waited if must_end(request, one)
        )
    return {task: frozenset(others) for task, others in edges.items()}


def find_any_circle(locks: Sequence[Lock]) -> tuple[str, ...]:
    """Return a circle of waits among all locks of a store; empty if there is none (LK-4)."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(waits_by_task(locks)).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1][1:]))  # it names what is waited for before who waits
    return ()


def _path(came_from: Mapping[str, str], start: str, end: str) -> tuple[str, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))
