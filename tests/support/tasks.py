"""Runners and jobs for tests of tasks: nothing runs by itself, and nothing of it is Spark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from carnac.core.tasks.model import Attempt, Task
from carnac.errors import CarnacError
from carnac.ports import JobProgress, WriteGuard

Work = Callable[[Task, WriteGuard, Callable[[JobProgress], None]], Mapping[str, object]]


class FakeRunner:
    """Remembers the attempts that it was asked to start, for a test to decide their fates (port `TaskRunner`).

    Attributes:
        started: Lock owners of the attempts, in order.
        alive: Answers of `is_alive` by handle; None for other handles.
        asked: Handles for which `is_alive` was asked.
        stopped: Handles of attempts that were stopped.
        forgotten: Lock owners of attempts that were forgotten.
        refuses: Error that `start` raises, if any.
    """

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.started: list[str] = []
        self.alive: dict[str, bool] = {}
        self.asked: list[str] = []
        self.stopped: list[str] = []
        self.forgotten: list[str] = []
        self.refuses: CarnacError | None = None

    def start(self, task: Task, attempt: Attempt) -> str:
        """Remember the attempt."""
        assert task.task_id == attempt.task_id
        if self.refuses is not None:
            raise self.refuses
        self.started.append(attempt.lock_owner)
        handle = f"{self.name}:{attempt.lock_owner}"
        self.alive[handle] = True
        return handle

    def is_alive(self, handle: str) -> bool | None:
        """Say what the test says."""
        self.asked.append(handle)
        return self.alive.get(handle)

    def stop(self, handle: str) -> None:
        """Remember the handle; the process is gone."""
        self.stopped.append(handle)
        if handle in self.alive:
            self.alive[handle] = False

    def read_log(self, attempt: Attempt, *, tail_bytes: int | None = None) -> str | None:
        """Return a line, or its end."""
        text = f"log of {attempt.lock_owner}"
        return text if tail_bytes is None else text[-tail_bytes:]

    def forget(self, attempt: Attempt) -> None:
        """Remember the attempt."""
        self.forgotten.append(attempt.lock_owner)

    def close(self) -> None:
        """Nothing to release."""


class FakeJobs:
    """Does what a test says (`TaskJobs`)."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def run(
        self, task: Task, guard: WriteGuard, on_progress: Callable[[JobProgress], None]
    ) -> Mapping[str, object]:
        """Do it."""
        return self._work(task, guard, on_progress)

    def report_so_far(self) -> Mapping[str, object] | None:
        """Nothing stays of what fails."""
        return None
