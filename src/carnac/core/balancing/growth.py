"""Memory of the trees: columns that grow before they are full, so that the kernels never allocate."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from carnac.core.balancing.columns import Floats, Ints
from carnac.core.balancing.cost import DAY_MS
from carnac.core.balancing.tree import MAX_TERMS, SPARE, STACK, Counts, Trees, new_leaf
from carnac.core.intervals import MAX_MS, MIN_MS

Table = TypeVar("Table", Ints, Floats, Counts)

SMALLEST_SLAB, LARGEST_SLAB = 16, 256
"""Bounds of the pieces in a leaf: a scan of a leaf should take about as long as one addition over all servers."""


def new_trees(server_count: int, half_life_ms: int, slab_size: int | None = None) -> Trees:
    """Return trees without nodes, with room for so many servers."""
    pieces = slab_size or min(max(server_count // 2, SMALLEST_SLAB), LARGEST_SLAB)
    size, width = 2 * SPARE, max(-(-server_count // 8) * 8, 8)  # whole cache lines
    return Trees(
        rate=math.log(2) / half_life_ms,
        frame=np.zeros(2, np.int64),
        used=np.array([0, 0, 0, 0, -1]),
        spans=np.zeros((size, 2), np.int64),
        fades=np.zeros((size, 3)),
        links=np.zeros((size, 5), np.int64),
        sums=np.zeros((size, 3, width)),
        covers=np.zeros((size, width), np.int32),
        counts=np.zeros(size, np.int64),
        pieces=np.zeros((size, pieces, 4), np.int64),
        stack=np.zeros(5 * STACK, np.int64),
        terms=np.zeros(MAX_TERMS + 3, np.int64),
        factors=np.zeros(MAX_TERMS + 3),
    )


def grown(t: Trees) -> Trees:
    """Return trees of the same content that have spare room; tables that have it are kept.

    Room that is not used yet costs no memory: the system hands out zeroed pages when they are first touched.
    """
    nodes, rows, covers, slabs, _ = (int(used) + SPARE for used in t.used)
    return t._replace(
        spans=_longer(t.spans, nodes),
        fades=_longer(t.fades, nodes),
        links=_longer(t.links, nodes),
        sums=_longer(t.sums, rows),
        covers=_longer(t.covers, covers),
        counts=_longer(t.counts, slabs),
        pieces=_longer(t.pieces, slabs),
    )


def widened(t: Trees, server_count: int) -> Trees:
    """Return trees of the same content with room for so many servers."""
    return t._replace(sums=_wider(t.sums, server_count), covers=_wider(t.covers, server_count))


def new_root(t: Trees) -> int:
    """Start a tree; return its root. There is spare room."""
    return int(new_leaf(t, MIN_MS, MAX_MS))


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
    nodes, rows, covers, slabs, _ = map(int, t.used)
    tables = (
        (t.spans, nodes),
        (t.fades, nodes),
        (t.links, nodes),
        (t.sums, rows),
        (t.covers, covers),
        (t.counts, slabs),
        (t.pieces, slabs),
    )
    return sum(used * (table.nbytes // len(table)) for table, used in tables)


def _longer(table: Table, needed: int) -> Table:
    if needed <= len(table):
        return table
    longer = np.zeros((2 * needed, *table.shape[1:]), table.dtype)
    longer[: len(table)] = table
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
