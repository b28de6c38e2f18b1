"""A rewrite inside one task: inputs in, sorted segments and the conservation proof out.

Three ways, one result:

- *in memory*: rows that need no merging and fit into the task's memory are put in order by packed words
  (`packed_sort`) and written. No engine, no copy on disk.
- *staged*: everything else goes to local part files while it is read and measured, and from there through the merge
  that ingestions use: DuckDB rolls up, hashes, sorts, and spills what memory does not hold.
- *scattered* (`compact_scatter`): groups of several segments' worth that do not fit into memory are shared out among
  tasks by ranges of the first sort column.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.notes import most_rows
from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval
from carnac.errors import Corrupt
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.measure import blame_inputs, measured
from carnac.jobs.compact.read import ReadPlan, micros, places_by_chunk, uncompressed_bytes
from carnac.jobs.compact.records import with_records
from carnac.jobs.compact.shape import InputGroup, ReadUnit
from carnac.jobs.compact.stage import Stage
from carnac.rows.cutting import Piece, cut_evenly, cut_ranges, even_rows
from carnac.rows.merge import SegmentSink, SinkWatch, merge_parts
from carnac.rows.merge_task import MergeTask, segment_id
from carnac.rows.packed_sort import SORTABLE, sorted_order
from carnac.rows.row_hash import add_hashes
from carnac.rows.segment_writer import ROW_GROUP_ROWS, SegmentWriter, one_array
from carnac.rows.sorting import sort_order
from carnac.specs.ingest.layout import (
    DynamicPartitions,
    HashedPartitions,
    PartitionsSpec,
    RangePartitions,
)

MEMORY_COPIES = 3
"""How often the rows of a rewrite in memory are there at once: as read, united, and in order or in the writer."""
COMPRESSION_FACTOR = 4
"""About how many bytes of words in memory a byte of a segment file becomes."""
CLOSE_CALL = 4
"""Groups within this factor of the limit are looked at more closely: words may compress better than most do."""

MakeWriter = Callable[..., SegmentWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """One input group of a rewrite. Picklable.

    Attributes:
        id_prefix: An id of this task alone; see `carnac.rows.merge.MergeTask`.
        is_whole: The inputs are all there is in the chunks.
        temp_dir: Local folder, made if missing, left empty.
    """

    datasource: str
    input_group: InputGroup
    target: CompactionTarget
    chunks: tuple[Interval, ...]
    output_url: str
    path_prefix: str
    id_prefix: str
    created_at_ms: int
    temp_dir: str
    memory_bytes: int
    is_whole: bool

    @property
    def range_dimensions(self) -> tuple[str, ...]:
        """Dimensions by whose ranges rows are partitioned; empty if they are not."""
        return _range_dimensions(self.target)

    def plan(self, unit: ReadUnit) -> ReadPlan:
        """Return how the inputs of a read unit are read."""
        return ReadPlan(
            output_url=self.output_url,
            columns=unit.read_columns,
            truncate_to=unit.shape.query_granularity if unit.truncates else None,
            chunks=self.chunks,
            keeps_exact=unit.raw_shape is not None,
        )

    def check_inputs(self, went_in: Side, came_out: Side) -> None:
        """Where rows are only moved and both sides differ, find out whether it is an input's fault.

        Raises:
            Corrupt: A file does not hold the rows that its record speaks of.
        """
        is_same = (went_in.rows, went_in.row_hash) == (came_out.rows, came_out.row_hash)
        if not is_same and not self.input_group.shape.is_rollup:
            [unit] = self.input_group.units  # rows that are only moved are all read alike
            blame_inputs(self.plan(unit), unit.inputs)

    def read(self, side: Side) -> Iterator[tuple[ReadUnit, pa.Table]]:
        """Yield the rows of all inputs, and add them to the side that goes in.

        Raises:
            NotFound, Corrupt: As `read_tables`.
        """
        for unit in self.input_group.units:
            for table in measured(unit, self.plan(unit), side):
                yield unit, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a input group became."""

    segments: tuple[Segment, ...]
    went_in: Side
    came_out: Side


def rewrite_group(
    task: GroupTask,
    *,
    attempt: int = 0,
    on_rows: Callable[[int], None] | None = None,
    make_writer: MakeWriter = SegmentWriter,
) -> Rewritten:
    """Rewrite the inputs of a input group. If it fails, it removes the files that this attempt wrote.

    Args:
        attempt: Another number for every attempt at the task.
        on_rows: Called with the number of rows written since its last call.
        make_writer: Makes the writer of a segment; tests hand in one that makes mistakes.

    Raises:
        NotFound, Corrupt: As `read_tables`.
        Invalid: A sum does not fit into its type, or rows cannot be partitioned as the target says.
        Unavailable: Deep storage or the temporary folder is full, or does not answer.
    """
    watch = ProofWatch(task.input_group, make_writer)
    went_in = Side()
    rows = _read_all(task, went_in) if surely_fits(task) else None
    if rows is None:
        went_in = Side()
        written = _staged(task, attempt, went_in, watch, on_rows)
    else:
        written = _in_memory(task, rows, attempt, watch, on_rows)
    segments = with_records(task.input_group, written, is_whole=task.is_whole)
    try:
        came_out = watch.side(segments)
        task.check_inputs(went_in, came_out)
    except BaseException:
        remove_written(task.output_url, segments)
        raise
    return Rewritten(segments=segments, went_in=went_in, came_out=came_out)


