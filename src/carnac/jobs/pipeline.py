"""The data pipeline: jobs over rows, on Spark.

The modules of a job are imported when it runs, since an append in the caller's process takes longer to import than to
write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carnac.core.segments.segment import ColumnType, Segment
from carnac.errors import CarnacError, Invalid
from carnac.jobs.context import JobContext, LocalJobContext, SparkJobContext
from carnac.jobs.ingest.here import of_messages, reader_here
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.read_pass import SplitResult
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
from carnac.ports.distributed import SparkLoad, SparkPlan
from carnac.ports.places import PlacePlan
from carnac.rows.read.inputs import ResolvedInput, resolve_input
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import OnProgress, Phase
from carnac.spark.session import SparkHolder, SparkSettings
from carnac.spark.tasks import Attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from carnac.spark.streams import PublishBatch, Stream
    from carnac.specs.ingest.spec import IngestSpec

DEFAULT_TASK_MEMORY_BYTES = 1 << 30
MAX_TASK_MEMORY_BYTES = 4 << 30
VERIFIED_MAX = 1 << 18
"""Files remembered as whole, at most."""
MEMORY_SHARE = 0.5
"""Share of this machine's memory for all tasks that run at the same time."""


class SparkPipeline:
    """Jobs over rows, run on Spark. Starts no JVM before the first job.

    Safe for threads, statements too.

    Args:
        output_url: Root of deep storage, as `DeepStorage.url` gives it; all executors must reach it.
        task_memory_bytes: Memory that one task may use before it spills; None: by this machine's memory.
        verify_reads: Whether files are compared with their records before Spark reads them for the first time.
        is_lent: Whether the owner of the Spark session stops it, not the pipeline.
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
        is_lent: bool = False,
    ) -> None:
        self._is_lent = is_lent
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
        """Read, parse, transform, roll up, partition, sort and write segment files.

        Args:
            places: Way in which its segments get their places; None: the publication finds them.
            rows: A Spark DataFrame, pandas DataFrame or Arrow table if the spec's input is in memory; the plan that
                Spark runs if it is a statement.
            newest_before_ms: Time of the newest row in the datasource, to count late rows; None if it is empty, or if
                none counts as late.

        Raises:
            Invalid: The spec does not fit the data, or more rows were rejected than `maxParseExceptions` allows.
                Nothing is left behind but the quarantined rows.
            NotFound: An input does not exist.
            Unavailable: Deep storage is full or does not answer.
        """
        self._check_shared_storage()
        if isinstance(rows, SparkLoad):
            for one in rows.externals:
                resolve_input(one.input)  # what is not there is told before Spark starts
            tables = [one.of for one in rows.rows if not isinstance(one.of, str)]
            self._verify([piece.segment for table in tables for piece in table.slices])
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
        """Do what `run_ingest` does, by the same functions, in the caller's process: no JVM, one thread, few rows.

        Args:
            rows: A pandas or Polars DataFrame, Arrow data, or a list of mappings.

        Raises:
            Invalid: As `run_ingest`; or the spec computes what only Spark computes, or there are more than
                `APPEND_ROWS_MAX` rows or `APPEND_BYTES_MAX` bytes: Spark does that.
            NotFound, Unavailable: As `run_ingest`.
        """
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

    def read_condition(self, where: str, columns: Mapping[str, ColumnType]) -> tuple[str, ...]:
        """Check a condition over columns, without Spark; return the texts that it compares with (`texts_in`).

        Raises:
            Invalid: It is none.
        """
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
        """Rewrite the segments that hold rows matching the SQL predicate, and no others.

        Args:
            columns: Columns that the predicate may name; None: the united columns of `inputs`.
            searches_hidden: Whether those count whose matching rows are all hidden; what is written is visible rows.

        Returns:
            One for each input that held a matching row.

        Raises:
            Invalid: The predicate is not valid SQL over the datasource's columns, or fails on a value.
            Corrupt: The file of one of `inputs` is not what its record says.
        """
        from carnac.jobs.delete.job import delete_where

        self._check_shared_storage()
        return delete_where(
            self._context,
            datasource,
            inputs,
            predicate,
            columns=columns,
            searches_hidden=searches_hidden,
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
        """Rewrite the segments of every job; no job waits for another, and none fails because another does.

        Args:
            on_end: Called once for each job as soon as it has ended, from any thread, with its result, or with the
                error for which it wrote nothing (its files are gone then). An exception that it raises ends the call.
            find_cancel_reason: Called now and then for each job. If it returns an error, the job has become useless; it
                is cancelled at once and ends with that error.
            on_waste: Called before `on_end` for a job that wrote nothing in the end but had begun to: with the bytes
                of its files that were there, staged parts included.

        Raises:
            Unavailable: Spark does not start.
        """
        from carnac.jobs.compact.job import RewriteRun

        self._check_shared_storage()
        RewriteRun(
            self._context,
            jobs,
            on_end=on_end,
            find_cancel_reason=find_cancel_reason,
            on_waste=on_waste,
            on_progress=on_progress,
        ).run()

    def start_stream(
        self,
        frame: DataFrame,
        publish: PublishBatch,
        *,
        position: Mapping[str, str],
        trigger: str | None,
    ) -> Stream:
        """Start a stream that goes on from a position, and has each of its batches published.

        Raises:
            Invalid: The stream cannot go on from a position, or the position is of other sources.
        """
        from carnac.spark.streams import Stream

        self._holder.adopt(frame.sparkSession)
        return Stream(
            frame,
            publish,
            position=position,
            trigger=trigger,
            unique=self._here.ids.new_id(),
            keep_log=self._holder.keep_log,
        )

    def read_spark(
        self,
        inputs: Sequence[SegmentInput],
        *,
        columns: Mapping[str, ColumnType] | None = None,
    ) -> DataFrame:
        """Return a Spark DataFrame over the visible rows, schemas united by name, sketches as binary.

        Args:
            columns: Columns that it has besides `__time`; None: the united columns of `inputs`.
        """
        from carnac.jobs.read_back import frame_of

        self._check_shared_storage()
        session = self._holder.session()
        self._verify([source.segment for source in inputs])
        with hold_signals(self._holder.end_jvm):
            return frame_of(session, inputs, self._context.output_url, columns=columns)

    def warm(self) -> None:
        """Start Spark, if it does not run.

        Raises:
            Unavailable: Spark does not start.
        """
        self._holder.session()

    def run_statement(
        self, plan: SparkPlan, *, stop: Callable[[], CarnacError | None]
    ) -> Iterator[object]:
        """Yield the rows of a planned statement in order, as `pyarrow.RecordBatch`es of bounded size.

        Closing the iterator stops the statement.

        Args:
            stop: Called now and then; an error that it returns ends the statement.

        Raises:
            Invalid: Spark refuses the statement, or it fails for some row.
            Unavailable: Spark failed, or does not start. Else as a segment's file is read.
        """
        from carnac.jobs.statements import run_statement

        self._check_shared_storage()
        self._verify([one.segment for table in plan.scans for one in table.slices])
        yield from run_statement(
            self._holder, plan, self._context.output_url, self._context.clock, stop
        )

    def _verify(self, segments: Sequence[Segment]) -> None:
        """Refuse damaged files, each looked at once by this pipeline: Spark's reader would not notice."""
        from carnac.jobs.bins import MAX_BYTES_PER_BIN, into_bins

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
        if not self._is_lent:
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
    from carnac.jobs.compact.read import segment_file

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
    if isinstance(rows, ResolvedInput):
        files = partial(read_transformed, rows=None) if spec.has_expressions else read_files
        return of_messages(rows, files)
    if isinstance(rows, SparkLoad):
        from carnac.jobs.ingest.statement_rows import read_statement

        return partial(read_statement, load=rows)
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
