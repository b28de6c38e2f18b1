"""Typed times of Arrow data that the engine has no room for.

DuckDB ends the statement, or the whole database, over a time of more than 290,000 years from now, before any expression
sees it. So such a time becomes infinite, in lists and objects, too. The rules of times and values take an infinite one
for a time out of range. Seconds and milliseconds become microseconds, the unit of the engine's own type, days in
milliseconds days, and durations texts, as the engine writes its own, which end at microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from carnac.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_US_OF_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_IN_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_LEAST_US = -9_223_372_022_400_000_000
"""The first of the engine's days."""
_LEAST_NS = 1_000 - (1 << 63)
"""The first nanosecond of which the microsecond that it is in begins among them."""
_INFINITE = (1 << 63) - 1
_INFINITE_DAYS = (1 << 31) - 1

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
    """Return the rows with far times made infinite.

    Raises:
        Invalid: A time of day is in no day; names the column.
    """
    for index, field in enumerate(rows.schema):
        if not _has_times(field.type):
            continue
        column = rows.column(index)
        try:
            held = _held(column) if isinstance(column, pa.Array) else _held_pieces(column)
        except _NoTimeOfDay:
            raise Invalid(
                f"column '{field.name}' holds a time of day before 00:00 or after 24:00; cast it to another type",
                column=field.name,
            ) from None
        if held is not column:
            rows = rows.set_column(index, field.with_type(held.type), held)
    return rows


class _NoTimeOfDay(Exception):
    pass


