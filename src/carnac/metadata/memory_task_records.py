"""The part of a metadata store in memory that keeps tasks (`TaskRecords`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TypeVar

from carnac.core.locks.events import LockEvent, LockReply, ReleaseLocks
from carnac.core.tasks.events import TaskEvent, TaskReply
from carnac.core.tasks.leadership import Candidacy, Leadership, decide_leader, decide_resignation
from carnac.core.tasks.machine import decide
from carnac.core.tasks.model import Attempt, Task
from carnac.core.tasks.table import TaskTable
from carnac.ports import Clock, TaskFilter
from carnac.ports.task_records import EVERY_TASK

T = TypeVar("T")


class MemoryTaskRecords(ABC):
    """Tasks in dictionaries; guarded by the lock of the store that this is a part of."""

    _clock: Clock

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._task_lock = lock
        self._leaders: dict[str, Leadership] = {}
        self._tasks = TaskTable(self._leaders.get)

    @abstractmethod
    def change_locks(self, event: LockEvent) -> LockReply:
        """Let an event happen to the lockbox; return what it answers."""

    @abstractmethod
    def release_pending(self, owner: str) -> int:
        """Give up all reservations of an owner; return how many there were."""

    def change_tasks(self, event: TaskEvent) -> TaskReply:
        """Let an event happen to the tasks; return what is answered."""
        with self._task_lock:
            decision = decide(self._tasks, event, at_ms=self._clock.now_ms())
            self._tasks.apply(decision)
            for owner in decision.freed:
                self.change_locks(ReleaseLocks(task_id=owner))
                self.release_pending(owner)
            return decision.reply

    def find_task(self, task_id: str) -> Task | None:
        """Return a task; None if there is none, or not any more."""
        with self._task_lock:
            return self._tasks.tasks.get(task_id)

    def tasks(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> tuple[Task, ...]:
        """Return tasks, newest first."""
        with self._task_lock:
            found = [task for task in self._tasks.tasks.values() if _is_wanted(task, which)]
        return tuple(sorted(found, key=lambda task: -task.number)[:limit])

    def task_payload(self, task_id: str) -> str | None:
        """Return the task as it was submitted, as JSON text; None if there is no such task."""
        with self._task_lock:
            return self._tasks.payloads.get(task_id)

    def task_report(self, task_id: str, number: int | None = None) -> str | None:
        """Return what an attempt did, as JSON text (None: the last one that said)."""
        with self._task_lock:
            reports = self._tasks.reports
            if number is None:
                number = max((one[1] for one in reports if one[0] == task_id), default=0)
            return reports.get((task_id, number))

    def attempts(self, task_id: str) -> tuple[Attempt, ...]:
        """Return the attempts of a task, the first one first."""
        with self._task_lock:
            return tuple(one for _, one in sorted(self._tasks.attempts.get(task_id, {}).items()))

    def live_attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts of all tasks that are not over, or whose process is perhaps there yet."""
        with self._task_lock:
            live = [*self._tasks.open_attempts(), *self._tasks.unsettled_attempts()]
        return tuple(sorted(live, key=lambda one: (one.task_id, one.number)))

    def lead(self, candidacy: Candidacy) -> Leadership:
        """Become or remain the leader, if nobody else is; return who leads."""
        with self._task_lock:
            now = self._leaders.get(candidacy.role)
            leader = decide_leader(now, candidacy, at_ms=self._clock.now_ms())
            self._leaders[candidacy.role] = leader
            return leader

    def resign(self, role: str, leader_id: str) -> None:
        """Stop leading, so that another one takes over at once. Idempotent."""
        with self._task_lock:
            left = decide_resignation(self._leaders.get(role), leader_id)
            if left is not None:
                self._leaders[role] = left

    def leader(self, role: str) -> Leadership | None:
        """Return who leads in a role, or did last; None if nobody ever has."""
        with self._task_lock:
            return self._leaders.get(role)


def _is_wanted(task: Task, which: TaskFilter) -> bool:
    return (
        (which.states is None or task.state in which.states)
        and which.datasource in {None, task.datasource}
        and which.type in {None, task.type}
        and which.group_id in {None, task.group_id}
        and (
            which.created is None
            or which.created.start_ms <= task.created_at_ms < which.created.end_ms
        )
        and (which.before is None or task.number < which.before)
        and (
            which.finished_until_ms is None
            or (task.finished_at_ms is not None and task.finished_at_ms <= which.finished_until_ms)
        )
    )
