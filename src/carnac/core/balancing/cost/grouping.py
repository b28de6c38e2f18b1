"""Rows that belong together: segments of one datasource and interval, replicas of one segment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.cost.columns import Codes, Floats, Ints
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
    """Return the rows of each key from 0 to `key_count - 1`."""
    counts = np.bincount(keys, minlength=key_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return RowsByKey(offsets=offsets, rows=np.argsort(keys, kind="stable"))


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
    """Return the groups of segments."""
    starts, start = np.unique(start_ms, return_inverse=True)
    ends, end = np.unique(end_ms, return_inverse=True)
    keys = (datasource * len(starts) + start) * len(ends) + end
    shown, of_segment = np.unique(keys, return_inverse=True)
    rest = shown // max(len(ends), 1)
    return Groups(
        of_segment=of_segment.astype(np.int64, copy=False),
        datasource=rest // max(len(starts), 1),
        start_ms=starts[rest % max(len(starts), 1)],
        end_ms=ends[shown % max(len(ends), 1)],
    )


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
