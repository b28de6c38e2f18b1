"""Rewrites on Spark. No job waits for another.

A job that fits into one task is one task, without a shuffle; small ones share a task, so that starting it does not cost
more than its work. One of very many time chunks is spread over tasks by ranges of chunks (`spread`). Each task is a
Spark job of its own, sent from a thread of its own. So segments of a job that has ended can be published at once, and
one job can be cancelled while the others go on. Jobs that need several tasks are run by ranges (`scatter`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from carnac.core.compaction.plan.groups import CHUNKS_MAX
from carnac.core.segments.segment import Segment, safe_name
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Invalid, Unavailable
from carnac.jobs.compact.conservation import prove
from carnac.jobs.compact.filter import is_filter, scatter_by_filter, scatter_filtered
from carnac.jobs.compact.parts import Scattered, ScatterTask, scatter
from carnac.jobs.compact.read import ReadPlan, micros, read_tables
from carnac.jobs.compact.scatter import (
    Gathered,
    GatherTask,
    ScatterJob,
    gather,
    rewrite_in_task,
    wants_scatter,
)
from carnac.jobs.compact.shape import InputGroup, plan_input_groups
from carnac.jobs.compact.spread import join_ranges, spread_chunks
from carnac.jobs.compact.task import GroupTask, Rewritten
from carnac.jobs.context import JobContext, LocalJobContext, SparkJobContext
from carnac.jobs.ingest.ingest import SEGMENTS_FOLDER
from carnac.jobs.ingest.write_pass import remove_others, remove_segments
from carnac.ports import JobProgress, RewriteJob, RewriteResult
from carnac.rows.output import take_waste
from carnac.spark.failures import dump_failure, load_failure, may_retry, of_task
from carnac.spark.interrupts import Held, hold_signals
from carnac.spark.progress import POLL_S, OnProgress, Phase
from carnac.spark.tasks import Attempt

if TYPE_CHECKING:
    from numpy.typing import NDArray


ROWS_PER_TASK = 250_000
"""Jobs with fewer rows share a task up to this many. They wait for one another less than a second."""
MAX_JOBS_PER_TASK = 32
TASKS_AHEAD = 2
"""Number of tasks beyond the cores that Spark gets, so that it has the next one ready when a core is free."""
PHASE = "rewrite"

OnWaste = Callable[[RewriteJob, int], None]
OnEnd = Callable[[RewriteJob, RewriteResult | CarnacError], None]
FindCancelReason = Callable[[RewriteJob], CarnacError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The end of a job inside of a task: its output, or its failure as text.

    Attributes:
        may_retry: Whether another try may succeed.
    """

    input_groups: tuple[Rewritten, ...] = ()
    failure: str | None = None
    may_retry: bool = False


def rewrite_all(jobs: Sequence[Sequence[GroupTask]], attempt: Attempt) -> list[JobEnd]:
    """Run the jobs of one Spark task; a failure is the job's own, and the others go on.

    Raises:
        CarnacError: There is one job, and to try it again may help: Spark does.
    """
    ends: list[JobEnd] = []
    try:
        ends.extend(_rewrite_one(job, attempt) for job in jobs)
        if len(ends) == 1 and ends[0].failure is not None and ends[0].may_retry:
            raise load_failure(ends[0].failure)
    except BaseException:
        for end in ends:
            remove_segments(_segments(end.input_groups), jobs[0][0].output_url)
        raise
    return ends


def _rewrite_one(job: Sequence[GroupTask], attempt: Attempt) -> JobEnd:
    written: list[Rewritten] = []
    try:
        written.extend(rewrite_in_task(input_group, attempt) for input_group in job)
    except BaseException as error:
        remove_segments(_segments(written), job[0].output_url)
        if not isinstance(error, Exception):
            raise
        failure = of_task(error)
        return JobEnd(failure=dump_failure(failure), may_retry=may_retry(failure))
    return JobEnd(input_groups=tuple(written))


def result_of(written: Sequence[Rewritten]) -> RewriteResult:
    """Return what a job's input groups became, with the proof over all of them."""
    return RewriteResult(
        segments=_segments(written),
        proof=prove([one.went_in for one in written], [one.came_out for one in written]),
    )


