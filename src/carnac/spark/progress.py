"""Progress of a running Spark job: tasks from Spark's status tracker, rows from an accumulator.

Spark Connect offers neither; there, only the start and the end of a phase are reported.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carnac.errors import CarnacError
from carnac.ports import Clock, JobProgress
from carnac.ports.loops import Loop
from carnac.spark.failures import load_failure
from carnac.spark.interrupts import Held

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

POLL_S = 0.2

_JOB_GROUP_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)
OnProgress = Callable[[JobProgress], None]
_tags = itertools.count()
_log = logging.getLogger(__name__)


class Tally:
    """Reports of tasks while a job runs: (rows, rejected rows, failures as text), added up by Spark."""

    def __init__(self, context: SparkContext | None) -> None:
        self._rows: Any = context.accumulator(0) if context is not None else None
        self._rejected: Any = context.accumulator(0) if context is not None else None
        self._failures: Any = None
        if context is not None:
            self._failures = context.accumulator([], _list_param())

    def add(self, *, rows: int = 0, rejected: int = 0, failure: str | None = None) -> None:
        """Count on a worker. Nothing happens where Spark has no accumulators."""
        if self._rows is None:
            return
        self._rows.add(rows)
        self._rejected.add(rejected)
        if failure is not None:
            self._failures.add([failure])

    @property
    def rows(self) -> int | None:
        """Rows so far, seen on the driver; None if not known."""
        return None if self._rows is None else int(self._rows.value)

    @property
    def rejected(self) -> int:
        """Rejected rows so far, seen on the driver; 0 if not known."""
        return 0 if self._rejected is None else int(self._rejected.value)

    @property
    def failure(self) -> CarnacError | None:
        """The first failure that a task returned, seen on the driver."""
        if self._failures is None or not self._failures.value:
            return None
        return load_failure(self._failures.value[0])


def _list_param() -> Any:
    from pyspark.accumulators import AccumulatorParam

    class ListParam(AccumulatorParam[list[str]]):
        def zero(self, value: list[str]) -> list[str]:  # noqa: ARG002 - Spark's signature
            return []

        def addInPlace(self, value1: list[str], value2: list[str]) -> list[str]:  # noqa: N802
            value1.extend(value2)
            return value1

    return ListParam()


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The progress of a phase.

    Attributes:
        name: Its work in a word or two.
        total: Number of its tasks; None if Spark alone knows.
        stop_when: Looks at the tally; an error that it returns cancels the job and is raised.
    """

    name: str
    total: int | None
    stop_when: Callable[[Tally], CarnacError | None] = lambda _tally: None


class Watch:
    """Follows one Spark job from a thread of its own, tells of it, and cancels it where it must stop."""

    def __init__(
        self, session: SparkSession, phase: Phase, clock: Clock, on_progress: OnProgress | None
    ) -> None:
        self._session = session
        self._phase = phase
        self._clock = clock
        self._on_progress = on_progress
        self._tag = f"carnac-{next(_tags)}"
        self._started_ms = clock.now_ms()
        self._loop = Loop("progress", self._poll, log=_log, period_ms=1000 * POLL_S)
        self._context = classic_context(session)
        self._best = self._total = 0
        self._held: Held | None = None
        self.tally = Tally(self._context)
        self.verdict: CarnacError | None = None

    @contextlib.contextmanager
    def follow(self, held: Held) -> Iterator[None]:
        """Tag what this thread starts inside, and tell of it until it ends; a signal that is held cancels it."""
        self._held = held
        self._tell(0, self._phase.total or 0)
        restore = self._mark_jobs()
        self._loop.start()
        try:
            yield
        finally:
            self._loop.stop()
            restore()
        self._tell(total := max(self._total, 1), total)

    def _mark_jobs(self) -> Callable[[], None]:
        """Give this thread's jobs a name by which they can be found; return what takes it away."""
        context = self._context
        if context is None:
            self._session.addTag(self._tag)
            return lambda: self._session.removeTag(self._tag)
        before = {key: context.getLocalProperty(key) for key in _JOB_GROUP_PROPERTIES}
        context.setJobGroup(self._tag, self._phase.name)

        def restore() -> None:
            for key, value in before.items():
                context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None unsets

        return restore

    def _poll(self) -> None:
        # the job itself says what is wrong; here Spark is only asked how it goes
        with contextlib.suppress(Exception):
            self.verdict = self.verdict or self._find_verdict()
            if self.verdict is not None:
                self._cancel()  # again and again: it may only be about to begin

    def _find_verdict(self) -> CarnacError | None:
        """Report the progress, and return why the job must end, if it must; the listener may say so, too."""
        if self._held is not None and self._held.failure is not None:
            return self._held.failure
        try:
            if self._on_progress is not None:  # asking Spark costs more than many a task
                self._tell(*self._tasks_done())
        except CarnacError as error:
            return error
        return self.tally.failure or self._phase.stop_when(self.tally)

    def _cancel(self) -> None:
        if self._context is not None:
            self._context.cancelJobGroup(self._tag)
        else:
            self._session.interruptTag(self._tag)

    def is_busy(self) -> bool:
        """Whether tasks run, also of a job that was cancelled; False where Spark does not say."""
        with contextlib.suppress(Exception):  # its JVM has ended
            return any(stage.numActiveTasks for stage in self._stages())
        return False

    def _stages(self) -> Iterator[Any]:
        """Yield what Spark says of each stage."""
        if self._context is None:
            return
        tracker = self._context.statusTracker()
        for job_id in tracker.getJobIdsForGroup(self._tag):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    yield stage

    def _tasks_done(self) -> tuple[int, int]:
        """Return (tasks done, tasks there are), as far as Spark says."""
        if self._context is None:
            return 0, self._phase.total or 1
        stages = list(self._stages())
        total = self._phase.total or sum(stage.numTasks for stage in stages)
        return min(sum(stage.numCompletedTasks for stage in stages), total), total

    def _tell(self, done: int, total: int) -> None:
        self._total = max(total, self._total)
        if self._on_progress is None:
            return
        self._best = done = max(done, self._best)
        eta_ms = None
        if done:
            elapsed_ms = max(self._clock.now_ms() - self._started_ms, 0)
            eta_ms = elapsed_ms * (self._total - done) // done
        self._on_progress(
            JobProgress(
                phase=self._phase.name,
                done=done,
                total=self._total,
                rows=self.tally.rows,
                eta_ms=eta_ms,
            )
        )


def classic_context(session: SparkSession) -> SparkContext | None:
    """Return the Spark context of a session; None under Spark Connect, which has none."""
    try:
        return session.sparkContext
    except Exception:
        return None
