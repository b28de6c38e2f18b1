"""Supervisors: their records, their states, and the tasks that they should have now. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from carnac.core.tasks.model import Task, TaskState

UNHEALTHY_FAILURES = 3
"""Attempts that failed one after the other, before a supervisor is called unhealthy (as in Druid)."""
STEADY_MS = 30_000
"""An attempt that runs for so long has not failed as those before it."""
PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 60_000
"""Between a task that failed and the next one: twice as long each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorVersion:
    """The spec of a supervisor, from the time that it was set.

    Attributes:
        number: Of all that were ever set, growing: the version of its tasks.
        spec: JSON; empty: the supervisor was terminated.
    """

    number: int
    supervisor_id: str
    spec: str
    at_ms: int

    @property
    def is_terminated(self) -> bool:
        """Whether there is no such supervisor from then on."""
        return not self.spec


class State(StrEnum):
    """How a supervisor stands, in Druid's words."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    UNHEALTHY_SUPERVISOR = "UNHEALTHY_SUPERVISOR"
    UNHEALTHY_TASKS = "UNHEALTHY_TASKS"

    @property
    def is_healthy(self) -> bool:
        """Whether nobody need look at it."""
        return not self.name.startswith("UNHEALTHY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a supervisor, and what it does in it."""

    state: State
    detailed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTask:
    """A task that should be submitted.

    Attributes:
        group: Number of the group among those of the supervisor, from 0.
        group_id: Of the tasks that follow one another.
        after: Arrival number of the task before it; 0: it is the first.
    """

    group: int
    group_id: str
    after: int

    @property
    def task_id(self) -> str:
        """The same for whoever submits it, so that it is submitted once."""
        return f"{self.group_id}_{self.after}"


def group_ids(version: SupervisorVersion, tasks: int) -> tuple[str, ...]:
    """Return the groups of the tasks of a supervisor, one for each task that runs at a time."""
    return tuple(f"{group_head(version)}_{group}" for group in range(tasks))


def group_head(version: SupervisorVersion) -> str:
    """Return how the groups of a supervisor begin."""
    return f"index_kafka_{version.supervisor_id}_{version.number}"


def failures_in_a_row(newest_first: Iterable[Task]) -> int:
    """Return how many attempts failed since one succeeded, of the tasks of a group."""
    found = 0
    for task in newest_first:
        if task.state in {TaskState.SUCCEEDED, TaskState.CANCELLED}:
            break
        found += task.failures
    return found


def plan_next(
    group_id: str, group: int, newest_first: Sequence[Task], now_ms: int
) -> NextTask | None:
    """Return the task that a group should get now; None: it has one, or the last one failed a moment ago."""
    last = newest_first[0] if newest_first else None
    if last is None:
        return NextTask(group=group, group_id=group_id, after=0)
    if not last.state.is_over:
        return None
    if last.state is TaskState.FAILED:
        failed = sum(1 for task in newest_first if task.state is TaskState.FAILED)
        pause_ms = min(PAUSE_MS << min(failed, 16), LONGEST_PAUSE_MS)
        ended_ms = last.finished_at_ms or 0
        if 0 <= now_ms - ended_ms < pause_ms:
            return None
    return NextTask(group=group, group_id=group_id, after=last.number)


def judge(
    *,
    is_suspended: bool,
    groups: Mapping[str, Sequence[Task]],
    stream_error: str | None,
    now_ms: int,
) -> Standing:
    """Return how a supervisor stands.

    Args:
        groups: The tasks of its groups, newest first.
        stream_error: Why Kafka could not be asked; None: it could, or nobody has asked.
    """
    if is_suspended:
        return Standing(state=State.SUSPENDED, detailed="SUSPENDED")
    newest = [tasks[0] for tasks in groups.values() if tasks]
    is_running = any(task.state is TaskState.RUNNING for task in newest)
    if stream_error is not None:
        known = is_running or any(task.state is TaskState.SUCCEEDED for task in newest)
        detailed = "LOST_CONTACT_WITH_STREAM" if known else "UNABLE_TO_CONNECT_TO_STREAM"
        return Standing(state=State.UNHEALTHY_SUPERVISOR, detailed=detailed)
    for tasks in groups.values():
        if failures_in_a_row(tasks) >= UNHEALTHY_FAILURES and not _is_steady(tasks[0], now_ms):
            return Standing(state=State.UNHEALTHY_TASKS, detailed="UNHEALTHY_TASKS")
    if not newest:
        return Standing(state=State.PENDING, detailed="PENDING")
    return Standing(state=State.RUNNING, detailed="RUNNING" if is_running else "CREATING_TASKS")


def _is_steady(task: Task, now_ms: int) -> bool:
    return task.state is TaskState.RUNNING and now_ms - task.changed_at_ms > STEADY_MS