def fits_in_memory(input_group: InputGroup, target: CompactionTarget, memory_bytes: int) -> bool:
    """Whether the rows need no merging and surely fit into a task's memory."""
    return (
        is_sortable(input_group, target)
        and MEMORY_COPIES * bytes_in_memory(input_group) <= memory_bytes
    )


def is_sortable(input_group: InputGroup, target: CompactionTarget) -> bool:
    """Whether rows need no merging, and can be put in order by packed words."""
    if input_group.shape.is_rollup or target.partitioning.kind == "hashed":
        return False
    types = dict(input_group.shape.segment_columns)
    sort = sort_order(input_group.shape, _range_dimensions(target))
    return all(name not in types or types[name] in SORTABLE for name in sort)


def surely_fits(task: GroupTask) -> bool:
    """Whether the rows fit into memory as the records say; where that is a close call, as the files say."""
    input_group, memory_bytes = task.input_group, task.memory_bytes
    if not fits_in_memory(input_group, task.target, memory_bytes):
        return False
    if CLOSE_CALL * MEMORY_COPIES * bytes_in_memory(input_group) <= memory_bytes:
        return True
    encoded = sum(uncompressed_bytes(task.output_url, source) for source in input_group.inputs)
    return MEMORY_COPIES * max(2 * encoded, bytes_in_memory(input_group)) <= memory_bytes


def bytes_in_memory(input_group: InputGroup) -> int:
    """Return about how many bytes the rows of a input group take in memory."""
    width = 8
    for _, kind in input_group.shape.segment_columns:
        width += 4 if kind in {ColumnType.STRING, ColumnType.JSON} else 8
    return sum(
        source.segment.rows * width + COMPRESSION_FACTOR * source.segment.size_bytes
        for source in input_group.inputs
    )


def partitions_spec(target: CompactionTarget) -> PartitionsSpec:
    """Return the target's partitioning as ingestions know it."""
    wanted = target.partitioning
    if wanted.kind == "hashed":
        buckets = wanted.buckets
        return HashedPartitions(
            dimensions=wanted.dimensions,
            num_shards=buckets,
            target_rows_per_segment=None if buckets else target.target_rows,
        )
    if wanted.kind == "range":
        return RangePartitions(
            dimensions=wanted.dimensions, target_rows_per_segment=target.target_rows
        )
    return DynamicPartitions(max_rows_per_segment=target.target_rows)


