"""Rewrites by ranges: those that one task's memory does not hold, and those whose rows are merged.

    scatter  each task reads some inputs, measures them, and cuts their rows into many narrow ranges of the first sort
             column (or hash buckets), a part file for each
    gather   each task takes as many neighbouring ranges as make one segment, merges, sorts, writes

On Spark many tasks do each half; inside of one task they run one after the other. How many rows fell into each range is
known after the first half, so segments are as even as narrow ranges allow. No row goes through the JVM, unless the
target has a condition, which Spark evaluates (`filter`). No task holds more than its memory: a merge that is larger
spills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.segment import RangePartition, Scalar, Segment
from carnac.core.time.intervals import Interval
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.cuts import Cuts, choose_cuts, is_cuttable
from carnac.jobs.compact.parts import Scattered, ScatterTask, scatter
from carnac.jobs.compact.shape import InputGroup, ReadUnit
from carnac.jobs.compact.task import (
    GroupTask,
    MakeWriter,
    ProofWatch,
    Rewritten,
    fits_memory,
    merge_task,
    needs_no_merge,
    rewrite_in_memory,
    surely_fits,
)
from carnac.jobs.ingest.write_pass import remove_segments
from carnac.ports import SegmentInput
from carnac.ports.temporary import make_private
from carnac.rows.cutting import values_at
from carnac.rows.merge import merge_parts, remove_folder
from carnac.rows.merge_task import Part
from carnac.rows.parts import remove_staged
from carnac.rows.segment_writer import SegmentWriter
from carnac.spark.tasks import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Part files that become segments of one time chunk. Picklable."""

    task: GroupTask
    chunk: Interval
    index: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The output of a gather task.

    Attributes:
        start: Range dimensions of its first row, where rows are partitioned by range.
    """

    segments: tuple[Segment, ...]
    side: Side
    start: tuple[Scalar, ...] | None


def gather(
    task: GatherTask, attempt: Attempt, *, make_writer: MakeWriter = SegmentWriter
) -> Gathered:
    """Merge the part files of one run of ranges into segments.

    Args:
        make_writer: Makes the writer of a segment; tests hand in one that makes mistakes.
    """
    watch = _FirstRow(task.task, make_writer)
    segments = merge_parts(
        replace(merge_task(task.task, task.chunk, task.index), parts=task.parts),
        attempt=attempt.number,
        on_rows=lambda rows: attempt.count(rows=rows),
        watch=watch,
    )
    try:
        return Gathered(segments=segments, side=watch.side(segments), start=watch.start)
    except BaseException:
        remove_segments(segments, task.task.output_url)
        raise


class _FirstRow(ProofWatch):
    """Remembers the range dimensions of the first row."""

    def __init__(self, task: GroupTask, make_writer: MakeWriter) -> None:
        super().__init__(task.input_group, make_writer)
        self._dimensions = task.target.range_dimensions
        self.start: tuple[Scalar, ...] | None = None

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.start is None and self._dimensions and rows.num_rows:
            self.start = values_at(rows, 0, self._dimensions)
        return super().see(rows)


TASKS_PER_CORE = 4
"""Into how many tasks for each core the inputs are shared out."""
MAX_STRETCH = 1.5
"""Factor by which a segment may exceed its target before it is cut."""


def wants_scatter(task: GroupTask) -> bool:
    """Whether the input group is shared out among tasks, or needs Spark's own plan."""
    if task.input_group.has_condition:
        return True
    is_hashed = task.target.partitioning.kind == "hashed"
    return not fits_one_task(task) and (is_hashed or is_cuttable(task))


def fits_one_task(task: GroupTask) -> bool:
    """Whether one task should do it all: memory holds the rows, or they become a single segment anyway."""
    rows = sum(source.segment.rows for source in task.input_group.inputs)
    is_single = rows <= task.target.target_rows and (task.target.partitioning.buckets or 1) == 1
    return is_single or fits_memory(task)


ScatterAll = Callable[[Sequence[ScatterTask]], Sequence[Scattered]]
"""Runs the first half of one read unit; returns what its tasks give, in order."""
GatherAll = Callable[[Sequence[GatherTask]], Sequence[Gathered]]
"""Runs the second half."""


def rewrite_in_task(
    task: GroupTask, attempt: Attempt, *, make_writer: MakeWriter = SegmentWriter
) -> Rewritten:
    """Rewrite an input group inside of one task, with its memory. If it fails, no file is left.

    Rows that memory does not hold are cut into ranges on the local disk and put in order range by range. Rows to be
    merged are one range, since the number of merged rows is not known before.

    Raises:
        Corrupt: As `read_tables`.
        Invalid: A sum does not fit into its type, or rows cannot be partitioned as the target says.
        Unavailable: Deep storage or the temporary folder is full, or does not answer.
    """
    done = rewrite_in_memory(task, attempt, make_writer=make_writer) if surely_fits(task) else None
    if done is None:
        staging = make_private(Path(task.temp_dir) / f"{task.id_prefix}a{attempt.number}")
        cuts = choose_cuts(task) if needs_no_merge(task.input_group, task.target) else Cuts()
        job = ScatterJob(
            task,
            lambda tasks: [scatter(one, attempt) for one in tasks],
            lambda tasks: [gather(one, attempt, make_writer=make_writer) for one in tasks],
            staging_url=str(staging),
            cores=1,
            cuts=cuts,
        )
        try:
            done = job.run()
        finally:
            remove_folder(str(staging))
    try:
        task.check_inputs(done.went_in, done.came_out)
    except BaseException:
        remove_segments(done.segments, task.output_url)
        raise
    return done


