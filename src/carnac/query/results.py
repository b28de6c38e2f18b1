"""Rows in and out of DuckDB as Arrow tables."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid, Unavailable
from carnac.query.messages import error_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.query.planning import Plan

BATCH_ROWS = 122_880
"""Rows that are taken from DuckDB at once: those of one of its row groups."""
HUGE_DIGITS = 38
"""Decimal digits of DuckDB's 128-bit integers in Arrow."""


def arrow_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return a table of texts and whole numbers."""
    import pyarrow as pa

    arrays = [
        pa.array(values, type=pa.int64() if values and isinstance(values[0], int) else pa.string())
        for values in columns.values()
    ]
    return pa.table(dict(zip(columns, arrays, strict=True)))


def plan_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return what EXPLAIN says, line by line."""
    import pyarrow as pa

    lines = [line for row in rows for line in str(row[-1]).splitlines()]
    return pa.table({"plan": pa.array(lines, type=pa.string())})


def explained(cursor: duckdb.DuckDBPyConnection, plan: Plan) -> pa.Table:
    """Return what EXPLAIN says: what Carnac has to say first, then DuckDB."""
    rows = cursor.execute(plan.sql, list(plan.parameters)).fetchall()
    return plan_table([*((line,) for line in plan.told), *rows])


def read_rows(relation: duckdb.DuckDBPyRelation, *, bytes_max: int) -> pa.Table:
    """Return the rows of a query, as long as they take no more memory than that.

    DuckDB's own limit of memory is about what it works with; of rows that it has handed over it knows nothing.

    Raises:
        Unavailable: They take more.
        duckdb.Error: The query fails.
    """
    import pyarrow as pa

    kept, size = [], 0
    schema, batches = batches_of(relation)
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
                except (OSError, pa.ArrowException) as error:  # what DuckDB says amid a stream
                    raise error_of(str(error)) from error
                yield batch
        finally:
            reader.close()

    return reader.schema, take()


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

    return bool(kind == pa.decimal128(HUGE_DIGITS, 0))


def as_longs(name: str, values: pa.Array) -> pa.Array:
    """Return whole numbers of 128 bits as longs.

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
