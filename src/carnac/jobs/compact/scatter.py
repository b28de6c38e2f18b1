"""Rewrites on several tasks: those that do not fit into one task's memory and become several segments.

    scatter  each task reads some inputs, measures them, and cuts their rows into many narrow ranges of the first sort
             column (or hash buckets), a part file for each                                     (Spark, many tasks)
    gather   each task takes as many neighbouring ranges as make one segment, merges, sorts, writes    (Spark again)

How many rows fell into each range is known after the first half, so segments are as even as narrow ranges allow.
No row goes through the JVM, unless the target has a condition, which Spark evaluates (`compact_filter`). No task holds
more than its memory: a merge that is larger spills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.segment import RangePartition, Scalar, Segment
from carnac.core.time.intervals import Interval
from carnac.errors import InvariantError
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.cuts import Cuts, choose_cuts, is_cuttable
from carnac.jobs.compact.filter import scatter_filtered
from carnac.jobs.compact.gather import Gathered, GatherTask, gather
from carnac.jobs.compact.parts import Scattered, ScatteredPart, ScatterTask, scatter
from carnac.jobs.compact.records import with_records
from carnac.jobs.compact.shape import ReadUnit
from carnac.jobs.compact.task import (
    MEMORY_COPIES,
    GroupTask,
    Rewritten,
    bytes_in_memory,
    is_sortable,
    remove_folder,
    rewrite_group,
    surely_fits,
)
from carnac.jobs.context import SparkJobContext
from carnac.rows.parts import remove_staged
from carnac.spark.progress import Phase
from carnac.spark.tasks import Attempt, Work, run_tasks

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
"""Into how many tasks for each core the inputs are shared out."""
MAX_STRETCH = 1.5
"""By how much a segment may be larger than its target before it is cut."""


def wants_scatter(task: GroupTask) -> bool:
    """Whether the input group is shared out among tasks, or needs Spark's own plan."""
    input_group = task.input_group
    if input_group.has_condition:
        return True
    is_hashed = task.target.partitioning.kind == "hashed"
    return not fits_one_task(task) and (is_hashed or is_cuttable(task))


def fits_one_task(task: GroupTask) -> bool:
    """Whether one task should do it all: memory holds the rows, or they become a single segment anyway."""
    target, input_group = task.target, task.input_group
    if _fits_memory(task):
        return True
    rows = sum(source.segment.rows for source in input_group.inputs)
    return rows <= target.target_rows and (target.partitioning.buckets or 1) == 1


def _fits_memory(task: GroupTask) -> bool:
    return MEMORY_COPIES * bytes_in_memory(task.input_group) <= task.memory_bytes


class Runner(Protocol):
    """Runs tasks beside one another and returns what they do, in order."""

    def run(self, work: Work[T, R], tasks: Sequence[T]) -> list[R]:
        """Run `work` on every task."""
        ...

    def scatter_filtered(self, tasks: Sequence[ScatterTask]) -> Sequence[Scattered]:
        """Run the first half with the condition of the read unit that all tasks are of."""
        ...


class SparkRunner:
    """Runs tasks on Spark."""

    def __init__(self, context: SparkJobContext, phase: Phase) -> None:
        self._context, self._phase = context, phase

    def run(self, work: Work[T, R], tasks: Sequence[T]) -> list[R]:
        """Run `work` on every task."""
        phase = replace(self._phase, total=len(tasks))
        holder, clock = self._context.holder, self._context.clock
        return run_tasks(holder, work, tasks, phase=phase, clock=clock)

    def scatter_filtered(self, tasks: Sequence[ScatterTask]) -> Sequence[Scattered]:
        """Run the first half with the condition of the read unit, as one plan of Spark."""
        phase = replace(self._phase, total=len(tasks))
        return scatter_filtered(self._context, tasks, phase=phase)


