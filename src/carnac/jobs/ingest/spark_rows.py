"""The front end for specs with transforms or a filter, and for Spark DataFrames.

Spark's own plan evaluates the expressions, between two halves of the same code that reads files without Spark:

    files      → [parse: the fields that the spec needs; bad rows go out]  → transforms, filter → [rows → parts]
    DataFrame  → ([add `__time`], if an expression reads it)               → transforms, filter → [rows → parts]

Square brackets are Python workers (`mapInArrow`). There is no shuffle, so one Spark task does a whole line. Of JSON,
the expressions see the types that the spec declares, else those that the data shows; of CSV, else text.

Expressions are evaluated with ANSI mode off, whatever the setting of the session: a division by zero, an overflow or a
cast that fails gives null for that row, and does not fail the job. Times are UTC, names of columns are case-sensitive.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote_for_spark
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.texts import first_line
from carnac.errors import Invalid
from carnac.jobs.context import SparkJobContext
from carnac.jobs.ingest.here_expressions import means_the_same
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
from carnac.jobs.ingest.second_half import Batches, SecondHalf, second_half
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
from carnac.spark.session import SparkHolder, own_session, reason_of
from carnac.spark.tasks import RESULT_SCHEMA, batches_of, collect
from carnac.specs.ingest.transforms import Transforms, compile_transforms

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
_NO_FUNCTION = "UNRESOLVED_ROUTINE"


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
        _check_syntax(session, job.spec)
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
    job.is_for_append &= means_the_same(job.spec, shape)
    return result


def _files_line(
    job: IngestJob,
    session: SparkSession,
    reads: Sequence[ReadTask],
    shape: RowShape,
    seen: SeenFields,
) -> _Line:
    watch = watch_of(job, session, len(reads))
    tasks = split_tasks(job, reads)
    columns = [f"`{TIME_COLUMN}` timestamp"]
    columns += [
        f"{quote_for_spark(name)} {'timestamp' if name.startswith(ORDER_PREFIX) else SPARK_TYPE[kind]}"
        for name, kind in shape.normalised_columns
    ]
    parsed = batches_of(session, tasks, parse_split(shape, watch.tally), ", ".join(columns))
    frame, transforms = _transformed(job, parsed)
    made = {name for name, _ in transforms.columns}
    if made and needs_discovery(job.spec):
        of_input = SeenFields({n: kinds for n, kinds in seen.kinds.items() if n not in made})
        of_transforms = look_at(job, frame.select(*map(quote_for_spark, sorted(made))))
        job.settle(unite_seen([of_input, of_transforms]))
    return finish(
        job,
        frame,
        transforms,
        watch,
        shape=load_parsed_shape(job.shape, transforms),
        timestamp=PARSED_TIME,
        is_parsed=True,
    )


# ------------------------------------------------------------------------------------- DataFrames


def _read_frame(job: IngestJob, session: SparkSession, frame: DataFrame) -> Sequence[SplitResult]:
    from pyspark.sql.types import StructField, StructType, TimestampType

    watch = watch_of(job, session, None)
    job.look = partial(look_at, job, frame)
    timestamp: TimestampSpec = job.spec.timestamp
    if TIME_COLUMN in compile_transforms(job.spec, {}).inputs:
        fields = [f for f in frame.schema.fields if f.name != TIME_COLUMN]
        frame = map_batches(
            frame,
            add_time(job.common(tasks=job.context.cores()), timestamp),
            StructType([*fields, StructField(TIME_COLUMN, TimestampType())]).toNullable(),
        )
    frame, transforms = _transformed(job, frame)
    if any(name == TIME_COLUMN for name, _ in transforms.columns):
        timestamp = PARSED_TIME
    if needs_discovery(job.spec):
        job.settle(look_at(job, frame))
    job.shape = widen(job.shape, arrays_of(frame))
    job.timer.lap("plan")
    return run_line(
        job,
        finish(
            job, frame, transforms, watch, shape=job.shape, timestamp=timestamp, is_parsed=False
        ),
    )


def look_at(job: IngestJob, frame: DataFrame) -> SeenFields:
    """Return the fields that a frame has."""
    return discover_in_table(job, arrow_schema(frame.schema))


def arrays_of(frame: DataFrame) -> list[str]:
    """Return the names of the columns of arrays that may have elements."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return [
        name for name, kind in types.items() if kind.startswith("array<") and kind != "array<void>"
    ]


# ------------------------------------------------------------------------------------ both of them


def watch_of(job: IngestJob, session: SparkSession, total: int | None) -> Watch:
    """Return what watches pass 1 of a job; `total` tasks, None: their number is not known."""
    return Watch(
        session, job.phase("read and transform", total), job.context.clock, job.on_progress
    )


