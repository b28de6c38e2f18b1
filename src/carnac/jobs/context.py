"""Where the tasks of a data job run: on Spark, or one after another in the caller's process.

The functions of the tasks are the same; they are those of `carnac.rows`.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from carnac.ports import Clock, IdSource
from carnac.ports.temporary import make_private, own_folder
from carnac.rows.duck import one_connection
from carnac.rows.output import local_root
from carnac.spark.failures import of_task
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import OnProgress, Phase, Tally
from carnac.spark.session import SparkHolder, local_master
from carnac.spark.tasks import Attempt, Work, run_tasks

T = TypeVar("T")
R = TypeVar("R")

STAGING_FOLDER = "staging"
LOCAL_FOLDER = "append"
"""Folder of this process, for files that its own jobs stage and spill; in deep storage, of what they append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(ABC):
    """The tools and settings of every data job.

    Attributes:
        output_url: Root of deep storage.
        task_memory_bytes: Memory that one task may use before it spills to disk.
    """

    clock: Clock
    ids: IdSource
    output_url: str
    task_memory_bytes: int

    is_here: ClassVar[bool] = False
    """Whether all tasks run in the caller's process."""

    @abstractmethod
    def cores(self) -> int:
        """Return how many tasks run at the same time, as far as that is known."""

    def folder_of(self, job_id: str) -> str:
        """Return the name of the folder for a job's segment files, below that of its datasource: its own."""
        return job_id

    @abstractmethod
    def scratch(self, job_id: str) -> str:
        """Return a folder of this process for what a job spills."""

    @abstractmethod
    def run(
        self,
        work: Work[T, R],
        tasks: Sequence[T],
        *,
        phase: Phase,
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Return `work(task, attempt)` of every task, in order.

        Raises:
            CarnacError: As a task raised it; the other tasks are cancelled.
        """

    @abstractmethod
    def staging_url(self, job_id: str) -> str:
        """Return where tasks leave files for one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJobContext(JobContext):
    """Tasks run on Spark, which starts with the first one."""

    holder: SparkHolder

    def cores(self) -> int:
        """Return how many tasks Spark runs at the same time, as far as it says."""
        session = self.holder.session()
        try:
            with hold_signals(self.holder.end_jvm):
                return max(1, session.sparkContext.defaultParallelism)
        except Exception:
            return 2  # Spark Connect does not say; it only steers how finely work is divided

    def scratch(self, job_id: str) -> str:
        """Return a folder that goes with the session."""
        return self.holder.scratch(job_id)

    def run(
        self,
        work: Work[T, R],
        tasks: Sequence[T],
        *,
        phase: Phase,
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Run one Spark task for each."""
        return run_tasks(
            self.holder, work, tasks, phase=phase, clock=self.clock, on_progress=on_progress
        )

    def staging_url(self, job_id: str) -> str:
        """Return a folder that all tasks reach: this machine's disk if all run here, else deep storage."""
        settings = self.holder.settings
        is_here = settings.remote is None and local_master(settings.master) is not None
        if is_here and local_root(self.output_url) is None:
            folder = Path(tempfile.gettempdir()) / f"carnac-{STAGING_FOLDER}-{job_id}"
            return str(make_private(folder))
        return f"{self.output_url.rstrip('/')}/{STAGING_FOLDER}/{job_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJobContext(JobContext):
    """Tasks run one after another in the caller's process: for few rows, which no JVM is worth."""

    is_here: ClassVar[bool] = True

    def folder_of(self, job_id: str) -> str:  # noqa: ARG002 - the same for all
        """Return the folder that all appends share: a new one, durably made, would hold one file."""
        return LOCAL_FOLDER

    def cores(self) -> int:
        """Return 1: the caller's thread does all the work."""
        return 1

    def scratch(self, job_id: str) -> str:
        """Return a folder of this process."""
        return f"{own_folder(LOCAL_FOLDER)}/{job_id}"

    def run(
        self,
        work: Work[T, R],
        tasks: Sequence[T],
        *,
        phase: Phase,  # noqa: ARG002 - it is over before anybody would be told
        on_progress: OnProgress | None = None,  # noqa: ARG002
    ) -> list[R]:
        """Run the tasks in the caller's thread."""
        attempt = Attempt(0, Tally(None))
        try:
            return [work(task, attempt) for task in tasks]
        except Exception as error:
            raise of_task(error) from error

    def staging_url(self, job_id: str) -> str:
        """Return a folder of this process."""
        return f"{own_folder(LOCAL_FOLDER)}/{STAGING_FOLDER}-{job_id}"

    @contextmanager
    def together(self) -> Iterator[None]:
        """Have the tasks of all runs inside share one connection of DuckDB."""
        spill = f"{own_folder(LOCAL_FOLDER)}/spill"
        with one_connection(temp_dir=spill, memory_bytes=self.task_memory_bytes):
            yield
