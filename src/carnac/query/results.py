"""Rows in and out of DuckDB as Arrow tables."""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid, Unavailable
from carnac.ports.memo import Memo
from carnac.query.messages import error_of
from carnac.query.syntax import parsed

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.query.planning import Plan

BATCH_ROWS = 122_880
"""Rows that are taken from DuckDB at once: those of one of its row groups."""
GIVES = b"carnac.gives"
"""Key of the metadata of what EXPLAIN says: the schema of the statement's rows, serialized."""
DATASOURCES = b"carnac.datasources"
"""Key of the metadata of that schema: the names of the datasources, a JSON list."""
COPY_WARNING = "Arrow output on a DB-API result makes an extra copy"
HUGE_DIGITS = 38
"""Decimal digits of DuckDB's 128-bit integers in Arrow."""


def arrow_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return a table of texts and whole numbers."""
    import pyarrow as pa

    def kind(values: Sequence[Any]) -> pa.DataType:
        return pa.int64() if isinstance(next(iter(values), ""), int) else pa.string()

    return pa.table(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values, type=kind(values))
            for name, values in columns.items()
        }
    )


def arrow_tables(tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, pa.Table]:
    """Return tables of texts and whole numbers, by name."""
    return {name: arrow_table(columns) for name, columns in tables.items()}


def plan_table(texts: Iterable[str], gives: pa.Schema | None = None) -> pa.Table:
    """Return what EXPLAIN says, line by line; its schema carries that of the statement's rows (`GIVES`).

    Args:
        gives: None: nobody looked.
    """
    import pyarrow as pa

    lines = [line for text in texts for line in text.splitlines()]
    table = pa.table({"plan": pa.array(lines, type=pa.string())})
    if gives is None:
        return table
    return table.replace_schema_metadata({GIVES: gives.serialize().to_pybytes()})


def gives_of(columns: Iterable[tuple[str, str]], datasources: Iterable[str]) -> pa.Schema:
    """Return the schema of a statement's rows, which names the datasources that it reads (`DATASOURCES`).

    Args:
        columns: Their names and SQL types.
    """
    import pyarrow as pa

    names, types = zip(*columns, strict=True)
    kinds = _KINDS.get(types, lambda: _arrow_types(types))
    named = json.dumps(sorted(set(datasources)))
    return pa.schema(list(zip(names, kinds, strict=True)), metadata={DATASOURCES: named})


def _arrow_types(types: Iterable[str]) -> Sequence[pa.DataType]:
    """Return the Arrow types of SQL types: to ask DuckDB takes as long as to plan a light statement."""
    casts = ", ".join(f"CAST(NULL AS {kind})" for kind in types)
    with _typing().cursor() as cursor:
        found: Sequence[pa.DataType] = (
            cursor.sql(f"SELECT {casts} WHERE false").to_arrow_table().schema.types
        )
    return found


@cache
def _typing() -> duckdb.DuckDBPyConnection:
    """Return a database that knows types and holds nothing."""
    import duckdb

    silence_copies()
    con = duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
    for setting in (
        "TimeZone = 'UTC'",
        "autoload_known_extensions = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        con.execute(f"SET GLOBAL {setting}").complete()
    return con


_KINDS: Memo[tuple[str, ...], Sequence[pa.DataType]] = Memo(
    values_max=1_000, weight_max=10_000_000, weigh=lambda types, _: sum(map(len, types))
)


def explained(cursor: duckdb.DuckDBPyConnection, plan: Plan) -> pa.Table:
    """Return the lines of EXPLAIN: Carnac's first, then DuckDB's."""
    rows = cursor.execute(plan.sql, list(plan.parameters)).fetchall()
    gives = None
    if not plan.sql.startswith("EXPLAIN ANALYZE "):
        relation = cursor.sql(plan.sql.removeprefix("EXPLAIN "), params=list(plan.parameters))
        columns = zip(relation.columns, map(str, relation.types), strict=True)
        gives = gives_of(columns, (one.datasource for one in plan.scans))
    return plan_table([*plan.told, *(str(row[-1]) for row in rows)], gives)


def read_rows(
    schema: pa.Schema, batches: Generator[pa.RecordBatch, None, None], *, bytes_max: int
) -> pa.Table:
    """Return the rows of a query, as long as they take no more memory than that.

    DuckDB's own limit of memory is about what it works with; of rows that it has handed over it knows nothing.

    Raises:
        Unavailable: They take more.
        duckdb.Error: The query fails.
    """
    import pyarrow as pa

    kept, size = [], 0
    with closing(batches):
        for batch in batches:
            kept.append(batch)
            size += batch.nbytes
            if size > bytes_max:
                raise Unavailable(
                    f"the result of the query takes more than {bytes_max:,} bytes of memory, half of what the query "
                    "engine may use; select fewer rows or columns, write it to a file (carnac sql -o FILE, "
                    "store.export), or raise query_memory_limit_bytes"
                )
    return pa.Table.from_batches(kept, schema)


def batches_of(
    relation: duckdb.DuckDBPyRelation, rows: int = BATCH_ROWS
) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
    """Run a query; return its schema, and its rows as DuckDB hands them over, so many at once.

    Raises:
        duckdb.Error: The query fails, now or while its rows are taken.
    """
    reader = relation.to_arrow_reader(rows)

    def take() -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa

        try:
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except MemoryError:
                    raise
                except (OSError, pa.ArrowException) as error:  # DuckDB's errors amid a stream
                    raise error_of(str(error)) from error
                yield batch
        finally:
            reader.close()

    return reader.schema, take()


def silence_copies() -> None:
    """Let DuckDB say nothing of the copies that `run` wants."""
    warnings.filterwarnings("ignore", COPY_WARNING)


def run(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Sequence[object] = (),
    *,
    is_small: bool,
) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
    """Run a printed statement; return the schema of its rows, and the rows: at once if they are few, else as they come.

    Raises:
        duckdb.Error: It fails, now or while its rows are taken.
    """
    statement = parsed(cursor, sql)
    if not is_small:
        return batches_of(cursor.sql(statement, params=list(parameters)))
    table: pa.Table = cursor.execute(statement, list(parameters)).to_arrow_table()
    return table.schema, (batch for batch in table.to_batches())


def no_rows() -> pa.RecordBatch:
    """Return a batch without rows, where nothing is read."""
    import pyarrow as pa

    return pa.record_batch({"nothing": pa.array([], pa.int64())})


def rows_of(
    cursor: duckdb.DuckDBPyConnection, plan: Plan
) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
    """Run a plan whose views are there; return the schema of its rows, and the rows, which are kept where they may be.

    Raises:
        duckdb.Error: It fails, now or while its rows are taken.
    """
    if plan.whole is not None and plan.whole.table is not None:
        table = plan.whole.table
        return table.schema, (batch for batch in table.to_batches())
    first, batches = run(cursor, plan.sql, plan.parameters, is_small=plan.is_small)
    schema, rows = renamed(first, batches, plan.names)
    if plan.whole is not None:
        rows = plan.whole.held(schema, rows)

    def closed() -> Generator[pa.RecordBatch, None, None]:
        with closing(batches):
            yield from rows

    return schema, closed()


def whole_rows(cursor: duckdb.DuckDBPyConnection, plan: Plan, *, bytes_max: int) -> pa.Table:
    """Return the rows of a plan whose views are there, or the lines of EXPLAIN.

    Raises:
        Unavailable: They take more than `bytes_max` bytes of memory.
        duckdb.Error: It fails.
    """
    if plan.is_explain:
        return explained(cursor, plan)
    return tidy(read_rows(*rows_of(cursor, plan), bytes_max=bytes_max))


def tidy(table: pa.Table) -> pa.Table:
    """Return the table with sums of longs as longs: DuckDB gives them 128 bits, and Arrow makes decimals of those.

    A column that holds a number beyond 64 bits stays as it is.
    """
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if is_huge(column.type):
            try:
                values = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, column.name, values)
    return table


def with_longs(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows as they come, whole numbers of 128 bits, such as sums, as longs.

    Raises:
        Invalid: While the rows are taken: one does not fit.
    """
    import pyarrow as pa

    if not any(is_huge(column.type) for column in schema):
        return schema, batches
    longs = pa.schema(
        [pa.field(one.name, pa.int64() if is_huge(one.type) else one.type) for one in schema]
    )

    def cast() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                as_longs(name, values) if is_huge(values.type) else values
                for name, values in zip(longs.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=longs)

    return longs, cast()


def renamed(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], names: Sequence[str] | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows with other names of columns; None: those that they have."""
    import pyarrow as pa

    if names is None:
        return schema, batches
    fields = [one.with_name(name) for one, name in zip(schema, names, strict=True)]
    wanted = pa.schema(fields)
    return wanted, (pa.RecordBatch.from_arrays(one.columns, schema=wanted) for one in batches)


def is_huge(kind: pa.DataType) -> bool:
    """Whether it is what Arrow makes of DuckDB's 128-bit integers."""
    import pyarrow as pa

    return bool(pa.types.is_decimal128(kind) and kind.precision == HUGE_DIGITS and kind.scale == 0)


def as_longs(name: str, values: pa.Array) -> pa.Array:
    """Return whole numbers of up to 128 bits as longs.

    Raises:
        Invalid: One of them does not fit.
    """
    import pyarrow as pa

    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        raise Invalid(
            f"column '{name}' holds whole numbers beyond 64 bits; select it as text or as double, "
            "CAST(… AS VARCHAR) or CAST(… AS DOUBLE)",
            column=name,
        ) from None