def _transformed(job: IngestJob, frame: DataFrame) -> tuple[DataFrame, Transforms]:
    """Return the rows with the transforms, filtered; starts no job.

    Raises:
        Invalid: An expression names a column that there is not, or does not fit the types.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    transforms = compile_transforms(job.spec, types)
    if job.spec.is_druid:
        absent = sorted(transforms.inputs - types.keys() - {name for name, _ in transforms.columns})
        frame = frame.select("*", *(F.lit(None).cast("string").alias(name) for name in absent))
    made = {name for name, _ in transforms.columns}
    kept = [F.col(quote_for_spark(name)) for name in frame.columns if name not in made]
    for name, sql in transforms.columns:
        with one_sentence(f"transform '{name}'"):
            # A condition is about one row: Spark refuses what would make several rows of one, or one of several.
            _ = frame.where(F.expr(sql).isNotNull()).schema
    result = frame.select(*kept, *(F.expr(sql).alias(name) for name, sql in transforms.columns))
    if transforms.filter is not None:
        with one_sentence("the filter"):
            result = result.where(F.expr(transforms.filter))
            _ = result.schema
    for name, sql in transforms.conditions:
        with one_sentence(f"the filter of metric '{name}'"):
            _ = result.where(F.expr(sql)).schema
    return result, transforms


def finish(
    job: IngestJob,
    frame: DataFrame,
    transforms: Transforms,
    watch: Watch,
    *,
    shape: RowShape,
    timestamp: TimestampSpec,
    is_parsed: bool,
) -> _Line:
    """Return the line of work that ends with part files.

    Args:
        shape, timestamp, is_parsed: As of `SecondHalf`.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    inputs = filtered_inputs(
        job.shape, dict(transforms.conditions), frame.columns, quote_for_spark, "unix_millis"
    )
    if inputs:  # Spark Connect refuses none
        frame = frame.withColumns({name: F.expr(sql) for name, sql in inputs.items()})
    shape = filtered_shape(shape, transforms)
    there = set(frame.columns)
    wanted = [name for name in field_names(shape, timestamp) if name in there]
    work = SecondHalf(
        common=job.common(tasks=job.context.cores()),
        shape=shape,
        timestamp=timestamp,
        within=job.within,
        is_parsed=is_parsed,
    )
    frame = frame.select(*(F.col(quote_for_spark(name)) for name in wanted))
    arrow_schema(frame.schema)
    return _Line(
        frame=map_batches(frame, second_half(work, watch.tally), RESULT_SCHEMA), watch=watch
    )


def map_batches(
    frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Apply a function to the batches of a frame; Spark itself takes a dot in the name of a column for a path."""
    names = frame.columns
    if not any(letter in name for name in names for letter in ".`"):
        return frame.mapInArrow(function, schema)

    def with_names(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))
    return numbered.mapInArrow(with_names, schema)


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
        _check_syntax(session, spec)


def _check_syntax(session: SparkSession, spec: IngestSpec) -> None:
    """Let Spark parse all expressions, before anything starts.

    Raises:
        Invalid: A text is not an expression.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    transforms = compile_transforms(spec, {})
    texts = [(f"transform '{name}'", sql) for name, sql in transforms.columns]
    if transforms.filter is not None:
        texts.append(("the filter", transforms.filter))
    texts += [(f"the filter of metric '{name}'", sql) for name, sql in transforms.conditions]
    for what, sql in texts:
        with one_sentence(what):
            try:
                _ = session.range(1).select(F.expr(sql)).schema
            except ParseException:
                raise
            except AnalysisException as error:
                if error.getCondition() == _NO_FUNCTION:
                    raise
                continue  # its columns are not there yet


@contextlib.contextmanager
def one_sentence(what: str) -> Iterator[None]:
    """Turn Spark's words about an expression into one sentence.

    Raises:
        Invalid: Spark does not take the expression.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        with _unlogged():
            yield
    except (AnalysisException, ParseException) as error:
        if error.getCondition() == "INVALID_WHERE_CONDITION":
            raise Invalid(f"{what} is wrong: an aggregate is not about one row") from error
        if error.getCondition() == _NO_FUNCTION:
            name = (error.getMessageParameters() or {}).get("routineName", "").strip("`")
            raise Invalid(f"{what} is wrong: Spark has no function {name}") from error
        reason = reason_of(error)
        raise Invalid(f"{what} is wrong: {reason[:1].lower()}{reason[1:]}") from error


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep out of the log of a session what is said in one sentence, or is no mistake."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


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
