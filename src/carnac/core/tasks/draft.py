"""A decision about tasks in the making: the tasks that were read, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from carnac.core.tasks.events import TaskDecision, TaskReply
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, Task, TaskState


class TaskView(Protocol):
    """The stored tasks, as far as a decision needs them."""

    def last_number(self) -> int:
        """Return the highest arrival number given so far."""
        ...

    def find(self, task_ids: Sequence[str]) -> Iterable[Task]:
        """Return those of the tasks that there are."""
        ...

    def dependents(self, task_id: str) -> Iterable[Task]:
        """Return the tasks that wait for this one."""
        ...

    def find_attempt(self, task_id: str, number: int) -> Attempt | None:
        """Return an attempt; None if there is none."""
        ...

    def open_attempts(self) -> Iterable[Attempt]:
        """Return the attempts that are not over."""
        ...

    def sleeping(self, at_ms: int) -> Iterable[Task]:
        """Return the tasks whose pause before the next attempt is over."""
        ...

    def ready(self, limit: int) -> Iterable[Task]:
        """Return the first so many pending tasks, in order of rank."""
        ...

    def leader(self, role: str) -> Leadership | None:
        """Return the leader of a role, or the last one."""
        ...


class TaskDraft:
    """The changes of a decision so far; reads through it see the changes."""

    def __init__(self, view: TaskView, at_ms: int) -> None:
        self.view = view
        self.at_ms = at_ms
        self._tasks: dict[str, Task] = {}
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._changed_tasks: dict[str, None] = {}
        self._changed_attempts: dict[tuple[str, int], None] = {}
        self.payloads: list[tuple[str, str]] = []
        self.reports: list[tuple[str, int, str]] = []
        self.removes: list[str] = []
        self.freed: list[str] = []
        self._number: int | None = None

    def next_number(self) -> int:
        """Return a new arrival number."""
        last = self.view.last_number() if self._number is None else self._number
        self._number = last + 1
        return self._number

    def find(self, task_id: str) -> Task | None:
        """Return a task as it is now."""
        if task_id not in self._tasks:
            for found in self.view.find((task_id,)):
                self._tasks[task_id] = found
        return self._tasks.get(task_id)

    def known(self, stored: Task) -> Task:
        """Return a task that was read as it is now."""
        return self._tasks.setdefault(stored.task_id, stored)

    def find_attempt(self, task_id: str, number: int) -> Attempt | None:
        """Return an attempt as it is now."""
        key = (task_id, number)
        if key not in self._attempts:
            found = self.view.find_attempt(task_id, number)
            if found is None:
                return None
            self._attempts[key] = found
        return self._attempts[key]

    def put(self, task: Task) -> Task:
        """Write a task down; since when it is in its state follows."""
        before = self._tasks.get(task.task_id)
        if before is not None and before.state is not task.state:
            task = replace(task, changed_at_ms=self.at_ms)
        if task.state.is_over and task.finished_at_ms is None:
            task = replace(task, finished_at_ms=self.at_ms)
        self._tasks[task.task_id] = task
        self._changed_tasks[task.task_id] = None
        return task

    def put_attempt(self, attempt: Attempt) -> Attempt:
        """Write an attempt down; one that ends gives back its locks."""
        key = (attempt.task_id, attempt.number)
        before = self._attempts.get(key)
        if attempt.state.is_over and (before is None or not before.state.is_over):
            attempt = replace(attempt, ended_at_ms=self.at_ms)
            self.freed.append(attempt.lock_owner)
        self._attempts[key] = attempt
        self._changed_attempts[key] = None
        return attempt

    def end(self, task: Task, state: TaskState, error: str | None) -> None:
        """End a task; tasks that wait for it go on, or fail with it, however long the chain."""
        ended = [self.put(replace(task, state=state, error=error, wakes_at_ms=None, waits_for=()))]
        while ended:
            task = ended.pop()
            for stored in self.view.dependents(task.task_id):
                waiting = self.known(stored)
                if task.task_id not in waiting.waits_for:
                    continue
                if task.state is TaskState.SUCCEEDED:
                    self._go_on(waiting, task.task_id)
                else:
                    why = f"task {task.task_id}, on which it depends, {_became(task)}"
                    ended.append(
                        self.put(replace(waiting, state=TaskState.FAILED, error=why, waits_for=()))
                    )

    def _go_on(self, waiting: Task, task_id: str) -> None:
        left = tuple(one for one in waiting.waits_for if one != task_id)
        state = TaskState.WAITING if left else TaskState.PENDING
        self.put(replace(waiting, waits_for=left, state=state))

    def decision(self, reply: TaskReply) -> TaskDecision:
        """Return the decision."""
        return TaskDecision(
            reply=reply,
            tasks=tuple(self._tasks[key] for key in self._changed_tasks),
            attempts=tuple(self._attempts[key] for key in self._changed_attempts),
            payloads=tuple(self.payloads),
            reports=tuple(self.reports),
            removes=tuple(self.removes),
            freed=tuple(self.freed),
            last_number=self._number,
        )

    def changed(self) -> tuple[Task, ...]:
        """Return the tasks changed so far, in order of arrival."""
        tasks = [self._tasks[key] for key in self._changed_tasks]
        return tuple(sorted(tasks, key=lambda task: task.number))


def _became(task: Task) -> str:
    return "was cancelled" if task.state is TaskState.CANCELLED else "failed"
