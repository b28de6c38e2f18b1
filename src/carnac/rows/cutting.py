"""Cuts the sorted rows of a time chunk into the pieces that become segments. Streams: holds one batch at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from carnac.core.quoting import quote
from carnac.core.segments.segment import ELEMENT_TYPES, ColumnType, Scalar
from carnac.rows.normalise.shape import RowShape

BUCKET_COLUMN = "__bucket"
"""In rows of hashed partitioning: number of the bucket, which comes first in the sort order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows that follow one another in one segment.

    Attributes:
        is_new: They begin a new segment.
        bucket: Number of the hash bucket; None if rows are not hashed.
        start: Range dimensions of the first row of the segment, if `is_new` and rows are cut by range.
    """

    rows: pa.RecordBatch
    is_new: bool
    bucket: int | None = None
    start: tuple[Scalar, ...] | None = None


def even_rows(total: int, most: int) -> int:
    """Return how many rows a piece should have so that `total` rows make as few, even pieces of at most `most`."""
    pieces = max(1, -(-total // most))
    return max(1, -(-total // pieces))


def cut_evenly(batches: Iterable[pa.RecordBatch], rows_per_piece: int) -> Iterator[Piece]:
    """Yield pieces of exactly `rows_per_piece` rows, the last one smaller."""
    room = 0
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            is_new = room == 0
            if is_new:
                room = rows_per_piece
            rows = batch.slice(at, room)
            yield Piece(rows=rows, is_new=is_new)
            at += rows.num_rows
            room -= rows.num_rows


def cut_buckets(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield one piece for each bucket that has rows; rows come sorted by bucket."""
    current: int | None = None
    for batch in batches:
        buckets = batch.column(BUCKET_COLUMN).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
        for start, end in pairwise(edges):
            if start == end:
                continue
            bucket = int(buckets[start])
            yield Piece(
                rows=batch.slice(start, end - start), is_new=bucket != current, bucket=bucket
            )
            current = bucket


def cut_ranges(
    batches: Iterable[pa.RecordBatch],
    dimensions: tuple[str, ...],
    rows_per_piece: int,
    *,
    most: int,
    held_bytes_max: int | None = None,
) -> Iterator[Piece]:
    """Yield pieces of about `rows_per_piece` rows, cut only where the values of `dimensions` change.

    Rows come sorted by `dimensions`. The rows of one value are never divided. A piece ends with the value that makes it
    large enough, or before that value if it would have more than `most` rows with it; so it has more only if it is all
    one value.

    Args:
        most: At least `rows_per_piece`.
        held_bytes_max: Rows of a value that are waiting for its end may be as large; a larger value begins a piece.
            None: any size.
    """
    cutter = _RangeCutter(dimensions, rows_per_piece, most, held_bytes_max)
    for batch in batches:
        if batch.num_rows:
            yield from cutter.add(batch)
    yield from cutter.end_value()


