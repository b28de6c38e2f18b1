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
from carnac.core.balancing.compiled import aside, compiled, part
from carnac.core.balancing.cost import scaled_cost, square_hours
from carnac.core.balancing.grouping import Groups

Cells: TypeAlias = tuple[Floats, Floats, Floats]
"""For each cell: e^−z, 1 − e^−z, and 2(z + e^−z − 1)."""

Scratch: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats, Floats, Ints]
"""Memory for one pass, with a column for each of `LANES` servers: weights, what lies ahead, sums of all cells, of one
datasource's, for each group how much of it there is and what it costs, and the row that a server has come to. The first
and the fifth are zero between two uses."""

LANES = 4
"""Servers that a pass takes side by side: the sums of one need not wait for those of another."""
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
    spare = -len(terms.is_target) % LANES
    _scan(
        (
            grid.cells,
            grid.own_cells,
            grid.ends,
            grid.own_ends,
            (grid.by_datasource, grid.own_offsets),
        ),
        (np.pad(held.offsets, (0, spare), mode="edge"), held.group, held.weight, own),
        (
            grid.self_cost * (terms.spread / grid.unit),
            terms.size_bytes,
            terms.smallest_bytes,
            least,
        ),
        (
            np.pad(terms.is_target, (0, spare)),
            np.pad(terms.free_bytes, (0, spare)),
            np.pad(terms.disk / grid.unit, (0, spare)),
        ),
        _scratch(grid),
    )
    return own * grid.unit, least * grid.unit


def _scratch(grid: Grid) -> Scratch:
    edges, groups = len(grid.cells[0]) + 1, len(grid.self_cost)
    return (
        np.zeros((edges, LANES)),
        np.empty((edges, LANES)),
        np.zeros((edges, LANES)),
        np.zeros((edges, LANES)),
        np.zeros((groups, LANES)),
        np.zeros((groups, LANES)),
        np.zeros(LANES, np.int64),
    )


@aside
def _sum_cells(
    cells: Cells, part: tuple[int, int], weight: Floats, ahead: Floats, sums: Floats
) -> None:
    """Write the cost of all cells before each edge into `sums`, and clear `weight`.

    Args:
        cells: Cells.
        part: Which of them: the first, and how many.
        weight: (edge, lane): by how much the weight rises at each edge, of which there is one more than cells.
        ahead: Scratch.
        sums: (edge, lane): written.
    """
    decay, gain, inner = cells
    first, count = part
    a = b = c = d = 0.0
    for cell in range(count):
        a, b = a + weight[cell, 0], b + weight[cell, 1]
        c, d = c + weight[cell, 2], d + weight[cell, 3]
        weight[cell, 0], weight[cell, 1], weight[cell, 2], weight[cell, 3] = a, b, c, d
    a = b = c = d = 0.0
    for cell in range(count, 0, -1):
        ahead[cell, 0], ahead[cell, 1], ahead[cell, 2], ahead[cell, 3] = a, b, c, d
        fade, share = decay[first + cell - 1], gain[first + cell - 1]
        a = fade * a + weight[cell - 1, 0] * share
        b = fade * b + weight[cell - 1, 1] * share
        c = fade * c + weight[cell - 1, 2] * share
        d = fade * d + weight[cell - 1, 3] * share
    _sum_behind((decay, gain, inner), (first, count), weight, ahead, sums)
    for lane in range(LANES):
        weight[count, lane] = 0.0


@part
def _sum_behind(
    cells: Cells, part: tuple[int, int], weight: Floats, ahead: Floats, sums: Floats
) -> None:
    """Do the last of the three passes of `_sum_cells`: what lies behind, and the sums."""
    decay, gain, inner = cells
    first, count = part
    a = b = c = d = 0.0
    e = f = g = h = 0.0
    sums[0, 0] = sums[0, 1] = sums[0, 2] = sums[0, 3] = 0.0
    for cell in range(count):
        fade, share, own = decay[first + cell], gain[first + cell], inner[first + cell]
        p, q, r, s = weight[cell, 0], weight[cell, 1], weight[cell, 2], weight[cell, 3]
        a += p * own + (e + ahead[cell + 1, 0]) * share
        b += q * own + (f + ahead[cell + 1, 1]) * share
        c += r * own + (g + ahead[cell + 1, 2]) * share
        d += s * own + (h + ahead[cell + 1, 3]) * share
        e, f = fade * e + p * share, fade * f + q * share
        g, h = fade * g + r * share, fade * h + s * share
        after = cell + 1
        sums[after, 0], sums[after, 1], sums[after, 2], sums[after, 3] = a, b, c, d
        weight[cell, 0] = weight[cell, 1] = weight[cell, 2] = weight[cell, 3] = 0.0


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
    weight, ahead, sums, own_sums, same, costs, at = scratch
    for server in range(0, len(offsets) - 1, LANES):
        for lane in range(LANES):
            at[lane] = offsets[server + lane]
            for row in range(offsets[server + lane], offsets[server + lane + 1]):
                weight[first[pair_group[row]], lane] += pair_weight[row]
                weight[after[pair_group[row]], lane] -= pair_weight[row]
        _sum_cells(cells, (0, len(cells[0])), weight, ahead, sums)
        for n in range(len(by_datasource) - 1):
            low, last = own_offsets[n], by_datasource[n + 1]
            for lane in range(LANES):
                row, end = at[lane], offsets[server + lane + 1]
                while row < end and pair_group[row] < last:
                    group = pair_group[row]
                    weight[own_first[group] - low, lane] += pair_weight[row]
                    weight[own_after[group] - low, lane] -= pair_weight[row]
                    same[group, lane] = pair_weight[row]
                    row += 1
            _sum_cells(own_cells, (low, own_offsets[n + 1] - low - 1), weight, ahead, own_sums)
            _cost_groups(
                (by_datasource[n], last, low, server),
                (first, after, own_first, own_after),
                (sums, own_sums, same, costs),
                group_terms,
                server_terms,
            )
            for lane in range(LANES):
                row, end = at[lane], offsets[server + lane + 1]
                while row < end and pair_group[row] < last:
                    own[row] = costs[pair_group[row], lane]
                    same[pair_group[row], lane] = 0.0
                    row += 1
                at[lane] = row


@aside
def _cost_groups(
    part: tuple[int, int, int, int],
    ends: tuple[Ints, Ints, Ints, Ints],
    sums: tuple[Floats, Floats, Floats, Floats],
    group_terms: tuple[Floats, Floats, Ints, Floats],
    server_terms: tuple[Flags, Ints, Floats],
) -> None:
    """Write what a segment of each group of one datasource costs on `LANES` servers, and keep the least."""
    start, stop, low, server = part
    first, after, own_first, own_after = ends
    of_all, of_own, same, costs = sums
    spread, size_bytes, smallest_bytes, least = group_terms
    is_target, free_bytes, disk = server_terms
    for group in range(start, stop):
        a, b, c, d = first[group], after[group], own_first[group] - low, own_after[group] - low
        lowest = least[group]
        for lane in range(LANES):
            cost = of_all[b, lane] - of_all[a, lane] + spread[group] * same[group, lane]
            cost += of_own[d, lane] - of_own[c, lane]
            cost += disk[server + lane] * size_bytes[group]
            fits = free_bytes[server + lane] >= smallest_bytes[group]
            if fits and is_target[server + lane] and cost < lowest:
                lowest = cost
            costs[group, lane] = cost
        least[group] = lowest
