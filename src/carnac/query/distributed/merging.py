"""The broker's side: what leaves answered becomes the views that the final statement names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid, Unavailable
from carnac.ports.distributed import Distribution, Stand
from carnac.query.distributed.binding import empty_rows
from carnac.query.results import plan_table, read_rows, tidy

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def merged_table(
    cursor: duckdb.DuckDBPyConnection,
    plan: Distribution,
    answers: Mapping[str, Sequence[Any]],
    *,
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
        return plan_table([(line,) for line in plan.told])
    show_answers(cursor, plan, answers, bytes_max=bytes_max)
    table = tidy(read_rows(cursor.sql(plan.final_sql), bytes_max=bytes_max))
    return table if plan.names is None else table.rename_columns(list(plan.names))


def show_answers(
    cursor: duckdb.DuckDBPyConnection,
    plan: Distribution,
    answers: Mapping[str, Sequence[Any]],
    *,
    bytes_max: int,
) -> None:
    """Let the views of a plan show what leaves answered.

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
    if size_bytes > bytes_max:
        raise Unavailable(
            f"what the servers answered takes more than {bytes_max:,} bytes of memory, half of what the query engine "
            "may use; select fewer rows or groups, or raise query_memory_limit_bytes"
        )
    for name, table in plan.tables.items():
        cursor.register(name, table)
    for stand in plan.stands:
        names = []
        for place, rows in enumerate(answers.get(stand.leaf, ())):
            names.append(f"{stand.leaf}_{place}")
            cursor.register(names[-1], _numbered(rows, stand))
        cursor.execute(stand_sql(stand, names))


def stand_sql(stand: Stand, tables: Sequence[str]) -> str:
    """Return the statement that makes a stand's view of tables whose columns are `p_0`, `p_1`, … by their places."""
    rows = " UNION ALL ".join(f"SELECT * FROM {name}" for name in tables) or empty_rows(stand.types)
    return f"CREATE OR REPLACE TEMP VIEW {stand.view} AS SELECT {stand.select} FROM ({rows})"


def _numbered(rows: Any, stand: Stand) -> Any:
    """Return a table or a reader with columns named by their places."""
    import pyarrow as pa

    if len(rows.schema) != len(stand.types):
        raise Invalid(
            f"a server answered with {len(rows.schema)} columns, not with {len(stand.types)}; "
            "do all servers run this version of Carnac?"
        )
    names = [f"p_{place}" for place in range(len(stand.types))]
    if isinstance(rows, pa.Table):
        return rows.rename_columns(names)
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(rows.schema, names, strict=True)]
    )
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
