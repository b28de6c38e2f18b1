"""Segments and servers as columns, for the kernels. A server and a datasource are numbers here, from 0 up."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.errors import Invalid

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NOWHERE = -1
"""The server of a segment for which no server had room."""


class SegmentColumns(NamedTuple):
    """Segments, or copies of them, one in each row, as the kernels take them.

    Make it with `segment_columns`, which checks.

    Attributes:
        datasources: Number of the datasource, from 0 up.
        starts_ms, ends_ms: The interval, half-open.
        sizes_bytes: Bytes that a copy takes of a server's disk; >= 0.
        copy_of: Number of the segment that a row is a copy of, any order and range. Two copies of one segment are
            never placed on one server.
    """

    datasources: Ints
    starts_ms: Ints
    ends_ms: Ints
    sizes_bytes: Ints
    copy_of: Ints

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.starts_ms)

    def take(self, rows: Ints | Flags) -> SegmentColumns:
        """Return the rows that are named or flagged, in that order."""
        return SegmentColumns(*(column[rows] for column in self))


def segment_columns(
    datasources: npt.ArrayLike,
    starts_ms: npt.ArrayLike,
    ends_ms: npt.ArrayLike,
    *,
    sizes_bytes: npt.ArrayLike | None = None,
    copy_of: npt.ArrayLike | None = None,
) -> SegmentColumns:
    """Return the columns as checked arrays. Sizes default to 0, and every row to a segment of its own.

    Raises:
        Invalid: Lengths differ, an interval is empty or outside years 1..9999, or a datasource or size is negative.
    """
    starts = whole_numbers(starts_ms)
    count = len(starts)
    columns = SegmentColumns(
        datasources=whole_numbers(datasources),
        starts_ms=starts,
        ends_ms=whole_numbers(ends_ms),
        sizes_bytes=np.zeros(count, np.int64)
        if sizes_bytes is None
        else whole_numbers(sizes_bytes),
        copy_of=np.arange(count, dtype=np.int64) if copy_of is None else whole_numbers(copy_of),
    )
    _check(columns)
    return columns


def whole_numbers(values: npt.ArrayLike) -> Ints:
    """Return the values as one contiguous int64 column.

    Raises:
        Invalid: They are not one column of whole numbers.
    """
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and not np.issubdtype(column.dtype, np.integer)):
        raise Invalid(
            f"expected one column of whole numbers, got {column.ndim} dimensions of {column.dtype}"
        )
    return np.ascontiguousarray(column, dtype=np.int64)


def _check(columns: SegmentColumns) -> None:
    count = columns.row_count
    for name in ("datasources", "ends_ms", "sizes_bytes", "copy_of"):
        if len(getattr(columns, name)) != count:
            raise Invalid(
                f"column {name} has {len(getattr(columns, name))} rows, starts_ms has {count}"
            )
    if not count:
        return
    if (columns.starts_ms >= columns.ends_ms).any():
        row = int(np.argmax(columns.starts_ms >= columns.ends_ms))
        raise Invalid(f"the interval of row {row} must end after it starts")
    if columns.starts_ms.min() < MIN_MS or columns.ends_ms.max() > MAX_MS:
        raise Invalid("an interval lies outside years 1 to 9999")
    if columns.datasources.min() < 0 or columns.sizes_bytes.min() < 0:
        raise Invalid("datasource numbers and sizes must not be negative")


class Room(NamedTuple):
    """The room of servers, as the kernels take it. Make it with `room_for`.

    Attributes:
        allowed: Flags, one row for each kind of request (a tier, say), one column for each server.
        kinds: For each request the row of `allowed` that holds for it.
        free_bytes: Free bytes of each disk; a hard limit. Placing changes a copy of it.
        capacity_bytes: Size of each disk. Of equal costs the server with the larger free share wins, then the lower
            number.
        barred_offsets, barred_servers: For each request the servers that it must not go to (they hold a copy):
            `barred_servers[barred_offsets[i]:barred_offsets[i + 1]]`.
    """

    allowed: Flags
    kinds: Ints
    free_bytes: Ints
    capacity_bytes: Ints
    barred_offsets: Ints
    barred_servers: Ints


UNLIMITED = 1 << 62


def room_for(
    requests: int,
    server_count: int,
    *,
    allowed: npt.ArrayLike | None = None,
    kinds: npt.ArrayLike | None = None,
    free_bytes: npt.ArrayLike | None = None,
    capacity_bytes: npt.ArrayLike | None = None,
    barred_offsets: npt.ArrayLike | None = None,
    barred_servers: npt.ArrayLike | None = None,
) -> Room:
    """Return the room for so many requests: by default every server is allowed, endless and equal.

    `allowed` may be one row of flags for all requests. `capacity_bytes` defaults to `free_bytes`.

    Raises:
        Invalid: A shape does not fit the requests and servers.
    """
    flags = (
        np.ones((1, server_count), np.bool_)
        if allowed is None
        else np.atleast_2d(np.asarray(allowed, np.bool_))
    )
    free = (
        np.full(server_count, UNLIMITED, np.int64)
        if free_bytes is None
        else whole_numbers(free_bytes)
    )
    room = Room(
        allowed=np.ascontiguousarray(flags),
        kinds=np.zeros(requests, np.int64) if kinds is None else whole_numbers(kinds),
        free_bytes=free,
        capacity_bytes=free if capacity_bytes is None else whole_numbers(capacity_bytes),
        barred_offsets=np.zeros(requests + 1, np.int64)
        if barred_offsets is None
        else whole_numbers(barred_offsets),
        barred_servers=np.zeros(0, np.int64)
        if barred_servers is None
        else whole_numbers(barred_servers),
    )
    if (
        room.allowed.shape[1] != server_count
        or len(free) != server_count
        or len(room.capacity_bytes) != server_count
    ):
        raise Invalid(
            f"allowed, free_bytes and capacity_bytes must have one column for each of {server_count} servers"
        )
    if len(room.kinds) != requests or len(room.barred_offsets) != requests + 1:
        raise Invalid(f"kinds and barred_offsets must fit {requests} requests")
    if requests and not 0 <= room.kinds.min() <= room.kinds.max() < len(room.allowed):
        raise Invalid(f"kinds must name one of the {len(room.allowed)} rows of allowed")
    return room


def numbered(copy_of: Ints) -> tuple[Ints, int]:
    """Return the numbers as 0, 1, …, and how many there are; without sorting where they come in order."""
    if not len(copy_of):
        return copy_of, 0
    steps = np.diff(copy_of)
    if (steps >= 0).all():
        numbers = np.zeros(len(copy_of), np.int64)
        np.cumsum(steps > 0, out=numbers[1:])
        return numbers, int(numbers[-1]) + 1
    different, inverse = np.unique(copy_of, return_inverse=True)
    return inverse.astype(np.int64, copy=False), len(different)
