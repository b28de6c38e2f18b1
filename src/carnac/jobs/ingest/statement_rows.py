"""The front end for a SELECT statement: expressions of one row run where rows are read, the rest on Spark.

    external table  → [read lines, cells; DuckDB's expressions]  ┐
    datasource      → Spark reads → [DuckDB's expressions]       ┴→ joins, groups, … → [rows → parts]

Square brackets are Python workers. The workers that read external tables leave their findings in the staging folder,
since joins and groups stand between them and the end. So rows that could not be read are counted and kept all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.texts import first_line
from carnac.core.words import counted
from carnac.errors import Invalid, Unavailable
from carnac.jobs.ingest.computing import arrays_in
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.parsing import BATCH_ROWS, Parsed, parsed_rows
from carnac.jobs.ingest.read_pass import PassOne, SplitResult, SplitTask, widen
from carnac.jobs.ingest.readers import reads_of, split_tasks
from carnac.jobs.ingest.second_half import Batches
from carnac.jobs.ingest.spark_expressions import Transformed, map_batches
from carnac.jobs.ingest.spark_rows import (
    finish,
    holder_of,
    look_at,
    run_line,
    set_session,
    watch_of,
)
from carnac.jobs.read_back import frame_of
from carnac.jobs.statements import STATEMENT_SETTINGS, inputs_of, is_of_statement
from carnac.ports.distributed import SOURCE_ROWS, SparkLoad, SparkRows
from carnac.rows.duck import translated
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.parts import open_staged, staged_files
from carnac.rows.read.inputs import resolve_input
from carnac.rows.read.reading import ReadCounts
from carnac.rows.read.rejections import Rejections
from carnac.spark.failures import TaskFailure, of_spark
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import Tally
from carnac.spark.schemas import arrow_schema
from carnac.spark.session import reason_of
from carnac.spark.tasks import attempt_number, batches_of
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from carnac.specs.sql.external import External

_NO_TIME = TimestampSpec(column="__carnac_no_field", missing_value="1970-01-01T00:00:00Z")
"""How rows of a table are read in which no column is the time."""
_OWN_TIME = TimestampSpec(column=TIME_COLUMN, format="auto")
_FOLDER = "external"
_TIME_AS: Mapping[ColumnType, str] = {
    ColumnType.STRING: f"strftime({quote(TIME_COLUMN)}, '%Y-%m-%dT%H:%M:%S.%gZ')",
    ColumnType.LONG: f"epoch_ms({quote(TIME_COLUMN)})",
}
"""A column that is called as the time of segments is; the reader makes a time of it."""


def read_statement(job: IngestJob, *, load: SparkLoad) -> Sequence[SplitResult]:
    """Run pass 1 over the rows of a statement.

    Raises:
        Invalid: Spark refuses the statement, or it fails for some row.
        NotFound: An external table names a file that is not there.
    """
    with set_session(holder_of(job), STATEMENT_SETTINGS) as session:
        try:
            results = _results(job, session, load)
        finally:
            for view in [*(one.view for one in load.rows), *load.tables]:
                with suppress(Exception):
                    session.catalog.dropTempView(view)
    _check_within(results)
    taken = sum(one.counts.rows_read - one.counts.rows_rejected for one in results)
    if not taken and results and any(one.counts.rows_read for one in results):
        return results  # all were rejected, which fails the job
    return [*(_computed(one) for one in results), *_read_before(job, load)]


def _results(job: IngestJob, session: SparkSession, load: SparkLoad) -> Sequence[SplitResult]:
    from pyspark.errors import PySparkException

    holder = holder_of(job)
    watch = watch_of(job, session, None)
    with hold_signals(holder.end_jvm):
        try:
            frame = _frame(job, session, load, watch.tally)
        except PySparkException as error:
            if is_of_statement(error):
                raise Invalid(f"Spark cannot run the statement: {reason_of(error)}") from error
            raise of_spark(error, holder.keep_log) from error
        job.settle(look_at(job, frame))
        job.shape = _shape(job.shape, frame)
        job.timer.lap("plan")
        line = finish(
            job,
            Transformed(frame=frame),
            watch,
            shape=job.shape,
            timestamp=job.spec.timestamp,
            is_parsed=False,
        )
        try:
            return run_line(job, line)
        except Unavailable as error:
            if isinstance(error.__cause__, Exception) and is_of_statement(error.__cause__):
                reason = reason_of(error.__cause__)
                raise Invalid(f"the statement fails for a row: {reason}") from error
            raise


def _shape(shape: RowShape, frame: DataFrame) -> RowShape:
    """Return the shape of rows whose arrays are kept as they are."""
    wide = widen(shape, arrays_in(arrow_schema(frame.schema)))
    return replace(
        wide, dimensions=tuple(replace(one, multi_value="array") for one in wide.dimensions)
    )


def _check_within(results: Sequence[SplitResult]) -> None:
    """Refuse rows outside of what is replaced, as Druid does.

    Raises:
        Invalid: There are some.
    """
    outside = sum(one.counts.rows_thrown_away for one in results)
    if outside:
        raise Invalid(
            f"{counted(outside, 'row')} of the statement {'lies' if outside == 1 else 'lie'} outside of what is"
            " replaced; select with the same bounds in WHERE, or replace more"
        )


def _frame(job: IngestJob, session: SparkSession, load: SparkLoad, tally: Tally) -> DataFrame:
    externals = {one.name: one for one in load.externals}
    for rows in load.rows:
        if isinstance(rows.of, str):
            frame = _external_frame(job, session, externals[rows.of], rows, tally)
        else:
            frame = frame_of(
                session, inputs_of(rows.of), job.context.output_url, columns=rows.of.columns
            )
            frame = map_batches(frame, _computing(job.common(tasks=1), rows.sql), rows.schema)
        frame.createOrReplaceTempView(rows.view)
    for name, table in load.tables.items():
        session.createDataFrame(table).createOrReplaceTempView(name)
    return session.sql(load.sql)


def _external_frame(
    job: IngestJob, session: SparkSession, table: External, rows: SparkRows, tally: Tally
) -> DataFrame:
    kinds = {name: kind for name, kind in table.columns.items() if name != TIME_COLUMN}
    time = table.columns.get(TIME_COLUMN)
    if time is not None and time not in _TIME_AS:
        raise Invalid(f"column {TIME_COLUMN} of EXTERN must be VARCHAR or BIGINT")
    shape = RowShape(
        dimensions=tuple(
            DimensionShape(name=name, type=kind, multi_value="array")
            for name, kind in kinds.items()
        )
    )
    found = resolve_input(table.input)
    reads = reads_of(
        found, _NO_TIME if time is None else _OWN_TIME, None, cores=job.context.cores()
    )
    values = [*map(quote, kinds)]
    if time is not None:
        values.append(f"{_TIME_AS[time]} AS {quote(TIME_COLUMN)}")
    work = _External(rows.view, shape, f"SELECT {', '.join(values)} FROM", rows.sql, tally)
    return batches_of(session, split_tasks(job, reads), work.read, rows.schema)


@dataclass(frozen=True, slots=True)
class _External:
    """Reads a part of an external table in a task of Spark. Picklable.

    Attributes:
        select: The table's columns, up to FROM.
        sql: Statement of the view, over these columns.
    """

    view: str
    shape: RowShape
    select: str
    sql: str
    tally: Tally

    def read(self, task: SplitTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the view."""
        common, name = task.common, f"{self.view}-{task.index}"
        with common.connect() as con:
            try:
                parsed, relation = parsed_rows(con, task, self.shape, f"{name}-{attempt_number()}")
            except SeveralValues as error:
                columns = ", ".join(sorted(error.columns))
                raise Invalid(
                    f"column {columns} of EXTERN has several values in a row; declare it VARCHAR ARRAY"
                ) from error
            self.tally.add(rows=parsed.counts.rows_read, rejected=parsed.rejections.count)
            with open_staged(f"{common.cut.staging_url}/{_FOLDER}/{name}.json") as file:
                file.write(msgspec.json.encode(parsed))
            yield from _selected(
                con, f"WITH {SOURCE_ROWS} AS ({self.select} {relation}) {self.sql}"
            )


