"""Transforms and filters in the caller's process, where they mean the same in DuckDB as in Spark.

The same two halves as in `spark_rows`, with DuckDB between them in place of Spark's plan:

    files  → [parse: the fields that the spec needs; bad rows go out]  → transforms, filter → [rows → parts]
    table  → ([add `__time`], if an expression reads it)               → transforms, filter → [rows → parts]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.errors import Invalid
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.metric_filters import filtered_inputs, filtered_shape
from carnac.jobs.ingest.parsing import (
    PARSED_TIME,
    add_time,
    load_parsed_shape,
    parsed_rows,
)
from carnac.jobs.ingest.read_pass import SplitResult, SplitTask, widen, widening
from carnac.jobs.ingest.readers import discover_in_table, plan_parsing, split_tasks
from carnac.jobs.ingest.second_half import joined
from carnac.rows.normalise.projection import field_names
from carnac.rows.normalise.shape import ORDER_PREFIX, RowShape
from carnac.rows.read.columnar import describe
from carnac.rows.read.discover import SeenFields, needs_discovery, unite_seen
from carnac.rows.read.far_times import held_rows
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from carnac.specs.ingest.transforms import Transforms, compile_transforms
from carnac.specs.spark_sql.duck import REFUSAL, USE_INGEST, Kind, to_duckdb
from carnac.specs.spark_sql.syntax import Beyond

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.specs.ingest.schema import TimestampSpec
    from carnac.specs.ingest.spec import IngestSpec

KIND_OF_COLUMN: Mapping[ColumnType, Kind] = {
    ColumnType.STRING: "string",
    ColumnType.LONG: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.BOOLEAN: "bool",
}
_KIND_OF_DUCK: Mapping[str, Kind] = {
    "VARCHAR": "string",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"), "int"),
    "BIGINT": "long",
    "DOUBLE": "double",
    "BOOLEAN": "bool",
    "TIMESTAMP WITH TIME ZONE": "time",
}
_SPARK_TYPE: Mapping[Kind, str] = {
    "string": "string",
    "int": "int",
    "long": "bigint",
    "double": "double",
    "bool": "boolean",
    "time": "timestamp",
}
"""Column types as Druid's expressions see them."""
_FRAME = "__carnac_frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """DuckDB's work on rows between both halves.

    Attributes:
        columns: Columns of the input that no transform hides, and the transforms.
        absent: Columns that Druid's expressions name and the input lacks; they are null.
        kinds: Kinds of the columns.
        filter: Condition over these columns; None: all rows.
        conditions: Conditions over the same columns, by metric.
    """

    transforms: Transforms
    columns: str
    absent: tuple[str, ...]
    kinds: Mapping[str, Kind]
    filter: str | None
    conditions: Mapping[str, str]

    @property
    def made(self) -> set[str]:
        """Names of the transforms."""
        return {name for name, _ in self.transforms.columns}

    def run(
        self, con: duckdb.DuckDBPyConnection, relation: str, shape: RowShape, wanted: Sequence[str]
    ) -> pa.Table:
        """Return the wanted columns of the rows that are kept.

        Raises:
            Invalid: A value is one that Spark alone computes.
        """
        import duckdb

        inputs = filtered_inputs(shape, self.conditions, self.kinds, quote, "epoch_ms")
        columns = [
            f"{inputs[name]} AS {quote(name)}" if name in inputs else quote(name)
            for name in wanted
            if name in inputs or name in self.kinds
        ]
        where = "" if self.filter is None else f" WHERE {self.filter}"
        nulls = "".join(f", CAST(NULL AS VARCHAR) AS {quote(name)}" for name in self.absent)
        made = f"SELECT {self.columns} FROM (SELECT *{nulls} FROM {relation})"
        query = f"SELECT {', '.join(columns) or '1'} FROM ({made}){where}"
        try:
            return con.sql(query).to_arrow_table()
        except (
            duckdb.InvalidInputException,
            duckdb.OutOfRangeException,
            duckdb.ConversionException,
        ) as error:
            raise _refused(error) from error


def make_plan(spec: IngestSpec, kinds: Mapping[str, Kind]) -> Plan:
    """Return the work of DuckDB.

    Args:
        kinds: Kinds of the columns that exist.

    Raises:
        Invalid: An expression is wrong, or one that only Spark computes.
    """
    types = {name: _SPARK_TYPE.get(kind, "array<string>") for name, kind in kinds.items()}
    transforms = compile_transforms(spec, types)
    made = {name for name, _ in transforms.columns}
    absent = sorted(transforms.inputs - kinds.keys() - made) if spec.is_druid else []
    there: dict[str, Kind] = {**kinds, **dict.fromkeys(absent, "string")}
    after: dict[str, Kind] = {name: kind for name, kind in there.items() if name not in made}
    parts = [quote(name) for name in after]
    for name, sql in transforms.columns:
        text, after[name] = _translated(f"transform '{name}'", sql, there)
        parts.append(f"{text} AS {quote(name)}")
    condition = None
    if transforms.filter is not None:
        condition, _ = _translated("the filter", transforms.filter, after, wants="bool")
    return Plan(
        transforms=transforms,
        columns=", ".join(parts),
        absent=tuple(absent),
        kinds=after,
        filter=condition,
        conditions={
            name: _translated(f"the filter of metric '{name}'", sql, after, wants="bool")[0]
            for name, sql in transforms.conditions
        },
    )


def means_the_same(spec: IngestSpec, shape: RowShape) -> bool:
    """Whether every expression of a spec is one that DuckDB computes as Spark does, over rows of the parsed shape."""
    try:
        make_plan(spec, _kinds_of(shape))
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


def _refused(error: Exception) -> Invalid:
    text = next(iter(str(error).splitlines()), "")
    if REFUSAL in text:
        return Invalid(f"{REFUSAL}{text.split(REFUSAL, 1)[1]}; {USE_INGEST}")
    return Invalid(f"a transform or filter fails on a value ({text}); {USE_INGEST}")


# ----------------------------------------------------------------------------------------- files


def read_files_here(job: IngestJob) -> Sequence[SplitResult]:
    """Run pass 1 over the files that the spec names."""
    reads, seen, shape = plan_parsing(job)
    transforms = compile_transforms(job.spec, {})

    def read(shape: RowShape) -> Sequence[SplitResult]:
        plan = make_plan(job.spec, _kinds_of(shape))
        if plan.made and needs_discovery(job.spec):
            of_input = {name: kinds for name, kinds in seen.kinds.items() if name not in plan.made}
            united = unite_seen([SeenFields(of_input), discover_in_table(job, _made_schema(plan))])
            job.settle(united)
        tasks = split_tasks(job, reads)
        made = load_parsed_shape(job.shape, transforms)
        both = partial(_read_split, shape=shape, plan=plan, made=made)
        return job.run_tasks("read and transform", both, tasks)

    return widening(shape, read)


def _kinds_of(shape: RowShape) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {TIME_COLUMN: "time"}
    for name, column_type in shape.normalised_columns:
        is_order = name.startswith(ORDER_PREFIX)
        kinds[name] = "time" if is_order else KIND_OF_COLUMN.get(column_type, "other")
    return kinds


def _made_schema(plan: Plan) -> pa.Schema:
    """Return the types of the transforms, as Arrow says them."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int64(),
        "long": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, types[plan.kinds[name]]) for name in sorted(plan.made)])


