"""Rows that belong together: segments of one datasource and interval, replicas of one segment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Floats, Ints
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.field import Held
from carnac.core.balancing.cost.joint import SAME_DATASOURCE, scaled_cost, square_hours


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsByKey:
    """The rows of each key: `rows[offsets[key]:offsets[key + 1]]`, in their order."""

    offsets: Ints
    rows: Ints

    def of(self, key: int) -> Ints:
        """Return the rows of a key."""
        return self.rows[self.offsets[key] : self.offsets[key + 1]]


def rows_by_key(keys: Ints, key_count: int) -> RowsByKey:
    """Return the rows of each key from 0 to `key_count - 1`. Nothing of it is compiled."""
    return RowsByKey(offsets=_offsets(keys, key_count), rows=np.argsort(keys, kind="stable"))


def rows_of_groups(groups: Groups) -> RowsByKey:
    """Return the segments of each group."""
    offsets = _offsets(groups.of_segment, len(groups))
    return RowsByKey(offsets=offsets, rows=_sorted_rows(groups.of_segment, offsets))


def _offsets(keys: Ints, key_count: int) -> Ints:
    counts = np.bincount(keys, minlength=key_count)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@compiled
def _sorted_rows(keys: Ints, offsets: Ints) -> Ints:
    """Return the rows in order of their keys: a counting sort, as there are few keys or many rows of each."""
    at, rows = offsets.copy(), np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        key = keys[row]
        rows[at[key]] = row
        at[key] += 1
    return rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Segments of one datasource and interval, whose cost is the same anywhere. Sorted by datasource, then time.

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
    """Return the groups of segments.

    They are looked up in a table by hash: of millions of segments few are distinct here, and only these are sorted.
    """
    first, numbers = _numbered(datasource, start_ms, end_ms)
    order = np.lexsort((end_ms[first], start_ms[first], datasource[first]))
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    first = first[order]
    return Groups(
        of_segment=place[numbers],
        datasource=datasource[first],
        start_ms=start_ms[first],
        end_ms=end_ms[first],
    )


@compiled
def _numbered(datasource: Ints, start_ms: Ints, end_ms: Ints) -> tuple[Ints, Ints]:
    """Return the first segment of each group as they come, and of each segment which group it is of."""
    bits, count = 10, 0
    table, first = np.full(1 << bits, -1, np.int64), np.empty(1 << bits, np.int64)
    numbers, golden = np.empty(len(start_ms), np.int64), np.uint64(0x9E3779B97F4A7C15)
    row = 0
    while row < len(start_ms):
        mixed = np.uint64(start_ms[row]) * golden + np.uint64(end_ms[row])
        mixed = (mixed ^ (mixed >> np.uint64(29))) * golden + np.uint64(datasource[row])
        at = np.int64((mixed * golden) >> np.uint64(64 - bits))
        while table[at] >= 0:
            one = first[table[at]]
            if (
                start_ms[one] == start_ms[row]
                and end_ms[one] == end_ms[row]
                and datasource[one] == datasource[row]
            ):
                break
            at = (at + 1) & (len(table) - 1)
        if table[at] < 0:
            if 2 * count == len(table):  # half full: once more with a larger one
                bits, count, row = bits + 2, 0, 0
                table, first = np.full(1 << bits, -1, np.int64), np.empty(1 << bits, np.int64)
                continue
            table[at], first[count] = count, row
            count += 1
        numbers[row] = table[at]
        row += 1
    return first[:count], numbers


def self_costs(groups: Groups, half_life_ms: int) -> Floats:
    """Return what two copies of a segment of each group cost each other on one server, in hours²."""
    rate = math.log(2) / half_life_ms
    lengths, of_group = np.unique(groups.end_ms - groups.start_ms, return_inverse=True)
    costs = [
        SAME_DATASOURCE * scaled_cost(0, int(length), 0, int(length), rate) for length in lengths
    ]
    found: Floats = np.array(costs, np.float64)[of_group] * square_hours(half_life_ms)
    return found


def held_of(group: Ints, server: Codes, group_count: int, server_count: int) -> Held:
    """Return how much of each group which server holds, given group and server of each replica."""
    keys = np.sort(group * server_count + server)
    is_first = np.diff(keys, prepend=-1) != 0
    first = np.flatnonzero(is_first)
    copies = np.diff(np.append(first, len(keys)))
    groups, servers = np.divmod(keys[first], server_count)
    offsets = np.searchsorted(groups, np.arange(group_count + 1))
    return Held(offsets=offsets, server=servers, copies=copies)
