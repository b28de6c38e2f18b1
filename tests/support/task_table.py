"""All tasks of a store in dictionaries, with which tests compare stores and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from carnac.core.tasks.events import TaskDecision
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, Task, TaskState
from carnac.core.time.leases import CLOCKS_AGREE_MS


class TaskTable:
    """The tasks of a store (a `TaskView`).

    Args:
        find_leader: Returns the leader of a role, or the last one.
    """

    def __init__(self, find_leader: Callable[[str], Leadership | None]) -> None:
        self._find_leader = find_leader
        self.tasks: dict[str, Task] = {}
        self.attempts: dict[str, dict[int, Attempt]] = {}
        self.payloads: dict[str, str] = {}
        self.reports: dict[tuple[str, int], str] = {}
        self._last_number = 0

    def last_number(self) -> int:
        """Return the highest arrival number given so far."""
        return self._last_number

    def find(self, task_ids: Sequence[str]) -> Iterator[Task]:
        """Yield those of the tasks that there are."""
        for task_id in task_ids:
            if task_id in self.tasks:
                yield self.tasks[task_id]

    def dependents(self, task_id: str) -> list[Task]:
        """Return the tasks that wait for this one."""
        return [task for task in self.tasks.values() if task_id in task.waits_for]

    def find_attempt(self, task_id: str, number: int) -> Attempt | None:
        """Return an attempt; None if there is none."""
        return self.attempts.get(task_id, {}).get(number)

    def open_attempts(self) -> list[Attempt]:
        """Return the attempts that are not over."""
        return [one for one in self._all_attempts() if not one.state.is_over]

    def unsettled_attempts(self) -> list[Attempt]:
        """Return the attempts that are over and whose process is perhaps there yet."""
        return [one for one in self._all_attempts() if one.state.is_over and not one.is_settled]

    def sleeping(self, at_ms: int) -> list[Task]:
        """Return the tasks whose pause before the next attempt is over, or was begun by a clock that is ahead."""
        return [
            task
            for task in self.tasks.values()
            if task.wakes_at_ms is not None
            and (task.wakes_at_ms <= at_ms or is_ahead(task.changed_at_ms, at_ms))
        ]

    def ready(self, limit: int) -> list[Task]:
        """Return the first so many pending tasks, in order of rank."""
        pending = [task for task in self.tasks.values() if task.state is TaskState.PENDING]
        return sorted(pending, key=lambda task: task.rank)[:limit]

    def leader(self, role: str) -> Leadership | None:
        """Return who leads in a role, or did last."""
        return self._find_leader(role)

    def apply(self, decision: TaskDecision) -> None:
        """Write a decision down, all but the locks that it frees."""
        for task in decision.tasks:
            self.tasks[task.task_id] = task
        for attempt in decision.attempts:
            self.attempts.setdefault(attempt.task_id, {})[attempt.number] = attempt
        self.payloads.update(decision.payloads)
        for task_id, number, report in decision.reports:
            self.reports[task_id, number] = report
        for task_id in decision.removes:
            for number in self.attempts.pop(task_id, {}):
                self.reports.pop((task_id, number), None)
            self.payloads.pop(task_id, None)
            del self.tasks[task_id]
        if decision.last_number is not None:
            self._last_number = decision.last_number

    def _all_attempts(self) -> Iterator[Attempt]:
        for numbered in self.attempts.values():
            yield from numbered.values()


def is_ahead(heartbeat_at_ms: int, at_ms: int) -> bool:
    """Return whether a sign of life was given by a clock that is ahead of this one."""
    return heartbeat_at_ms - at_ms > CLOCKS_AGREE_MS