def _read_split(
    task: SplitTask, attempt: Attempt, *, shape: RowShape, plan: Plan, made: RowShape
) -> SplitResult:
    """Do both halves of one task."""
    common = task.common
    with common.connect() as con:
        parsed, relation = parsed_rows(con, task, shape, f"{task.index}-parsed")
        attempt.count(rows=parsed.counts.rows_read, rejected=parsed.rejections.count)
        wanted = field_names(filtered_shape(made, plan.transforms), PARSED_TIME)
        table = plan.run(con, relation, made, wanted)
    shape = filtered_shape(made, plan.transforms)
    result = common.run_arrow(
        f"{task.index}-made",
        table,
        Attempt(attempt.number, Tally(None)),
        origin=f"rows of task {task.index}",
        timestamp=PARSED_TIME,
        within=task.read.within,
        shape=shape,
    )
    return joined(parsed, result)


# ------------------------------------------------------------------------------- tables in memory


def read_table_here(job: IngestJob, table: pa.Table) -> Sequence[SplitResult]:
    """Run pass 1 over a table in memory."""
    import pyarrow as pa

    table = held_rows(table)
    job.look = partial(discover_in_table, job, table.schema)
    timestamp: TimestampSpec = job.spec.timestamp
    common = job.common(tasks=1)
    if TIME_COLUMN in compile_transforms(job.spec, {}).inputs:
        batches = list(add_time(common, timestamp)(iter(table.combine_chunks().to_batches())))
        table = pa.Table.from_batches(batches) if batches else table
    with common.connect() as con:
        con.register(_FRAME, table)
        kinds = {
            name: _KIND_OF_DUCK.get(str(kind), "other")
            for name, kind in describe(con, _FRAME).items()
        }
        plan = make_plan(job.spec, kinds)
        if TIME_COLUMN in plan.made:
            timestamp = PARSED_TIME
        if needs_discovery(job.spec):
            kept = [field for field in table.schema if field.name not in plan.made]
            job.settle(discover_in_table(job, pa.schema([*kept, *_made_schema(plan)])))
        arrays = [
            field.name
            for field in table.schema
            if pa.types.is_list(field.type) and not pa.types.is_null(field.type.value_type)
        ]
        job.shape = widen(job.shape, arrays)
        shape = filtered_shape(job.shape, plan.transforms)
        result = plan.run(con, _FRAME, job.shape, field_names(shape, timestamp))
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