class ScatterJob:
    """One input group by ranges, in tasks beside one another or one after the other.

    Args:
        staging_url: Folder for part files, reached by all tasks; removed in the end.
        cores: Number of tasks that run at the same time.
        cuts: Cuts for one task; None: they are chosen.
    """

    def __init__(
        self,
        task: GroupTask,
        scatter_all: ScatterAll,
        gather_all: GatherAll,
        *,
        staging_url: str,
        cores: int,
        cuts: Cuts | None = None,
    ) -> None:
        self._task = task
        self._scatter_all, self._gather_all = scatter_all, gather_all
        self._staging = staging_url
        self._cores = cores
        self._cuts = cuts
        self.bytes_staged = 0
        """Size of the part files that were there in the end."""

    def run(self) -> Rewritten:
        """Run both halves; staged files are removed, also on failure."""
        try:
            cuts = self._cuts
            if cuts is None and fits_memory(self._task):
                cuts = Cuts()  # a condition leaves out some of the few rows
            is_alone = cuts is not None
            cuts = cuts or choose_cuts(self._task)
            scattered = self._scatter(cuts, 1 if is_alone else None)
            went_in = Side()
            for one in scattered:
                went_in.add(one.side)
            parts = [part for one in scattered for part in one.parts]
            gathered = self._gather_all(self._gather_tasks(cuts, parts))
        finally:
            self.bytes_staged = remove_staged(self._staging)
        came_out = Side()
        for part_of_all in gathered:
            came_out.add(part_of_all.side)
        segments = self._with_ranges(gathered)
        return Rewritten(
            segments=_with_records(self._task.input_group, segments, is_whole=self._task.is_whole),
            went_in=went_in,
            came_out=came_out,
        )

    def _scatter(self, cuts: Cuts, count: int | None) -> list[Scattered]:
        """Run the first half of each read unit.

        Args:
            count: Number of tasks for each unit; None: by the number of cores.
        """
        scattered: list[Scattered] = []
        for number, unit in enumerate(self._task.input_group.units):
            scattered += self._scatter_all(self._scatter_tasks(unit, f"{number}", cuts, count))
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
            )
            for index in range(count)
        ]

    def _gather_tasks(self, cuts: Cuts, parts: Sequence[Part]) -> list[GatherTask]:
        of_chunk: dict[Interval, list[Part]] = defaultdict(list)
        for part in parts:
            of_chunk[part.chunk].append(part)
        shared = (
            (chunk, chosen, target)
            for position, chunk in enumerate(self._task.chunks)
            for chosen, target in self._shared_out(cuts, position, of_chunk[chunk])
        )
        return [
            GatherTask(
                task=replace(self._task, target=target),
                chunk=chunk,
                index=index,
                parts=tuple(chosen),
            )
            for index, (chunk, chosen, target) in enumerate(shared)
        ]

    def _shared_out(
        self, cuts: Cuts, place: int, parts: Sequence[Part]
    ) -> Iterator[tuple[list[Part], CompactionTarget]]:
        """Yield parts of a chunk that one task puts together, and its target."""
        target = self._task.target
        if cuts.buckets:
            fixed = replace(target.partitioning, buckets=cuts.buckets[place])
            for chosen in _by_range(parts).values():
                yield chosen, replace(target, partitioning=fixed)
        elif cuts.edges:
            for chosen in even_runs(parts, target.target_rows):
                yield chosen, self._stretched(sum(part.rows for part in chosen))
        elif parts:
            yield list(parts), target

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


def even_runs(parts: Sequence[Part], most: int) -> Iterator[list[Part]]:
    """Yield neighbouring ranges together, in about as many rows each as make the fewest segments of at most `most`."""
    by_range = _by_range(parts)
    total = sum(part.rows for part in parts)
    wanted = max(1, -(-total // most))
    chosen: list[Part] = []
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


def _by_range(parts: Sequence[Part]) -> dict[int, list[Part]]:
    """Return the parts of each range or bucket, in order."""
    found: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        found[part.range_index].append(part)
    return dict(sorted(found.items()))


def _start(segment: Segment) -> tuple[Scalar, ...] | None:
    partition = segment.partition
    return partition.start if isinstance(partition, RangePartition) else None


def _with_records(
    input_group: InputGroup, segments: Sequence[Segment], *, is_whole: bool
) -> tuple[Segment, ...]:
    """Return the records, with metrics as they are known and input rows that add up to those of the inputs."""
    if not input_group.shape.is_rollup:
        return tuple(segments)
    behind = round(sum(_input_rows(source) for source in input_group.inputs))
    merged = sum(segment.input_rows for segment in segments) or 1
    spec, so_far, given, records = input_group.rollup_spec(is_perfect=is_whole), 0, 0, []
    for segment in segments:
        so_far += segment.input_rows
        upto = round(behind * so_far / merged)
        records.append(replace(segment, rollup=spec, input_rows=max(upto - given, segment.rows)))
        given = upto
    return tuple(records)


def _input_rows(source: SegmentInput) -> float:
    """Return about how many input rows the visible part of a segment stands for."""
    segment = source.segment
    shown = sum(
        part.duration_ms
        for piece in source.visible
        if (part := piece.intersect(segment.span)) is not None
    )
    return segment.input_rows * shown / segment.span.duration_ms
