"""The port `DataPipeline`, on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.segments.segment import ColumnType, Segment
from carnac.errors import CarnacError, Invalid
from carnac.jobs.bins import MAX_BYTES_PER_BIN, into_bins
from carnac.jobs.compact.job import RewriteRun
from carnac.jobs.compact.read import segment_file
from carnac.jobs.context import JobContext, LocalJobContext, SparkJobContext
from carnac.jobs.delete.job import delete_where
from carnac.jobs.ingest.here import reader_here
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.read_pass import SplitResult
from carnac.jobs.read_back import frame_of
from carnac.jobs.statements import run_statement
from carnac.ports import (
    ChunkLayout,
    Clock,
    IdSource,
    JobResult,
    RewriteJob,
    RewriteResult,
    SegmentInput,
    SegmentRewrite,
)
from carnac.ports.distributed import SparkPlan
from carnac.ports.places import PlacePlan
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import OnProgress, Phase
from carnac.spark.session import SparkHolder, SparkSettings
from carnac.spark.tasks import Attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from carnac.specs.ingest.spec import IngestSpec

DEFAULT_TASK_MEMORY_BYTES = 1 << 30
MAX_TASK_MEMORY_BYTES = 4 << 30
VERIFIED_MAX = 1 << 18
"""Files remembered as whole, at most."""
MEMORY_SHARE = 0.5
"""Share of this machine's memory for all tasks that run at the same time."""


