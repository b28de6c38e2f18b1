"""The second half of a rewrite that several tasks share: part files of neighbouring ranges become segments.

Rows that need no merging are put in order range by range, in memory, which holds one range at a time: the ranges follow
one another in the order of the rows. Everything else goes through the merge that ingestions use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from carnac.core.segments.segment import ColumnType, Scalar, Segment
from carnac.core.time.intervals import Interval
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.task import (
    MEMORY_COPIES,
    GroupTask,
    MakeWriter,
    ProofWatch,
    bytes_in_memory,
    cut_pieces,
    in_order,
    is_sortable,
    merge_task,
    remove_folder,
    remove_written,
    united,
)
from carnac.rows.cutting import even_rows, values_at
from carnac.rows.merge import SegmentSink, merge_parts
from carnac.rows.merge_task import segment_id
from carnac.rows.output import local_root
from carnac.rows.segment_writer import SegmentWriter
from carnac.rows.sorting import sort_order
from carnac.spark.tasks import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Part files that become segments of one time chunk. Picklable.

    Attributes:
        ranges: Paths of the part files of each range, in order.
        rows: In each range.
    """

    task: GroupTask
    chunk: Interval
    index: int
    ranges: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a gather task wrote.

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

    def on_rows(rows: int) -> None:
        attempt.count(rows=rows)

    if _fits_by_range(task):
        segments = _gather_in_order(task, attempt.number, watch, on_rows)
    else:
        paths = tuple(sorted(path for paths in task.ranges for path in paths))
        merge = replace(merge_task(task.task, task.chunk, task.index), parts=paths)
        segments = merge_parts(merge, attempt=attempt.number, on_rows=on_rows, watch=watch)
    try:
        return Gathered(segments=segments, side=watch.side(segments), start=watch.start)
    except BaseException:
        remove_written(task.task.output_url, segments)
        raise


class _FirstRow(ProofWatch):
    """Remembers the range dimensions of the first row."""

    def __init__(self, task: GroupTask, make_writer: MakeWriter) -> None:
        super().__init__(task.input_group, make_writer)
        self._dimensions = task.range_dimensions
        self.start: tuple[Scalar, ...] | None = None

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.start is None and self._dimensions and rows.num_rows:
            self.start = values_at(rows, 0, self._dimensions)
        return super().see(rows)


def _fits_by_range(task: GatherTask) -> bool:
    """Whether rows only need to be put in order, and memory holds every range."""
    input_group = task.task.input_group
    if not is_sortable(input_group, task.task.target):
        return False
    rows = sum(source.segment.rows for source in input_group.inputs)
    row_bytes = bytes_in_memory(input_group) / max(rows, 1)
    return MEMORY_COPIES * row_bytes * max(task.rows) <= task.task.memory_bytes


def _gather_in_order(
    task: GatherTask, attempt: int, watch: ProofWatch, on_rows: Callable[[int], None]
) -> tuple[Segment, ...]:
    merge = merge_task(task.task, task.chunk, task.index)
    temp_dir = Path(task.task.temp_dir) / segment_id(merge.id_prefix, attempt, 0)
    sink = SegmentSink(merge, attempt=attempt, temp_dir=str(temp_dir), on_rows=on_rows, watch=watch)
    sort = sort_order(merge.shape, task.task.range_dimensions)
    limit = even_rows(sum(task.rows), task.task.target.target_rows)
    try:
        pieces = cut_pieces(_batches(task, sort), task.task.target, limit)
        return sink.write_all(pieces, sort, None)
    except BaseException:
        sink.remove_all()
        raise
    finally:
        remove_folder(temp_dir)


def _batches(task: GatherTask, sort: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    columns = task.task.input_group.shape.segment_columns
    words = [name for name, kind in columns if kind in {ColumnType.STRING, ColumnType.JSON}]
    for paths in task.ranges:
        yield from in_order(united([_read(path, words) for path in paths]), sort)


def _read(path: str, words: list[str]) -> pa.Table:
    root = local_root(path)
    if root is not None:
        with pa.OSFile(str(root), "rb") as local:
            file = pq.ParquetFile(local, read_dictionary=words, pre_buffer=False)
            return file.read(use_threads=False)
    import fsspec

    with fsspec.open(path, "rb") as file:
        return pq.read_table(file, use_threads=False, read_dictionary=words)
