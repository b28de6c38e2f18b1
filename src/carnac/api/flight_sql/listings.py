"""Catalogs, schemas and tables of one revision, which drivers show as a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.api.flight_sql import info
from carnac.api.sql import listed
from carnac.api.sql.requests import split_settings
from carnac.ports.answers import Statement
from carnac.query.schema.outline import beside_parameters

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.flight_sql.statements import Asker, Statements

LIST_TIMEOUT_MS = 10_000
_CATALOGS = "SELECT DISTINCT CATALOG_NAME FROM INFORMATION_SCHEMA.SCHEMATA ORDER BY 1"
_TYPES = "SELECT DISTINCT TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES ORDER BY 1"
_SCHEMAS = "SELECT CATALOG_NAME, SCHEMA_NAME FROM INFORMATION_SCHEMA.SCHEMATA{where} ORDER BY 1, 2"
_TABLES = (
    "SELECT TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES{where} "
    "ORDER BY 4, 1, 2, 3"
)
_COLUMNS = (
    "SELECT t.TABLE_CATALOG, t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, c.COLUMN_NAME, c.DATA_TYPE "
    "FROM (SELECT * FROM INFORMATION_SCHEMA.TABLES{where}) t LEFT JOIN INFORMATION_SCHEMA.COLUMNS c "
    "ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME "
    "ORDER BY 4, 1, 2, 3, c.ORDINAL_POSITION"
)
_KINDS = (
    "SELECT DISTINCT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS "
    "WHERE TABLE_SCHEMA IN ('druid', 'lookup') AND COLUMN_NAME IN ({marks})"
)
_PREFIX = "CommandGet"
Listing = Callable[["Lists", Any, "Asker"], "pa.Table"]


class Lists:
    """Answers to commands that list what there is.

    Args:
        new_id: Makes ids of queries.
    """

    def __init__(self, statements: Statements, new_id: Callable[[], str]) -> None:
        self._statements = statements
        self._new_id = new_id

    def catalogs(self, _command: Any, asker: Asker) -> pa.Table:
        """Return the catalogs: the one that there is."""
        return _named(("catalog_name!",), self._rows(_CATALOGS, [], asker))

    def table_types(self, _command: Any, asker: Asker) -> pa.Table:
        """Return the kinds of tables."""
        return _named(("table_type!",), self._rows(_TYPES, [], asker))

    def schemas(self, command: Any, asker: Asker) -> pa.Table:
        """Return the schemas that a command asks for."""
        where, values = listed.of_schemas(*_said(command, "catalog", "db_schema_filter_pattern"))
        rows = self._rows(_SCHEMAS.format(where=where), values, asker)
        return _named(("catalog_name", "db_schema_name!"), rows)

    def tables(self, command: Any, asker: Asker) -> pa.Table:
        """Return the tables that a command asks for, with their columns if it says so."""
        asked = _said(command, "catalog", "db_schema_filter_pattern", "table_name_filter_pattern")
        where, values = listed.of_tables(*asked, kinds=list(command.table_types) or None)
        names = ("catalog_name", "db_schema_name", "table_name!", "table_type!")
        sql = _COLUMNS if command.include_schema else _TABLES
        rows = self._rows(sql.format(where=where), values, asker)
        if not command.include_schema:
            return _named(names, rows)
        return _with_schemas(names, rows, zone=None if asker.is_jdbc else "UTC")

    def parameter_kinds(self, sql: str, count: int, asker: Asker) -> list[pa.DataType]:
        """Return the types of the `?` of a statement, for a driver that sends no other: texts if nothing says it."""
        import pyarrow as pa

        beside = beside_parameters(split_settings(sql)[0])
        names = sorted({name for kind, name in beside.values() if kind == "column"})
        found: dict[str, set[str]] = {}
        if names:
            marks = ", ".join("?" for _ in names)
            for name, kind in self._rows(_KINDS.format(marks=marks), names, asker):
                found.setdefault(str(name), set()).add(str(kind))
        kinds = []
        for place in range(1, count + 1):
            what, name = beside.get(str(place), ("type", "VARCHAR"))
            said = {name} if what == "type" else found.get(name, set())
            kind = arrow_type(next(iter(said)), None) if len(said) == 1 else pa.string()
            # the driver puts milliseconds where it is told another unit
            kinds.append(pa.timestamp("ms") if pa.types.is_timestamp(kind) else kind)
        return kinds

    def _rows(self, sql: str, values: Sequence[object], asker: Asker) -> list[tuple[object, ...]]:
        statement = Statement(
            sql=sql,
            parameters=values,
            query_id=self._new_id(),
            client=asker.client,
            timeout_ms=LIST_TIMEOUT_MS,
        )
        call, batches = self._statements.run(statement, lambda: False)
        try:
            return [
                row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)
            ]
        finally:
            self._statements.end(call)


LISTS: Mapping[str, Listing] = {
    f"{_PREFIX}Catalogs": Lists.catalogs,
    f"{_PREFIX}DbSchemas": Lists.schemas,
    f"{_PREFIX}Tables": Lists.tables,
    f"{_PREFIX}TableTypes": Lists.table_types,
    f"{_PREFIX}SqlInfo": lambda _, command, __: info.sql_info(set(command.info)),
    f"{_PREFIX}XdbcTypeInfo": lambda _, command, __: info.type_info(
        command.data_type if command.HasField("data_type") else None
    ),
    f"{_PREFIX}PrimaryKeys": lambda *_: info.primary_keys(),
    f"{_PREFIX}ExportedKeys": lambda *_: info.foreign_keys(),
    f"{_PREFIX}ImportedKeys": lambda *_: info.foreign_keys(),
    f"{_PREFIX}CrossReference": lambda *_: info.foreign_keys(),
}
"""Functions that answer commands, by the name of the command."""


def _said(command: Any, *names: str) -> list[Any]:
    """Return fields of a command; None: it does not say one."""
    return [getattr(command, name) if command.HasField(name) else None for name in names]


def _named(names: Sequence[str], rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return rows of texts; a name that ends with `!` is of a column without nulls."""
    import pyarrow as pa

    fields = [
        pa.field(name.rstrip("!"), pa.string(), nullable=not name.endswith("!")) for name in names
    ]
    columns = [[row[place] for row in rows] for place in range(len(names))]
    return pa.Table.from_arrays(
        [pa.array(column, pa.string()) for column in columns], schema=pa.schema(fields)
    )


