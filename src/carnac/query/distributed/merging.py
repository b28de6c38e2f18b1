"""The broker's side: the answers of leaves become the views that the final statement names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.core.words import counted
from carnac.errors import Invalid, Unavailable
from carnac.ports import QueryResult
from carnac.ports.distributed import Distribution, Stand
from carnac.query.binding import empty_rows
from carnac.query.distributed.sizes import SMALL_ROWS
from carnac.query.results import gives_of, plan_table, read_rows, run, tidy
from carnac.query.scans import with_views

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def merged_table(
    cursor: duckdb.DuckDBPyConnection,
    plan: Distribution,
    answers: Mapping[str, Sequence[Any]],
    bytes_max: int,
) -> pa.Table:
    """Return what the broker makes of what leaves answered.

    Args:
        bytes_max: That the answers may take in memory, and the result as well.

    Raises:
        Invalid: Something else was answered than was asked; it is more than the plan's limit.
        Unavailable: It takes more memory.
    """
    if plan.told:
        return plan_table(plan.told, gives_of(plan.gives, plan.basis.columns))
    sql = show_answers(cursor, plan, answers, bytes_max=bytes_max)
    rows = sum(getattr(one, "num_rows", SMALL_ROWS) for group in answers.values() for one in group)
    # a statement that one server could answer alone makes no more rows of its parts
    is_small = plan.whole_sql is not None and rows < SMALL_ROWS
    table = tidy(read_rows(*run(cursor, sql, is_small=is_small), bytes_max=bytes_max))
    return table if plan.names is None else table.rename_columns(list(plan.names))


def result_of(plan: Distribution, table: pa.Table) -> QueryResult:
    """Return a table as the answer to a distributed statement."""
    return QueryResult(
        table=table,
        revision=plan.revision,
        segments_total=plan.basis.segments_total,
        segments_read=plan.basis.segments_read,
    )


def whole_table(
    plan: Distribution, answers: Mapping[str, Sequence[Any]], bytes_max: int
) -> pa.Table:
    """Return the answer of the one server that has answered the whole statement; DuckDB has nothing to do.

    Raises:
        Invalid: It has answered something else.
        Unavailable: It takes more than `bytes_max` bytes of memory.
    """
    import pyarrow as pa

    [tables] = answers.values()
    table = tidy(tables[0] if len(tables) == 1 else pa.concat_tables(tables))
    names = table.column_names if plan.names is None else list(plan.names)
    if len(names) != table.num_columns:
        raise Invalid(_other_columns(table.num_columns, len(names)))
    _check_size(table.nbytes, bytes_max)
    return table if names == table.column_names else table.rename_columns(names)


def show_answers(
    cursor: duckdb.DuckDBPyConnection,
    plan: Distribution,
    answers: Mapping[str, Sequence[Any]],
    *,
    bytes_max: int,
) -> str:
    """Let the views of a plan show what leaves answered; return the final statement over them.

    Raises:
        Invalid: Something else was answered than was asked; it is more than the plan's limit.
        Unavailable: It takes more than `bytes_max` bytes of memory.
    """
    unknown = answers.keys() - {stand.leaf for stand in plan.stands}
    if unknown:
        raise Invalid(f"there are answers to {', '.join(sorted(unknown))}, which was not asked")
    tables = [one for group in answers.values() for one in group if hasattr(one, "nbytes")]
    size_bytes = sum(one.nbytes for one in tables)
    if plan.limit is not None:
        plan.limit.check(sum(one.num_rows for one in tables), size_bytes)
    _check_size(size_bytes, bytes_max)
    for name, table in plan.tables.items():
        cursor.register(name, table)
    views = {}
    for stand in plan.stands:
        is_repeated = plan.final_sql.count(stand.view) > 1
        names = []
        for place, rows in enumerate(_together(answers.get(stand.leaf, ()), stand)):
            names.append(f"{stand.leaf}_{place}")
            cursor.register(names[-1], _table_of(rows) if is_repeated else rows)
        sql = stand_sql(stand, names)
        if is_repeated:
            # DuckDB 2.0 reads Arrow once for all places that name a common table, and waits for ever for the one that
            # a LIMIT has stopped, whether or not it is MATERIALIZED
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {stand.view} AS {sql}")
        else:
            views[stand.view] = sql
    return with_views(plan.final_sql, views)


def _table_of(rows: Any) -> Any:
    """Return rows that may be read several times."""
    return rows if hasattr(rows, "nbytes") else rows.read_all()


def _check_size(size_bytes: int, bytes_max: int) -> None:
    if size_bytes > bytes_max:
        raise Unavailable(
            f"the answers of the servers take more than {bytes_max:,} bytes of memory, half of what the query engine "
            "may use; select fewer rows or groups, or raise query_memory_limit_bytes"
        )


def _other_columns(found: int, wanted: int) -> str:
    return (
        f"a server answered with {counted(found, 'column')}, not with {wanted}; "
        "do all servers run this version of Carnac?"
    )


def stand_sql(stand: Stand, tables: Sequence[str]) -> str:
    """Return the SELECT of a stand's view over tables whose columns are `p_0`, `p_1`, … by their places."""
    rows = " UNION ALL ".join(f"SELECT * FROM {name}" for name in tables) or empty_rows(stand.types)
    return f"SELECT {stand.select} FROM ({rows})"


def _together(answers: Sequence[Any], stand: Stand) -> Sequence[Any]:
    """Return the answers of servers with columns named by their places.

    Tables of one schema are one: DuckDB takes longer to hear of a small table than to read it. It takes longer to read
    sums of 128 bits, which are decimals in Arrow, than for Arrow to make longs of them.
    """
    import pyarrow as pa

    rows = [_numbered(one, stand) for one in answers]
    schema = rows[0].schema if rows else None
    if any(not isinstance(one, pa.Table) or one.schema != schema for one in rows):
        return rows
    return [tidy(pa.concat_tables(rows))] if rows else []


def _numbered(rows: Any, stand: Stand) -> Any:
    """Return a table or a reader with columns named by their places."""
    import pyarrow as pa

    if len(rows.schema) != len(stand.types):
        raise Invalid(_other_columns(len(rows.schema), len(stand.types)))
    names = [f"p_{place}" for place in range(len(stand.types))]
    if isinstance(rows, pa.Table):
        return rows.rename_columns(names)
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(rows.schema, names, strict=True)]
    )
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