def _computing(common: PassOne, sql: str) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` that computes the rows of a view."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        with common.connect(threads=1) as con:
            for batch in batches:
                con.register(SOURCE_ROWS, pa.Table.from_batches([batch]))
                yield from _selected(con, sql)
                con.unregister(SOURCE_ROWS)

    return run


def _selected(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a SELECT.

    Raises:
        TaskFailure: The statement fails for a row, which ends the job.
    """
    import duckdb

    with translated("the statement"):
        try:
            yield from con.sql(sql).to_arrow_reader(BATCH_ROWS)
        except duckdb.DataError as error:
            raise TaskFailure(
                Invalid(f"the statement fails for a row: {first_line(error)}")
            ) from error


def _computed(result: SplitResult) -> SplitResult:
    """Return the report of a task that cut rows of the statement: they were read before."""
    return replace(result, counts=replace(result.counts, rows_read=0))


def _read_before(job: IngestJob, load: SparkLoad) -> Iterator[SplitResult]:
    """Yield what was read of external tables, of which a part that was read again counts once, and of segments."""
    tables = [one.of for one in load.rows if not isinstance(one.of, str)]
    rows = sum(piece.segment.rows for table in tables for piece in table.slices)
    if rows:
        counts = ReadCounts(rows_read=rows, rows_parsed=rows)
        yield _read_only(job, Parsed(counts=counts, rejections=Rejections()))
    for data in staged_files(f"{job.staging_url}/{_FOLDER}"):
        parsed = msgspec.json.decode(data, type=Parsed)
        yield _read_only(job, parsed)


def _read_only(job: IngestJob, parsed: Parsed) -> SplitResult:
    return SplitResult(
        shape=job.shape,
        counts=parsed.counts,
        parts=(),
        late={},
        rejections=parsed.rejections,
    )