class ProofWatch(SinkWatch):
    """Sees what is written, for the side of the proof that comes out."""

    def __init__(self, input_group: InputGroup, make_writer: MakeWriter = SegmentWriter) -> None:
        self._shape = input_group.shape
        self._make_writer = make_writer
        self._states = Side()
        self._row_hash = 0

    def make_writer(self, *args: Any, **options: Any) -> SegmentWriter:
        """Return the writer of one segment."""
        return self._make_writer(*args, **options)

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Measure rolled-up rows before they are written; rows that are only moved are measured by the writer."""
        if not self._shape.is_rollup:
            return rows
        rows = with_dictionaries(rows)  # once for both measures
        row_hash = self._states.add_states(self._shape, rows, hashes_rows=True)
        self._row_hash = add_hashes(self._row_hash, row_hash)
        return rows

    def side(self, segments: Sequence[Segment]) -> Side:
        """Return what came out.

        Raises:
            Corrupt: The writer wrote other rolled-up rows than it was given.
        """
        side = Side()
        for segment in segments:
            side.add_known(segment.rows, segment.row_hash)
        if not self._shape.is_rollup:
            return side
        if side.row_hash != self._row_hash:
            names = ", ".join(segment.segment_id for segment in segments)
            raise Corrupt(
                f"the files of {names} do not hold the rows that were handed to the writer"
            )
        return self._states


# ---------------------------------------------------------------------------------- in memory


def _read_all(task: GroupTask, side: Side) -> list[pa.Table] | None:
    """Return all rows; None if they prove larger than memory, whatever records and footers made believe."""
    tables, size = [], 0
    for _, table in task.read(side):
        tables.append(table)
        size += table.nbytes
        if MEMORY_COPIES * size > task.memory_bytes:
            return None
    return tables


def _in_memory(
    task: GroupTask,
    tables: list[pa.Table],
    attempt: int,
    watch: ProofWatch,
    on_rows: Callable[[int], None] | None,
) -> tuple[Segment, ...]:
    if not tables:
        return ()
    rows = united(tables)
    tables.clear()
    segments: list[Segment] = []
    try:
        for index, (chunk, part) in enumerate(_by_chunk(task.chunks, rows)):
            merge = merge_task(task, chunk, index)
            temp_dir = Path(task.temp_dir) / segment_id(merge.id_prefix, attempt, 0)
            sink = SegmentSink(
                merge, attempt=attempt, temp_dir=str(temp_dir), on_rows=on_rows, watch=watch
            )
            try:
                sort = sort_order(merge.shape, _range_dimensions(task.target))
                limit = even_rows(part.num_rows, task.target.target_rows)
                pieces = cut_pieces(in_order(part, sort), task.target, limit)
                segments += sink.write_all(pieces, sort, None)
            except BaseException:
                sink.remove_all()
                raise
            finally:
                remove_folder(temp_dir)
    except BaseException:
        remove_written(task.output_url, segments)
        raise
    return tuple(segments)


def _by_chunk(
    chunks: Sequence[Interval], rows: pa.RecordBatch
) -> Iterator[tuple[Interval, pa.RecordBatch]]:
    if len(chunks) == 1:
        yield chunks[0], rows
        return
    for number, places in places_by_chunk(micros(rows), chunks):
        yield chunks[number], rows.take(pa.array(places))


def with_dictionaries(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with texts as dictionaries."""
    arrays = [
        array.dictionary_encode() if pa.types.is_string(array.type) else array
        for array in rows.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def united(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    """Return the rows of the tables as one batch; every text column has one dictionary."""
    whole = pa.concat_tables(tables).unify_dictionaries()
    return pa.RecordBatch.from_arrays(
        [one_array(column) for column in whole.columns], names=whole.schema.names
    )


def in_order(rows: pa.RecordBatch, sort: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order, one row group's worth at a time."""
    order = pa.array(sorted_order(rows, sort))
    for start in range(0, len(order), ROW_GROUP_ROWS):
        yield rows.take(order.slice(start, ROW_GROUP_ROWS))


def cut_pieces(
    batches: Iterator[pa.RecordBatch], target: CompactionTarget, limit: int
) -> Iterator[Piece]:
    """Yield sorted rows in pieces of about `limit` rows, as the target divides them."""
    if target.partitioning.kind == "range":
        return cut_ranges(batches, target.partitioning.dimensions, limit, most=most_rows(target))
    return cut_evenly(batches, limit)


def _range_dimensions(target: CompactionTarget) -> tuple[str, ...]:
    return target.partitioning.dimensions if target.partitioning.kind == "range" else ()


# ------------------------------------------------------------------------------------- staged


def _staged(
    task: GroupTask,
    attempt: int,
    side: Side,
    watch: ProofWatch,
    on_rows: Callable[[int], None] | None,
) -> tuple[Segment, ...]:
    folder = Path(task.temp_dir) / f"{task.id_prefix}a{attempt}"
    stage = Stage(task.chunks, folder)
    segments: list[Segment] = []
    try:
        with stage:
            for unit, table in task.read(side):
                stage.add(unit, table)
        for index, (chunk, path) in enumerate(stage.parts()):
            merge = replace(merge_task(task, chunk, index), parts=(path,))
            segments += merge_parts(merge, attempt=attempt, on_rows=on_rows, watch=watch)
            Path(path).unlink()
    except BaseException:
        remove_written(task.output_url, segments)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
    return tuple(segments)


def merge_task(task: GroupTask, chunk: Interval, index: int) -> MergeTask:
    """Return the merge that makes segments of one chunk, without its parts."""
    return MergeTask(
        datasource=task.datasource,
        parts=(),
        shape=task.input_group.shape,
        chunk=chunk,
        partitions=partitions_spec(task.target),
        output_url=task.output_url,
        path_prefix=task.path_prefix,
        id_prefix=f"{task.id_prefix}c{index}",
        created_at_ms=task.created_at_ms,
        temp_dir=task.temp_dir,
        target_bytes=task.target.target_bytes,
        is_perfect=task.is_whole,
        memory_bytes=task.memory_bytes,
    )


def remove_written(output_url: str, segments: Sequence[Segment]) -> None:
    """Remove the files of segments that will not be published."""
    from carnac.jobs.ingest.write_pass import remove_segments

    remove_segments(segments, output_url)


def remove_folder(folder: Path) -> None:
    """Remove a folder of temporary files, and the one above it if it is empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
