"""Rows that belong together: segments of one datasource and interval, replicas of one segment; in linear time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

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
    offsets, rows = _sort_by_key(keys, key_count)
    return RowsByKey(offsets=offsets, rows=rows)


@compiled
def _sort_by_key(keys: Ints, key_count: int) -> tuple[Ints, Ints]:
    offsets = np.zeros(key_count + 1, np.int64)
    for key in keys:
        offsets[key + 1] += 1
    for key in range(key_count):
        offsets[key + 1] += offsets[key]
    free = offsets[:-1].copy()
    rows = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        key = keys[row]
        rows[free[key]] = row
        free[key] += 1
    return offsets, rows


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
    found, first = _find_groups(datasource, start_ms, end_ms, slots)
    order = np.lexsort((end_ms[first], start_ms[first], datasource[first]))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    first = first[order]
    return Groups(
        of_segment=cast("Ints", rank[found]),
        datasource=datasource[first],
        start_ms=start_ms[first],
        end_ms=end_ms[first],
    )


@compiled
def _find_groups(datasource: Ints, start_ms: Ints, end_ms: Ints, slots: int) -> tuple[Ints, Ints]:
    """Return the group of each row, numbered as they appear, and the first row of each group; open addressing."""
    table = np.full(slots, -1, np.int64)
    found = np.empty(len(datasource), np.int64)
    first = np.empty(len(datasource), np.int64)
    count = 0
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
    return found, first[:count].copy()
