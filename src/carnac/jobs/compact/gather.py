"""The second half of a rewrite by ranges: part files of neighbouring ranges become segments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from carnac.core.segments.segment import Scalar, Segment
from carnac.core.time.intervals import Interval
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.task import GroupTask, MakeWriter, ProofWatch, merge_task
from carnac.jobs.ingest.write_pass import remove_segments
from carnac.rows.cutting import values_at
from carnac.rows.merge import merge_parts
from carnac.rows.merge_task import Part
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
        self._dimensions = task.range_dimensions
        self.start: tuple[Scalar, ...] | None = None

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.start is None and self._dimensions and rows.num_rows:
            self.start = values_at(rows, 0, self._dimensions)
        return super().see(rows)
