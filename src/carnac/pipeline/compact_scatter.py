"""Rewrites that do not fit into one task's memory and become several segments: shared out among tasks by ranges.

    scatter  each task reads some inputs, measures them, and cuts their rows into many narrow ranges of the first sort
             column, a part file for each                                                       (Spark, many tasks)
    merge    each task takes as many neighbouring ranges as make one segment, merges, sorts, writes    (Spark again)

The cuts come from what the records of the inputs say of that column's bounds (times) or from a sample of its values.
How many rows fell into each range is known after the first half, so segments are as even as narrow ranges allow. Rows
of one key never part: all its rows have one value in the column. No row goes through the JVM, and no task holds more
than its memory: a merge that is larger spills.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from carnac.core.compaction.groups import CompactionTarget
from carnac.core.intervals import Interval
from carnac.core.segments import TIME_COLUMN, ColumnType, RangePartition, Scalar, Segment
from carnac.pipeline.compact_read import ReadPlan, micros, read_tables, within
from carnac.pipeline.compact_records import with_records
from carnac.pipeline.compact_shape import Family
from carnac.pipeline.compact_stage import as_parts
from carnac.pipeline.compact_task import (
    MEMORY_COPIES,
    FamilyTask,
    ProofWatch,
    Rewritten,
    bytes_in_memory,
    measured,
    merge_task,
    remove_written,
)
from carnac.pipeline.conservation import Side
from carnac.pipeline.ingest import Workshop
from carnac.pipeline.merge import merge_parts
from carnac.pipeline.parts import remove_staged
from carnac.pipeline.progress import Phase
from carnac.pipeline.segment_writer import one_array
from carnac.pipeline.sorting import sort_order
from carnac.pipeline.tasks import Attempt, run_tasks
from carnac.ports import SegmentInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANGES_PER_SEGMENT = 8
MAX_RANGES = 512
MAX_STRETCH = 1.5
"""By how much a segment may be larger than its target before it is cut."""
SAMPLE_INPUTS, SAMPLE_ROWS = 8, 20_000
"""How much is looked at to choose the cuts of a column whose values records say too little of."""
_CUTTABLE = {ColumnType.STRING, ColumnType.LONG}


def wants_scatter(task: FamilyTask) -> bool:
    """Whether the family is shared out among tasks."""
    target, family = task.target, task.family
    if MEMORY_COPIES * bytes_in_memory(family) <= task.memory_bytes:
        return False
    rows = sum(source.segment.rows for source in family.inputs)
    if target.partitioning.kind == "hashed" or rows <= target.target_rows:
        return False
    column = cut_column(task)
    return column == TIME_COLUMN or dict(family.shape.segment_columns)[column] in _CUTTABLE


def cut_column(task: FamilyTask) -> str:
    """Return the column whose ranges are shared out."""
    partitioning = task.target.partitioning
    first = partitioning.dimensions if partitioning.kind == "range" else ()
    shape = task.family.shape
    column = sort_order(shape, first)[0]
    is_key = column == TIME_COLUMN or column in shape.dimension_names
    return column if is_key or not shape.is_rollup else TIME_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterTask:
    """Which inputs to cut where. Picklable.

    Attributes:
        cuts: Lower bounds of all ranges but the first, ascending; times in microseconds.
        staging_url: Folder of the part files.
    """

    family: Family
    plan: ReadPlan
    column: str
    cuts: tuple[Any, ...]
    staging_url: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatteredPart:
    """A part file: rows of one time chunk and one range."""

    chunk: Interval
    range_index: int
    path: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Part files that become segments of one time chunk. Picklable."""

    task: FamilyTask
    chunk: Interval
    index: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a gather task wrote.

    Attributes:
        start: Range dimensions of its first row, where rows are partitioned by range.
    """

    segments: tuple[Segment, ...]
    side: Side
    start: tuple[Scalar, ...] | None


class ScatterJob:
    """One family, shared out among tasks."""

    def __init__(self, workshop: Workshop, task: FamilyTask, *, phase: Phase) -> None:
        self._workshop = workshop
        self._task = task
        self._phase = phase
        self._staging = workshop.staging_url(f"rewrite-{task.id_prefix}")

    def run(self) -> Rewritten:
        """Run both halves; staged files are removed, whatever happens."""
        try:
            scattered = self._run(scatter, self._scatter_tasks())
            went_in = Side()
            for side, _ in scattered:
                went_in.add(side)
            parts = [part for _, some in scattered for part in some]
            gathered = self._run(gather, self._gather_tasks(parts))
        finally:
            remove_staged(self._staging)
        came_out = Side()
        for one in gathered:
            came_out.add(one.side)
        segments = self._with_ranges(gathered)
        return Rewritten(
            segments=with_records(self._task.family, segments, is_whole=self._task.is_whole),
            went_in=went_in,
            came_out=came_out,
        )

    def _run(self, work: Any, tasks: Sequence[Any]) -> list[Any]:
        phase = replace(self._phase, total=len(tasks))
        return run_tasks(
            self._workshop.holder, work, tasks, phase=phase, clock=self._workshop.clock
        )

    def _scatter_tasks(self) -> list[ScatterTask]:
        task, column = self._task, cut_column(self._task)
        cuts = choose_cuts(task, column)
        inputs = sorted(task.family.inputs, key=lambda source: -source.segment.rows)
        count = min(len(inputs), 4 * self._workshop.cores())
        return [
            ScatterTask(
                family=replace(task.family, inputs=tuple(inputs[index::count])),
                plan=task.plan,
                column=column,
                cuts=cuts,
                staging_url=self._staging,
                name=f"{index}",
            )
            for index in range(count)
        ]

    def _gather_tasks(self, parts: Sequence[ScatteredPart]) -> list[GatherTask]:
        tasks: list[GatherTask] = []
        for chunk in self._task.chunks:
            mine = [part for part in parts if part.chunk == chunk]
            for chosen in even_runs(mine, self._task.target.target_rows):
                rows = sum(part.rows for part in chosen)
                tasks.append(
                    GatherTask(
                        task=replace(self._task, target=self._stretched(rows)),
                        chunk=chunk,
                        index=len(tasks),
                        paths=tuple(sorted(part.path for part in chosen)),
                    )
                )
        return tasks

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
    rows: dict[int, int] = {}
    for part in parts:
        rows[part.range_index] = rows.get(part.range_index, 0) + part.rows
    total = sum(rows.values())
    wanted = max(1, -(-total // most))
    chosen: set[int] = set()
    done = taken = 0
    for index in sorted(rows):
        chosen.add(index)
        done += rows[index]
        if done >= total * (taken + 1) / wanted:
            yield [part for part in parts if part.range_index in chosen]
            chosen = set()
            taken = int(done * wanted / total)
    if chosen:
        yield [part for part in parts if part.range_index in chosen]


def choose_cuts(task: FamilyTask, column: str) -> tuple[Any, ...]:
    """Return lower bounds of ranges with about equally many rows."""
    rows = sum(source.segment.rows for source in task.family.inputs)
    ranges = min(MAX_RANGES, RANGES_PER_SEGMENT * -(-rows // task.target.target_rows))
    if column == TIME_COLUMN:
        return _time_cuts(task.family.inputs, ranges)
    values = pa.concat_arrays([_sample(task, source, column) for source in _spread(task)])
    values = values.drop_null().sort()
    if not len(values):
        return ()
    places = np.linspace(0, len(values), ranges + 1)[1:-1].astype(np.int64)
    chosen = pc.unique(values.take(pa.array(places))).to_pylist()
    return tuple(sorted(chosen))


def _spread(task: FamilyTask) -> Sequence[SegmentInput]:
    inputs = sorted(task.family.inputs, key=lambda source: -source.segment.rows)
    return inputs[:SAMPLE_INPUTS]


def _sample(task: FamilyTask, source: SegmentInput, column: str) -> pa.Array:
    plan = task.plan
    kinds = dict(plan.columns)
    narrow = replace(plan, columns=((column, kinds[column]),), truncate_to=None, keeps_exact=False)
    for table in read_tables(narrow, source):
        array = one_array(table.column(column))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array.take(pa.array(np.arange(0, len(array), -(-len(array) // SAMPLE_ROWS))))
    return pa.nulls(0, pa.string() if kinds[column] is ColumnType.STRING else pa.int64())


def _time_cuts(inputs: Sequence[SegmentInput], ranges: int) -> tuple[int, ...]:
    """Return cuts in microseconds, as if the rows of a segment were spread evenly over its span."""
    spans = [source.segment.span for source in inputs]
    rows = np.array([source.segment.rows for source in inputs], np.float64)
    starts = np.array([span.start_ms for span in spans], np.float64)
    ends = np.array([span.end_ms for span in spans], np.float64)
    edges = np.unique(np.concatenate((starts, ends)))
    share = np.clip((edges[:, None] - starts) / (ends - starts), 0.0, 1.0)
    upto = (share * rows).sum(axis=1)
    wanted = np.linspace(0.0, upto[-1], ranges + 1)[1:-1]
    cuts = np.unique(np.interp(wanted, upto, edges).astype(np.int64))
    return tuple(int(cut) * 1000 for cut in cuts)


# ----------------------------------------------------------------------------- inside of tasks


def scatter(task: ScatterTask, attempt: Attempt) -> tuple[Side, tuple[ScatteredPart, ...]]:
    """Read, measure and cut the inputs of one task into part files, streaming."""
    side = Side()
    writers = _PartWriters(task, attempt.number)
    with writers:
        for source in task.family.inputs:
            for table in measured(task.family, task.plan, source, side):
                writers.add(table)
                attempt.count(rows=table.num_rows)
    return side, writers.parts()


class _PartWriters:
    """Part files by chunk and range; open while the task reads."""

    def __init__(self, task: ScatterTask, attempt: int) -> None:
        self._task = task
        self._attempt = attempt
        self._open: dict[tuple[Interval, int], tuple[str, Any, Any]] = {}
        self._rows: dict[tuple[Interval, int], int] = {}

    def __enter__(self) -> _PartWriters:
        return self

    def __exit__(self, *_error: object) -> None:
        for _, writer, stream in self._open.values():
            writer.close()
            with contextlib.suppress(OSError):
                stream.close()

    def add(self, table: pa.Table) -> None:
        """Cut rows by chunk and range, and write them."""
        ranges = _range_of(self._task, table)
        parts = as_parts(self._task.family, table)
        times = micros(parts)
        for chunk in self._task.plan.chunks:
            inside = within(times, [chunk])
            for index in np.unique(ranges[inside]).tolist():
                places = np.flatnonzero(inside & (ranges == index))
                mine = parts.take(pa.array(places))
                self._writer(chunk, int(index), mine.schema).write_table(mine)
                self._rows[chunk, int(index)] += mine.num_rows

    def parts(self) -> tuple[ScatteredPart, ...]:
        """Return what was written."""
        return tuple(
            ScatteredPart(chunk=chunk, range_index=index, path=path, rows=self._rows[chunk, index])
            for (chunk, index), (path, _, _) in sorted(
                self._open.items(), key=lambda item: item[1][0]
            )
        )

    def _writer(self, chunk: Interval, index: int, schema: pa.Schema) -> Any:
        key = chunk, index
        if key not in self._open:
            name = f"{self._task.name}-{self._attempt}-{chunk.start_ms}-{index}.parquet"
            path, stream = _create(self._task.staging_url, name)
            writer = pq.ParquetWriter(stream, schema, compression="lz4")
            self._open[key] = path, writer, stream
            self._rows[key] = 0
        return self._open[key][1]


def _create(staging_url: str, name: str) -> tuple[str, Any]:
    from carnac.pipeline.output import local_root

    root = local_root(staging_url)
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
        return str(root / name), (root / name).open("wb")
    import fsspec

    url = f"{staging_url.rstrip('/')}/{name}"
    filesystem, path = fsspec.core.url_to_fs(url)
    return url, filesystem.open(path, "wb")


def _ranks(cuts: Any, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return of each value how many cuts are not above it."""
    found = np.searchsorted(np.array(cuts, np.int64), values, side="right")
    return np.asarray(found, np.int64)


