"""The front end for Spark SQL in specs, and for Spark DataFrames.

Spark's own plan evaluates Spark SQL, between two halves of the same code that reads files without Spark:

    files      → [parse: the fields that the spec needs; bad rows go out]  → transforms, filter → [rows → parts]
    DataFrame  → ([add `__time`], if an expression reads it)               → transforms, filter → [rows → parts]

Square brackets are Python workers (`mapInArrow`), and so is what computes Druid's expressions over a DataFrame
(`spark_expressions`). There is no shuffle, so one Spark task does a whole line. Of JSON, the expressions see the types
that the spec declares, else those that the data shows; of CSV, else text.

Expressions are evaluated with ANSI mode off, whatever the setting of the session: a division by zero, an overflow or a
cast that fails gives null for that row, and does not fail the job. Times are UTC, names of columns are case-sensitive.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote_for_spark
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.texts import first_line
from carnac.errors import Invalid
from carnac.jobs.context import SparkJobContext
from carnac.jobs.ingest.computing import (
    arrays_in,
    is_computed_here,
    read_files_here,
)
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.metric_filters import filtered_inputs, filtered_shape
from carnac.jobs.ingest.parsing import (
    PARSED_TIME,
    add_time,
    load_parsed_shape,
    parse_split,
)
from carnac.jobs.ingest.read_pass import SplitResult, widen, widening
from carnac.jobs.ingest.readers import discover_in_table, plan_parsing, split_tasks
from carnac.jobs.ingest.second_half import SecondHalf, second_half
from carnac.jobs.ingest.spark_expressions import (
    Transformed,
    check_syntax,
    computed,
    map_batches,
    transformed,
)
from carnac.jobs.read_back import SPARK_TYPE
from carnac.rows.normalise.projection import field_names
from carnac.rows.normalise.shape import ORDER_PREFIX, RowShape
from carnac.rows.read.arrow_types import Change, cast_to, changed_rows
from carnac.rows.read.discover import SeenFields, needs_discovery, unite_seen
from carnac.rows.read.far_times import held_rows
from carnac.rows.read.inputs import resolve_input
from carnac.rows.read.tables import arrow_table
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import Watch, classic_context
from carnac.spark.schemas import arrow_schema
from carnac.spark.session import SparkHolder, own_session
from carnac.spark.tasks import RESULT_SCHEMA, batches_of, collect
from carnac.specs.ingest.transforms import (
    read_transforms,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from carnac.rows.read.reading import ReadTask
    from carnac.specs.ingest.schema import TimestampSpec
    from carnac.specs.ingest.spec import IngestSpec

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",  # else `${env:NAME}` in a text becomes that variable
}
"""Settings while the job plans and runs; the session's own settings come back afterwards."""
_SETTINGS_LOCK = RLock()


def is_spark_frame(rows: object) -> bool:
    """Whether the rows are a Spark DataFrame, without importing Spark."""
    return type(rows).__module__.startswith("pyspark.sql.") and type(rows).__name__ == "DataFrame"


def read_transformed(job: IngestJob, rows: object | None) -> Sequence[SplitResult]:
    """Run pass 1 with the transforms and the filter of the spec.

    Args:
        rows: A DataFrame, or a table in memory; None: the files that the spec names.
    """
    if rows is None:
        resolve_input(job.spec.input)  # what is not there is told before Spark starts
    holder = holder_of(job)
    if is_spark_frame(rows):
        session = rows.sparkSession  # type: ignore[union-attr]
        holder.adopt(session)
    else:
        session = holder.session()
    with hold_signals(holder.end_jvm), with_settings(session):
        check_syntax(session, job.spec)
        if rows is None and job.spec.is_druid:
            return read_files_here(job)
        if rows is None:
            return _read_files(job, session)
        frame: Any = rows if is_spark_frame(rows) else _frame_of(session, arrow_table(rows))
        return _read_frame(job, session, frame)


def holder_of(job: IngestJob) -> SparkHolder:
    """Return the Spark of a job."""
    if not isinstance(job.context, SparkJobContext):
        raise TypeError("a job in the caller's process has no Spark")
    return job.context.holder


def _frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return session.createDataFrame(changed_rows(held_rows(table), _of_spark))
    except PySparkException as error:
        raise Invalid(
            f"the rows cannot become a Spark DataFrame: {first_line(error)}; cast the column to another type"
        ) from error


