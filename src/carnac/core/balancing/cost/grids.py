"""Where time is cut: grids of a field grow by the starts and ends of segments that are new."""

from __future__ import annotations

import math

import numpy as np

from carnac.core.balancing.cost.columns import Floats, Ints, SegmentColumns
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.field import CELLS, EVERYTHING, FIRST_CELL, Field, sum_all
from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.errors import Invalid

BLOCK_MIN, BLOCK_MAX = 4, 32
"""Cells of a block: the root of their number, within these bounds."""
MEMORY_MAX_BYTES = 16_000_000_000
"""The most memory of an index, in bytes."""
_SERIES_BELOW = 0.25


def empty_field(server_count: int, half_life_ms: int) -> Field:
    """Return a field whose only grid, of all datasources together, has one cell."""
    edges = np.array([MIN_MS, MAX_MS])
    return _field_on([edges], server_count, math.log(2) / half_life_ms)


def has_edges(f: Field, grid_of: Ints, rows: SegmentColumns) -> bool:
    """Whether all rows start and end at edges of the grids of their datasources."""
    return _has_edges(f.grids, f.edges, grid_of, rows.datasources, rows.starts_ms, rows.ends_ms)


@compiled
def _has_edges(
    grids: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    edges: Ints,
    grid_of: Ints,
    datasources: Ints,
    starts: Ints,
    ends: Ints,
) -> bool:
    for row in range(len(starts)):
        grid = grid_of[datasources[row]]
        if grid < 0:
            return False
        low, count = grids[grid, FIRST_CELL], grids[grid, CELLS]
        own = edges[low : low + count + 1]
        if own[np.searchsorted(own, starts[row])] != starts[row]:
            return False
        if own[np.searchsorted(own, ends[row])] != ends[row]:
            return False
    return True


def refined(f: Field, grid_of: Ints, rows: SegmentColumns) -> tuple[Field, Ints]:
    """Return the field with grids that are cut where the rows start and end, and the grid of each datasource."""
    old = [edges_of(f, grid) for grid in range(len(f.grids))]
    both = np.concatenate([rows.starts_ms, rows.ends_ms])
    new = [np.union1d(old[EVERYTHING], both), *old[1:]]
    grid_of = grid_of.copy()
    order = np.argsort(rows.datasources, kind="stable")
    names, firsts = np.unique(rows.datasources[order], return_index=True)
    for name, part in zip(names, np.split(order, firsts[1:]), strict=True):
        if grid_of[name] < 0:
            grid_of[name] = len(new)
            new.append(np.array([MIN_MS, MAX_MS]))
        own = np.concatenate([new[grid_of[name]], rows.starts_ms[part], rows.ends_ms[part]])
        new[grid_of[name]] = np.unique(own)
    made = _field_on(new, f.covered.shape[1], f.rate)
    for grid, edges in enumerate(old):
        cells = np.searchsorted(edges, new[grid][:-1], side="right") - 1
        first = made.grids[grid, FIRST_CELL]
        made.covered[first : first + len(cells)] = f.covered[f.grids[grid, FIRST_CELL] + cells]
    sum_all(made)
    return made, grid_of


def edges_of(f: Field, grid: int) -> Ints:
    """Return the edges of a grid."""
    first, cells = f.grids[grid, FIRST_CELL], f.grids[grid, CELLS]
    return f.edges[first : first + cells + 1]


def _field_on(grids: list[Ints], server_count: int, rate: float) -> Field:
    """Return a field of empty servers on some grids, each given by its edges."""
    table, fades, cell, block = [], [], 0, 0
    for edges in grids:
        cells = len(edges) - 1
        size = min(max(math.isqrt(cells), BLOCK_MIN), BLOCK_MAX)
        blocks = -(-cells // size)
        table.append((cell, cells, block, size))
        bounds = edges[np.minimum(np.arange(blocks + 1) * size, cells)]
        fades.append(np.exp(-rate * np.diff(bounds)))
        cell, block = cell + len(edges), block + blocks
    needed = server_count * (cell * 12 + block * 40)
    if needed > MEMORY_MAX_BYTES:
        raise Invalid(
            f"a cost index for {cell} starts and ends of segments on {server_count} servers would take "
            f"{needed / 1e9:.0f} GB, at most {MEMORY_MAX_BYTES / 1e9:.0f} GB are taken; balance fewer servers or "
            "datasources at once, or compact segments to whole hours or days"
        )
    edges = np.concatenate(grids)
    width = np.maximum(np.append(np.diff(edges), 0), 0) * rate
    return Field(
        grids=np.array(table, np.int64),
        edges=edges,
        decay=np.exp(-width),
        gain=-np.expm1(-width),
        inner=_against_itself(width),
        fade=np.concatenate(fades),
        covered=np.zeros((cell, server_count), np.int32),
        among=np.zeros((cell, server_count)),
        sums=np.zeros((block, 5, server_count)),
        rate=rate,
    )


def _against_itself(width: Floats) -> Floats:
    """Return 2(z + e^−z − 1), by its series where that cancels."""
    series = 1 - width / 14
    for k in range(13, 2, -1):
        series = 1 - width / k * series
    exact = 2 * (width + np.expm1(-width))
    return np.where(width < _SERIES_BELOW, width * width * series, exact)
