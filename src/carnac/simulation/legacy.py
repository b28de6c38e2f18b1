"""The cost function of Druid before 0.9.1 for whole clusters, exactly, at the speed of a few sums.

The cost of one segment x against all segments y of a server is the sum of

    min(size x, size y) · (2 if same datasource) · recency(x, y) · gap factor(x, y)

Segments of one *kind* (length and size) differ in nothing but their start, so the sum over them is a matter of how many
start before an instant. Per row (a kind, or a datasource) and server, prefix counts over starts are kept in two levels,
within blocks of `BLOCK` cells and over blocks: a load or a drop touches about a hundred numbers, and the cost on every
server is read from a few rows of adjacent memory. No candidate is sampled and nothing is rounded: counts are whole.

The gap factor is 2 for segments that overlap or touch, and 1 for those 30 days apart or more. Between, the idea was
2 − gap/30 d (`is_step=False`, which is computed cell by cell, and slowly). But Druid divided two whole numbers, so the
factor in production was 2 up to 30 days (`is_step=True`). That step makes the clusters of source 2; see
`docs/concepts/balancing.md`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carnac.core.balancing.cost.compiled import compiled
from carnac.errors import Invalid
from carnac.simulation.arrivals import Floats, Ints

GAP_CELLS = 30 * 24
RECENT_CELLS = 7 * 24
BLOCK = 64
MEMORY_MAX_BYTES = 4_000_000_000


class Field(NamedTuple):
    """The number of segments of each row that start before an instant, on each server.

    Attributes:
        fine: `[row, place, server]`: starts within the cell's block, before the cell. A block has BLOCK + 1 places: the
            last one is its sum.
        coarse: `[row, block, server]`: starts in earlier blocks.
        lengths: Length of each row, in cells.
        base: `[source, row]`: the cost of two segments to each other on that account, before the factors.
        rows: `[source, 2]`: the two rows that a source's segments are counted in, its kind and itself.
        recent: `[row, 2, server]`: of the segments that ended less than seven days before `now`, the number and the sum
            of their recency. Kept with a step only, where the gap factor of any two of them is 2.
        now: `[1]`: the cell for which `recent` holds.
        is_step: See the module.
    """

    fine: npt.NDArray[np.int32]
    coarse: npt.NDArray[np.int32]
    lengths: Ints
    base: Floats
    rows: Ints
    recent: Floats
    now: Ints
    is_step: bool


def make_field(
    *, hours: Ints, sizes_bytes: Ints, server_count: int, cells: int, is_step: bool
) -> Field:
    """Return the field of empty servers.

    Args:
        hours, sizes_bytes: Length and size of the segments of each source.
        cells: How many; every segment starts in one of them.

    Raises:
        Invalid: It would take more memory than a laptop has.
    """
    kinds, kind_of = np.unique(np.stack([hours, sizes_bytes]), axis=1, return_inverse=True)
    kind_of = kind_of.reshape(-1)
    kind_count, sources = kinds.shape[1], len(hours)
    rows, blocks = kind_count + sources, cells // BLOCK + 2
    places = blocks * (BLOCK + 1)
    size = rows * places * server_count * 4
    if size > MEMORY_MAX_BYTES:
        raise Invalid(
            f"the old cost function needs {size / 1e9:.1f} GB for {sources} datasources on {server_count} servers over "
            f"{cells} hours, at most {MEMORY_MAX_BYTES / 1e9:.0f} GB are taken; take fewer datasources or days"
        )
    base = np.zeros((sources, rows))
    for source in range(sources):
        base[source, :kind_count] = np.minimum(sizes_bytes[source], kinds[1])
        base[source, kind_count + source] = sizes_bytes[source]
    return Field(
        fine=np.zeros((rows, places, server_count), np.int32),
        coarse=np.zeros((rows, blocks, server_count), np.int32),
        lengths=np.concatenate([kinds[0], hours]).astype(np.int64),
        base=base,
        rows=np.stack([kind_of, kind_count + np.arange(sources)], axis=1).astype(np.int64),
        recent=np.zeros((rows if is_step else 0, 2, server_count)),
        now=np.zeros(1, np.int64),
        is_step=is_step,
    )


@compiled
def _gap_factor(gap: int, is_step: bool) -> float:
    if gap >= GAP_CELLS:
        return 1.0
    return 2.0 if is_step or gap <= 0 else 2.0 - gap / GAP_CELLS


@compiled
def _recency(age: int) -> float:
    return 2.0 - age / RECENT_CELLS


@compiled
def shift(field: Field, source: int, start: int, server: int, by: int) -> None:
    """Add `by` segments of a source that start in a cell to a server."""
    block = start // BLOCK
    first = block * (BLOCK + 1)
    for side in range(2):
        row = field.rows[source, side]
        for place in range(first + start % BLOCK + 1, first + BLOCK + 1):
            field.fine[row, place, server] += by
        for later in range(block + 1, field.coarse.shape[1]):
            field.coarse[row, later, server] += by
        age = field.now[0] - start - field.lengths[row]
        if field.is_step and 0 <= age < RECENT_CELLS:
            field.recent[row, 0, server] += by
            field.recent[row, 1, server] += by * _recency(age)


@compiled
def set_now(field: Field, now: int) -> None:
    """Let recency count from a cell on."""
    field.now[0] = now
    if not field.is_step:
        return
    field.recent[:] = 0.0
    for row in range(field.lengths.size):
        length = field.lengths[row]
        for start in range(max(0, now - RECENT_CELLS + 1 - length), now - length + 1):
            weight = _recency(now - start - length)
            place = start // BLOCK * (BLOCK + 1) + start % BLOCK
            for server in range(field.fine.shape[2]):
                count = field.fine[row, place + 1, server] - field.fine[row, place, server]
                field.recent[row, 0, server] += count
                field.recent[row, 1, server] += count * weight


@compiled
def _add_counts(field: Field, row: int, cells: tuple[int, int], factor: float, out: Floats) -> None:
    """Add factor × (how many start before the second cell, and how many do not start before the first one)."""
    last = (field.coarse.shape[1] - 1) * BLOCK
    low, high = min(max(cells[0], 0), last), min(max(cells[1], 0), last)
    everything = field.coarse[row, field.coarse.shape[1] - 1]
    low_coarse = field.coarse[row, low // BLOCK]
    low_fine = field.fine[row, low // BLOCK * (BLOCK + 1) + low % BLOCK]
    high_coarse = field.coarse[row, high // BLOCK]
    high_fine = field.fine[row, high // BLOCK * (BLOCK + 1) + high % BLOCK]
    for server in range(out.size):
        count = everything[server] + high_coarse[server] + high_fine[server]
        out[server] += factor * (count - low_coarse[server] - low_fine[server])


@compiled
def self_cost(field: Field, source: int, start: int) -> float:
    """Return what a segment costs against a copy of itself on its server."""
    age = field.now[0] - start - field.lengths[field.rows[source, 1]]
    factor = _recency(age) ** 2 if 0 <= age < RECENT_CELLS else 1.0
    row = field.rows[source, 1]
    cost: float = 2.0 * 2.0 * field.base[source, row] * factor
    return cost


@compiled
def _add_cells(field: Field, source: int, start: int, row: int, out: Floats) -> None:
    """Add what the segment costs against those of one row, cell by cell: for gap factors of any form."""
    length = field.lengths[row]
    end = start + field.lengths[field.rows[source, 1]]
    age = field.now[0] - end
    for other in range(field.coarse.shape[1] * BLOCK - BLOCK):
        gap = max(other - end, start - other - length)
        weight = field.base[source, row] * _gap_factor(gap, field.is_step)
        other_age = field.now[0] - other - length
        if 0 <= age < RECENT_CELLS and 0 <= other_age < RECENT_CELLS:
            weight *= _recency(age) * _recency(other_age)
        place = other // BLOCK * (BLOCK + 1) + other % BLOCK
        before, after = field.fine[row, place], field.fine[row, place + 1]
        for server in range(out.size):
            out[server] += weight * (after[server] - before[server])


@compiled
def cost_everywhere(field: Field, source: int, start: int, out: Floats) -> None:
    """Set what a segment costs against all segments of each server, itself among them if it is there."""
    out[:] = 0.0
    own = field.rows[source, 1]
    end = start + field.lengths[own]
    age = field.now[0] - end
    kind_count = field.lengths.size - field.rows.shape[0]
    for number in range(kind_count + 1):
        row = number if number < kind_count else own
        if not field.is_step:
            _add_cells(field, source, start, row, out)
            continue
        # Two, less one for each y that starts 30 days or more after x has ended, or the other way round.
        base = field.base[source, row]
        within = start - field.lengths[row] - GAP_CELLS + 1, end + GAP_CELLS
        _add_counts(field, row, within, base, out)
        if 0 <= age < RECENT_CELLS:
            count, recency = field.recent[row, 0], field.recent[row, 1]
            for server in range(out.size):
                out[server] += 2.0 * base * (_recency(age) * recency[server] - count[server])