def _with_schemas(
    names: Sequence[str], rows: Sequence[Sequence[object]], *, zone: str | None
) -> pa.Table:
    """Return tables, each once, with the schema of its columns, which stand beside it."""
    import pyarrow as pa

    found: dict[tuple[object, ...], list[tuple[str, pa.DataType]]] = {}
    for *table, column, kind in rows:
        columns = found.setdefault(tuple(table), [])
        if column is not None:
            columns.append((str(column), arrow_type(str(kind), zone)))
    schemas = [pa.schema(columns).serialize().to_pybytes() for columns in found.values()]
    field = pa.field("table_schema", pa.binary(), nullable=False)
    return _named(names, list(found)).append_column(field, pa.array(schemas, pa.binary()))


def arrow_type(kind: str, zone: str | None) -> pa.DataType:
    """Return the type in which a column of a type of SQL comes; of one that has no other, a text.

    Args:
        zone: Of instants; None: they come without one.
    """
    import pyarrow as pa

    if kind.endswith("[]"):
        return pa.list_(arrow_type(kind.removesuffix("[]"), zone))
    named = {
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "FLOAT": pa.float32(),
        "BOOLEAN": pa.bool_(),
        "INTEGER": pa.int32(),
        "TIMESTAMP": pa.timestamp("us", tz=zone),
        "BLOB": pa.binary(),
    }
    return named.get(kind, pa.string())