def _of_spark(kind: pa.DataType) -> Change | None:
    """Return what becomes of a type that Spark does not have: unsigned numbers, views of texts, coarse times of day."""
    import pyarrow as pa

    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(),
        pa.time32("s"): pa.time64("us"),
        pa.time32("ms"): pa.time64("us"),
    }.get(kind)
    return None if wider is None else cast_to(wider)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of work that is ready to run.

    Attributes:
        watch: Watch whose tally is in the functions of the frame already.
    """

    frame: DataFrame
    watch: Watch


# ----------------------------------------------------------------------------------------- files


def _read_files(job: IngestJob, session: SparkSession) -> Sequence[SplitResult]:
    reads, seen, shape = plan_parsing(job)
    shape, result = widening(
        shape, lambda wide: (wide, run_line(job, _files_line(job, session, reads, wide, seen)))
    )
    job.is_for_append &= is_computed_here(job.spec, shape)
    return result


def _files_line(
    job: IngestJob,
    session: SparkSession,
    reads: Sequence[ReadTask],
    shape: RowShape,
    seen: SeenFields,
) -> _Line:
    import pyarrow as pa

    watch = watch_of(job, session, len(reads))
    tasks = split_tasks(job, reads)
    columns = [f"`{TIME_COLUMN}` timestamp"]
    columns += [
        f"{quote_for_spark(name)} {'timestamp' if name.startswith(ORDER_PREFIX) else SPARK_TYPE[kind]}"
        for name, kind in shape.normalised_columns
    ]
    parsed = batches_of(session, tasks, parse_split(shape, watch.tally), ", ".join(columns))
    rows, transforms = transformed(job, parsed), read_transforms(job.spec)
    if transforms.made and needs_discovery(job.spec):
        made = set(transforms.made)
        of_input = SeenFields({n: kinds for n, kinds in seen.kinds.items() if n not in made})
        fields = [field for field in rows.schema() if field.name in made]
        fields.sort(key=lambda field: field.name)
        of_transforms = discover_in_table(job, pa.schema(fields))
        job.settle(unite_seen([of_input, of_transforms]))
    return finish(
        job,
        rows,
        watch,
        shape=filtered_shape(load_parsed_shape(job.shape, transforms), transforms),
        timestamp=PARSED_TIME,
        is_parsed=True,
    )


# ------------------------------------------------------------------------------------- DataFrames


def _read_frame(job: IngestJob, session: SparkSession, frame: DataFrame) -> Sequence[SplitResult]:
    from pyspark.sql.types import StructField, StructType, TimestampType

    watch = watch_of(job, session, None)
    job.look = partial(look_at, job, frame)
    timestamp: TimestampSpec = job.spec.timestamp
    transforms = read_transforms(job.spec)
    if TIME_COLUMN in transforms.inputs:
        fields = [f for f in frame.schema.fields if f.name != TIME_COLUMN]
        frame = map_batches(
            frame,
            add_time(job.common(tasks=job.context.cores()), timestamp),
            StructType([*fields, StructField(TIME_COLUMN, TimestampType())]).toNullable(),
        )
    rows = transformed(job, frame)
    if TIME_COLUMN in transforms.made:
        timestamp = PARSED_TIME
    schema = rows.schema()
    if needs_discovery(job.spec):
        job.settle(discover_in_table(job, schema))
    job.shape = widen(job.shape, arrays_in(schema))
    job.timer.lap("plan")
    shape = filtered_shape(job.shape, transforms)
    return run_line(
        job, finish(job, rows, watch, shape=shape, timestamp=timestamp, is_parsed=False)
    )


def look_at(job: IngestJob, frame: DataFrame) -> SeenFields:
    """Return the fields that a frame has."""
    return discover_in_table(job, arrow_schema(frame.schema))


# ------------------------------------------------------------------------------------ both of them


def watch_of(job: IngestJob, session: SparkSession, total: int | None) -> Watch:
    """Return what watches pass 1 of a job; `total` tasks, None: their number is not known."""
    return Watch(
        session, job.phase("read and transform", total), job.context.clock, job.on_progress
    )


def finish(
    job: IngestJob,
    rows: Transformed,
    watch: Watch,
    *,
    shape: RowShape,
    timestamp: TimestampSpec,
    is_parsed: bool,
) -> _Line:
    """Return the line of work that ends with part files.

    Args:
        shape, timestamp, is_parsed: As of `SecondHalf`.

    Raises:
        Invalid: A filter is wrong.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    wanted = field_names(shape, timestamp)
    frame = computed(job, rows, wanted)
    inputs = filtered_inputs(
        job.shape, rows.conditions, frame.columns, quote_for_spark, "unix_millis"
    )
    if inputs:  # Spark Connect refuses none
        frame = frame.withColumns({name: F.expr(sql) for name, sql in inputs.items()})
    there = set(frame.columns)
    work = SecondHalf(
        common=job.common(tasks=job.context.cores()),
        shape=shape,
        timestamp=timestamp,
        within=job.within,
        is_parsed=is_parsed,
    )
    frame = frame.select(*(F.col(quote_for_spark(name)) for name in wanted if name in there))
    arrow_schema(frame.schema)
    return _Line(
        frame=map_batches(frame, second_half(work, watch.tally), RESULT_SCHEMA), watch=watch
    )


def run_line(job: IngestJob, line: _Line) -> Sequence[SplitResult]:
    """Run pass 1."""
    rows = collect(holder_of(job), line.frame, line.watch)
    return [pickle.loads(row["result"]) for row in rows]  # noqa: S301 - our own workers' bytes


def check_expressions(holder: SparkHolder, spec: IngestSpec) -> None:
    """Let Spark parse all expressions of a spec; starts it.

    Raises:
        Invalid: A text is not an expression.
    """
    session = holder.session()
    with hold_signals(holder.end_jvm), with_settings(session):
        check_syntax(session, spec)


@contextlib.contextmanager
def set_session(holder: SparkHolder, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session in which settings hold; jobs do not wait for one another, except on Spark Connect."""
    session = holder.session()
    if classic_context(session) is None:  # data sent to a Connect session is not in a new one
        with with_settings(session, settings):
            yield session
        return
    yield own_session(session, settings)


@contextlib.contextmanager
def with_settings(session: SparkSession, settings: Mapping[str, str] = SETTINGS) -> Iterator[None]:
    """Let settings hold in the session; jobs of other threads that need others wait."""
    with _SETTINGS_LOCK:
        before = {key: session.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            session.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, old)
