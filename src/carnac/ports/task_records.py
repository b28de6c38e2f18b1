"""Where tasks are kept: a part of the metadata store, so that every overlord and every attempt sees the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.tasks.events import TaskEvent, TaskReply
    from carnac.core.tasks.leadership import Candidacy, Leadership
    from carnac.core.tasks.model import Attempt, Task, TaskState
    from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks are wanted; None: whatever.

    Attributes:
        states: In one of these.
        datasource: About this one.
        type: Of this type.
        group_id: Of this group.
        created: Submitted within.
        finished_until_ms: Over at this time or before.
        before: With a lower arrival number than this: the next page of a list.
    """

    states: tuple[TaskState, ...] | None = None
    datasource: str | None = None
    type: str | None = None
    group_id: str | None = None
    created: Interval | None = None
    finished_until_ms: int | None = None
    before: int | None = None


EVERY_TASK = TaskFilter()


class TaskRecords(Protocol):
    """Tasks, attempts and who leads. Safe for use by many threads and processes at once.

    Errors, besides those named: Unavailable when the database does not answer.
    """

    def change_tasks(self, event: TaskEvent) -> TaskReply:
        """Let an event happen to the tasks, in one transaction; return what is answered.

        What becomes of it is `core.tasks.machine.decide`, at the store's own time. Locks of attempts that end with it
        are released in the same transaction.

        Raises:
            Invalid, NotFound, Conflict: As `decide`.
        """
        ...

    def find_task(self, task_id: str) -> Task | None:
        """Return a task; None if there is none, or not any more."""
        ...

    def tasks(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> tuple[Task, ...]:
        """Return tasks, newest first."""
        ...

    def task_payload(self, task_id: str) -> str | None:
        """Return the task as it was submitted, as JSON text; None if there is no such task."""
        ...

    def task_report(self, task_id: str, number: int | None = None) -> str | None:
        """Return what an attempt did, as JSON text (None: the last one that said); None if there is nothing."""
        ...

    def attempts(self, task_id: str) -> tuple[Attempt, ...]:
        """Return the attempts of a task, the first one first."""
        ...

    def live_attempts(self) -> Sequence[Attempt]:
        """Return the attempts of all tasks that are not over, or whose process is perhaps there yet."""
        ...

    def server_now_ms(self) -> int | None:
        """Return the time of the database's server; None if it has no clock of its own."""
        ...

    def ahead(self) -> Mapping[str, int]:
        """Return whose last sign of life is from ahead of now by more than `CLOCKS_AGREE_MS`, and by how many ms."""
        ...

    def lead(self, candidacy: Candidacy) -> Leadership:
        """Become or remain the leader, if nobody else is; return who leads."""
        ...

    def resign(self, role: str, leader_id: str) -> None:
        """Stop leading, so that another one takes over at once. Idempotent."""
        ...

    def leader(self, role: str) -> Leadership | None:
        """Return who leads in a role, or did last; None if nobody ever has."""
        ...
