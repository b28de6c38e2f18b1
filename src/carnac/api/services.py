"""The needs of the HTTP API: the services of an overlord, each as far as a request needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from carnac.api.admission import Admission
from carnac.core.locks.waits import LockPicture
from carnac.core.tasks.leadership import Leadership
from carnac.core.tasks.model import Attempt, Task
from carnac.ports.tasks import EVERY_TASK, TaskFilter


class TaskCalls(Protocol):
    """Tasks, as `carnac.overlord.tasks.TaskService` has them.

    A task that is not known is `NotFound` everywhere.
    """

    def submit(self, payload: Mapping[str, object]) -> Task:
        """Keep a task; return it as it is kept."""
        ...

    def get(self, task_id: str) -> Task:
        """Return a task."""
        ...

    def list(self, which: TaskFilter = EVERY_TASK, *, limit: int = 100) -> Sequence[Task]:
        """Return tasks, newest first."""
        ...

    def check_datasource(self, datasource: str) -> None:
        """Check that there is a datasource, or at least a task for it; else it is NotFound."""
        ...

    def attempts(self, task_id: str) -> Sequence[Attempt]:
        """Return the attempts of a task, the first one first."""
        ...

    def live_attempts(self) -> Sequence[Attempt]:
        """Return the attempts of all tasks that are not over."""
        ...

    def payload(self, task_id: str) -> Mapping[str, object]:
        """Return a task as it was submitted."""
        ...

    def report(self, task_id: str, number: int | None = None) -> Mapping[str, object] | None:
        """Return what an attempt did; None if it has not said."""
        ...

    def log(
        self, task_id: str, number: int | None = None, *, tail_bytes: int | None = None
    ) -> str | None:
        """Return what an attempt wrote; None if that cannot be read from here."""
        ...

    def cancel(self, task_id: str) -> Task:
        """End a task that is not over."""
        ...

    def retry(self, task_id: str) -> Task:
        """Try a task again that failed or was cancelled."""
        ...

    def leader(self) -> Leadership | None:
        """Return who leads; None if nobody ever has."""
        ...


class LockCalls(Protocol):
    """Locks, as `carnac.overlord.Lockbox` has them."""

    def explain(self, datasource: str | None = None) -> Sequence[LockPicture]:
        """Return all locks, with who waits for whom."""
        ...


class Leads(Protocol):
    """The loop of an overlord, as far as others ask for it."""

    @property
    def leader_id(self) -> str:
        """Under which name it is a candidate."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether it leads now."""
        ...


class Turns(Protocol):
    """A loop of this process, as `carnac.ports.loops.Loop`."""

    name: str
    """The name of the duty."""

    @property
    def trouble(self) -> str | None:
        """Why it counts as one that does not turn, in a sentence; None if it turns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services behind the HTTP API of an overlord."""

    tasks: TaskCalls
    locks: LockCalls
    loop: Leads
    admission: Admission
