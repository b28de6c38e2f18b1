"""Where a rewrite that several tasks share is cut: by ranges of the first sort column, or by hash buckets.

The cuts come from what the records of the inputs say of that column's bounds (times) or from a sample of its values.
Rows of one key never part: all its rows have one value in the column, and one bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments.segment import NUMBER_TYPES, TEXT_TYPES, TIME_COLUMN, ColumnType
from carnac.core.time.intervals import Interval
from carnac.jobs.compact.read import micros, read_tables
from carnac.jobs.compact.task import MEMORY_COPIES, GroupTask, bytes_in_memory
from carnac.ports import SegmentInput
from carnac.rows.cutting import bucket_sql
from carnac.rows.normalise.shape import RowShape
from carnac.rows.packed_sort import as_uint64
from carnac.rows.read.direct import are_within
from carnac.rows.sorting import sort_order
from carnac.rows.value_codes import one_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ranges = NDArray[np.int64]

RANGES_PER_SEGMENT = 8
MAX_RANGES = 512
SKEW = 2
"""Factor by which the largest range may exceed the average one and still fit."""
SAMPLE_INPUTS, SAMPLE_GROUPS, SAMPLE_ROWS = 8, 128, 160_000
"""How much is looked at to choose the cuts of a column whose values records say too little of: row groups all over the
largest inputs, since rows may be sorted by that very column."""
_NUMBERS = NUMBER_TYPES | {ColumnType.BOOLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The cuts between rows: ranges of a column, or hash buckets. Picklable.

    Attributes:
        column: Column that is cut into ranges.
        edges: Lower bounds of all ranges but the first, ascending: times in microseconds, texts as bytes, numbers as
            `packed_sort.as_uint64` has them.
        buckets: Number of hash buckets, for each time chunk.
        dimensions: Dimensions that are hashed; empty: all.
    """

    column: str | None = None
    edges: tuple[Any, ...] = ()
    buckets: tuple[int, ...] = ()
    dimensions: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Into how many ranges a time chunk is cut at most."""
        return max(self.buckets) if self.buckets else len(self.edges) + 1


def choose_cuts(task: GroupTask) -> Cuts:
    """Return how the rows of an input group are cut: into ranges so narrow that a task's memory holds one."""
    partitioning = task.target.partitioning
    if partitioning.kind == "hashed":
        return Cuts(buckets=_buckets(task), dimensions=partitioning.dimensions)
    column = cut_column(task)
    if not is_cuttable(task):
        return Cuts(column=column)
    rows = sum(source.segment.rows for source in task.input_group.inputs)
    if column == TIME_COLUMN:
        return Cuts(column=column, edges=_time_cuts(task.input_group.inputs, _ranges(task, rows)))
    ranges = _ranges(
        task, max(rows_by_chunk(task.input_group.inputs, task.chunks))
    )  # each has as many
    values = _sample(task, column)
    if not len(values):
        return Cuts(column=column)
    places = np.linspace(0, len(values), ranges + 1)[1:-1].astype(np.int64)
    return Cuts(column=column, edges=tuple(np.unique(values[places]).tolist()))


def _ranges(task: GroupTask, rows: float) -> int:
    """Return into how many ranges so many rows are cut."""
    whole = sum(source.segment.rows for source in task.input_group.inputs)
    bytes_once = SKEW * MEMORY_COPIES * bytes_in_memory(task.input_group) * rows / max(whole, 1)
    segments, memories = rows / task.target.target_rows, bytes_once / task.memory_bytes
    if max(segments, memories) <= 1:
        return 1
    return min(MAX_RANGES, max(RANGES_PER_SEGMENT * ceil(segments), ceil(memories)))


def cut_column(task: GroupTask) -> str:
    """Return the column whose ranges are shared out."""
    shape = task.input_group.shape
    column = sort_order(shape, task.target.range_dimensions)[0]
    is_key = column == TIME_COLUMN or column in shape.dimension_names
    return column if is_key or not shape.is_rollup else TIME_COLUMN


def is_cuttable(task: GroupTask) -> bool:
    """Whether rows can be told apart by ranges of a column: not by lists, and not where all are one range of nulls."""
    shape, column = task.input_group.shape, cut_column(task)
    ranges = task.target.range_dimensions
    if ranges and all(name in shape.absent for name in ranges):
        return False
    return column == TIME_COLUMN or dict(shape.segment_columns)[column] in TEXT_TYPES | _NUMBERS


