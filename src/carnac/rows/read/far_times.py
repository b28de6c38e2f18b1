"""Typed times of Arrow data that the engine has no room for.

DuckDB ends the statement, or the whole database, over a time of more than 290,000 years from now, before any expression
sees it. So such a time becomes infinite, in lists and objects, too. The rules of times and values take an infinite one
for a time out of range. Seconds and milliseconds become microseconds, the unit of the engine's own type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_US_OF_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_LEAST_US = -9_223_372_022_400_000_000
"""The first of the engine's days."""
_LEAST_NS = 1_000 - (1 << 63)
"""The first nanosecond of which the microsecond that it is in begins among them."""
_INFINITE = (1 << 63) - 1

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows that the engine has room for."""
    for index, field in enumerate(schema):
        schema = schema.set(index, field.with_type(_held_type(field.type)))
    return schema


def held_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with far times made infinite."""
    return map(held_rows, batches)


def held_rows(rows: Rows) -> Rows:
    """Return the rows with far times made infinite."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_nested(field.type):
            column = rows.column(index)
            held = _held(column) if isinstance(column, pa.Array) else _held_pieces(column)
            if held is not column:
                rows = rows.set_column(index, field.with_type(held.type), held)
    return rows


def _held_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit in _US_OF_UNIT else kind
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_held_type(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_held_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_held_type(field.type)) for field in kind])
    return kind


def _held_pieces(column: pa.ChunkedArray) -> pa.ChunkedArray:
    pieces = [_held(piece) for piece in column.chunks]
    return pa.chunked_array(pieces, _held_type(column.type))


def _held(column: pa.Array) -> pa.Array:
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        inner = column.values
        held = _held(inner)
        if held is inner:
            return column
        # a copy from 0 on, beside which a mask may stand
        offsets = pa.array(column.offsets.to_numpy())
        made = type(column).from_arrays(offsets, held, mask=column.is_null())
        return made.cast(_held_type(column.type))
    if pa.types.is_struct(column.type):
        parts = [column.field(index) for index in range(column.type.num_fields)]
        held_parts = [_held(one) for one in parts]
        if all(one is other for one, other in zip(parts, held_parts, strict=True)):
            return column
        fields = list(_held_type(column.type))
        return pa.StructArray.from_arrays(held_parts, fields=fields, mask=column.is_null())
    if not pa.types.is_timestamp(column.type):
        return column
    return _held_times(column) if column.type.unit in _US_OF_UNIT else _held_nanoseconds(column)


def _held_nanoseconds(column: pa.Array) -> pa.Array:
    """Return times of which none is so early that the engine, which rounds down to microseconds, finds none before."""
    values = column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if not (values < _LEAST_NS).any():
        return column
    mask = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.maximum(values, _LEAST_NS), pa.int64(), mask=mask).view(column.type)


def _held_times(column: pa.Array) -> pa.Array:
    in_unit = _US_OF_UNIT[column.type.unit]
    counted = column.view(pa.int64())
    values = counted.fill_null(0).to_numpy(zero_copy_only=False)
    low, high = values < -(-_LEAST_US // in_unit), values > _INFINITE // in_unit
    is_far = bool(low.any() or high.any())
    if in_unit == 1 and not is_far:
        return column
    within = np.where(low | high, 0, values) * in_unit
    found = np.where(high, _INFINITE, np.where(low, -_INFINITE, within))
    mask = counted.is_null().to_numpy(zero_copy_only=False)
    return pa.array(found, pa.int64(), mask=mask).view(pa.timestamp("us", column.type.tz))
