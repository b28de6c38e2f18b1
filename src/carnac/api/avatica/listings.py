"""Statements that answer `DatabaseMetaData`: the columns and the order that JDBC wants, over INFORMATION_SCHEMA.

Source: Druid's `DruidMeta`, which asks the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from carnac.api.sql import listed
from carnac.query.schema.information import JDBC_ARRAY, JDBC_TYPE

if TYPE_CHECKING:
    from carnac.api.avatica.asked import Asked

Listing = tuple[str, Sequence[object]]
"""A statement and its values."""
CATALOGS = "SELECT DISTINCT CATALOG_NAME AS TABLE_CAT FROM INFORMATION_SCHEMA.SCHEMATA ORDER BY 1"
TABLE_TYPES = "SELECT DISTINCT TABLE_TYPE AS TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES ORDER BY 1"
_SCHEMAS = (
    "SELECT SCHEMA_NAME AS TABLE_SCHEM, CATALOG_NAME AS TABLE_CATALOG "
    "FROM INFORMATION_SCHEMA.SCHEMATA{where} ORDER BY 2, 1"
)
_TABLES = (
    "SELECT TABLE_CATALOG AS TABLE_CAT, TABLE_SCHEMA AS TABLE_SCHEM, TABLE_NAME AS TABLE_NAME, "
    "TABLE_TYPE AS TABLE_TYPE, {nulls} FROM INFORMATION_SCHEMA.TABLES{where} ORDER BY 4, 1, 2, 3"
)
_TABLE_NULLS = (
    "REMARKS", "TYPE_CAT", "TYPE_SCHEM", "TYPE_NAME", "SELF_REFERENCING_COL_NAME", "REF_GENERATION"
)  # fmt: skip
_COLUMNS = (
    "SELECT TABLE_CATALOG AS TABLE_CAT, TABLE_SCHEMA AS TABLE_SCHEM, TABLE_NAME AS TABLE_NAME, "
    "COLUMN_NAME AS COLUMN_NAME, CAST(JDBC_TYPE AS INTEGER) AS DATA_TYPE, DATA_TYPE AS TYPE_NAME, "
    "-1 AS COLUMN_SIZE, -1 AS BUFFER_LENGTH, -1 AS DECIMAL_DIGITS, -1 AS NUM_PREC_RADIX, "
    "CASE IS_NULLABLE WHEN 'YES' THEN 1 ELSE 0 END AS NULLABLE, CAST(NULL AS VARCHAR) AS REMARKS, "
    "COLUMN_DEFAULT AS COLUMN_DEF, -1 AS SQL_DATA_TYPE, -1 AS SQL_DATETIME_SUB, "
    "-1 AS CHAR_OCTET_LENGTH, CAST(ORDINAL_POSITION AS INTEGER) AS ORDINAL_POSITION, "
    "IS_NULLABLE AS IS_NULLABLE, {nulls}, -1 AS SOURCE_DATA_TYPE, 'NO' AS IS_AUTOINCREMENT, "
    "'NO' AS IS_GENERATEDCOLUMN FROM INFORMATION_SCHEMA.COLUMNS{where} ORDER BY 1, 2, 3, 17"
)
_COLUMN_NULLS = ("SCOPE_CATALOG", "SCOPE_SCHEMA", "SCOPE_TABLE")
_TYPE = (
    "SELECT '{name}' AS TYPE_NAME, {id} AS DATA_TYPE, -1 AS PRECISION, {quote} AS LITERAL_PREFIX, "
    "{quote} AS LITERAL_SUFFIX, CAST(NULL AS VARCHAR) AS CREATE_PARAMS, 1 AS NULLABLE, "
    "{is_text} AS CASE_SENSITIVE, 3 AS SEARCHABLE, false AS UNSIGNED_ATTRIBUTE, "
    "false AS FIXED_PREC_SCALE, false AS AUTO_INCREMENT, '{name}' AS LOCAL_TYPE_NAME, "
    "0 AS MINIMUM_SCALE, 0 AS MAXIMUM_SCALE, {id} AS SQL_DATA_TYPE, "
    "CAST(NULL AS INTEGER) AS SQL_DATETIME_SUB, {radix} AS NUM_PREC_RADIX"
)


def schemas(asked: Asked) -> Listing:
    """Return the statement that lists schemas."""
    where, values = listed.of_schemas(asked.text("catalog"), asked.text("schemaPattern"))
    return _SCHEMAS.format(where=where), values


def tables(asked: Asked) -> Listing:
    """Return the statement that lists tables."""
    where, values = listed.of_tables(*_of_tables(asked), kinds=asked.texts("typeList"))
    return _TABLES.format(where=where, nulls=_nulls(_TABLE_NULLS)), values


def columns(asked: Asked) -> Listing:
    """Return the statement that lists columns."""
    where, values = listed.of_tables(*_of_tables(asked), asked.text("columnNamePattern"))
    return _COLUMNS.format(where=where, nulls=_nulls(_COLUMN_NULLS)), values


def type_info() -> str:
    """Return the statement that lists types."""
    kinds = {**JDBC_TYPE, "ARRAY": JDBC_ARRAY}
    return " UNION ALL ".join(
        _TYPE.format(
            name=name,
            id=number,
            quote="''''" if name == "VARCHAR" else "CAST(NULL AS VARCHAR)",
            is_text=str(name == "VARCHAR").lower(),
            radix=10 if name in {"BIGINT", "DOUBLE", "FLOAT"} else 0,
        )
        for name, number in sorted(kinds.items(), key=lambda one: one[1])
    )


def _of_tables(asked: Asked) -> tuple[str | None, str | None, str | None]:
    return asked.text("catalog"), asked.text("schemaPattern"), asked.text("tableNamePattern")


def _nulls(names: Sequence[str]) -> str:
    return ", ".join(f"CAST(NULL AS VARCHAR) AS {name}" for name in names)