class TaskRunner:
    """Runs tasks one after the other, inside of a task of Spark."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def run(self, work: Work[T, R], tasks: Sequence[T]) -> list[R]:
        """Run `work` on every task."""
        return [work(task, self._attempt) for task in tasks]

    def scatter_filtered(self, tasks: Sequence[ScatterTask]) -> Sequence[Scattered]:
        """Refuse: conditions are evaluated by Spark's plan.

        Raises:
            InvariantError: Always.
        """
        raise InvariantError(f"{len(tasks)} tasks with a condition were sent into one task")


def rewrite_in_task(task: GroupTask, attempt: Attempt) -> Rewritten:
    """Rewrite a input group inside of one task, with its memory.

    Rows that only need to be put in order and that memory does not hold are cut into ranges on the local disk and put
    in order range by range; everything else is `rewrite_group`'s.

    Raises:
        CarnacError: As `rewrite_group`.
    """
    input_group = task.input_group
    is_in_order = is_sortable(input_group, task.target) and is_cuttable(task)
    if not is_in_order or surely_fits(task):
        return rewrite_group(
            task, attempt=attempt.number, on_rows=lambda rows: attempt.count(rows=rows)
        )
    staging = Path(task.temp_dir) / f"{task.id_prefix}a{attempt.number}"
    try:
        return ScatterJob(task, TaskRunner(attempt), staging_url=str(staging), cores=1).run()
    finally:
        remove_folder(staging)


class ScatterJob:
    """One input group, shared out among tasks.

    Args:
        staging_url: Folder for part files, reached by all tasks; removed in the end.
        cores: How many tasks run at the same time.
    """

    def __init__(self, task: GroupTask, runner: Runner, *, staging_url: str, cores: int) -> None:
        self._task = task
        self._runner = runner
        self._staging = staging_url
        self._cores = cores
        self.bytes_staged = 0
        """Of the part files that were there in the end."""

    def run(self) -> Rewritten:
        """Run both halves; staged files are removed, whatever happens."""
        try:
            is_small = _fits_memory(self._task)
            cuts = choose_cuts(self._task, is_small=is_small)
            scattered = self._scatter(cuts, 1 if is_small else None)
            went_in = Side()
            for one in scattered:
                went_in.add(one.side)
            parts = [part for one in scattered for part in one.parts]
            gathered = self._runner.run(gather, self._gather_tasks(cuts, parts))
        finally:
            self.bytes_staged = remove_staged(self._staging)
        came_out = Side()
        for part_of_all in gathered:
            came_out.add(part_of_all.side)
        segments = self._with_ranges(gathered)
        return Rewritten(
            segments=with_records(self._task.input_group, segments, is_whole=self._task.is_whole),
            went_in=went_in,
            came_out=came_out,
        )

    def _scatter(self, cuts: Cuts, count: int | None) -> list[Scattered]:
        """Run the first half of each read unit.

        Args:
            count: Of tasks for each; None: what the cores ask for.
        """
        scattered: list[Scattered] = []
        for number, unit in enumerate(self._task.input_group.units):
            tasks = self._scatter_tasks(unit, f"{number}", cuts, count)
            if unit.condition is not None:
                scattered += self._runner.scatter_filtered(tasks)
            else:
                scattered += self._runner.run(scatter, tasks)
        return scattered

    def _scatter_tasks(
        self, unit: ReadUnit, name: str, cuts: Cuts, count: int | None
    ) -> list[ScatterTask]:
        task = self._task
        inputs = sorted(unit.inputs, key=lambda source: -source.segment.rows)
        count = count or min(len(inputs), TASKS_PER_CORE * self._cores)
        return [
            ScatterTask(
                unit=replace(unit, inputs=tuple(inputs[index::count])),
                columns=unit.input_columns,
                plan=task.plan(unit),
                cuts=cuts,
                staging_url=self._staging,
                name=f"{name}-{index}",
                memory_bytes=task.memory_bytes,
                keeps_words=is_sortable(task.input_group, task.target),
            )
            for index in range(count)
        ]

    def _gather_tasks(self, cuts: Cuts, parts: Sequence[ScatteredPart]) -> list[GatherTask]:
        tasks: list[GatherTask] = []
        of_chunk: dict[Interval, list[ScatteredPart]] = defaultdict(list)
        for part in parts:
            of_chunk[part.chunk].append(part)
        for place, chunk in enumerate(self._task.chunks):
            for chosen, target in self._shared_out(cuts, place, of_chunk[chunk]):
                by_range = _by_range(chosen)
                tasks.append(
                    GatherTask(
                        task=replace(self._task, target=target),
                        chunk=chunk,
                        index=len(tasks),
                        ranges=tuple(
                            tuple(sorted(p.path for p in one)) for one in by_range.values()
                        ),
                        rows=tuple(sum(part.rows for part in one) for one in by_range.values()),
                    )
                )
        return tasks

    def _shared_out(
        self, cuts: Cuts, place: int, parts: Sequence[ScatteredPart]
    ) -> Iterator[tuple[list[ScatteredPart], CompactionTarget]]:
        """Yield parts of a chunk that one task puts together, and its target."""
        target = self._task.target
        if cuts.buckets:
            fixed = replace(target.partitioning, buckets=cuts.buckets[place])
            for chosen in _by_range(parts).values():
                yield chosen, replace(target, partitioning=fixed)
            return
        for chosen in even_runs(parts, target.target_rows):
            yield chosen, self._stretched(sum(part.rows for part in chosen))

    def _stretched(self, rows: int) -> CompactionTarget:
        """Return the target for a run of ranges: a segment a little too large is better than two halves."""
        target = self._task.target
        if rows > MAX_STRETCH * target.target_rows:
            return target
        return replace(target, target_rows=max(rows, 1))

    def _with_ranges(self, gathered: Sequence[Gathered]) -> tuple[Segment, ...]:
        """Return all segments in order; ranges of partitions that were written apart meet one another."""
        segments = [segment for one in gathered for segment in one.segments]
        if self._task.target.partitioning.kind != "range":
            return tuple(segments)
        starts = [
            one.start if index == 0 else _start(segment)
            for one in gathered
            for index, segment in enumerate(one.segments)
        ]
        joined = []
        for index, segment in enumerate(segments):
            is_first = index == 0 or segments[index - 1].chunk != segment.chunk
            is_last = index + 1 == len(segments) or segments[index + 1].chunk != segment.chunk
            partition = RangePartition(
                dimensions=self._task.target.partitioning.dimensions,
                start=None if is_first else starts[index],
                end=None if is_last else starts[index + 1],
            )
            joined.append(replace(segment, partition=partition))
        return tuple(joined)


def even_runs(parts: Sequence[ScatteredPart], most: int) -> Iterator[list[ScatteredPart]]:
    """Yield neighbouring ranges together, in about as many rows each as make the fewest segments of at most `most`."""
    by_range = _by_range(parts)
    total = sum(part.rows for part in parts)
    wanted = max(1, -(-total // most))
    chosen: list[ScatteredPart] = []
    done = taken = 0
    for some in by_range.values():
        chosen += some
        done += sum(part.rows for part in some)
        if done >= total * (taken + 1) / wanted:
            yield chosen
            chosen = []
            taken = int(done * wanted / total)
    if chosen:
        yield chosen


def _by_range(parts: Sequence[ScatteredPart]) -> dict[int, list[ScatteredPart]]:
    """Return the parts of each range or bucket, in order."""
    found: dict[int, list[ScatteredPart]] = defaultdict(list)
    for part in parts:
        found[part.range_index].append(part)
    return dict(sorted(found.items()))


def _start(segment: Segment) -> tuple[Scalar, ...] | None:
    partition = segment.partition
    return partition.start if isinstance(partition, RangePartition) else None


__all__ = [
    "Runner",
    "ScatterJob",
    "SparkRunner",
    "TaskRunner",
    "even_runs",
    "rewrite_in_task",
    "wants_scatter",
]
