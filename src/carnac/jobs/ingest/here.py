"""Pass 1 in the caller's process, for few rows: the functions of the tasks, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.jobs.ingest.computing import read_files_here, read_table_here
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.read_pass import SplitResult
from carnac.jobs.ingest.readers import (
    SliceTask,
    check_input,
    discover_in_table,
    read_files,
    read_rows,
)
from carnac.ports.jobs import APPEND_BYTES_MAX, APPEND_ROWS_MAX
from carnac.rows.read.inputs import ResolvedInput, resolve_input
from carnac.rows.read.tables import arrow_table

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.specs.ingest.spec import IngestSpec

Read = Callable[[IngestJob], Sequence[SplitResult]]


def reader_here(spec: IngestSpec, rows: object | None) -> Read:
    """Return how pass 1 is run in the caller's process.

    Raises:
        Invalid: The spec or the rows are for Spark, or they do not go together.
        NotFound: A file does not exist.
    """
    check_input(spec, rows)
    if isinstance(rows, ResolvedInput):
        _check_bytes(sum(file.size_bytes for file in rows.files))
        return of_messages(rows, read_files_here if spec.has_expressions else read_files)
    if rows is None:
        size_bytes = sum(file.size_bytes for file in resolve_input(spec.input).files)
        _check_bytes(size_bytes)
        read = read_files_here if spec.has_expressions else read_files
        return lambda job: _counted(read(job))
    if type(rows).__module__.startswith("pyspark."):
        raise Invalid("append takes no Spark DataFrame, which is read on Spark; use ingest")
    table = arrow_table(rows)
    _check_bytes(table.nbytes)
    _check_rows(table.num_rows)
    if spec.has_expressions:
        return lambda job: read_table_here(job, table)
    return lambda job: _read_table(job, table)


def of_messages(messages: ResolvedInput, read: Read) -> Read:
    """Return the reader of files for parts of a stream."""

    def run(job: IngestJob) -> Sequence[SplitResult]:
        job.messages = messages
        return read(job)

    return run


def _read_table(job: IngestJob, table: pa.Table) -> Sequence[SplitResult]:
    job.look = partial(discover_in_table, job, table.schema)
    job.look_if_needed()
    task = SliceTask(
        common=job.common(tasks=1),
        path="",
        first_row=1,
        timestamp=job.spec.timestamp,
        within=job.within,
    )
    job.timer.lap("plan")
    return job.run_tasks("read", lambda one, attempt: read_rows(one, table, attempt), [task])


def _counted(results: Sequence[SplitResult]) -> Sequence[SplitResult]:
    _check_rows(sum(result.counts.rows_read for result in results))
    return results


def _check_rows(rows: int) -> None:
    if rows > APPEND_ROWS_MAX:
        raise Invalid(
            f"{rows:,} rows are more than the {APPEND_ROWS_MAX:,} that append takes; use ingest, which runs on Spark"
        )


def _check_bytes(size_bytes: int) -> None:
    if size_bytes > APPEND_BYTES_MAX:
        raise Invalid(
            f"an input of {size_bytes / 1e6:,.0f} MB is more than the {APPEND_BYTES_MAX / 1e6:,.0f} MB that append"
            " takes; use ingest, which runs on Spark"
        )
