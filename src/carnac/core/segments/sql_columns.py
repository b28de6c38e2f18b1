"""SQL names and types of the columns of segment files, for writers and queries."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.segments.segment import ColumnType

HIDDEN_PREFIX = "__at_"
"""Begins the names of columns that belong to first and last metrics, not to the user."""

SQL_TYPE: Mapping[ColumnType, str] = {
    ColumnType.STRING: "VARCHAR",
    ColumnType.LONG: "BIGINT",
    ColumnType.DOUBLE: "DOUBLE",
    ColumnType.FLOAT: "FLOAT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.JSON: "VARCHAR",
    ColumnType.STRING_ARRAY: "VARCHAR[]",
    ColumnType.LONG_ARRAY: "BIGINT[]",
    ColumnType.DOUBLE_ARRAY: "DOUBLE[]",
    ColumnType.HLL: "BLOB",
    ColumnType.THETA: "BLOB",
    ColumnType.QUANTILES: "BLOB",
}
"""DuckDB's names for column types."""
