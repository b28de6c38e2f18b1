"""Cuts the sorted rows of a time chunk into the pieces that become segments. Streams: holds one batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments.segment import Scalar

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
    batches: Iterable[pa.RecordBatch], dimensions: tuple[str, ...], rows_per_piece: int
) -> Iterator[Piece]:
    """Yield pieces of at least `rows_per_piece` rows, cut only where the values of `dimensions` change.

    Rows come sorted by `dimensions`. The rows of one value are never divided, so a piece may be larger.
    """
    held, last = 0, None
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            is_new = last is None
            if not is_new and held >= rows_per_piece:
                same = _run_length(batch, at, dimensions, last)
                if same:
                    yield Piece(rows=batch.slice(at, same), is_new=False)
                    at += same
                    if at == batch.num_rows:
                        break
                is_new = True
            if is_new:
                held = 0
            rows = batch.slice(at, rows_per_piece - held)
            start = values_at(rows, 0, dimensions) if is_new else None
            yield Piece(rows=rows, is_new=is_new, start=start)
            held += rows.num_rows
            at += rows.num_rows
            last = values_at(rows, rows.num_rows - 1, dimensions)


def values_at(rows: pa.RecordBatch, index: int, dimensions: tuple[str, ...]) -> tuple[Scalar, ...]:
    """Return the values of a row; null where there is no such column."""
    names = set(rows.schema.names)
    return tuple(rows.column(name)[index].as_py() if name in names else None for name in dimensions)


def _run_length(
    batch: pa.RecordBatch,
    at: int,
    dimensions: tuple[str, ...],
    values: tuple[Scalar, ...] | None,
) -> int:
    """Return how many rows from `at` on have exactly these values."""
    length = batch.num_rows - at
    names = set(batch.schema.names)
    for name, value in zip(dimensions, values or (), strict=True):
        if name not in names:
            continue  # null in all rows
        column = batch.column(name).slice(at, length)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if value is None:
            is_other = column.is_valid()
        else:
            is_nan = value != value  # noqa: PLR0124  # which equals nothing for Arrow, and itself in the order of rows
            same = pc.is_nan(column) if is_nan else pc.equal(column, pa.scalar(value, column.type))
            is_other = pc.invert(pc.fill_null(same, fill_value=False))
        found = pc.index(is_other, value=True).as_py()
        if found >= 0:
            length = int(found)
    return int(length)
