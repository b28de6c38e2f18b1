"""Typed times of Arrow data that the engine has no room for.

DuckDB ends the statement, or the whole database, over a time of more than 290,000 years from now, before any expression
sees it. So such a time becomes infinite, in lists and objects, too. The rules of times and values take an infinite one
for a time out of range. Seconds and milliseconds become microseconds, the unit of the engine's own type, days in
milliseconds days, and durations texts, as the engine writes its own, which end at microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from carnac.rows.read.arrow_types import (
    Change,
    Rows,
    Unreadable,
    changed_rows,
    changed_schema,
    known,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_US_OF_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_IN_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_LEAST_US = -9_223_372_022_400_000_000
"""The first of the engine's days."""
_LEAST_NS = 1_000 - (1 << 63)
"""The first nanosecond of which the microsecond that it is in begins among them."""
_INFINITE = (1 << 63) - 1
_INFINITE_DAYS = (1 << 31) - 1


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows that the engine has room for.

    Raises:
        Invalid: A column has a type that cannot be read; names it.
    """
    return changed_schema(schema, _held)


def held_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with far times made infinite."""
    return map(held_rows, batches)


def held_rows(rows: Rows) -> Rows:
    """Return the rows with far times made infinite, of types that the engine knows.

    Raises:
        Invalid: A column has a type that cannot be read, or a time of day that is in no day; names it.
    """
    return changed_rows(rows, _held)


def held_times(kind: pa.DataType) -> Change | None:
    """Return what becomes of times alone."""
    return _held(kind) if kinds.is_timestamp(kind) else None


def _held(kind: pa.DataType) -> Change | None:
    """Return what becomes of a plain type of which the engine has no room for some values, or that it does not know."""
    if kinds.is_timestamp(kind):
        if kind.unit not in _US_OF_UNIT:
            return Change(kind, _held_nanoseconds)
        return Change(pa.timestamp("us", kind.tz), _within_reach)
    if kinds.is_time(kind):
        return Change(kind, _checked_times_of_day)
    if kinds.is_duration(kind):
        return Change(pa.string(), _duration_texts)
    return Change(pa.date32(), _held_days) if kinds.is_date64(kind) else known(kind)


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


def _within_reach(column: pa.Array) -> pa.Array:
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
        raise Unreadable("holds a time of day before 00:00 or after 24:00")
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
