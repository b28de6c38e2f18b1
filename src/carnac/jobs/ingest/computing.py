"""Transforms and filters that DuckDB computes: all of Druid's, and Spark SQL where it means the same in both.

The same two halves as in `spark_rows`, with DuckDB between them in place of Spark's plan. Files of a spec whose
expressions are Druid's are read so in tasks of Spark, too; tables, and Spark SQL, in the caller's process alone.

    files  → [parse: the fields that the spec needs; bad rows go out]  → transforms, filter → [rows → parts]
    table  → ([add `__time`], if an expression reads it)               → transforms, filter → [rows → parts]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.texts import first_line
from carnac.errors import Invalid
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.metric_filters import filtered_inputs, filtered_shape
from carnac.jobs.ingest.parsing import (
    BATCH_ROWS,
    PARSED_TIME,
    add_time,
    load_parsed_shape,
    parsed_rows,
)
from carnac.jobs.ingest.read_pass import PassOne, SplitResult, SplitTask, widen, widening
from carnac.jobs.ingest.readers import discover_in_table, plan_parsing, split_tasks
from carnac.jobs.ingest.second_half import joined
from carnac.ports.jobs import APPEND_ROWS_MAX
from carnac.rows.expressions import provide
from carnac.rows.normalise.projection import field_names
from carnac.rows.normalise.shape import ORDER_PREFIX, RowShape
from carnac.rows.read.columnar import describe
from carnac.rows.read.discover import SeenFields, needs_discovery, unite_seen
from carnac.rows.read.far_times import held_rows
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from carnac.specs.druid.rows import Piece, column_of
from carnac.specs.druid.terms.values import TIME, Sql
from carnac.specs.ingest.transforms import (
    Transforms,
    compile_columns,
    compile_conditions,
    read_transforms,
)
from carnac.specs.spark_sql.duck import DUCK_TYPE, REFUSAL, USE_INGEST, Kind, to_duckdb
from carnac.specs.spark_sql.syntax import Beyond

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.specs.ingest.schema import TimestampSpec
    from carnac.specs.ingest.spec import IngestSpec

_KIND_OF_DUCK: Mapping[str, Kind] = {
    "VARCHAR": "string",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"), "int"),
    "BIGINT": "long",
    "DOUBLE": "double",
    "BOOLEAN": "bool",
    "TIMESTAMP WITH TIME ZONE": "time",
}
_KIND_OF_DRUID: Mapping[str, Kind] = {"string": "string", "long": "long", "double": "double"}
"""Kinds of columns as Spark SQL sees them."""
_FRAME = "__carnac_frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """DuckDB's work on rows between both halves. Picklable.

    Attributes:
        columns: Columns of the input that no transform hides, and the transforms.
        made: Transforms alone.
        types: Types of the input's columns, in DuckDB's words.
        there: Names of the columns of the input and of the transforms.
        filter: Condition over these columns; None: all rows.
        conditions: Conditions over the same columns, by metric.
        is_spark: Whether there is Spark SQL among them.
    """

    columns: str
    made: Mapping[str, str]
    types: Mapping[str, str]
    there: frozenset[str]
    filter: str | None
    conditions: Mapping[str, str]
    is_spark: bool

    def over(self, relation: str, shape: RowShape, wanted: Sequence[str]) -> str:
        """Return the query for the wanted columns of the rows that are kept."""
        inputs = filtered_inputs(shape, self.conditions, self.there, quote, "epoch_ms")
        columns = [
            f"{inputs[name]} AS {quote(name)}" if name in inputs else quote(name)
            for name in wanted
            if name in inputs or name in self.there
        ]
        where = "" if self.filter is None else f" WHERE {self.filter}"
        made = f"SELECT {self.columns} FROM {relation}"
        return f"SELECT {', '.join(columns) or '1'} FROM ({made}){where}"

    def schema_of(self, query: Callable[[str], str]) -> pa.Schema:
        """Return the columns of a query over rows of these types."""
        import duckdb

        nulls = [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in self.types.items()]
        text = query(f"(SELECT {', '.join(nulls)} LIMIT 0)")
        with duckdb.connect() as con:
            provide(con, text)
            return con.sql(text).to_arrow_table().schema

    def made_schema(self) -> pa.Schema:
        """Return the types of the transforms."""
        import pyarrow as pa

        if not self.made:
            return pa.schema([])
        columns = ", ".join(f"{text} AS {quote(name)}" for name, text in self.made.items())
        return self.schema_of(lambda relation: f"SELECT {columns} FROM {relation}")


def make_plan(
    spec: IngestSpec, types: Mapping[str, str], *, ready: Mapping[str, str] | None = None
) -> Plan:
    """Return the work of DuckDB.

    Args:
        types: Types of the columns that exist, in DuckDB's words.
        ready: By transform that Spark has computed, the column that it is in; Spark computes its own filters later.
            None: DuckDB computes all of it.

    Raises:
        Invalid: An expression is wrong, or one that only Spark computes.
    """
    kinds = {name: _KIND_OF_DUCK.get(kind, "other") for name, kind in types.items()}
    columns = {name: column_of(name, kind) for name, kind in types.items()}
    made: dict[str, str] = {}
    after = {**columns}
    kinds_after = {**kinds}
    for name, piece in compile_columns(spec, columns).items():
        if piece.kind is not None:
            made[name] = piece.text
            after[name] = TIME if name == TIME_COLUMN else Sql(quote(name), piece.kind)
            kinds_after[name] = (
                "time" if name == TIME_COLUMN else _KIND_OF_DRUID.get(piece.kind, "other")
            )
        elif ready is not None:
            made[name], kinds_after[name] = quote(ready[name]), kinds[ready[name]]
            after[name] = column_of(name, types[ready[name]])
        else:
            made[name], kinds_after[name] = _translated(f"transform '{name}'", piece.text, kinds)
            after[name] = column_of(name, DUCK_TYPE[kinds_after[name]])

    def condition(what: str, piece: Piece) -> str | None:
        if piece.kind is not None:
            return piece.text
        if ready is not None:
            return None
        return _translated(what, piece.text, kinds_after, wants="bool")[0]

    given, conditions = compile_conditions(spec, after)
    of_metrics = {
        name: condition(f"the filter of metric '{name}'", piece)
        for name, piece in conditions.items()
    }
    spare = set(made) | set((ready or {}).values())
    kept = [quote(name) for name in types if name not in spare]
    return Plan(
        columns=", ".join([*kept, *(f"{text} AS {quote(name)}" for name, text in made.items())]),
        made=made,
        types=types,
        there=frozenset(types.keys() - spare | made.keys()),
        filter=None if given is None else condition("the filter", given),
        conditions={name: text for name, text in of_metrics.items() if text is not None},
        is_spark=not spec.is_druid,
    )


def is_computed_here(spec: IngestSpec, shape: RowShape) -> bool:
    """Whether DuckDB computes every expression of a spec, over rows of the parsed shape."""
    try:
        make_plan(spec, types_of(shape))
    except Invalid:
        return False
    return True


def _translated(
    what: str, sql: str, kinds: Mapping[str, Kind], *, wants: Kind | None = None
) -> tuple[str, Kind]:
    try:
        found = to_duckdb(sql, kinds)
        if found.kind in {"decimal", "null"}:
            raise Beyond(f"a {found.kind} as a value is for Spark; cast it")
        if wants is not None and found.kind != wants:
            raise Beyond(f"a {found.kind} as a condition is for Spark")
    except Beyond as error:
        raise Invalid(
            f"{what} is not one that append computes: {error.message}; {USE_INGEST}"
        ) from None
    except Invalid as error:
        raise Invalid(f"{what} is wrong: {error.message}") from None
    return found.sql, found.kind


@contextmanager
def one_sentence_of_values(*, is_spark: bool) -> Iterator[None]:
    """Turn an error of DuckDB about a value into a sentence.

    Args:
        is_spark: Whether Spark may compute what fails.

    Raises:
        Invalid: A value is one of which an expression cannot be computed here.
    """
    import duckdb

    try:
        yield
    except (
        duckdb.InvalidInputException,
        duckdb.OutOfRangeException,
        duckdb.ConversionException,
    ) as error:
        text = first_line(error)
        if REFUSAL in text:
            raise Invalid(f"{REFUSAL}{text.split(REFUSAL, 1)[1]}; {USE_INGEST}") from error
        other = f"; {USE_INGEST}" if is_spark else ""
        raise Invalid(f"a transform or filter fails on a value ({text}){other}") from error


# ----------------------------------------------------------------------------------------- files


def read_files_here(job: IngestJob) -> Sequence[SplitResult]:
    """Run pass 1 over the files that the spec names, in tasks."""
    reads, seen, shape = plan_parsing(job)
    transforms = read_transforms(job.spec)

    def read(shape: RowShape) -> Sequence[SplitResult]:
        plan = make_plan(job.spec, types_of(shape))
        if plan.made and needs_discovery(job.spec):
            of_input = {name: kinds for name, kinds in seen.kinds.items() if name not in plan.made}
            of_transforms = discover_in_table(job, plan.made_schema())
            job.settle(unite_seen([SeenFields(of_input), of_transforms]))
        tasks = split_tasks(job, reads)
        made = load_parsed_shape(job.shape, transforms)
        both = partial(_read_split, shape=shape, plan=plan, made=made, transforms=transforms)
        return job.run_tasks("read and transform", both, tasks)

    return widening(shape, read)


def types_of(shape: RowShape) -> dict[str, str]:
    """Return the types of parsed rows, in DuckDB's words; a document is of type JSON."""
    time = "TIMESTAMP WITH TIME ZONE"
    types = {
        name: "JSON" if kind is ColumnType.JSON else SQL_TYPE[kind]
        for name, kind in shape.normalised_columns
    }
    orders = (name for name in types if name.startswith(ORDER_PREFIX))
    return {TIME_COLUMN: time, **types, **dict.fromkeys(orders, time)}