def _buckets(task: GroupTask) -> tuple[int, ...]:
    """Return the number of hash buckets of each time chunk: that of the target, else one by the rows of the inputs."""
    wanted = task.target.partitioning.buckets
    if wanted is not None:
        return (wanted,) * len(task.chunks)
    return tuple(
        max(1, -(-round(rows) // task.target.target_rows))
        for rows in rows_by_chunk(task.input_group.inputs, task.chunks)
    )


def rows_by_chunk(inputs: Sequence[SegmentInput], chunks: Sequence[Interval]) -> list[float]:
    """Return about how many visible rows are in each chunk, as if the rows of a segment were spread evenly.

    Args:
        chunks: Disjoint, in order of time.
    """
    at_ms, slopes = [], []
    for source in inputs:
        span = source.segment.span
        density = source.segment.rows / span.duration_ms
        for piece in source.visible:
            shown = piece.intersect(span)
            if shown is not None:
                at_ms += [shown.start_ms, shown.end_ms]
                slopes += [density, -density]
    if not at_ms:
        return [0.0] * len(chunks)
    order = np.argsort(np.array(at_ms, np.int64), kind="stable")
    times = np.array(at_ms, np.float64)[order]
    slope = np.cumsum(np.array(slopes)[order])
    upto = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(times))))
    starts = np.interp([chunk.start_ms for chunk in chunks], times, upto)
    ends = np.interp([chunk.end_ms for chunk in chunks], times, upto)
    found: list[float] = (ends - starts).tolist()
    return found


def _sample_rows(task: GroupTask) -> int:
    """Return how many values memory has room for beside the rows of one input: texts may be long."""
    rows = sum(source.segment.rows for source in task.input_group.inputs)
    row_bytes = bytes_in_memory(task.input_group) // max(rows, 1)
    return min(SAMPLE_ROWS, max(MAX_RANGES, task.memory_bytes // (MEMORY_COPIES * row_bytes)))


def _sample(task: GroupTask, column: str) -> Any:
    """Return some values of a column, not null, in order, as edges are."""
    kind = dict(task.input_group.shape.segment_columns)[column]
    found = [np.empty(0, object if kind in TEXT_TYPES else np.uint64)]
    inputs = [
        (task.plan(unit), source)
        for unit in task.input_group.units
        if column in dict(unit.read_columns)
        for source in unit.inputs
    ]
    inputs.sort(key=lambda one: -one[1].segment.rows)
    inputs = inputs[:SAMPLE_INPUTS]
    rows = sum(source.segment.rows for _, source in inputs)
    step = -(-rows // _sample_rows(task))
    for plan, source in inputs:
        narrow = replace(
            plan,
            columns=((column, kind),),
            truncate_to=None,
            keeps_exact=False,
            is_survey=True,
        )
        groups = max(1, SAMPLE_GROUPS * source.segment.rows // rows)
        for table in read_tables(narrow, source, most_groups=groups):
            array = one_array(table.column(column))
            array = array.take(pa.array(np.arange(0, len(array), step))).drop_null()
            if pa.types.is_dictionary(array.type):
                found.append(np.array([word.encode() for word in array.to_pylist()], object))
            else:
                found.append(as_uint64(array))
    return np.sort(np.concatenate(found))


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


def range_of(
    cuts: Cuts, shape: RowShape, chunks: Sequence[Interval], parts: pa.RecordBatch
) -> Ranges:
    """Return the number of the range or bucket that each row is in; nulls are in the first range."""
    if cuts.buckets:
        return _bucket_of(cuts, shape, chunks, parts)
    if cuts.column is None or not cuts.edges:
        return np.zeros(parts.num_rows, np.int64)
    if cuts.column == TIME_COLUMN:
        found = np.searchsorted(np.array(cuts.edges, np.int64), micros(parts), side="right")
        return np.asarray(found, np.int64)
    column = parts.column(cuts.column)
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        edges = np.array(cuts.edges, np.uint64)
        places = np.searchsorted(edges, as_uint64(column), side="right").astype(np.int64)
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return np.where(is_null, 0, places)
    words = np.array([word.encode() for word in column.dictionary.to_pylist()] or [b""], object)
    places = np.searchsorted(np.array(cuts.edges, object), words, side="right").astype(np.int64)
    indices = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    ranges: Ranges = np.where(indices < 0, 0, places[np.maximum(indices, 0)])
    return ranges


def _bucket_of(
    cuts: Cuts, shape: RowShape, chunks: Sequence[Interval], parts: pa.RecordBatch
) -> Ranges:
    import duckdb

    found = np.zeros(parts.num_rows, np.int64)
    names = [name for name in cuts.dimensions or shape.dimension_names if name not in shape.absent]
    times = micros(parts)
    with duckdb.connect(config={"threads": 1, "preserve_insertion_order": True}) as con:
        con.register("parts", pa.Table.from_batches([parts.select(names) if names else parts]))
        for count in set(cuts.buckets):
            sql = bucket_sql(shape, cuts.dimensions, count)
            buckets = con.sql(f"SELECT {sql} AS b FROM parts").to_arrow_table()
            numbers = one_array(buckets.column("b")).to_numpy()
            for chunk, wanted in zip(chunks, cuts.buckets, strict=True):
                if wanted == count:
                    inside = are_within(times, [chunk])
                    found[inside] = numbers[inside]
    return found
