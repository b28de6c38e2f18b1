"""The tables of `information_schema`, from which clients learn which tables and columns there are.

Columns have Druid's names, in its order. Values that a store does not have are null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.ports import Catalog
from carnac.ports.queries import SYSTEM_TABLES
from carnac.query.dialect.druid import routines as druid_routines
from carnac.query.functions import NAMES
from carnac.query.rewriting.own import OWN_FUNCTIONS
from carnac.query.rewriting.sketching import SKETCH_AGGREGATES
from carnac.query.schema.system import SYSTEM_SCHEMA

INFORMATION_SCHEMA = "information_schema"
LOOKUP_SCHEMA = "lookup"
SCHEMA_NAME = "druid"
CATALOG_NAME = "druid"
if TYPE_CHECKING:
    import duckdb

Columns = dict[str, list[Any]]
Shown = Callable[[str], Mapping[str, ColumnType]]
"""Returns the columns of a datasource that a user sees, without `__time`."""

JDBC_TYPE: Mapping[str, int] = {
    "BIGINT": -5,
    "DOUBLE": 8,
    "FLOAT": 6,
    "BOOLEAN": 16,
    "VARCHAR": 12,
    "TIMESTAMP": 93,
}
"""Numbers of JDBC by types of SQL; lists are `JDBC_ARRAY`, the rest is `JDBC_OTHER`."""
JDBC_ARRAY = 2003
JDBC_OTHER = 1111
_ITSELF = "INFORMATION_SCHEMA"
_SCHEMATA = (
    "CATALOG_NAME",
    "SCHEMA_NAME",
    "SCHEMA_OWNER",
    "DEFAULT_CHARACTER_SET_CATALOG",
    "DEFAULT_CHARACTER_SET_SCHEMA",
    "DEFAULT_CHARACTER_SET_NAME",
    "SQL_PATH",
)
_TABLES = (
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "TABLE_TYPE",
    "IS_JOINABLE",
    "IS_BROADCAST",
)
_COLUMNS = (
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "COLUMN_NAME",
    "ORDINAL_POSITION",
    "COLUMN_DEFAULT",
    "IS_NULLABLE",
    "DATA_TYPE",
    "CHARACTER_MAXIMUM_LENGTH",
    "CHARACTER_OCTET_LENGTH",
    "NUMERIC_PRECISION",
    "NUMERIC_PRECISION_RADIX",
    "NUMERIC_SCALE",
    "DATETIME_PRECISION",
    "CHARACTER_SET_NAME",
    "COLLATION_NAME",
    "JDBC_TYPE",
)
_ROUTINES = (
    "ROUTINE_CATALOG",
    "ROUTINE_SCHEMA",
    "ROUTINE_NAME",
    "ROUTINE_TYPE",
    "IS_AGGREGATOR",
    "SIGNATURES",
)
_OWN = {"COLUMNS": _COLUMNS, "ROUTINES": _ROUTINES, "SCHEMATA": _SCHEMATA, "TABLES": _TABLES}
_FUNCTIONS = """
SELECT function_name, function_type, [coalesce(one, 'ANY') FOR one IN parameter_types]
FROM duckdb_functions()
WHERE function_type IN ('scalar', 'aggregate', 'macro', 'window')
ORDER BY ALL
"""
_NUMBERS = frozenset({"ORDINAL_POSITION", "JDBC_TYPE"})


def schemata() -> Columns:
    """Return the schemas."""
    names = (SCHEMA_NAME, _ITSELF, LOOKUP_SCHEMA, SYSTEM_SCHEMA)
    return _columns(_SCHEMATA, [(CATALOG_NAME, name, *[None] * 5) for name in names])


def tables(catalog: Catalog) -> Columns:
    """Return datasources, lookups and these tables."""
    rows = [(SCHEMA_NAME, name, "TABLE", "NO") for name in sorted(catalog.datasource_names())]
    rows += [(LOOKUP_SCHEMA, name, "TABLE", "YES") for name in sorted(catalog.lookups())]
    rows += [(_ITSELF, name, "SYSTEM_TABLE", "NO") for name in _OWN]
    rows += [(SYSTEM_SCHEMA, name, "SYSTEM_TABLE", "NO") for name in SYSTEM_TABLES]
    return _columns(
        _TABLES,
        [
            (CATALOG_NAME, schema, name, kind, is_lookup, is_lookup)
            for schema, name, kind, is_lookup in rows
        ],
    )


def columns(catalog: Catalog, shown: Shown) -> Columns:
    """Return the columns of datasources, lookups and these tables."""
    rows: list[tuple[object, ...]] = []
    for name in sorted(catalog.datasource_names()):
        rows.append(_row(SCHEMA_NAME, name, TIME_COLUMN, 1, "TIMESTAMP", is_nullable=False))
        for place, (column, kind) in enumerate(shown(name).items(), start=2):
            rows.append(_row(SCHEMA_NAME, name, column, place, SQL_TYPE[kind]))
    for name in sorted(catalog.lookups()):
        rows.append(_row(LOOKUP_SCHEMA, name, "k", 1, "VARCHAR", is_nullable=False))
        rows.append(_row(LOOKUP_SCHEMA, name, "v", 2, "VARCHAR"))
    for name, own in _OWN.items():
        for place, column in enumerate(own, start=1):
            kind_of = "BIGINT" if column in _NUMBERS else "VARCHAR"
            rows.append(_row(_ITSELF, name, column, place, kind_of))
    for name, kinds in SYSTEM_TABLES.items():
        for place, (column, kind_of) in enumerate(kinds.items(), start=1):
            rows.append(_row(SYSTEM_SCHEMA, name, column, place, kind_of))
    return _columns(_COLUMNS, rows)


def routines(cursor: duckdb.DuckDBPyConnection) -> Columns:
    """Return the functions that a statement may call, each with the forms that it has."""
    forms: dict[str, tuple[bool, list[str]]] = {}
    for name, kind, types in cursor.execute(_FUNCTIONS).fetchall():
        if name in NAMES:
            _, texts = forms.setdefault(name.upper(), (kind == "aggregate", []))
            texts.append(f"'{name.upper()}({', '.join(types)})'")
    for name, count, is_aggregate in druid_routines():
        _, texts = forms.setdefault(name.upper(), (is_aggregate, []))
        listed = "..." if count is None else ", ".join(["ANY"] * count)
        texts.append(f"'{name.upper()}({listed})'")
    for name in OWN_FUNCTIONS - NAMES:
        forms[name.upper()] = (name in SKETCH_AGGREGATES, [f"'{name.upper()}(...)'"])
    return _columns(
        _ROUTINES,
        [
            (CATALOG_NAME, _ITSELF, name, "FUNCTION", "YES" if is_sum else "NO", "\n".join(texts))
            for name, (is_sum, texts) in sorted(forms.items())
        ],
    )


def _row(
    schema: str, table: str, column: str, place: int, kind: str, *, is_nullable: bool = True
) -> tuple[object, ...]:
    jdbc = JDBC_ARRAY if kind.endswith("[]") else JDBC_TYPE.get(kind, JDBC_OTHER)
    head = (CATALOG_NAME, schema, table, column, place, "", "YES" if is_nullable else "NO", kind)
    return (*head, *[None] * (len(_COLUMNS) - len(head) - 1), jdbc)


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Columns:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