def _read_split(
    task: SplitTask,
    attempt: Attempt,
    *,
    shape: RowShape,
    plan: Plan,
    made: RowShape,
    transforms: Transforms,
) -> SplitResult:
    """Do both halves of one task."""
    common, name = task.common, f"{task.index}-{attempt.number}"
    filtered = filtered_shape(made, transforms)
    with common.connect() as con:
        parsed, relation = parsed_rows(con, task, shape, f"{name}-parsed")
        attempt.count(rows=parsed.counts.rows_read, rejected=parsed.rejections.count)
        query = plan.over(relation, made, field_names(filtered, PARSED_TIME))
        provide(con, query)
        rows = con.sql(query)
        with one_sentence_of_values(is_spark=plan.is_spark):
            is_small = parsed.counts.rows_parsed <= APPEND_ROWS_MAX
            result = common.run_arrow(
                f"{name}-made",
                rows.to_arrow_table() if is_small else rows.to_arrow_reader(BATCH_ROWS),
                Attempt(attempt.number, Tally(None)),
                origin=f"rows of task {task.index}",
                timestamp=PARSED_TIME,
                within=task.read.within,
                shape=filtered,
            )
    return joined(parsed, result)


# ------------------------------------------------------------------------------- tables in memory


def read_table_here(job: IngestJob, table: pa.Table) -> Sequence[SplitResult]:
    """Run pass 1 over a table in memory."""
    import pyarrow as pa

    table = held_rows(table)
    job.look = partial(discover_in_table, job, table.schema)
    timestamp: TimestampSpec = job.spec.timestamp
    common, transforms = job.common(tasks=1), read_transforms(job.spec)
    if TIME_COLUMN in transforms.inputs:
        batches = list(add_time(common, timestamp)(iter(table.combine_chunks().to_batches())))
        table = pa.Table.from_batches(batches) if batches else table
    with common.connect() as con:
        con.register(_FRAME, table)
        plan = make_plan(
            job.spec, {name: str(kind) for name, kind in describe(con, _FRAME).items()}
        )
        if TIME_COLUMN in plan.made:
            timestamp = PARSED_TIME
        kept = [field for field in table.schema if field.name not in plan.made]
        there = pa.schema([*kept, *plan.made_schema()])
        if needs_discovery(job.spec):
            job.settle(discover_in_table(job, there))
        job.shape = widen(job.shape, arrays_in(there))
        shape = filtered_shape(job.shape, transforms)
        query = plan.over(_FRAME, job.shape, field_names(shape, timestamp))
        provide(con, query)
        with one_sentence_of_values(is_spark=plan.is_spark):
            result = con.sql(query).to_arrow_table()
        con.unregister(_FRAME)
    job.timer.lap("plan")
    common = job.common(tasks=1)  # of the settled shape

    def read(number: int, attempt: Attempt) -> SplitResult:
        name = f"{number}-{attempt.number}"
        within = job.within
        return common.run_arrow(
            name, result, attempt, timestamp=timestamp, within=within, shape=shape
        )

    [cut] = job.run_tasks("read and transform", read, [0])
    filtered = table.num_rows - result.num_rows
    counts = replace(cut.counts, rows_read=table.num_rows)
    return [replace(cut, counts=counts, filtered=filtered)]


def arrays_in(schema: pa.Schema) -> list[str]:
    """Return the names of the columns of arrays that may have elements."""
    import pyarrow as pa

    return [
        field.name
        for field in schema
        if pa.types.is_list(field.type) and not pa.types.is_null(field.type.value_type)
    ]


# ------------------------------------------------------------------------------------ rows of Spark


def duck_types(schema: pa.Schema) -> dict[str, str]:
    """Return the types of columns of Arrow in DuckDB's words."""
    import duckdb

    with duckdb.connect() as con:
        con.register(_FRAME, schema.empty_table())
        return {name: str(kind) for name, kind in describe(con, _FRAME).items()}


def computed_batches(
    common: PassOne, over: Callable[[str], str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that runs a query over rows; `over` puts them into it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with common.connect(threads=1) as con:
            provide(con, over(_FRAME))
            con.execute("SET preserve_insertion_order = true").complete()
            for batch in batches:
                con.register(_FRAME, pa.Table.from_batches([held_rows(batch)]))
                with one_sentence_of_values(is_spark=False):
                    computed = con.sql(over(_FRAME)).to_arrow_table()
                con.unregister(_FRAME)
                yield from computed.combine_chunks().to_batches()

    return run
