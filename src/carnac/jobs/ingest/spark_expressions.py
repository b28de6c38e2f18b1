"""Expressions over rows of Spark: Spark SQL by Spark's own plan, Druid's by DuckDB in Python workers.

A spec may have both. Spark computes its transforms first, DuckDB then all others and Druid's filters, and Spark's
filters come last: they see all transforms.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from carnac.core.quoting import quote_for_spark
from carnac.errors import Invalid
from carnac.jobs.ingest.computing import Plan, computed_batches, duck_types, make_plan
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.second_half import Batches
from carnac.spark.schemas import arrow_schema
from carnac.spark.session import reason_of
from carnac.specs.ingest.transforms import compile_columns, compile_conditions, spark_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from carnac.specs.ingest.spec import IngestSpec

_NO_FUNCTION = "UNRESOLVED_ROUTINE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """Rows of Spark, and what is left to do with them.

    Attributes:
        frame: Rows with the transforms that Spark computes.
        plan: DuckDB's work on them: Druid's expressions; None: there are none.
        filter: Spark's filter, which comes after that; None: all rows are kept.
        conditions: Spark's filters of metrics.
    """

    frame: DataFrame
    plan: Plan | None = None
    filter: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        """Return the columns that there are with the transforms.

        Raises:
            Invalid: One of them has a type that has no place here.
        """
        import pyarrow as pa

        if self.plan is None:
            return arrow_schema(self.frame.schema)
        there = arrow_schema(self.frame.schema)
        kept = [one for one in there if one.name in self.plan.there - self.plan.made.keys()]
        return pa.schema([*kept, *self.plan.made_schema()])


def transformed(job: IngestJob, frame: DataFrame) -> Transformed:
    """Return the rows with the transforms; starts no job.

    Raises:
        Invalid: An expression names a column that there is not, or does not fit the types.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    columns = compile_columns(job.spec)
    given, of_metrics = compile_conditions(job.spec)
    for name, piece in columns.items():
        if piece.kind is None:
            with one_sentence(f"transform '{name}'"):
                # A condition is about one row: Spark refuses what would make several rows of one, or one of several.
                _ = frame.where(F.expr(piece.text).isNotNull()).schema
    texts = {name: piece.text for name, piece in columns.items() if piece.kind is None}
    is_spark = given is not None and given.kind is None
    conditions = {name: piece.text for name, piece in of_metrics.items() if piece.kind is None}
    pieces = [*columns.values(), *of_metrics.values(), *([] if given is None else [given])]
    plan = None
    if all(piece.kind is None for piece in pieces):
        kept = [F.col(quote_for_spark(name)) for name in frame.columns if name not in columns]
        frame = frame.select(*kept, *(F.expr(sql).alias(name) for name, sql in texts.items()))
    else:
        ready = {name: f"__carnac_made_{place}" for place, name in enumerate(texts)}
        frame = frame.select("*", *(F.expr(texts[name]).alias(ready[name]) for name in ready))
        plan = make_plan(job.spec, duck_types(arrow_schema(frame.schema)), ready=ready)
    return Transformed(
        frame=frame,
        plan=plan,
        filter=given.text if given is not None and is_spark else None,
        conditions=conditions,
    )


def computed(job: IngestJob, rows: Transformed, wanted: Sequence[str]) -> DataFrame:
    """Return the rows with all transforms, without those that a filter takes out; starts no job."""
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it
    from pyspark.sql.pandas.types import from_arrow_schema

    frame = rows.frame
    if rows.plan is not None:
        if rows.filter is not None or rows.conditions:
            wanted = list(dict.fromkeys([*wanted, *rows.plan.there]))
        over = partial(rows.plan.over, shape=job.shape, wanted=wanted)
        schema = from_arrow_schema(rows.plan.schema_of(over), prefer_timestamp_ntz=True)
        common = job.common(tasks=job.context.cores())
        frame = map_batches(frame, computed_batches(common, over), schema)
    if rows.filter is not None:
        with one_sentence("the filter"):
            frame = frame.where(F.expr(rows.filter))
            _ = frame.schema
    for name, sql in rows.conditions.items():
        with one_sentence(f"the filter of metric '{name}'"):
            _ = frame.where(F.expr(sql)).schema
    return frame


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


def check_syntax(session: SparkSession, spec: IngestSpec) -> None:
    """Let Spark parse all expressions, before anything starts.

    Raises:
        Invalid: A text is not an expression.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    for _, what, sql in spark_texts(spec):
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
