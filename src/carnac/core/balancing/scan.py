"""What all segments of a tier cost on all its servers: one pass over time for each server.

Time is cut at every start and end. In a cell of scaled width z, with weight w on the server, what lies before the cell
acts like one number L (it decays by exp(−z) over the cell), what lies after it like one number R, so that

    cost of the cell = w · 2(z + e^−z − 1) + (L + R)(1 − e^−z)

in units of 1/λ², a sum of positive terms. Sums of cells give what any segment costs, as exact as their largest sum
allows; a move that is made is costed by `CostIndex`, which knows no such limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from carnac.core.balancing.columns import Flags, Floats, Ints
from carnac.core.balancing.compiled import compiled
from carnac.core.balancing.cost import scaled_cost, square_hours
from carnac.core.balancing.grouping import Groups

Cells: TypeAlias = tuple[Floats, Floats, Floats]
"""For each cell: e^−z, 1 − e^−z, and 2(z + e^−z − 1)."""

Scratch: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats]
"""Memory for one server's pass, since kernels make no arrays: weights, what lies ahead, sums of all cells and of one
datasource's, and what is the same for each group. The first and the last are zero between two uses."""

_SERIES_BELOW = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The cells of time, of all datasources together and of each one alone.

    Attributes:
        ends: For each group its first cell and the one after its last, in the cells of all.
        own_ends: The same in `own_cells`.
        by_datasource: The groups of the n-th datasource that has any: from the n-th element to the next.
        own_offsets: Its cells.
        self_cost: What two copies of a segment of each group cost each other on one server, in hours².
        unit: Hours² of one unit of the cells.
    """

    cells: Cells
    own_cells: Cells
    ends: tuple[Ints, Ints]
    own_ends: tuple[Ints, Ints]
    by_datasource: Ints
    own_offsets: Ints
    self_cost: Floats
    unit: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holdings:
    """How much of each group each server holds: only what is not nothing, sorted by server, then group.

    Attributes:
        offsets: Where the rows of each server begin.
        group: Group of each row.
        weight: Sum of the weights of the group's replicas there; > 0.
    """

    offsets: Ints
    group: Ints
    weight: Floats

    def servers(self) -> Ints:
        """Return the server of each row."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """What counts beside time, and who may take anything.

    Attributes:
        spread: See `limits.Weights`.
        is_target: Which servers may take anything at all.
        free_bytes: By server.
        size_bytes: By group: mean size of a segment.
        smallest_bytes: By group: size of its smallest segment.
        disk: By server: cost of each byte that is put there beside the bytes that it holds.
    """

    spread: float
    is_target: Flags
    free_bytes: Ints
    size_bytes: Floats
    smallest_bytes: Ints
    disk: Floats


def grid_of(groups: Groups, half_life_ms: int) -> Grid:
    """Return the cells into which the ends of the groups cut time."""
    rate = math.log(2) / half_life_ms
    edges, places = np.unique(np.concatenate([groups.start_ms, groups.end_ms]), return_inverse=True)
    first, after = np.split(places.astype(np.int64), 2)
    keys = np.concatenate([groups.datasource, groups.datasource]).astype(np.int64) * len(edges)
    own, own_places = np.unique(keys + places, return_inverse=True)
    own_first, own_after = np.split(own_places.astype(np.int64), 2)
    names, by_datasource = np.unique(groups.datasource, return_index=True)
    bounds = np.searchsorted(own, names.astype(np.int64) * len(edges))
    lengths, of_group = np.unique(groups.end_ms - groups.start_ms, return_inverse=True)
    costs = [2 * scaled_cost(0, int(length), 0, int(length), rate) for length in lengths]
    unit = square_hours(half_life_ms)
    return Grid(
        cells=_cells_between(edges, rate),
        own_cells=_cells_between(edges[own % max(len(edges), 1)], rate),
        ends=(first, after),
        own_ends=(own_first, own_after),
        by_datasource=np.append(by_datasource, len(groups)).astype(np.int64),
        own_offsets=np.append(bounds, len(own)).astype(np.int64),
        self_cost=np.array(costs, np.float64)[of_group] * unit,
        unit=unit,
    )


def _cells_between(edges: Ints, rate: float) -> Cells:
    width = np.abs(np.diff(edges)) * rate
    series = 1 - width / 11
    for k in range(10, 2, -1):
        series = 1 - width / k * series
    exact = 2 * (width + np.expm1(-width))
    inner = np.where(width < _SERIES_BELOW, width * width * series, exact)
    return np.exp(-width), -np.expm1(-width), inner


def holdings_of(group: Ints, server: Ints, weight: Floats, sizes: tuple[int, int]) -> Holdings:
    """Return how much of each group each server holds.

    Args:
        group: Group of each replica.
        server: Server of each replica.
        weight: Weight of each group's segments.
        sizes: How many groups and how many servers there are.
    """
    group_count, server_count = sizes
    keys, counts = np.unique(server.astype(np.int64) * group_count + group, return_counts=True)
    groups = keys % max(group_count, 1)
    bounds = np.arange(server_count + 1, dtype=np.int64) * group_count
    return Holdings(
        offsets=np.searchsorted(keys, bounds).astype(np.int64),
        group=groups,
        weight=counts * weight[groups],
    )


def scan_costs(grid: Grid, held: Holdings, terms: Terms) -> tuple[Floats, Floats]:
    """Return what segments cost where they are, and the least that they cost where they could be.

    The first is for each row of `held`, itself included; the second for each group, infinity if no server could take
    one. In hours², for weight 1.
    """
    own = np.zeros(len(held.group))
    least = np.full(len(grid.self_cost), np.inf)
    _scan(
        (
            grid.cells,
            grid.own_cells,
            grid.ends,
            grid.own_ends,
            (grid.by_datasource, grid.own_offsets),
        ),
        (held.offsets, held.group, held.weight, own),
        (
            grid.self_cost * (terms.spread / grid.unit),
            terms.size_bytes,
            terms.smallest_bytes,
            least,
        ),
        (terms.is_target, terms.free_bytes, terms.disk / grid.unit),
        _scratch(grid),
    )
    return own * grid.unit, least * grid.unit


def _scratch(grid: Grid) -> Scratch:
    edges = len(grid.cells[0]) + 1
    return (
        np.zeros(edges),
        np.empty(edges),
        np.zeros(edges),
        np.zeros(edges),
        np.zeros(len(grid.self_cost)),
    )


@compiled
def _sum_cells(
    cells: Cells, part: tuple[int, int], weight: Floats, ahead: Floats, sums: Floats
) -> None:
    """Write the cost of all cells before each edge into `sums`, and clear `weight`.

    Args:
        cells: Cells.
        part: Which of them: the first, and how many.
        weight: By how much the weight rises at each edge: one more than there are cells.
        ahead: Scratch.
        sums: Written.
    """
    decay, gain, inner = cells
    first, count = part
    for cell in range(count):
        weight[cell + 1] += weight[cell]
    ahead[count] = 0.0
    for cell in range(count - 1, -1, -1):
        ahead[cell] = decay[first + cell] * ahead[cell + 1] + weight[cell] * gain[first + cell]
    behind = 0.0
    sums[0] = 0.0
    for cell in range(count):
        at = first + cell
        both = behind + ahead[cell + 1]
        sums[cell + 1] = sums[cell] + weight[cell] * inner[at] + both * gain[at]
        behind = decay[at] * behind + weight[cell] * gain[at]
        weight[cell] = 0.0
    weight[count] = 0.0


@compiled
def _scan(
    time: tuple[Cells, Cells, tuple[Ints, Ints], tuple[Ints, Ints], tuple[Ints, Ints]],
    held: tuple[Ints, Ints, Floats, Floats],
    group_terms: tuple[Floats, Floats, Ints, Floats],
    server_terms: tuple[Flags, Ints, Floats],
    scratch: Scratch,
) -> None:
    cells, own_cells, (first, after), (own_first, own_after), (by_datasource, own_offsets) = time
    offsets, pair_group, pair_weight, own = held
    spread, size_bytes, smallest_bytes, least = group_terms
    is_target, free_bytes, disk = server_terms
    weight, ahead, sums, own_sums, same = scratch
    for server in range(len(is_target)):
        for row in range(offsets[server], offsets[server + 1]):
            weight[first[pair_group[row]]] += pair_weight[row]
            weight[after[pair_group[row]]] -= pair_weight[row]
        _sum_cells(cells, (0, len(cells[0])), weight, ahead, sums)
        row = offsets[server]
        for n in range(len(by_datasource) - 1):
            start, low = row, own_offsets[n]
            while row < offsets[server + 1] and pair_group[row] < by_datasource[n + 1]:
                group = pair_group[row]
                weight[own_first[group] - low] += pair_weight[row]
                weight[own_after[group] - low] -= pair_weight[row]
                same[group] = pair_weight[row]
                row += 1
            _sum_cells(own_cells, (low, own_offsets[n + 1] - low - 1), weight, ahead, own_sums)
            for group in range(by_datasource[n], by_datasource[n + 1]):
                cost = sums[after[group]] - sums[first[group]] + spread[group] * same[group]
                cost += own_sums[own_after[group] - low] - own_sums[own_first[group] - low]
                cost += disk[server] * size_bytes[group]
                if is_target[server] and free_bytes[server] >= smallest_bytes[group]:
                    least[group] = min(least[group], cost)
                same[group] = cost
            for at in range(start, row):
                own[at] = same[pair_group[at]]
            for group in range(by_datasource[n], by_datasource[n + 1]):
                same[group] = 0.0
