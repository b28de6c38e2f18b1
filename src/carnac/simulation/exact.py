"""The exact cost of source 2 for whole clusters whose intervals lie on whole hours.

The cost is additive, so a segment is the sum of the cells that it covers, and two cells that lie d ≥ 1 apart cost
(1 − q)²·q^(d−1) in units of 1/λ², a cell against itself 2·(λ + q − 1), with q = exp(−λ). How many segments cover a cell
is counted per row (everything, or one datasource) and server; what lies before and after each block of cells is kept
as one decayed sum, A and B. A load or a drop touches the sums of nearby blocks; the cost on every server is read from
the cells of a block or two and the two sums, in adjacent memory.

`carnac.core.balancing` does the same for intervals of any kind; a test holds the two together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carnac.core.balancing.compiled import part
from carnac.errors import Invalid
from carnac.simulation.arrivals import Floats, Ints

BLOCK = 16
MEMORY_MAX_BYTES = 4_000_000_000
EVERYTHING = 0


class Field(NamedTuple):
    """How many segments cover each cell on each server, and the decayed sums of what lies before and after.

    Attributes:
        covered: `[row, cell, server]`; row 0 is everything, row 1 + n datasource n.
        before: `[row, block, server]`: Σ q^(start of block − 1 − c) over covered cells c before the block.
        after: `[row, block, server]`: Σ q^(c − end of block) over covered cells c after the block.
        lengths: Of each datasource's segments, in cells.
        powers: q^0, q^1, …
        costs: Of a cell against itself, and of two cells side by side.
    """

    covered: npt.NDArray[np.int32]
    before: Floats
    after: Floats
    lengths: Ints
    powers: Floats
    costs: Floats


def make_field(*, hours: Ints, server_count: int, cells: int, half_life_hours: float) -> Field:
    """Return the field of empty servers.

    Args:
        hours: Length of the segments of each datasource.
        cells: How many; every segment lies within them.

    Raises:
        Invalid: It would take more memory than a laptop has.
    """
    rows, blocks = 1 + len(hours), cells // BLOCK + 1
    size = rows * blocks * server_count * (BLOCK * 4 + 16)
    if size > MEMORY_MAX_BYTES:
        raise Invalid(
            f"the cost function needs {size / 1e9:.1f} GB for {len(hours)} datasources on {server_count} servers over "
            f"{cells} hours, at most {MEMORY_MAX_BYTES / 1e9:.0f} GB are taken; take fewer datasources or days"
        )
    rate = math.log(2) / half_life_hours
    near = rate + math.expm1(-rate)
    return Field(
        covered=np.zeros((rows, blocks * BLOCK, server_count), np.int32),
        before=np.zeros((rows, blocks, server_count)),
        after=np.zeros((rows, blocks, server_count)),
        lengths=hours.astype(np.int64),
        powers=np.exp(-rate * np.arange(blocks * BLOCK + 1)),
        costs=np.array([2 * near, math.expm1(-rate) ** 2]),
    )


@part
def shift(field: Field, source: int, start: int, server: int, by: int) -> None:
    """Add `by` segments of a datasource that start in a cell to a server."""
    blocks = field.before.shape[1]
    for cell in range(start, start + field.lengths[source]):
        home = cell // BLOCK
        for side in range(2):
            row = EVERYTHING if side == 0 else 1 + source
            field.covered[row, cell, server] += by
            for block in range(home + 1, blocks):
                field.before[row, block, server] += by * field.powers[block * BLOCK - 1 - cell]
            for block in range(home):
                field.after[row, block, server] += by * field.powers[cell - (block + 1) * BLOCK]


@part
def _cell_cost(field: Field, cell: int, start: int, end: int) -> float:
    """Return what one cell costs against the cells [start, end)."""
    ratio = 1.0 - field.powers[1]
    cost: float = field.costs[0]
    if cell < start:
        span = 1.0 - field.powers[end - start]
        cost = field.costs[1] * field.powers[start - cell - 1] * span / ratio
    elif cell >= end:
        span = 1.0 - field.powers[end - start]
        cost = field.costs[1] * field.powers[cell - end] * span / ratio
    else:
        left, right = 1.0 - field.powers[cell - start], 1.0 - field.powers[end - cell - 1]
        cost += field.costs[1] * (left + right) / ratio
    return cost


@part
def cost_everywhere(field: Field, source: int, start: int, out: Floats) -> None:
    """Set what a segment costs against all segments of each server, itself among them if it is there, in 1/λ²."""
    out[:] = 0.0
    end = start + field.lengths[source]
    first, last = start // BLOCK, (end - 1) // BLOCK
    reach = field.costs[1] * (1.0 - field.powers[end - start]) / (1.0 - field.powers[1])
    to_first = reach * field.powers[start - first * BLOCK]
    to_last = reach * field.powers[(last + 1) * BLOCK - end]
    for side in range(2):
        row = EVERYTHING if side == 0 else 1 + source
        before, after = field.before[row, first], field.after[row, last]
        for server in range(out.size):
            out[server] += to_first * before[server] + to_last * after[server]
        for cell in range(first * BLOCK, (last + 1) * BLOCK):
            weight = _cell_cost(field, cell, start, end)
            covered = field.covered[row, cell]
            for server in range(out.size):
                out[server] += weight * covered[server]


@part
def self_cost(field: Field, source: int) -> float:
    """Return what a segment costs against a copy of itself on its server, in 1/λ²."""
    length = field.lengths[source]
    total = 0.0
    for cell in range(length):
        total += 2.0 * _cell_cost(field, cell, 0, length)
    return total
