"""Rows in and out of DuckDB as Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_HUGE_DIGITS = 38
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
    """Return what EXPLAIN says, one line for each part of the plan."""
    import pyarrow as pa

    return pa.table({"plan": pa.array([str(row[-1]) for row in rows], type=pa.string())})


def tidy(table: pa.Table) -> pa.Table:
    """Return the table with sums of longs as longs: DuckDB gives them 128 bits, and Arrow makes decimals of those.

    A column that holds a number beyond 64 bits stays as it is.
    """
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if (
            pa.types.is_decimal128(column.type)
            and column.type.precision == _HUGE_DIGITS
            and column.type.scale == 0
        ):
            try:
                values = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, column.name, values)
    return table