def _segments(written: Sequence[Rewritten]) -> tuple[Segment, ...]:
    return tuple(segment for one in written for segment in one.segments)


class RewriteRun:
    """One call of `run_rewrites`."""

    def __init__(
        self,
        context: JobContext,
        jobs: Sequence[RewriteJob],
        *,
        on_end: OnEnd,
        find_cancel_reason: FindCancelReason | None,
        on_waste: OnWaste | None,
        on_progress: OnProgress | None,
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._on_end = on_end
        self._find_cancel_reason = find_cancel_reason or (lambda _job: None)
        self._on_waste = on_waste or (lambda _job, _size_bytes: None)
        self._wasted: Counter[str] = Counter()
        self._cancel_reasons: dict[str, CarnacError] = {}
        self._on_progress = on_progress
        self._folders = {job.key: self._new_folder(job) for job in jobs}
        self._started_ms = context.clock.now_ms()
        self._mutex = threading.Lock()
        self._done = self._rows = 0
        self._is_stopped = False
        self._cores = 1

    def run(self) -> None:
        """Run all jobs; returns when the last one has ended."""
        if not self._jobs:
            return
        if isinstance(self._context, LocalJobContext):
            for unit in self._units(self._jobs):
                unit()
            return
        cores = self._cores = self._context.cores()  # Spark starts here, or fails to
        self._tell()
        units = self._units(self._jobs)
        with (
            hold_signals(self._on_spark().holder.end_jvm) as held,
            ThreadPoolExecutor(cores + TASKS_AHEAD, thread_name_prefix="carnac-rewrite") as pool,
        ):
            futures = [pool.submit(unit) for unit in units]
            try:
                _wait_for(futures, held)
            except BaseException:
                self._is_stopped = True
                for future in futures:
                    future.cancel()
                raise

    def _units(self, jobs: Sequence[RewriteJob]) -> list[Callable[[], None]]:
        """Return what is sent to Spark one by one, the largest first."""
        units: list[Callable[[], None]] = []
        shared: list[tuple[RewriteJob, tuple[GroupTask, ...]]] = []
        for job in sorted(jobs, key=lambda job: (-job.rows, job.key)):
            if not job.chunks:
                units.append(partial(self._run_sparse, job))
                continue
            try:
                input_groups = plan_input_groups(job.inputs, job.target, job.kept_apart)
            except CarnacError as error:
                self._end(job, error)
                continue
            tasks = tuple(self._group_task(job, input_group) for input_group in input_groups)
            if any(wants_scatter(task) for task in tasks):
                units.append(partial(self._run, job, partial(self._by_ranges, job, tasks)))
                continue
            ranges = spread_chunks(tasks, self._cores // max(len(self._jobs), 1))
            if len(ranges) > 1:
                units.append(partial(self._run, job, partial(self._spread, job, tasks, ranges)))
                continue
            shared.append((job, tasks))
        return units + [partial(self._run_shared, chosen) for chosen in share_tasks(shared)]

    def _run_sparse(self, job: RewriteJob) -> None:
        """Find the few time chunks that a job has rows in, and run it."""
        if self._is_cancelled(job):
            return
        try:
            chunks = find_buckets(self._context.output_url, job)
        except CarnacError as error:
            self._end(job, error)
            return
        for unit in self._units([replace(job, chunks=chunks)]):
            unit()

    def _run_shared(self, chosen: Sequence[tuple[RewriteJob, tuple[GroupTask, ...]]]) -> None:
        alive = [(job, task) for job, task in chosen if not self._is_cancelled(job)]
        if not alive:
            return
        try:
            [ends] = self._context.run(
                rewrite_all,
                [tuple(task for _, task in alive)],
                phase=self._phase([job for job, _ in alive]),
            )
        except CarnacError as error:
            for job, _ in alive:
                self._end(job, self._cancel_reason_of(job) or error)
            return
        for (job, task), end in zip(alive, ends, strict=True):
            if end.failure is None:
                self._end(job, result_of(end.input_groups))
                continue
            failure = load_failure(end.failure)
            if not end.may_retry:
                self._end(job, failure)
                continue
            self._wasted[job.key] += take_waste(failure)
            self._run_shared([(job, task)])  # alone, so that Spark tries it again

    def _run(self, job: RewriteJob, rewrite: Callable[[], Sequence[Rewritten]]) -> None:
        """Run a job that shares no task, if somebody still needs it."""
        if self._is_cancelled(job):
            return
        try:
            written = rewrite()
        except CarnacError as error:
            self._end(job, self._cancel_reason_of(job) or error)
        else:
            self._end(job, result_of(written))

    def _spread(
        self,
        job: RewriteJob,
        tasks: Sequence[GroupTask],
        ranges: Sequence[tuple[GroupTask, ...]],
    ) -> list[Rewritten]:
        """Run a job of many time chunks in several tasks, each with a range of them."""
        ends = self._context.run(
            rewrite_all,
            [(some,) for some in ranges],
            phase=replace(self._phase([job]), total=len(ranges)),
        )
        failures = [one.failure for [one] in ends if one.failure is not None]
        if failures:
            raise load_failure(failures[0])
        return join_ranges(tasks, ranges, [one.input_groups for [one] in ends])

    def _by_ranges(self, job: RewriteJob, tasks: Sequence[GroupTask]) -> list[Rewritten]:
        written: list[Rewritten] = []
        for task in tasks:
            reason = self._cancel_reason_of(job)
            if reason is not None:
                raise reason
            written.append(self._scatter_one(job, task))
        return written

    def _on_spark(self) -> SparkJobContext:
        return cast("SparkJobContext", self._context)

    def _scatter_one(self, job: RewriteJob, task: GroupTask) -> Rewritten:
        context, phase = self._on_spark(), self._phase([job])

        def scatter_all(tasks: Sequence[ScatterTask]) -> Sequence[Scattered]:
            half = replace(phase, total=len(tasks))
            condition = tasks[0].unit.condition
            if condition is not None and not is_filter(condition):  # one plan of Spark
                return scatter_filtered(context, tasks, phase=half)
            return context.run(
                scatter if condition is None else scatter_by_filter, tasks, phase=half
            )

        def gather_all(tasks: Sequence[GatherTask]) -> Sequence[Gathered]:
            return context.run(gather, tasks, phase=replace(phase, total=len(tasks)))

        staging_url = context.staging_url(f"rewrite-{task.id_prefix}")
        line = ScatterJob(
            task, scatter_all, gather_all, staging_url=staging_url, cores=context.cores()
        )
        try:
            return line.run()
        finally:
            self._wasted[job.key] += line.bytes_staged

    def _phase(self, jobs: Sequence[RewriteJob]) -> Phase:
        """Return a phase that stops when no output of its jobs is needed any more, or when `on_progress` raises."""

        def stop_when(_: object) -> CarnacError | None:
            try:
                self._tell()
            except CarnacError as error:
                return error
            reasons = [self._cancel_reason_of(job) for job in jobs]
            return reasons[0] if all(reason is not None for reason in reasons) else None

        return Phase(name=PHASE, total=1, stop_when=stop_when)

    def _is_cancelled(self, job: RewriteJob) -> bool:
        reason = self._cancel_reason_of(job)
        if reason is not None:
            self._end(job, reason)
        return reason is not None

    def _cancel_reason_of(self, job: RewriteJob) -> CarnacError | None:
        """Return why the job has become useless, if it has; once useless, it stays so."""
        if self._is_stopped:
            return Unavailable("the rewrite was interrupted")
        reason = self._cancel_reasons.get(job.key) or self._find_cancel_reason(job)
        if reason is not None:
            self._cancel_reasons[job.key] = reason
        return reason

    def _end(self, job: RewriteJob, end: RewriteResult | CarnacError) -> None:
        kept = [segment.path for segment in end.segments] if isinstance(end, RewriteResult) else []
        removed = remove_others(self._context.output_url, self._folders[job.key], kept)
        if isinstance(end, CarnacError):
            wasted = removed + self._wasted.pop(job.key, 0) + take_waste(end)
            if wasted:
                self._on_waste(job, wasted)
        self._on_end(job, end)
        with self._mutex:
            self._done += 1
            self._rows += job.rows
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        done, total = self._done, len(self._jobs)
        eta_ms = None
        rows = sum(job.rows for job in self._jobs)
        if done and self._rows:
            elapsed_ms = max(self._context.clock.now_ms() - self._started_ms, 0)
            eta_ms = elapsed_ms * (rows - self._rows) // self._rows
        self._on_progress(
            JobProgress(phase=PHASE, done=done, total=total, rows=self._rows, eta_ms=eta_ms)
        )

    def _group_task(self, job: RewriteJob, input_group: InputGroup) -> GroupTask:
        return GroupTask(
            datasource=job.datasource,
            input_group=input_group,
            target=job.target,
            chunks=job.chunks,
            output_url=self._context.output_url,
            path_prefix=self._folders[job.key],
            id_prefix=self._context.ids.new_id(),
            created_at_ms=self._context.clock.now_ms(),
            temp_dir=self._context.scratch(self._folders[job.key].rsplit("/", 1)[1]),
            memory_bytes=self._context.task_memory_bytes,
            is_whole=job.is_whole,
        )

    def _new_folder(self, job: RewriteJob) -> str:
        return f"{SEGMENTS_FOLDER}/{safe_name(job.datasource)}/{self._context.ids.new_id()}"


def _wait_for(futures: Sequence[Future[None]], held: Held) -> None:
    """Wait for all; raises what the first one that fails raises, or at once where a signal arrives."""
    left = set(futures)
    while left:
        done, left = wait(left, POLL_S, return_when="FIRST_EXCEPTION")
        for future in done:
            future.result()
        if held.failure is not None:
            raise held.failure


def share_tasks(
    jobs: Sequence[tuple[RewriteJob, tuple[GroupTask, ...]]],
) -> list[list[tuple[RewriteJob, tuple[GroupTask, ...]]]]:
    """Return the jobs, which come largest first, in the tasks that they share."""
    bins: list[list[tuple[RewriteJob, tuple[GroupTask, ...]]]] = []
    room = 0
    for job, task in jobs:
        if job.rows > room or len(bins[-1]) == MAX_JOBS_PER_TASK:
            bins.append([])
            room = ROWS_PER_TASK
        bins[-1].append((job, task))
        room -= min(job.rows, room)
    return bins


def find_buckets(output_url: str, job: RewriteJob) -> tuple[Interval, ...]:
    """Return the buckets of the target's segment granularity that have visible rows of a job, in order of time.

    A coarse time chunk may reach over more buckets than anybody can list, and have rows in a few: the times are read,
    and nothing else is.

    Raises:
        Corrupt: A segment's file is gone or cannot be read.
        Invalid: There are more buckets than a group may have.
    """
    text = job.target.segment_granularity
    if text is None:
        raise AssertionError("a rewrite that names no time chunks changes their granularity")
    granularity = parse_granularity(text)
    plan = ReadPlan(output_url=output_url, columns=(), truncate_to=None, chunks=(), is_survey=True)
    first_ms = job.inputs[0].visible.intervals[0].start_ms
    found: dict[int, Interval] = {}
    for source in job.inputs:
        for table in read_tables(plan, source):
            times_ms = np.unique(micros(table) // 1000)
            found.update((one.start_ms, one) for one in _buckets_of(times_ms, granularity))
        if len(found) > CHUNKS_MAX:
            raise Invalid(
                f"group {job.key} would make more than {CHUNKS_MAX:,} time chunks of {text} at once; compact "
                f"{job.datasource} to a coarser segmentGranularity first, and then to this one",
                group_id=job.key,
            )
    return tuple(found[one] for one in sorted(found)) or (granularity.bucket(first_ms),)


def _buckets_of(times_ms: NDArray[np.int64], granularity: Granularity) -> Iterator[Interval]:
    """Yield the buckets of ascending times; it takes time by bucket, not by time."""
    index = 0
    while index < len(times_ms):
        bucket = granularity.bucket(int(times_ms[index]))
        yield bucket
        index = int(np.searchsorted(times_ms, bucket.end_ms))