def _range_of(task: ScatterTask, table: pa.Table) -> NDArray[np.int64]:
    """Return the number of the range that each row is in; nulls are in the first."""
    if task.column == TIME_COLUMN:
        return _ranks(task.cuts, micros(table))
    column = one_array(table.column(task.column))
    if pa.types.is_integer(column.type):
        values = pc.fill_null(column, np.iinfo(np.int64).min).to_numpy()
        return _ranks(task.cuts, values)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    cuts = [cut.encode() for cut in task.cuts]
    words = np.array([word.encode() for word in encoded.dictionary.to_pylist()] or [b""], object)
    places = np.searchsorted(np.array(cuts, object), words, side="right").astype(np.int64)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    ranges: NDArray[np.int64] = np.where(indices < 0, 0, places[np.maximum(indices, 0)])
    return ranges


class _FirstRow(ProofWatch):
    """Remembers the range dimensions of the first row."""

    def __init__(self, task: FamilyTask) -> None:
        super().__init__(task.family)
        partitioning = task.target.partitioning
        self._dimensions = partitioning.dimensions if partitioning.kind == "range" else ()
        self.start: tuple[Scalar, ...] | None = None

    def see(self, rows: pa.RecordBatch) -> None:
        if self.start is None and self._dimensions and rows.num_rows:
            self.start = tuple(rows.column(name)[0].as_py() for name in self._dimensions)
        super().see(rows)


def gather(task: GatherTask, attempt: Attempt) -> Gathered:
    """Merge the part files of one run of ranges into segments."""
    watch = _FirstRow(task.task)
    merge = replace(merge_task(task.task, task.chunk, task.index), parts=task.paths)
    segments = merge_parts(
        merge,
        attempt=attempt.number,
        on_rows=lambda rows: attempt.count(rows=rows),
        watch=watch,
    )
    try:
        return Gathered(segments=segments, side=watch.side(segments), start=watch.start)
    except BaseException:
        remove_written(task.task.output_url, segments)
        raise


def _start(segment: Segment) -> tuple[Scalar, ...] | None:
    partition = segment.partition
    return partition.start if isinstance(partition, RangePartition) else None


__all__ = ["ScatterJob", "choose_cuts", "even_runs", "wants_scatter"]
