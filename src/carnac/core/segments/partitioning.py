"""To which partition a row belongs: hash buckets and ranges. The writer decides, the reader prunes by the same rule."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

from carnac.core.segments.segment import RangePartition, Scalar

HASH_FUNCTION = "md5-60/1"
"""The hash of `hash_bucket`, as segments record it.

The key of a row is the values of the dimensions one after the other: `~` for null, else the length of the value's text
in UTF-8 bytes, `:` and the text (longs in decimal digits). The bucket is the first 60 bits of the MD5 of the key modulo
the number of buckets. MD5, because Python and DuckDB both have it in C and will agree on it for ever.
"""

_HASH_HEX_DIGITS = 15


def hash_bucket(values: Sequence[str | int | None], buckets: int) -> int:
    """Return the bucket of a row whose hashed dimensions have these values, 0 ≤ bucket < buckets."""
    key = b"".join(map(_key, values))
    digest = hashlib.md5(key, usedforsecurity=False).hexdigest()
    return int(digest[:_HASH_HEX_DIGITS], 16) % buckets


def _key(value: str | int | None) -> bytes:
    if value is None:
        return b"~"
    text = (value if isinstance(value, str) else str(int(value))).encode()
    return b"%d:%b" % (len(text), text)


OrderKey: TypeAlias = tuple[bool, str | int | float]
"""Sorts as a column's values do, nulls first."""


def order_key(value: Scalar) -> OrderKey:
    """Return a key that sorts as the value does among values of its column: null first."""
    return (False, 0) if value is None else (True, value)


def order_keys(values: Sequence[Scalar]) -> tuple[OrderKey, ...]:
    """Return a key that sorts as the tuple of values does."""
    return tuple(map(order_key, values))


def holds_values(partition: RangePartition, values: Sequence[Scalar]) -> bool:
    """Whether a row whose leading range dimensions have these values may lie in the partition.

    With fewer values than dimensions: whether some row that begins with them may.
    """
    given = order_keys(values)
    if partition.start is not None and given < order_keys(partition.start[: len(values)]):
        return False
    if partition.end is None:
        return True
    end = order_keys(partition.end[: len(values)])
    return given < end or (given == end and len(values) < len(partition.end))
