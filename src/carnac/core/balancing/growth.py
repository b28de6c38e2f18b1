"""Memory of the trees: columns that grow before they are full, so that the kernels never allocate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.cost import DAY_MS
from carnac.core.balancing.tree import (
    MAX_CHILDREN,
    MAX_DEPTH,
    MAX_FAN,
    SPARE,
    SPARE_ROWS,
    Counts,
    Trees,
)
from carnac.core.balancing.tree_queries import MAX_TERMS
from carnac.core.time.intervals import MAX_MS, MIN_MS

ROOM = 4
"""How many times as long a table gets that has become too short: room that is not used yet costs no memory."""

Table = TypeVar("Table", Ints, Floats, Counts)

SMALLEST_SLAB, LARGEST_SLAB = 16, 256
"""Bounds of the pieces in a leaf: a scan of a leaf should take about as long as one addition over all servers."""

PIECES_A_PART = 4
"""How many pieces the parts of a leaf that is split should have, on average: an empty slab takes as much memory."""


def new_trees(server_count: int, half_life_ms: int, slab_size: int | None = None) -> Trees:
    """Return trees without nodes, with room for so many servers."""
    pieces = slab_size or min(max(server_count // 2, SMALLEST_SLAB), LARGEST_SLAB)
    size, width = 2 * SPARE, max(-(-server_count // 8) * 8, 8)  # whole cache lines
    met = MAX_CHILDREN * MAX_DEPTH
    return Trees(
        rate=math.log(2) / half_life_ms,
        frame=np.zeros(2, np.int64),
        used=np.array([0, 0, 0, -1]),
        fan=min(max(pieces // PIECES_A_PART, 2), MAX_FAN),
        nodes=np.zeros((size, 16), np.int64),
        fades=np.zeros((size, 4)),
        sums=np.zeros((2 * SPARE_ROWS, width)),
        covers=np.zeros((size, width), np.int32),
        counts=np.zeros(size, np.int64),
        pieces=np.zeros((size, pieces, 4), np.int64),
        met=np.zeros((met, 8), np.int64),
        parts=np.zeros((met, 3)),
        noted=np.zeros(2, np.int64),
        terms=np.zeros((2, MAX_TERMS + 4), np.int64),
        factors=np.zeros((2, MAX_TERMS + 4)),
    )


def grown(t: Trees) -> Trees:
    """Return trees of the same content that have spare room; tables that have it are kept.

    Room that is not used yet costs no memory: the system hands out zeroed pages when they are first touched.
    """
    nodes, rows, slabs, _ = map(int, t.used)
    return replace(
        t,
        nodes=_longer(t.nodes, nodes),
        fades=_longer(t.fades, nodes),
        sums=_longer(t.sums, rows, SPARE_ROWS),
        covers=_longer(t.covers, nodes),
        counts=_longer(t.counts, slabs),
        pieces=_longer(t.pieces, slabs),
    )


def widened(t: Trees, server_count: int) -> Trees:
    """Return trees of the same content with room for so many servers."""
    return replace(t, sums=_wider(t.sums, server_count), covers=_wider(t.covers, server_count))


LONG_MS = 36_525 * DAY_MS
"""Segments of a century and more (eternity) say nothing of where the data lies."""


def set_frame(t: Trees, starts: Ints, ends: Ints) -> None:
    """Take the time of the first segments as where most data lies: whole days, a power of two of them."""
    short = ends - starts < LONG_MS
    first, last = (starts[short].min(), ends[short].max()) if short.any() else (0, 1)
    days = 1
    first = int(first) // DAY_MS * DAY_MS
    while first + days * DAY_MS < last:
        days *= 2
    t.frame[:] = max(first, MIN_MS), min(first + days * DAY_MS, MAX_MS)


def memory_bytes(t: Trees) -> int:
    """Return how many bytes the rows in use take."""
    nodes, rows, slabs, _ = map(int, t.used)
    tables = (
        (t.nodes, nodes),
        (t.fades, nodes),
        (t.sums, rows),
        (t.covers, nodes),
        (t.counts, slabs),
        (t.pieces, slabs),
    )
    return sum(used * (table.nbytes // len(table)) for table, used in tables)


def _longer(table: Table, used: int, spare: int = SPARE) -> Table:
    if used + spare <= len(table):
        return table
    longer = np.zeros((ROOM * (used + spare), *table.shape[1:]), table.dtype)
    longer[:used] = table[:used]
    return longer


def _wider(table: Table, width: int) -> Table:
    wider = np.zeros((*table.shape[:-1], width), table.dtype)
    wider[..., : table.shape[-1]] = table
    return wider


ROOTS_AT_FIRST = 16


def roots_for(roots: Ints, datasources: int) -> Ints:
    """Return the roots with room for so many datasources; `-1` is a tree that has not been started."""
    if datasources + 1 <= len(roots):
        return roots
    longer = np.full(max(2 * len(roots), datasources + 1, ROOTS_AT_FIRST), -1, np.int64)
    longer[: len(roots)] = roots
    return longer