class _RangeCutter:
    """Cuts sorted rows; holds the rows of the value that has not ended, unless a piece begins with it."""

    def __init__(
        self, dimensions: tuple[str, ...], enough: int, most: int, held_bytes_max: int | None
    ) -> None:
        self._dimensions = dimensions
        self._enough, self._most, self._held_bytes_max = enough, most, held_bytes_max
        self._rows = 0
        """Number of rows of the open piece; 0: none is open."""
        self._value: tuple[Scalar, ...] | None = None
        self._held: list[pa.RecordBatch] = []
        self._begins_piece = False

    def add(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """Take the next rows; yield those whose piece is known."""
        start = 0
        if self._value is not None:
            start = self._end_of(batch, 0, self._value)
            yield from self._extend(batch.slice(0, start))
            if start == batch.num_rows:
                return
            yield from self.end_value()
        last = self._start_of_last(batch, start)
        yield from self._whole_values(batch.slice(start, last - start))
        self._value = values_at(batch, last, self._dimensions)
        self._begins_piece = self._rows == 0
        yield from self._extend(batch.slice(last))

    def end_value(self) -> Iterator[Piece]:
        """Yield the rows that were held: their value has ended."""
        for rows in self._held:
            yield self._piece(rows)
        self._held, self._value = [], None
        if self._rows >= self._enough:
            self._rows = 0

    def _extend(self, rows: pa.RecordBatch) -> Iterator[Piece]:
        """Take more rows of the value that has not ended."""
        if not rows.num_rows:
            return
        if self._begins_piece:
            yield self._piece(rows)
            return
        self._held.append(rows)
        waiting = sum(one.num_rows for one in self._held)
        limit = self._held_bytes_max
        if self._rows + waiting > self._most or (
            limit is not None and sum(one.nbytes for one in self._held) > limit
        ):
            self._rows, self._begins_piece = 0, True
            for held in self._held:
                yield self._piece(held)
            self._held = []

    def _whole_values(self, rows: pa.RecordBatch) -> Iterator[Piece]:
        """Yield rows whose values all end among them."""
        while rows.num_rows:
            place = self._enough - self._rows - 1  # of the row that makes the piece large enough
            if place >= rows.num_rows:
                yield self._piece(rows)
                return
            value = values_at(rows, place, self._dimensions)
            end = self._end_of(rows, place, value)
            if self._rows + end > self._most:
                first = self._start_of_last(rows.slice(0, place + 1), 0)
                end = first if self._rows + first else end
            if end:
                yield self._piece(rows.slice(0, end))
            self._rows = 0
            rows = rows.slice(end)

    def _piece(self, rows: pa.RecordBatch) -> Piece:
        is_new = self._rows == 0
        self._rows += rows.num_rows
        start = values_at(rows, 0, self._dimensions) if is_new else None
        return Piece(rows=rows, is_new=is_new, start=start)

    def _end_of(self, batch: pa.RecordBatch, at: int, value: tuple[Scalar, ...]) -> int:
        """Return the place, from `at` on, of the first row that has another value."""
        return _first(
            at,
            batch.num_rows,
            lambda row: not _is_same(values_at(batch, row, self._dimensions), value),
        )

    def _start_of_last(self, batch: pa.RecordBatch, at: int) -> int:
        """Return the place, from `at` on, of the first row that has the value of the last one."""
        count: int = batch.num_rows
        value = values_at(batch, count - 1, self._dimensions)
        back = _first(
            0,
            count - at,
            lambda row: not _is_same(values_at(batch, count - 1 - row, self._dimensions), value),
        )
        return count - back


def _first(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the first place for which it holds, from which on it always does; `end` if there is none."""
    step, low = 1, start
    while low + step <= end and not holds(low + step - 1):
        low, step = low + step, step * 2
    return low + bisect_left(range(low, min(low + step, end)), x=True, key=holds)


def _is_same(left: tuple[Scalar, ...], right: tuple[Scalar, ...]) -> bool:
    """Whether values are the same; NaN is, to itself."""
    return all(
        one == other or (one != one and other != other)  # noqa: PLR0124
        for one, other in zip(left, right, strict=True)
    )


def values_at(rows: pa.RecordBatch, index: int, dimensions: tuple[str, ...]) -> tuple[Scalar, ...]:
    """Return the values of a row; null where there is no such column."""
    names = set(rows.schema.names)
    return tuple(rows.column(name)[index].as_py() if name in names else None for name in dimensions)


_REAL = {ColumnType.DOUBLE, ColumnType.FLOAT}
_NULL = "~"


def bucket_sql(shape: RowShape, dimensions: tuple[str, ...], buckets: int) -> str:
    """Return the SQL of the bucket of a row, a BIGINT from 0 to `buckets` - 1."""
    types = {dimension.name: dimension.type for dimension in shape.dimensions}
    names = dimensions or shape.dimension_names
    if not names:
        return "CAST(0 AS BIGINT)"
    keys = " || ".join(
        f"'{_NULL}'" if name in shape.absent else _key(name, types[name]) for name in names
    )
    return f"CAST(('0x' || left(md5({keys}), 15)) AS BIGINT) % {buckets}"


def _key(name: str, kind: ColumnType) -> str:
    column = quote(name)
    if kind is ColumnType.DOUBLE_ARRAY:
        column = f"list_transform({column}, lambda e: CASE WHEN e = 0 THEN 0 ELSE e END)"
    text = (
        f"CAST(to_json({column}) AS VARCHAR)"
        if kind in ELEMENT_TYPES
        else f"CAST({column} AS VARCHAR)"
    )
    if kind in _REAL:
        text = f"CASE WHEN {column} = 0 THEN '0.0' ELSE {text} END"
    return (
        f"(CASE WHEN {quote(name)} IS NULL THEN '{_NULL}' ELSE strlen({text}) || ':' || {text} END)"
    )
