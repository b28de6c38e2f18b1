"""Tasks: the runners of attempts, and the work of attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.log.commits import LockHeld
    from carnac.core.tasks.model import Attempt, Task, TaskState
    from carnac.core.time.intervals import Interval, IntervalSet
    from carnac.ports.jobs import JobProgress
    from carnac.ports.places import PlaceTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions on the tasks of a list; None: no condition.

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


class TaskRunner(Protocol):
    """Starts the processes of attempts, and stops them. Safe for many threads.

    Each process calls `carnac.overlord.attempt.run_attempt` for (task id, attempt number), once. It outlives the
    overlord where it can: another overlord finds it by its handle, or by its signs of life in the metadata store.
    """

    @property
    def name(self) -> str:
        """The name by which attempts remember it: `in_process`, `process`, `spark_submit`."""
        ...

    def start(self, task: Task, attempt: Attempt) -> str:
        """Start the attempt's process; return the handle to know it by, which holds for other overlords too.

        Raises:
            Unavailable: It cannot be started now; the attempt counts as failed and the task is tried again.
            Invalid: It can never be started.
        """
        ...

    def is_alive(self, handle: str) -> bool | None:
        """Say whether the process is there; None if that cannot be told from here, as on another host."""
        ...

    def stop(self, handle: str) -> None:
        """End the process if it is there; return once that is on its way. Idempotent."""
        ...

    def read_log(self, attempt: Attempt, *, tail_bytes: int | None = None) -> str | None:
        """Return the log of the attempt (None: there is none that can be read from here).

        Args:
            tail_bytes: Only the end of it.
        """
        ...

    def forget(self, attempt: Attempt) -> None:
        """Remove what is kept of an attempt that is over and trimmed, such as its log. Idempotent."""
        ...

    def close(self) -> None:
        """Release what this process holds; attempts that can outlive it go on. Idempotent."""
        ...


class WriteGuard(Protocol):
    """Guards a write before it reads its inputs and before it publishes: the locks of the task it belongs to."""

    def lock_inputs(
        self,
        datasource: str,
        where: IntervalSet,
        *,
        partitions: Mapping[IntervalSet, tuple[int, ...]] | None = None,
        changes_granularity: bool = False,
    ) -> None:
        """Get the locks of a replacement before its inputs are read. Waits as long as the task's context says.

        Args:
            where: The time chunks that it replaces something of.
            partitions: By time chunk: the ids of the entries that it replaces; None: not known, or all.

        Raises:
            Unavailable, Conflict, Revoked: As `Lockbox.acquire`.
        """
        ...

    def lock_output(self, datasource: str, where: IntervalSet) -> None:
        """Get the locks of an append on the time chunks that it adds segments to. Waits as `lock_inputs` does.

        Raises:
            Unavailable, Conflict, Revoked: As `Lockbox.acquire`.
        """
        ...

    def publishing(
        self, datasource: str, where: IntervalSet, *, is_append: bool
    ) -> AbstractContextManager[tuple[LockHeld, ...]]:
        """Be in the publishing section; yields what the publication must require.

        Locks that the write needs and does not have yet, such as those of the chunks that an append turned out to
        touch, are got first.

        Raises:
            Revoked: The task has no right to publish any more: stop.
        """
        ...

    def place_terms(self, *, is_append: bool) -> PlaceTerms | None:
        """Return on which terms the write's segments get places; None: publish finds them."""
        ...


class TaskJobs(Protocol):
    """The work of attempts."""

    def run(
        self, task: Task, guard: WriteGuard, on_progress: Callable[[JobProgress], None]
    ) -> Mapping[str, object]:
        """Do what the task says, once, however often it is called for the same task; return the report.

        Raises:
            CarnacError: It could not be done; `retryable` says whether another attempt may succeed.
        """
        ...

    def report_so_far(self) -> Mapping[str, object] | None:
        """Return the finished part of a run that did not come to its end; None: nothing that stays."""
        ...