def _has_times(kind: pa.DataType, *, is_inner: bool = False) -> bool:
    """Whether values of a type are, or hold, what the engine may have no room for; or dictionaries within others."""
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return is_inner or _has_times(kind.value_type)
    if kinds.is_nested(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        return any(_has_times(one.type, is_inner=True) for one in fields)
    return _of(kind) is not None


def _of(kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """Return what holds values of a plain type; None: the engine has room for all of them."""
    if kinds.is_timestamp(kind):
        return _held_times if kind.unit in _US_OF_UNIT else _held_nanoseconds
    if kinds.is_time(kind):
        return _checked_times_of_day
    if kinds.is_duration(kind):
        return _duration_texts
    return _held_days if kinds.is_date64(kind) else None


def _inner_type(kind: pa.DataType) -> pa.DataType:
    return _held_type(kind, is_inner=True)


def _held_type(kind: pa.DataType, *, is_inner: bool = False) -> pa.DataType:
    if not _has_times(kind, is_inner=is_inner):
        return kind
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit in _US_OF_UNIT else kind
    if kinds.is_duration(kind):
        return pa.string()
    if kinds.is_date64(kind):
        return pa.date32()
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return _held_type(kind.value_type, is_inner=is_inner)
    if kinds.is_map(kind):
        return pa.map_(_inner_type(kind.key_type), _inner_type(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_inner_type(field.type)) for field in kind])
    if not kinds.is_nested(kind) or kinds.is_union(kind):
        return kind
    inner = kind.value_field.with_type(_inner_type(kind.value_type))
    if kinds.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    is_large = kinds.is_large_list(kind) or kinds.is_large_list_view(kind)
    return pa.large_list(inner) if is_large else pa.list_(inner)


def _held_pieces(column: pa.ChunkedArray) -> pa.ChunkedArray:
    pieces = [_held(piece) for piece in column.chunks]
    return pa.chunked_array(pieces, _held_type(column.type))


def _inner(column: pa.Array) -> pa.Array:
    return _held(column, is_inner=True)


def _held(column: pa.Array, *, is_inner: bool = False) -> pa.Array:
    kind = column.type
    hold = _of(kind)
    if hold is not None:
        return hold(column)
    if not _has_times(kind, is_inner=is_inner):
        return column
    if kinds.is_dictionary(kind):
        return _held(column.dictionary_decode(), is_inner=is_inner)
    if kinds.is_run_end_encoded(kind):
        return _held(pc.run_end_decode(column), is_inner=is_inner)
    if kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        return _held_view(column)
    if kinds.is_struct(kind):
        return _held_struct(column)
    if kinds.is_fixed_size_list(kind):
        size = kind.list_size
        inner = column.values.slice(column.offset * size, len(column) * size)
        made = pa.FixedSizeListArray.from_arrays(_inner(inner), size, mask=column.is_null())
        return made.cast(_held_type(kind))
    return column if kinds.is_union(kind) else _held_list(column)


def _held_list(column: pa.Array) -> pa.Array:
    """Return a list, or a map, of held values."""
    kind = column.type
    is_map = kinds.is_map(kind)
    parts = [column.keys, column.items] if is_map else [column.values]
    held = [_inner(one) for one in parts]
    if all(one is other for one, other in zip(parts, held, strict=True)):
        return column
    # a copy from 0 on, beside which a mask may stand
    offsets = pa.array(column.offsets.to_numpy())
    made = type(column).from_arrays(offsets, *held, mask=column.is_null())
    return made.cast(_held_type(kind))


def _held_view(column: pa.Array) -> pa.Array:
    """Return a view of a list as a list: Arrow's own cast makes an offset too few."""
    is_large = kinds.is_large_list_view(column.type)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    offsets = pa.array(
        np.concatenate(([0], np.cumsum(lengths))), pa.int64() if is_large else pa.int32()
    )
    make = pa.LargeListArray if is_large else pa.ListArray
    made = make.from_arrays(offsets, _inner(column.flatten()), mask=column.is_null())
    return made.cast(_held_type(column.type))


def _held_struct(column: pa.Array) -> pa.Array:
    parts = [column.field(index) for index in range(column.type.num_fields)]
    held_parts = [_inner(one) for one in parts]
    if all(one is other for one, other in zip(parts, held_parts, strict=True)):
        return column
    fields = list(_held_type(column.type))
    return pa.StructArray.from_arrays(held_parts, fields=fields, mask=column.is_null())


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers behind a column, 0 for null, and where it is null."""
    bits = pa.int32() if column.type.bit_width == 32 else pa.int64()
    values = column.view(bits).fill_null(0).to_numpy(zero_copy_only=False)
    return values, column.is_null().to_numpy(zero_copy_only=False)


def _held_nanoseconds(column: pa.Array) -> pa.Array:
    """Return times of which none is so early that the engine, which rounds down to microseconds, finds none before."""
    values, mask = _numbers(column)
    if not (values < _LEAST_NS).any():
        return column
    return pa.array(np.maximum(values, _LEAST_NS), pa.int64(), mask=mask).view(column.type)


def _held_times(column: pa.Array) -> pa.Array:
    in_unit = _US_OF_UNIT[column.type.unit]
    values, mask = _numbers(column)
    low, high = values < -(-_LEAST_US // in_unit), values > _INFINITE // in_unit
    is_far = bool(low.any() or high.any())
    if in_unit == 1 and not is_far:
        return column
    within = np.where(low | high, 0, values) * in_unit
    found = np.where(high, _INFINITE, np.where(low, -_INFINITE, within))
    return pa.array(found, pa.int64(), mask=mask).view(pa.timestamp("us", column.type.tz))


def _held_days(column: pa.Array) -> pa.Array:
    values, mask = _numbers(column)
    days = np.clip(values // _DAY_MS, -_INFINITE_DAYS, _INFINITE_DAYS)
    return pa.array(days.astype(np.int32), pa.int32(), mask=mask).view(pa.date32())


def _checked_times_of_day(column: pa.Array) -> pa.Array:
    values, _ = _numbers(column)
    if ((values < 0) | (values > 86_400 * _IN_SECOND[column.type.unit])).any():
        raise _NoTimeOfDay
    return column


def _duration_texts(column: pa.Array) -> pa.Array:
    """Return durations as hours, minutes, seconds and what is left of them, such as `-25:00:00.5`."""
    values, mask = _numbers(column)
    in_second = _IN_SECOND[column.type.unit]
    seconds, rest = divmod(np.abs(values).view(np.uint64), np.uint64(in_second))
    minutes, second = divmod(seconds, np.uint64(60))
    hour, minute = divmod(minutes, np.uint64(60))
    clock = [
        pc.utf8_lpad(pa.array(one).cast(pa.string()), 2, "0") for one in (hour, minute, second)
    ]
    text = pc.binary_join_element_wise(*clock, ":")
    if rest.any():
        digits = pc.utf8_lpad(pa.array(rest).cast(pa.string()), len(str(in_second)) - 1, "0")
        fraction = pc.utf8_rtrim(pc.binary_join_element_wise("", digits, "."), "0")
        text = pc.binary_join_element_wise(text, pc.utf8_rtrim(fraction, "."), "")
    signed = pc.if_else(pa.array(values < 0), pc.binary_join_element_wise("-", text, ""), text)
    return pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), signed)
