"""Rows that belong together: segments of one datasource and interval, replicas of one segment; in linear time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.columns import Ints
from carnac.core.balancing.compiled import compiled, fetch, part

_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
"""The golden ratio as a signed 64-bit number: spreads keys that differ in few bits."""
FEWEST_SLOTS = 1 << 12
"""Of the table of groups at first; a power of two."""
AHEAD = 12
"""So many rows before it is needed, a group is fetched into the processor's cache; its slot twice as many before."""


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
    columns, found = (datasource, start_ms, end_ms), np.empty(len(datasource), np.int64)
    table, known = np.full(FEWEST_SLOTS, -1, np.int64), np.empty((FEWEST_SLOTS // 2, 3), np.int64)
    done, count = _find_groups(columns, table, known, found, 0, 0)
    while done < len(found):
        table = np.full(4 * len(table), -1, np.int64)
        known = np.concatenate([known, np.empty((3 * len(known), 3), np.int64)])
        _fill_table(table, known, count)
        done, count = _find_groups(columns, table, known, found, done, count)
    known = known[:count]
    order = np.lexsort((known[:, 2], known[:, 1], known[:, 0]))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    datasources, starts, ends = (np.ascontiguousarray(known[order, n]) for n in range(3))
    return Groups(of_segment=rank[found], datasource=datasources, start_ms=starts, end_ms=ends)


@part
def _home_of(table: Ints, x: int, y: int, z: int) -> int:
    """Return where in the table the search for a group begins."""
    key = (x * _MIX + y) * _MIX + z
    key = (key ^ (key >> 29)) * _MIX
    return int((key ^ (key >> 32)) & (len(table) - 1))


@part
def _slot_of(table: Ints, known: Ints, x: int, y: int, z: int) -> int:
    """Return where in the table a group stands, or where it would. Open addressing; -1 is an empty slot."""
    slot = _home_of(table, x, y, z)
    while table[slot] >= 0:
        group = table[slot]
        if known[group, 0] == x and known[group, 1] == y and known[group, 2] == z:
            break
        slot = (slot + 1) & (len(table) - 1)
    return int(slot)


@compiled
def _fill_table(table: Ints, known: Ints, count: int) -> None:
    for group in range(count):
        slot = _slot_of(table, known, known[group, 0], known[group, 1], known[group, 2])
        table[slot] = group


@compiled
def _find_groups(
    columns: tuple[Ints, Ints, Ints],
    table: Ints,
    known: Ints,
    found: Ints,
    start: int,
    count: int,
) -> tuple[int, int]:
    """Write the group of each row from `start` on, numbered as they appear, and what is new into `known`.

    Return the first row that was not done, because the table must grow first, and how many groups there are. The table
    is small as long as there are few groups, so that it stays in the processor's cache.
    """
    datasource, start_ms, end_ms = columns
    last = len(datasource) - 1
    for row in range(start, len(datasource)):
        later, soon = min(row + 2 * AHEAD, last), min(row + AHEAD, last)
        slot = _home_of(table, datasource[later], start_ms[later], end_ms[later])
        fetch(table, slot * table.itemsize)
        group = table[_home_of(table, datasource[soon], start_ms[soon], end_ms[soon])]
        fetch(known, max(group, 0) * known.shape[1] * known.itemsize)
        x, y, z = datasource[row], start_ms[row], end_ms[row]
        slot = _slot_of(table, known, x, y, z)
        if table[slot] < 0:
            if count == len(known):
                return row, count
            known[count, 0], known[count, 1], known[count, 2] = x, y, z
            table[slot] = count
            count += 1
        found[row] = table[slot]
    return len(datasource), count
