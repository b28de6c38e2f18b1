"""Data jobs without Spark: the functions of its tasks, one after the other in the caller's thread."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval
from carnac.jobs.context import LocalJobContext
from carnac.jobs.delete.delete import DeleteTask, judging
from carnac.jobs.ingest.ingest import SEGMENTS_FOLDER
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import (
    ChunkLayout,
    Clock,
    IdSource,
    JobReport,
    JobResult,
    RejectedRows,
    SegmentRewrite,
)
from carnac.ports.places import LockFirst, NumberOwn
from carnac.rows.segment_writer import SegmentWriter, segment_schema
from carnac.spark.session import SparkSettings

if TYPE_CHECKING:
    from carnac.ports.places import PlacePlan
    from carnac.specs.ingest.inputs import InlineInput
    from carnac.specs.ingest.spec import IngestSpec

TASK_MEMORY_BYTES = 256 << 20


_JUDGES: list[tuple[ExitStack, Any]] = []
"""Connections that judge rows for deletes and wait for the next one, of any simulation: they keep nothing."""


@contextmanager
def judging_again(task: DeleteTask, *, attempt: int = 0) -> Iterator[Any]:
    """Yield a connection that judges: one that did so before, if there is any."""
    if _JUDGES:
        opened, judge = _JUDGES.pop()
    else:
        opened = ExitStack()
        judge = opened.enter_context(judging(task, attempt=attempt))
    yield judge  # a process that is killed meanwhile takes it along
    judge.unregister("rows")
    _JUDGES.append((opened, judge))


class TasksHere(SparkPipeline):
    """Jobs over few rows, without those that only Spark can do.

    Args:
        take_time: Called at the beginning of each job but appends in the caller's process.
    """

    def __init__(
        self,
        *,
        output_url: str,
        clock: Clock,
        ids: IdSource,
        take_time: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(
            output_url=output_url,
            clock=clock,
            ids=ids,
            spark=SparkSettings(),
            task_memory_bytes=TASK_MEMORY_BYTES,
        )
        self._take_time = take_time
        self._context = LocalJobContext(
            clock=clock, ids=ids, output_url=output_url, task_memory_bytes=TASK_MEMORY_BYTES
        )

    def run_append(
        self,
        spec: IngestSpec,
        layout: ChunkLayout,
        *,
        rows: object | None = None,
        places: PlacePlan | None = None,
        **_: Any,
    ) -> JobResult:
        """Write a segment file for each time chunk, without the machinery that reads what people have."""
        given = _rows_of(spec) if rows is None else cast("Sequence[Mapping[str, int]]", rows)
        granularity = parse_granularity(layout.segment_granularity)
        by_chunk: dict[Interval, list[Mapping[str, int]]] = defaultdict(list)
        for row in sorted(given, key=lambda one: one[spec.timestamp.column]):
            at_ms = row[spec.timestamp.column]
            held = [one for one in layout.existing if one.holds(at_ms)]
            by_chunk[held[0] if held else granularity.bucket(at_ms)].append(row)
        if isinstance(places, LockFirst | NumberOwn):
            places.begin(sorted(by_chunk))
        segments = tuple(self._write(spec, chunk, by_chunk[chunk]) for chunk in sorted(by_chunk))
        report = JobReport(
            rows_read=len(given),
            rows_filtered=0,
            rows_written=len(given),
            rows_late=0,
            rejected=RejectedRows(count=0, by_reason={}),
            segments=len(segments),
            size_bytes=sum(one.size_bytes for one in segments),
            seconds_by_phase={},
        )
        return JobResult(segments=segments, report=report)

    def run_ingest(self, *what: Any, **how: Any) -> JobResult:
        """Write as `run_append` does."""
        self._take_time()
        return self.run_append(*what, **how)

    def run_delete_where(self, *what: Any, **how: Any) -> tuple[SegmentRewrite, ...]:
        """Rewrite the segments that hold rows matching a predicate."""
        self._take_time()
        return super().run_delete_where(*what, **how)

    def run_rewrites(self, *what: Any, **how: Any) -> None:
        """Rewrite the segments of every job."""
        self._take_time()
        super().run_rewrites(*what, **how)

    def _write(
        self, spec: IngestSpec, chunk: Interval, rows: Sequence[Mapping[str, int]]
    ) -> Segment:
        here = self._context
        segment_id = here.ids.new_id()
        path = f"{SEGMENTS_FOLDER}/{spec.datasource}/{segment_id}.parquet"
        names = [name for name in rows[0] if name != spec.timestamp.column]
        columns = tuple((name, ColumnType.LONG) for name in names)
        schema = segment_schema(columns)
        times = pa.array([row[spec.timestamp.column] * 1000 for row in rows], pa.int64())
        arrays = [times.cast(schema.field(0).type)]
        arrays += [pa.array([row[name] for row in rows], pa.int64()) for name in names]
        with SegmentWriter(
            here.output_url, path, columns, temp_dir=here.scratch(segment_id)
        ) as writer:
            writer.write(pa.Table.from_arrays(arrays, schema=schema))
            written = writer.finish()
        return Segment(
            segment_id=segment_id,
            datasource=spec.datasource,
            chunk=chunk,
            path=path,
            input_rows=written.rows,
            sort_columns=(TIME_COLUMN,),
            created_at_ms=here.clock.now_ms(),
            **written.facts(),
        )


def _rows_of(spec: IngestSpec) -> Sequence[Mapping[str, int]]:
    """Return the rows that are written into a spec."""
    return [json.loads(line) for line in cast("InlineInput", spec.input).data.splitlines()]
