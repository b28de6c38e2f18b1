"""Runners of compaction tasks: one process, or an overlord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.compaction.plan.groups import CompactionGroup
    from carnac.core.compaction.plan.tasks import CompactionTask
    from carnac.ports.jobs import JobProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnd:
    """The outcome of a group.

    Attributes:
        outcome: `committed`, `unchanged`, `conflict` or `failed`.
        error: Why it did not commit; None if it did.
        exit_code: Exit code of a command that the error ends; 0: there is no error, or it is not known.
        bytes_wasted: Of files that were written for nothing.
    """

    group_id: str
    outcome: str
    error: str | None = None
    exit_code: int = 0
    bytes_wasted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """A run that has ended.

    Attributes:
        groups: Known ends of its groups; groups that are missing are looked at again.
        error: Why the groups that are missing did not come to an end; None: nothing was wrong with them.
        bytes_wasted: Of files that all its attempts together have written for nothing.
    """

    run_id: str
    groups: Sequence[GroupEnd] = ()
    error: str | None = None
    bytes_wasted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A run that is under way, as far as whoever runs it can tell.

    Attributes:
        progress: How far it is; of `total` groups `done` have ended. None: it has not said anything yet.
    """

    run_id: str
    datasource: str
    groups: Sequence[CompactionGroup] = ()
    started_ms: int = 0
    progress: JobProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Under which terms the tasks of a datasource run.

    Attributes:
        priority: Of their locks.
        context: Of the task, besides.
    """

    priority: int = 25
    context: Mapping[str, object] = field(default_factory=dict)


class CompactionRunner(Protocol):
    """Runs tasks side by side. No end of a run breaks the store: each group is published alone."""

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        """Start a task; return the id of the run.

        Raises:
            Unavailable: It cannot be started now.
            Invalid: It never can, as it is.
        """
        ...

    def take_ended(self) -> Sequence[RunEnd]:
        """Return the runs that have ended since the last call, each once."""
        ...

    def live(self) -> Sequence[LiveRun]:
        """Return the runs that are under way, also those that another controller started before this one."""
        ...

    def close(self) -> None:
        """Release what it holds; runs that can go on without this process go on."""
        ...
