"""Druid's names for column types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.query.results import is_huge

if TYPE_CHECKING:
    import pyarrow as pa


def native_type(kind: pa.DataType) -> str:
    """Return the type as `typesHeader` says it: `LONG`, `STRING`, `ARRAY<DOUBLE>` and so on."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return native_type(kind.value_type)
    if is_list(kind):
        return f"ARRAY<{native_type(kind.value_type)}>"
    if (
        kinds.is_integer(kind)
        or kinds.is_boolean(kind)
        or kinds.is_timestamp(kind)
        or kinds.is_date(kind)
        or is_huge(kind)
    ):
        return "LONG"
    if kinds.is_float64(kind) or kinds.is_decimal(kind):
        return "DOUBLE"
    if kinds.is_floating(kind):
        return "FLOAT"
    if kinds.is_nested(kind) or is_bytes(kind):
        return "COMPLEX<json>" if kinds.is_nested(kind) else "COMPLEX"
    return "STRING"


def sql_type(kind: pa.DataType) -> str:
    """Return the type as `sqlTypesHeader` says it: `BIGINT`, `VARCHAR`, `TIMESTAMP`, `ARRAY` and so on."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return sql_type(kind.value_type)
    if is_list(kind):
        return "ARRAY"
    named = (
        (kinds.is_boolean, "BOOLEAN"),
        (kinds.is_int8, "TINYINT"),
        (kinds.is_int16, "SMALLINT"),
        (kinds.is_int32, "INTEGER"),
        (kinds.is_integer, "BIGINT"),
        (is_huge, "BIGINT"),
        (kinds.is_decimal, "DECIMAL"),
        (kinds.is_float64, "DOUBLE"),
        (kinds.is_floating, "FLOAT"),
        (kinds.is_timestamp, "TIMESTAMP"),
        (kinds.is_date, "DATE"),
        (kinds.is_nested, "OTHER"),
        (is_bytes, "OTHER"),
    )
    return next((name for is_it, name in named if is_it(kind)), "VARCHAR")


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    import pyarrow.types as kinds

    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes, such as those of sketches."""
    import pyarrow.types as kinds

    return bool(
        kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind)
    )
