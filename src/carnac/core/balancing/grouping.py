"""Rows that belong together: segments of one datasource and interval, replicas of one segment; in linear time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.columns import Ints
from carnac.core.balancing.compiled import compiled

_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
"""The golden ratio as a signed 64-bit number: spreads keys that differ in few bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsByKey:
    """The rows of each key: `rows[offsets[key]:offsets[key + 1]]`, in their order."""

    offsets: Ints
    rows: Ints

    def of(self, key: int) -> Ints:
        """Return the rows of a key."""
        return self.rows[self.offsets[key] : self.offsets[key + 1]]


def rows_by_key(keys: Ints, key_count: int) -> RowsByKey:
    """Return the rows of each key from 0 to `key_count - 1`."""
    counts = np.bincount(keys, minlength=key_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.empty(len(keys), np.int64)
    _fill_by_key(keys, offsets[:-1].copy(), rows)
    return RowsByKey(offsets=offsets, rows=rows)


@compiled
def _fill_by_key(keys: Ints, free: Ints, rows: Ints) -> None:
    """Write the rows of each key into `rows` from `free[key]` on."""
    for row in range(len(keys)):
        key = keys[row]
        rows[free[key]] = row
        free[key] += 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Segments of one datasource and interval: what they cost anywhere is the same. Sorted by datasource, then time.

    Attributes:
        of_segment: The group of each segment.
        datasource: Datasource of each group.
        start_ms: Interval start of each group.
        end_ms: Interval end of each group.
    """

    of_segment: Ints
    datasource: Ints
    start_ms: Ints
    end_ms: Ints

    def __len__(self) -> int:
        return len(self.datasource)


def group_segments(datasource: Ints, start_ms: Ints, end_ms: Ints) -> Groups:
    """Return the groups of segments."""
    slots = 1 << max(4, int(2 * len(datasource) - 1).bit_length()) if len(datasource) else 16
    table = np.full(slots, -1, np.int64)
    found, first = np.empty((2, len(datasource)), np.int64)
    first = first[: _find_groups((datasource, start_ms, end_ms), table, found, first)]
    order = np.lexsort((end_ms[first], start_ms[first], datasource[first]))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    first = first[order]
    return Groups(
        of_segment=rank[found],
        datasource=datasource[first],
        start_ms=start_ms[first],
        end_ms=end_ms[first],
    )


@compiled
def _find_groups(columns: tuple[Ints, Ints, Ints], table: Ints, found: Ints, first: Ints) -> int:
    """Return how many groups there are; write the group of each row, numbered as they appear, and each one's first row.

    Open addressing; `table` is empty (-1), and at least twice as long as the columns, and a power of two.
    """
    datasource, start_ms, end_ms = columns
    slots, count = len(table), 0
    for row in range(len(datasource)):
        x, y, z = datasource[row], start_ms[row], end_ms[row]
        key = (x * _MIX + y) * _MIX + z
        key = (key ^ (key >> 29)) * _MIX
        slot = (key ^ (key >> 32)) & (slots - 1)
        while table[slot] >= 0:
            other = first[table[slot]]
            if datasource[other] == x and start_ms[other] == y and end_ms[other] == z:
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = count
            first[count] = row
            count += 1
        found[row] = table[slot]
    return count
