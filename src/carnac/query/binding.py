"""Binding of a statement by DuckDB before it runs: names and types of its columns; and which types can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.query.planning import Scan
from carnac.query.results import arrow_tables
from carnac.query.scans import TIME_SQL_TYPE, scan_sql

if TYPE_CHECKING:
    import duckdb

_SENT = frozenset(
    {
        "bigint",
        "blob",
        "boolean",
        "date",
        "decimal",
        "double",
        "float",
        "hugeint",
        "integer",
        "interval",
        "smallint",
        "time",
        "timestamp",
        "timestamp with time zone",
        "tinyint",
        "ubigint",
        "uinteger",
        "usmallint",
        "utinyint",
        "varchar",
    }
)
"""Types whose values come back from Arrow as they were, cast to their type."""
_HOLDING = frozenset({"list", "struct", "map", "array"})


@dataclass(frozen=True, slots=True)
class Bound:
    """Columns that a statement gives."""

    names: Sequence[str]
    types: Sequence[str]
    can_send: bool


def bind(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()) -> Bound:
    """Return what columns a statement gives; the tables that it names must be there.

    Raises:
        duckdb.Error: It names what there is not, or puts together what does not fit.
    """
    relation = cursor.sql(sql, params=list(parameters))
    types = relation.types
    return Bound(
        tuple(relation.columns), tuple(map(str, types)), all(_is_sent(kind) for kind in types)
    )


def _is_sent(kind: Any) -> bool:
    if kind.id in _HOLDING:
        return all(_is_sent(child) for _, child in kind.children if not isinstance(child, int))
    return kind.id in _SENT


def show_empty(
    cursor: duckdb.DuckDBPyConnection,
    scans: Sequence[Scan],
    tables: Mapping[str, Mapping[str, Sequence[Any]]],
) -> None:
    """Let views of scans be there without rows, and small tables as they are."""
    for scan in scans:
        cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW {scan.view} AS {scan_sql(scan.columns, [], {})}"
        )
    for name, table in arrow_tables(tables).items():
        cursor.register(name, table)


def scan_types(scan: Scan) -> dict[str, str]:
    """Return the SQL types of a scan's columns, `__time` among them."""
    return {TIME_COLUMN: TIME_SQL_TYPE} | {
        name: SQL_TYPE[kind] for name, kind in scan.columns.items()
    }


def show_types(cursor: duckdb.DuckDBPyConnection, name: str, types: Mapping[str, str]) -> None:
    """Let a view be there without rows, with columns of these types."""
    listed = ", ".join(f"CAST(NULL AS {kind}) AS {quote(one)}" for one, kind in types.items())
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {listed} WHERE false")


def empty_rows(types: Sequence[str]) -> str:
    """Return the SELECT of no rows with columns `p_0`, `p_1`, … of these types."""
    columns = (f"CAST(NULL AS {kind}) AS p_{place}" for place, kind in enumerate(types))
    return f"SELECT {', '.join(columns)} WHERE false"


def cast_all(types: Sequence[str]) -> str:
    """Return the select list of columns `p_0`, `p_1`, … cast to these types."""
    return ", ".join(f"CAST(p_{place} AS {kind}) AS p_{place}" for place, kind in enumerate(types))
