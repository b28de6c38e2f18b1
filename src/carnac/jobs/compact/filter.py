"""Rewrites whose target has a condition, which is evaluated between two halves of the same code.

    segments  → [read: visible rows, all columns]  → condition (Spark)  → [measure, cut → part files]

Square brackets are Python workers (`mapInArrow`); there is no shuffle, so one Spark task does a whole line. The second
half is that of every rewrite that several tasks share. A filter of Druid's is computed in the worker, by DuckDB.

Conditions have one meaning wherever they run: ANSI mode is off (a cast that fails gives null, and the row goes), times
are UTC, names of columns are case-sensitive. They see rows as the inputs hold them: times before truncation, dimensions
that are about to be left out, and null for columns that only other segments have, or none.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.compaction.plan.notes import filter_of
from carnac.core.quoting import quote_for_spark
from carnac.core.segments.segment import TIME_COLUMN
from carnac.errors import Corrupt, Unavailable
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.measure import as_read, measure
from carnac.jobs.compact.parts import PartCutter, Scattered, ScatterTask
from carnac.jobs.compact.read import ReadPlan, conformed
from carnac.jobs.compact.shape import ReadUnit
from carnac.jobs.context import SparkJobContext
from carnac.jobs.ingest.spark_expressions import map_batches, one_sentence
from carnac.jobs.ingest.spark_rows import SETTINGS, set_session
from carnac.jobs.read_back import SPARK_TYPE
from carnac.rows.expressions import provide
from carnac.rows.row_hash import hash_rows
from carnac.rows.segment_writer import segment_schema
from carnac.spark.progress import Phase, Tally, Watch
from carnac.spark.tasks import RESULT_SCHEMA, Attempt, batches_of, collect, guarded, result_batch
from carnac.specs.druid.rows import compile_filter, parse_condition
from carnac.specs.druid.terms.scopes import with_time
from carnac.specs.druid.terms.values import column

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame

_ROWS = "__carnac_rows"
KEPT_COLUMN = "__kept"
PASSED_COLUMN = "__passed"
"""Whether the row has passed the condition before, in another rewrite, and is not asked again."""
SEEN_COLUMN = "__seen"
"""Null but in a row of its own that ends each task: number and hash of the rows that were handed to Spark."""
NAMES_MAX = 100
"""A condition may name so many columns that no segment has."""
_NAME = re.compile(r"`((?:[^`]|``)+)`")
BATCH_ROWS = 16_384
"""Rows that are handed to Spark at a time."""

Batches = Iterator[pa.RecordBatch]


def scatter_filtered(
    context: SparkJobContext, tasks: Sequence[ScatterTask], *, phase: Phase
) -> Sequence[Scattered]:
    """Run the first half with the condition of the read unit that all tasks are of.

    Raises:
        Invalid: The condition is none.
        CarnacError: As `scatter`.
    """
    unit = tasks[0].unit
    with set_session(context.holder, SETTINGS) as session:
        watch = Watch(session, phase, context.clock, None)
        frame = batches_of(session, tasks, _read, _declared(tasks[0]))
        line = map_batches(_judged(frame, unit), _cutter(tasks, watch.tally), RESULT_SCHEMA)
        rows = collect(context.holder, line, watch)
    if len({row["task"] for row in rows}) != len(tasks):
        raise Unavailable(f"Spark returned {len(rows)} results of {len(tasks)} tasks; run it again")
    return [pickle.loads(row["result"]) for row in rows]  # noqa: S301 - our own workers' bytes


def scatter_by_filter(task: ScatterTask, attempt: Attempt) -> Scattered:
    """Run the whole line of one task whose condition is one of Druid's filters.

    Raises:
        Invalid: The filter does not fit the types of the columns.
        CarnacError: As `scatter`.
    """
    return _cut(task, _judged_here(task), attempt)


def is_filter(condition: str) -> bool:
    """Whether a condition of a target is one of Druid's filters; else it is Spark SQL."""
    return not isinstance(parse_condition(condition), str)


def _judged_here(task: ScatterTask) -> Batches:
    import duckdb

    columns = {name: column(name, kind) for name, kind in task.columns}
    given = cast("dict[str, Any]", parse_condition(task.unit.condition or ""))
    passed = compile_filter(given, with_time(columns))
    query = f"SELECT {PASSED_COLUMN} OR coalesce({passed.text}, false) FROM {_ROWS}"
    needed = [*(passed.inputs & {TIME_COLUMN, *columns}), PASSED_COLUMN]
    with duckdb.connect(config={"threads": 1}) as con:
        provide(con, query)
        for batch in _read(task):
            con.register(_ROWS, pa.Table.from_batches([batch.select(needed)]))
            kept = con.sql(query).to_arrow_table().column(0).combine_chunks()
            con.unregister(_ROWS)
            yield batch.drop_columns([PASSED_COLUMN]).append_column(KEPT_COLUMN, kept)


