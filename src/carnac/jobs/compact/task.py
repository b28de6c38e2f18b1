"""A rewrite inside one task and in its memory: inputs in, sorted segments and the conservation proof out.

Rows that need no merging are read, put in order by packed words (`rows.packed_sort`) and written. No engine, no copy on
disk. Rows that do not fit, or that are merged, go by ranges (`scatter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.segment import TEXT_TYPES, Segment
from carnac.core.time.intervals import Interval
from carnac.errors import Corrupt
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.measure import blame_inputs, measured
from carnac.jobs.compact.read import ReadPlan, chunk_numbers, micros, uncompressed_bytes
from carnac.jobs.compact.shape import InputGroup, ReadUnit
from carnac.jobs.ingest.write_pass import remove_segments
from carnac.rows.merge import SinkWatch, write_rows
from carnac.rows.merge_task import MergeTask
from carnac.rows.parts import CHUNK_COLUMN, split_by_chunk
from carnac.rows.row_hash import add_hashes
from carnac.rows.segment_writer import SegmentWriter
from carnac.rows.sorting import is_sortable, sort_order
from carnac.rows.value_codes import one_array
from carnac.spark.tasks import Attempt
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
        is_whole: Whether the inputs are all segments of the chunks.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The outcome of an input group."""

    segments: tuple[Segment, ...]
    went_in: Side
    came_out: Side


def rewrite_in_memory(
    task: GroupTask, attempt: Attempt, *, make_writer: MakeWriter = SegmentWriter
) -> Rewritten | None:
    """Rewrite the inputs of an input group whose rows need no merging; None if they prove larger than memory.

    Raises:
        Corrupt: As `read_tables`.
        Unavailable: Deep storage is full or does not answer.
    """
    watch = ProofWatch(task.input_group, make_writer)
    went_in = Side()
    tables = _read_all(task, went_in)
    if tables is None:
        return None
    segments: list[Segment] = []
    try:
        for index, (chunk, part) in enumerate(_by_chunk(task.chunks, tables)):
            segments += write_rows(
                merge_task(task, chunk, index),
                part,
                attempt=attempt.number,
                on_rows=lambda rows: attempt.count(rows=rows),
                watch=watch,
            )
        return Rewritten(segments=tuple(segments), went_in=went_in, came_out=watch.side(segments))
    except BaseException:
        remove_segments(segments, task.output_url)
        raise


def needs_no_merge(input_group: InputGroup, target: CompactionTarget) -> bool:
    """Whether rows only need to be put in order, and can be by packed words."""
    if input_group.shape.is_rollup or target.partitioning.kind == "hashed":
        return False
    sort = sort_order(input_group.shape, target.range_dimensions)
    return is_sortable(dict(input_group.shape.segment_columns), sort)


def fits_memory(task: GroupTask) -> bool:
    """Whether a task's memory holds the rows, as the records say."""
    return MEMORY_COPIES * bytes_in_memory(task.input_group) <= task.memory_bytes


def surely_fits(task: GroupTask) -> bool:
    """Whether the rows fit into memory as the records say; where that is a close call, as the files say."""
    input_group, memory_bytes = task.input_group, task.memory_bytes
    if not needs_no_merge(input_group, task.target) or not fits_memory(task):
        return False
    if CLOSE_CALL * MEMORY_COPIES * bytes_in_memory(input_group) <= memory_bytes:
        return True
    encoded = sum(uncompressed_bytes(task.output_url, source) for source in input_group.inputs)
    return MEMORY_COPIES * max(2 * encoded, bytes_in_memory(input_group)) <= memory_bytes


def bytes_in_memory(input_group: InputGroup) -> int:
    """Return about how many bytes the rows of a input group take in memory."""
    width = 8
    for _, kind in input_group.shape.segment_columns:
        width += 4 if kind in TEXT_TYPES else 8
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
    """Return all rows; None if they prove larger than memory, although records and footers said otherwise."""
    tables, size = [], 0
    for unit in task.input_group.units:
        for table in measured(unit, task.plan(unit), side):
            tables.append(table)
            size += table.nbytes
            if MEMORY_COPIES * size > task.memory_bytes:
                return None
    return tables


def _by_chunk(
    chunks: Sequence[Interval], tables: list[pa.Table]
) -> Iterator[tuple[Interval, pa.RecordBatch]]:
    if not tables:
        return
    rows = united(tables)
    tables.clear()
    if len(chunks) == 1:
        yield chunks[0], rows
        return
    numbers = pa.array(chunk_numbers(micros(rows), chunks))
    for number, part in split_by_chunk(rows.append_column(CHUNK_COLUMN, numbers)):
        if number >= 0:
            yield chunks[number], part


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
