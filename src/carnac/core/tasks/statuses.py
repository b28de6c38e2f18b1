"""How a task stands, in the words of Druid's clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from carnac.core.tasks.model import Task, TaskState

NOT_OVER_MS = -1

StatusCode = Literal["RUNNING", "SUCCESS", "FAILED"]
RunnerCode = Literal["WAITING", "PENDING", "RUNNING", "NONE"]
_RUNNER_CODES: Mapping[TaskState, RunnerCode] = {
    TaskState.WAITING: "WAITING",
    TaskState.PENDING: "PENDING",
    TaskState.RUNNING: "RUNNING",
}


def status_of(task: Task) -> StatusCode:
    """Return the state of a task in Druid's three words."""
    if not task.state.is_over:
        return "RUNNING"
    return "SUCCESS" if task.state is TaskState.SUCCEEDED else "FAILED"


def runner_code_of(task: Task) -> RunnerCode:
    """Return what whoever runs it would say; `NONE` of a task that is over."""
    return _RUNNER_CODES.get(task.state, "NONE")


def duration_ms(task: Task) -> int:
    """Return how long it ran, in milliseconds; `NOT_OVER_MS` while it is not over."""
    if task.finished_at_ms is None:
        return NOT_OVER_MS
    started = task.started_at_ms
    return 0 if started is None else max(0, task.finished_at_ms - started)