def _declared(task: ScatterTask) -> str:
    columns = [f"`{TIME_COLUMN}` timestamp"]
    columns += [f"{quote_for_spark(name)} {SPARK_TYPE[kind]}" for name, kind in task.columns]
    return ", ".join([*columns, f"{PASSED_COLUMN} boolean", f"{SEEN_COLUMN} string"])


def _judged(frame: DataFrame, unit: ReadUnit) -> DataFrame:
    """Return the rows with what the condition says of each; starts no job.

    Raises:
        Invalid: Spark does not take the condition.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    absent = [F.lit(None).cast(SPARK_TYPE[kind]).alias(name) for name, kind in unit.elsewhere]
    with one_sentence("the filter"):
        rows = frame.drop(PASSED_COLUMN, SEEN_COLUMN).select("*", *absent)
        condition = F.expr(unit.condition or "true")
        absent += [F.lit(None).alias(name) for name in _names_of_nothing(rows, condition)]
    passed = F.coalesce(condition, F.lit(False))
    kept = F.when(F.col(PASSED_COLUMN), F.lit(True)).otherwise(passed).alias(KEPT_COLUMN)
    columns = [name for name in frame.columns if name != PASSED_COLUMN]
    return frame.select("*", *absent).select(*map(F.col, map(quote_for_spark, columns)), kept)


def _names_of_nothing(rows: DataFrame, condition: Column) -> list[str]:
    """Return the columns that a condition names and no segment of the rewrite has: they are null, as in Druid.

    Raises:
        AnalysisException: The condition is wrong besides.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

    names: list[str] = []
    while True:
        absent = [F.lit(None).alias(name) for name in names]
        try:
            _ = rows.select("*", *absent).where(condition).schema  # Spark names one at a time
        except AnalysisException as error:
            name = _unresolved(error)
            if name is None or name in names or len(names) == NAMES_MAX:
                raise
            names.append(name)
        else:
            return names


def _unresolved(error: AnalysisException) -> str | None:
    """Return the column that Spark does not find; None if that is not it, or if it is a part of another column."""
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return None
    found = _NAME.fullmatch((error.getMessageParameters() or {}).get("objectName", ""))
    return None if found is None else found[1].replace("``", "`")


# ----------------------------------------------------------------------------- inside of tasks


def _read(task: ScatterTask) -> Batches:
    """Yield the visible rows, and then what they are together: whole files are what their records say."""
    plan, side = _whole(task), Side()
    schema = segment_schema(plan.columns)
    schema = schema.append(pa.field(PASSED_COLUMN, pa.bool_()))
    schema = schema.append(pa.field(SEEN_COLUMN, pa.string()))
    for source, table in as_read(plan, task.unit.inputs, side):
        has_passed = filter_of(source.segment) == task.unit.condition
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            arrays = [
                array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
                for array in batch.columns
            ]
            arrays.append(pa.repeat(pa.scalar(has_passed), len(batch)))
            arrays.append(pa.nulls(len(batch), pa.string()))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    yield pa.RecordBatch.from_pylist([{SEEN_COLUMN: _said(side)}], schema)


def _whole(task: ScatterTask) -> ReadPlan:
    """Return how inputs are read for a condition: all columns, exact times."""
    return ReadPlan(
        output_url=task.plan.output_url,
        columns=task.columns,
        truncate_to=None,
        chunks=task.plan.chunks,
    )


def _cutter(tasks: Sequence[ScatterTask], tally: Tally) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` that ends the plan: one row of `RESULT_SCHEMA` for each task."""

    def run(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        index = 0 if context is None else context.partitionId()
        task = tasks[index]

        def work(rows: Batches, attempt: Attempt) -> Scattered:
            return _cut(task, rows, attempt)

        yield result_batch(index, *guarded(work, batches, tally))

    return run


def _cut(task: ScatterTask, batches: Batches, attempt: Attempt) -> Scattered:
    """Measure the rows that stay, and cut them into part files.

    Raises:
        Corrupt: Rows that stay and rows that go are not together what was read, or what the records of the inputs say.
    """
    unit, side, seen = task.unit, Side(), Side()
    own = dict(task.columns)
    said: list[str] = []
    cutter = PartCutter(task, attempt.number)
    with cutter:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            said += table.column(SEEN_COLUMN).drop_null().to_pylist()
            table = table.filter(pc.is_null(table.column(SEEN_COLUMN)))
            rows = table.drop_columns([KEPT_COLUMN, SEEN_COLUMN])
            seen.add_known(rows.num_rows, hash_rows(rows))
            kept = rows.filter(table.column(KEPT_COLUMN))
            if kept.num_rows:
                cutter.add(measure(unit, conformed(task.plan, kept, own), side))
            attempt.count(rows=table.num_rows)
    if said != [_said(seen)]:
        names = ", ".join(source.segment.segment_id for source in unit.inputs)
        raise Corrupt(
            f"the rows read of {names} differ from their records, or from the rows that Spark handed on "
            f"(rows and hash: {' and '.join(said) or 'none'} read, {_said(seen)} handed on); run 'verify'"
        )
    return Scattered(side=side, parts=cutter.files.parts)


def _said(side: Side) -> str:
    return f"{side.rows} {side.row_hash}"