class SparkPipeline:
    """Jobs over rows, run on Spark. Starts no JVM before the first job.

    Args:
        output_url: Root of deep storage, as `DeepStorage.url` gives it; all executors must reach it.
        task_memory_bytes: What one task may hold in memory before it spills; None: by this machine's memory.
        verify_reads: Whether files are compared with their records before Spark reads them for the first time.
    """

    def __init__(
        self,
        *,
        output_url: str,
        clock: Clock,
        ids: IdSource,
        spark: SparkSettings | SparkHolder,
        task_memory_bytes: int | None = None,
        verify_reads: bool = True,
    ) -> None:
        self._verified: dict[str, str] | None = {} if verify_reads else None
        self._holder = spark if isinstance(spark, SparkHolder) else SparkHolder(spark)
        memory_bytes = task_memory_bytes or default_task_memory_bytes()
        self._context: JobContext = SparkJobContext(
            holder=self._holder,
            clock=clock,
            ids=ids,
            output_url=output_url,
            task_memory_bytes=memory_bytes,
        )
        self._here = LocalJobContext(
            clock=clock,
            ids=ids,
            output_url=output_url,
            task_memory_bytes=memory_bytes,
        )

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
        """Read, parse, transform, roll up, partition, sort and write segment files."""
        self._check_shared_storage()
        job = IngestJob(
            self._context,
            spec,
            layout,
            newest_before_ms=newest_before_ms,
            on_progress=on_progress,
            places=places,
        )
        return job.run(_reader(spec, rows))

    def run_append(
        self,
        spec: IngestSpec,
        layout: ChunkLayout,
        *,
        rows: object | None = None,
        newest_before_ms: int | None = None,
        places: PlacePlan | None = None,
    ) -> JobResult:
        """Do what `run_ingest` does, by the same functions, in the caller's process."""
        job = IngestJob(
            self._here,
            spec,
            layout,
            newest_before_ms=newest_before_ms,
            on_progress=None,
            places=places,
        )
        read = reader_here(spec, rows)
        with self._here.together():
            return job.run(read)

    def run_delete_where(
        self,
        datasource: str,
        inputs: Sequence[SegmentInput],
        predicate: str,
        *,
        columns: Mapping[str, ColumnType] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[SegmentRewrite, ...]:
        """Rewrite the segments that hold rows matching the SQL predicate, and no others."""
        self._check_shared_storage()
        return delete_where(
            self._context,
            datasource,
            inputs,
            predicate,
            columns=columns,
            on_progress=on_progress,
        )

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        find_cancel_reason: Callable[[RewriteJob], CarnacError | None] | None = None,
        on_waste: Callable[[RewriteJob, int], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Rewrite the segments of every job; no job waits for another."""
        self._check_shared_storage()
        RewriteRun(
            self._context,
            jobs,
            on_end=on_end,
            find_cancel_reason=find_cancel_reason,
            on_waste=on_waste,
            on_progress=on_progress,
        ).run()

    def read_spark(
        self,
        inputs: Sequence[SegmentInput],
        *,
        columns: Mapping[str, ColumnType] | None = None,
    ) -> DataFrame:
        """Return a Spark DataFrame over the visible rows."""
        self._check_shared_storage()
        session = self._holder.session()
        self._verify([source.segment for source in inputs])
        with hold_signals(self._holder.end_jvm):
            return frame_of(session, inputs, self._context.output_url, columns=columns)

    def warm(self) -> None:
        """Start Spark, if it does not run (port `SparkRunner`)."""
        self._holder.session()

    def run_statement(
        self, plan: SparkPlan, *, stop: Callable[[], CarnacError | None]
    ) -> Iterator[object]:
        """Yield the rows of a statement (port `SparkRunner`)."""
        self._check_shared_storage()
        self._verify([one.segment for table in plan.scans for one in table.slices])
        yield from run_statement(
            self._holder, plan, self._context.output_url, self._context.clock, stop
        )

    def _verify(self, segments: Sequence[Segment]) -> None:
        """Refuse damaged files, each looked at once by this pipeline: Spark's reader would not notice."""
        known = self._verified
        if known is None:
            return
        fresh = [one for one in segments if known.get(one.segment_id) != one.checksum]
        bins = into_bins(
            fresh,
            lambda one: one.size_bytes,
            cores=self._context.cores(),
            most=MAX_BYTES_PER_BIN,
        )
        self._context.run(
            _check_files,
            [(self._context.output_url, tuple(some)) for some in bins],
            phase=Phase(name="check files", total=len(bins)),
        )
        if len(known) + len(fresh) > VERIFIED_MAX:
            known.clear()
        known.update((one.segment_id, one.checksum) for one in fresh[:VERIFIED_MAX])

    def close(self) -> None:
        """Stop Spark if it was started here. Idempotent."""
        self._holder.close()

    def _check_shared_storage(self) -> None:
        if self._context.output_url.startswith("memory:"):
            raise Invalid(
                "Spark's processes cannot reach deep storage in memory; use a directory or an object store"
            )


def _check_files(task: tuple[str, Sequence[Segment]], attempt: Attempt) -> None:
    """Refuse segment files that are not what their records say: a task of Spark.

    Args:
        task: Root of deep storage, and segments.

    Raises:
        Corrupt, Unavailable: As `segment_file`.
    """
    output_url, segments = task
    for segment in segments:
        with segment_file(output_url, segment):
            attempt.count(rows=segment.rows)


def _reader(spec: IngestSpec, rows: object | None) -> Callable[[IngestJob], Sequence[SplitResult]]:
    """Return how pass 1 is run for this input.

    Raises:
        Invalid: The rows are missing, or there are rows and the spec names an input too.
    """
    from carnac.jobs.ingest.readers import check_input, read_files, read_table
    from carnac.jobs.ingest.spark_rows import is_spark_frame, read_transformed
    from carnac.rows.read.tables import arrow_table

    check_input(spec, rows)
    if rows is not None and (is_spark_frame(rows) or spec.has_expressions):
        return lambda job: read_transformed(job, rows)
    if spec.has_expressions:
        return lambda job: read_transformed(job, None)
    if rows is not None:
        table = arrow_table(rows)
        return lambda job: read_table(job, table)
    return read_files


def default_task_memory_bytes() -> int:
    """Return what a task may hold in memory, if as many run here as there are cores."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return DEFAULT_TASK_MEMORY_BYTES
    share = int(total * MEMORY_SHARE) // (os.cpu_count() or 1)
    return max(DEFAULT_TASK_MEMORY_BYTES // 2, min(MAX_TASK_MEMORY_BYTES, share))
