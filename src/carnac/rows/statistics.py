"""Column statistics for pruning: how many nulls, and bounds of the other values, batch by batch."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments.segment import Column, ColumnType, Scalar

FEW_WORDS = 256
"""Fewer texts than this are compared by Python: to ask Arrow takes longer."""
MAX_BOUND_CHARS = 128
"""Bounds of texts are cut to this many characters."""

_BOUNDED = {
    ColumnType.STRING,
    ColumnType.LONG,
    ColumnType.DOUBLE,
    ColumnType.FLOAT,
    ColumnType.BOOLEAN,
}
_LAST_CHAR = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"

Value: TypeAlias = Any


class ColumnStatistics:
    """Statistics of one column of a file; `add` its batches, then take `column`."""

    def __init__(self, name: str, column_type: ColumnType) -> None:
        self._name = name
        self._type = column_type
        self._nulls = 0
        self._low: Value = None
        self._high: Value = None
        self._is_bounded = column_type in _BOUNDED

    def add(self, array: pa.Array) -> None:
        """Take in the next values. Of a dictionary array every dictionary value must be used."""
        self._nulls += array.null_count
        values = array.dictionary if pa.types.is_dictionary(array.type) else array
        if not self._is_bounded or len(values) == values.null_count:
            return
        if pa.types.is_floating(values.type) and _has_nan(values):
            self._is_bounded = False
            return
        low, high = bounds_of(values)
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def column(self) -> Column:
        """Return the record of the column."""
        low: Value = self._low if self._is_bounded else None
        high: Value = self._high if self._is_bounded else None
        if isinstance(low, str):
            low, high = low[:MAX_BOUND_CHARS], upper_bound(high)
        if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
            low = high = None  # records are JSON, which has no infinity
        return Column(
            name=self._name,
            type=self._type,
            null_count=self._nulls,
            min_value=low,
            max_value=high,
        )


def bounds_of(values: pa.Array) -> tuple[Value, Value]:
    """Return the least and the greatest of values; not all are null, and none is NaN."""
    kind = values.type
    if values.null_count == 0 and (pa.types.is_int64(kind) or pa.types.is_floating(kind)):
        numbers = values.to_numpy()  # of few values, a tenth of what Arrow takes
        return numbers.min().item(), numbers.max().item()
    if pa.types.is_string(kind) and len(values) <= FEW_WORDS:
        words = values.drop_null().to_pylist()  # Python's order is that of the bytes
        return min(words), max(words)
    bounds = pc.min_max(values)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _has_nan(values: pa.FloatingPointArray) -> bool:
    if values.null_count == 0:
        return bool(np.isnan(values.to_numpy()).any())
    has_nan: bool = pc.any(pc.is_nan(values)).as_py()
    return has_nan


def upper_bound(text: str) -> Scalar:
    """Return the text, or a text of at most `MAX_BOUND_CHARS` characters that is larger; None if there is none."""
    if len(text) <= MAX_BOUND_CHARS:
        return text
    cut = text[:MAX_BOUND_CHARS].rstrip(_LAST_CHAR)
    if not cut:
        return None
    last = cut[-1]
    following = _AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1)
    return cut[:-1] + following
