"""The digest of an answer's rows: one number whatever their order, for a receipt.

It is made of the row hash (`row_hash`) with two differences, since two engines may answer the same by different bits.
Columns go by their places, not by their names. Numbers with a fraction count to `FLOAT_DIGITS` significant digits:
a sum of doubles depends on the order in which they were added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments.segment import ROW_HASH_VERSION
from carnac.errors import Invalid
from carnac.rows.row_hash import MASK, add_hashes, hash_columns
from carnac.rows.value_codes import filled, mix, numpy_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGEST_VERSION = 2
"""Raised when the digest of any answer changes; so does one that is made of another version of the row hash."""
FLOAT_DIGITS = 9
_INFINITE = (1 << 63) - 1
"""Microseconds by which the engine says an infinite time, which its clients would take for one of the year 294247."""
_HUGE = pa.decimal128(38)
"""Whole numbers of 128 bits."""
_AS_THEY_ARE = frozenset(one.id for one in (pa.bool_(), pa.int32(), pa.int64(), pa.string()))
"""Types of most columns, of which the row hash takes the values as they are."""


class AnswerMeter:
    """Counts the rows of an answer and sums their hashes, batch by batch."""

    def __init__(self) -> None:
        self.rows = 0
        self.size_bytes = 0
        self._hash = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows."""
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if batch.num_columns and batch.num_rows:
            columns = [
                (f"c{index}", _comparable(column)) for index, column in enumerate(batch.columns)
            ]
            self._hash = add_hashes(self._hash, hash_columns(columns, batch.num_rows))

    @property
    def digest(self) -> str:
        """The digest of the rows so far: versions, then 16 hexadecimal digits."""
        return f"{DIGEST_VERSION}.{ROW_HASH_VERSION}:{self._hash & MASK:016x}"


def _comparable(column: pa.Array) -> pa.Array:
    """Return the column in a form that the row hash takes, and that does not depend on the last bits of a number."""
    kind = column.type
    types = pa.types
    if types.is_date(kind) or types.is_timestamp(kind):
        return _microseconds(column)
    if kind.id in _AS_THEY_ARE:
        return column
    if types.is_dictionary(kind):
        return _comparable(column.dictionary_decode())
    if types.is_floating(kind):
        return _rounded(column if types.is_float64(kind) else column.cast(pa.float64()))
    if types.is_decimal(kind):
        return _rounded(column.cast(pa.float64())) if kind.scale else _whole(column)
    if types.is_uint64(kind):
        return _whole(column.cast(_HUGE))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _list(column)
    if types.is_time(kind) or types.is_duration(kind):
        return _texts(column)
    if types.is_nested(kind) or types.is_interval(kind) or types.is_union(kind):
        return _texts(column)
    return column


def _microseconds(column: pa.Array) -> pa.Array:
    """Return days or instants in the unit in which instants are hashed; nanoseconds are cut off.

    Raises:
        Invalid: One of them has no place in it, or is infinite.
    """
    kind = column.type
    try:
        is_finer = pa.types.is_timestamp(kind) and kind.unit == "ns"
        found = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=not is_finer)
        ends = pc.min_max(found.view(pa.int64())).as_py()
    except pa.ArrowInvalid:
        found, ends = column, {"max": _INFINITE}
    if _INFINITE in ends.values() or -_INFINITE in ends.values():
        raise Invalid(
            f"a column of {kind} holds a time beyond the year 294247, such as infinity; select it as text, "
            "CAST(… AS VARCHAR)"
        )
    return found


def _rounded(column: pa.Array) -> pa.Array:
    values: NDArray[np.float64] = numpy_of(filled(column, 0.0))
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log10(np.abs(values)))
        exponents[~np.isfinite(exponents)] = 0.0
        scale = np.power(10.0, FLOAT_DIGITS - 1 - exponents)
        rounded = np.round(values * scale) / scale
        rounded = np.where(np.isfinite(rounded), rounded, values)
    mask = numpy_of(column.is_null()) if column.null_count else None
    return pa.array(rounded, pa.float64(), mask=mask)


def _whole(column: pa.Array) -> pa.Array:
    """Return whole numbers as longs, and what is beyond them by its bits, whatever else is in its batch."""
    huge = filled(column.cast(_HUGE), 0)
    halves = np.frombuffer(huge.buffers()[1], np.uint64).reshape(-1, 2)[huge.offset :][: len(huge)]
    low, high = halves[:, 0], halves[:, 1]
    is_long = high.view(np.int64) == low.view(np.int64) >> 63
    mask = numpy_of(column.is_null()) if column.null_count else None
    return pa.array(np.where(is_long, low, mix(low ^ mix(high))).view(np.int64), mask=mask)


def _list(column: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), _comparable(column.flatten()), mask=column.is_null()
    )


def _texts(column: pa.Array) -> pa.Array:
    return pa.array(
        [None if one is None else repr(_plain(one)) for one in column.to_pylist()], pa.string()
    )


def _plain(value: object) -> object:
    """Return a value of Python with its numbers with a fraction to as many digits as they count."""
    match value:
        case float():
            return f"{value:.{FLOAT_DIGITS - 1}e}"
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return value
