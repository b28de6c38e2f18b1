"""The pipeline without Spark: rows in memory become real segment files, in this process.

It is for tests of what stands around a pipeline. It takes rows as they are: no transforms, no rollup, no files to
read. Deletions by predicate run the product's own code. A test holds it against the real pipeline.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from carnac.core.compaction.plan.notes import filter_of
from carnac.core.log.late_ledger import with_late
from carnac.core.segments.lateness import LateCounts, add_counts
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import TIME_COLUMN, ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet, parse_instant
from carnac.errors import CarnacError, Invalid
from carnac.ports import (
    ChunkLayout,
    Clock,
    DeepStorage,
    IdSource,
    JobProgress,
    JobReport,
    JobResult,
    RejectedRows,
    RewriteJob,
    RewriteResult,
    SegmentInput,
    SegmentRewrite,
)
from carnac.ports.places import PlacePlan
from carnac.spark.streams import sources_of
from tests.support.lateness import count_late
from tests.support.segments import write_segment

if TYPE_CHECKING:
    from carnac.rows.segment_writer import SegmentWriter
    from carnac.specs.ingest.spec import IngestSpec

DAY_MS = 86_400_000
NO_TIME = "no time"
Row = Mapping[str, Any]
OnProgress = Callable[[JobProgress], None]


class LocalPipeline:
    """Jobs over rows in memory, run where they are called (a `SparkPipeline` for tests). Safe for threads.

    Rows are dictionaries, an Arrow table, or a pandas or Polars frame; their time is epoch milliseconds, ISO 8601
    text or a datetime. Dimensions are those of the spec, else all other fields of the rows.

    Args:
        make_writer: Makes the writers of rewrites, in place of `SegmentWriter`: one that makes mistakes, for example.
    """

    def __init__(
        self,
        storage: DeepStorage,
        *,
        clock: Clock,
        ids: IdSource,
        make_writer: Callable[..., SegmentWriter] | None = None,
    ) -> None:
        self._make_writer = make_writer
        self._storage = storage
        self._clock = clock
        self._ids = ids

    def start_stream(self, frame: Any, publish: object, **how: object) -> NoReturn:
        """Refuse it as a frame that is no stream: there is no Spark here."""
        del publish, how
        sources_of(frame)
        raise AssertionError(frame)

    def run_ingest(
        self,
        spec: IngestSpec,
        layout: ChunkLayout,
        *,
        rows: object | None = None,
        newest_before_ms: int | None = None,
        on_progress: OnProgress | None = None,
        places: PlacePlan | None = None,
    ) -> JobResult:
        """Cut the rows into the time chunks of the layout and write a segment for each, or several.

        Raises:
            Invalid: The spec asks for what this pipeline does not do, or more rows have no time than it allows.
        """
        _check(spec)
        given = _as_rows(rows)
        timed = [(_time_ms(row, spec), row) for row in given]
        good = [(at_ms, row) for at_ms, row in timed if at_ms is not None]
        rejected = len(given) - len(good)
        limit = spec.tuning.max_parse_exceptions
        if limit is not None and rejected > limit:
            raise Invalid(f"{rejected} rows were rejected and maxParseExceptions allows {limit}")
        wanted = [
            (at_ms, row) for at_ms, row in good if _is_within(at_ms, spec.intervals, layout.within)
        ]
        segments = tuple(self._write(spec, layout, wanted))
        late = _late_by_chunk(segments, wanted, newest_before_ms)
        if on_progress is not None:
            total = len(segments)
            on_progress(JobProgress(phase="write segments", done=total, total=total))
        return JobResult(
            segments=with_late(segments, late, newest_before_ms),
            report=JobReport(
                rows_read=len(given),
                rows_filtered=len(good) - len(wanted),
                rows_written=len(wanted),
                rows_late=sum(add_counts(late.values())),
                rejected=RejectedRows(
                    count=rejected, by_reason={NO_TIME: rejected} if rejected else {}
                ),
                segments=len(segments),
                size_bytes=sum(segment.size_bytes for segment in segments),
                seconds_by_phase={},
            ),
        )

    def run_append(self, spec: IngestSpec, layout: ChunkLayout, **more: Any) -> JobResult:
        """Do what `run_ingest` does."""
        return self.run_ingest(spec, layout, **more)

    def read_condition(self, where: str, columns: Mapping[str, ColumnType]) -> tuple[str, ...]:
        """Check a condition, by the product's own code."""
        from carnac.jobs.delete.predicate import check_predicate, texts_in

        check_predicate(where, columns)
        return texts_in(where)

    def run_delete_where(
        self,
        datasource: str,
        inputs: Sequence[SegmentInput],
        predicate: str,
        *,
        columns: Mapping[str, ColumnType] | None = None,
        searches_hidden: bool = False,
        on_progress: OnProgress | None = None,
    ) -> tuple[SegmentRewrite, ...]:
        """Rewrite the segments that hold rows matching the SQL predicate, and no others."""
        from carnac.jobs.delete.delete import DeleteTask, judging, rewrite_segment
        from carnac.jobs.delete.predicate import check_predicate

        if columns is None:
            columns = unite_columns(source.segment.columns for source in inputs)
        named = check_predicate(predicate, columns)
        rewrites = []
        with tempfile.TemporaryDirectory() as folder:
            for number, source in enumerate(inputs, start=1):
                task = DeleteTask(
                    source=source,
                    predicate=predicate,
                    columns=named,
                    output_url=self._storage.url,
                    path_prefix=f"segments/{datasource}",
                    id_prefix=self._ids.new_id(),
                    created_at_ms=self._clock.now_ms(),
                    temp_dir=f"{folder}/delete",
                    searches_hidden=searches_hidden,
                )
                with judging(task) as judge:
                    found = rewrite_segment(task, judge)
                if found is not None:
                    rewrites.append(found)
                if on_progress is not None:
                    done = JobProgress(phase="rewrite segments", done=number, total=len(inputs))
                    on_progress(done)
        return tuple(rewrites)

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        find_cancel_reason: Callable[[RewriteJob], CarnacError | None] | None = None,
        on_waste: Callable[[RewriteJob, int], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Rewrite the segments of every job, one after the other; one that is under way is not interrupted."""
        del on_waste
        for number, job in enumerate(jobs, start=1):
            reason = find_cancel_reason(job) if find_cancel_reason is not None else None
            on_end(job, reason or self._rewrite(job))
            if on_progress is not None:
                on_progress(JobProgress(phase="rewrite", done=number, total=len(jobs)))

    def _rewrite(self, job: RewriteJob) -> RewriteResult | CarnacError:
        from carnac.jobs.compact.job import find_buckets, result_of
        from carnac.jobs.compact.scatter import rewrite_in_task
        from carnac.jobs.compact.shape import plan_input_groups
        from carnac.jobs.compact.task import GroupTask
        from carnac.rows.segment_writer import SegmentWriter
        from carnac.spark.progress import Tally
        from carnac.spark.tasks import Attempt

        condition = job.target.filter
        if condition and any(filter_of(one.segment) != condition for one in job.inputs):
            return Invalid("the pipeline for tests has no Spark to evaluate a filter; leave it out")
        with tempfile.TemporaryDirectory() as folder:
            try:
                chunks = job.chunks or find_buckets(self._storage.url, job)
                return result_of(
                    [
                        rewrite_in_task(
                            GroupTask(
                                datasource=job.datasource,
                                input_group=input_group,
                                target=job.target,
                                chunks=chunks,
                                output_url=self._storage.url,
                                path_prefix=f"segments/{job.datasource}",
                                id_prefix=self._ids.new_id(),
                                created_at_ms=self._clock.now_ms(),
                                temp_dir=f"{folder}/rewrite",
                                memory_bytes=1 << 30,
                                is_whole=job.is_whole,
                            ),
                            Attempt(0, Tally(None)),
                            make_writer=self._make_writer or SegmentWriter,
                        )
                        for input_group in plan_input_groups(job.inputs, job.target, job.kept_apart)
                    ]
                )
            except CarnacError as error:
                return error

    def read_spark(
        self,
        inputs: Sequence[SegmentInput],
        *,
        columns: Mapping[str, ColumnType] | None = None,
    ) -> object:
        """Refuse: there is no Spark here.

        Raises:
            Invalid: Always.
        """
        raise Invalid(
            f"the pipeline for tests has no Spark to read {len(inputs)} segments; read with SQL"
        )

    def close(self) -> None:
        """Do nothing: nothing was started."""

    def _write(
        self, spec: IngestSpec, layout: ChunkLayout, rows: Sequence[tuple[int, Row]]
    ) -> Iterator[Segment]:
        if not rows:
            return
        granularity = spec.granularity.query_granularity
        types = _types(spec, [row for _, row in rows])
        chunks = _chunks(layout, {at_ms // DAY_MS for at_ms, _ in rows})
        by_chunk: dict[Interval, list[dict[str, Any]]] = defaultdict(list)
        for at_ms, row in sorted(rows, key=lambda pair: pair[0]):
            chunk = next(chunk for chunk in chunks if chunk.holds(at_ms))
            start_ms = max(granularity.bucket(at_ms).start_ms, chunk.start_ms)
            values = {name: _coerced(row.get(name), kind) for name, kind in types.items()}
            by_chunk[chunk].append({TIME_COLUMN: start_ms, **values})
        most = spec.partitions.rows_per_segment or len(rows)
        for chunk, members in sorted(by_chunk.items()):
            for start in range(0, len(members), most):
                segment = write_segment(
                    self._storage,
                    members[start : start + most],
                    datasource=spec.datasource,
                    types=types,
                    segment_id=self._ids.new_id(),
                    chunk=chunk,
                )
                yield replace(
                    segment,
                    query_granularity=str(granularity),
                    sort_columns=(TIME_COLUMN,),
                    created_at_ms=self._clock.now_ms(),
                )


def _late_by_chunk(
    segments: Sequence[Segment], rows: Sequence[tuple[int, Row]], newest_before_ms: int | None
) -> dict[Interval, LateCounts]:
    times = sorted(at_ms for at_ms, _ in rows)
    return {
        chunk: count_late(
            times[bisect_left(times, chunk.start_ms) : bisect_left(times, chunk.end_ms)],
            newest_before_ms,
        )
        for chunk in {segment.chunk for segment in segments}
    }


def _check(spec: IngestSpec) -> None:
    asked = {
        "rollup": spec.rollup != "none",
        "metrics": bool(spec.metrics),
        "transforms": bool(spec.transforms.transforms),
        "a filter": spec.transforms.filter is not None,
        f"{spec.partitions.type} partitions": spec.partitions.type != "dynamic",
    }
    refused = [name for name, is_asked in asked.items() if is_asked]
    if refused:
        raise Invalid(f"the pipeline for tests does not do {', '.join(refused)}")


def _as_rows(rows: object) -> list[Row]:
    if rows is None:
        raise Invalid("the pipeline for tests reads no files; hand the rows over")
    if hasattr(rows, "to_arrow"):  # polars
        rows = rows.to_arrow()
    elif hasattr(rows, "iloc"):  # pandas
        import pyarrow as pa

        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "to_pylist"):
        rows = rows.to_pylist()
    if not isinstance(rows, Sequence):
        raise Invalid(f"rows of type {type(rows).__name__} cannot be read")
    return list(rows)


def _time_ms(row: Row, spec: IngestSpec) -> int | None:
    value = row.get(spec.timestamp.column)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    if isinstance(value, int):
        return value * 1000 if spec.timestamp.format == "posix" else value
    try:
        return parse_instant(value) if isinstance(value, str) else None
    except CarnacError:
        return None


def _is_within(at_ms: int, intervals: IntervalSet, within: IntervalSet | None) -> bool:
    return (not intervals or intervals.holds(at_ms)) and (within is None or within.holds(at_ms))


def _types(spec: IngestSpec, rows: Sequence[Row]) -> dict[str, ColumnType]:
    declared = {
        dimension.name: ColumnType(dimension.type)
        for dimension in spec.dimensions.dimensions
        if dimension.type != "auto"
    }
    if declared or not spec.dimensions.discovers:
        return declared
    found: dict[str, ColumnType] = {}
    for row in rows:
        for name, value in row.items():
            if name != spec.timestamp.column and value is not None:
                found.setdefault(name, _guess(value))
    return found


def _guess(value: object) -> ColumnType:
    if isinstance(value, bool | int):
        return ColumnType.LONG
    return ColumnType.DOUBLE if isinstance(value, float) else ColumnType.STRING


def _coerced(value: Any, kind: ColumnType) -> Any:
    if value is None:
        return None
    match kind:
        case ColumnType.STRING:
            return str(value)
        case ColumnType.LONG:
            return int(value)
        case ColumnType.DOUBLE | ColumnType.FLOAT:
            return float(value)
        case _:
            return value


def _chunks(layout: ChunkLayout, days: set[int]) -> Sequence[Interval]:
    from carnac.rows.parts import ChunkPartitioner

    cut = ChunkPartitioner(layout=layout, newest_before_ms=None, staging_url="")
    return cut.chunks(sorted(days))
