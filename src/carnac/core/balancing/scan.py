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
from typing import ClassVar

import numpy as np

from carnac.core.balancing.columns import Flags, Floats, Ints
from carnac.core.balancing.compiled import aside, compiled, part
from carnac.core.balancing.cost import scaled_cost, square_hours
from carnac.core.balancing.grouping import Groups
from carnac.core.balancing.tables import Tables

LANES = 4
"""Servers that a pass takes side by side: the sums of one need not wait for those of another."""
_SERIES_BELOW = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid(Tables):
    """The cells of time, of all datasources together and of each one alone.

    Attributes:
        decay, gain, inner: For each cell: e^−z, 1 − e^−z, and 2(z + e^−z − 1).
        own_decay, own_gain, own_inner: The same for the cells of each datasource, one after the other.
        first, after: For each group its first cell and the one after its last.
        own_first, own_after: The same in the cells of its datasource.
        by_datasource: The groups of the n-th datasource that has any: from the n-th element to the next.
        own_offsets: Its cells.
        self_cost: What two copies of a segment of each group cost each other on one server, in hours².
        unit: Hours² of one unit of the cells.
    """

    decay: Floats
    gain: Floats
    inner: Floats
    own_decay: Floats
    own_gain: Floats
    own_inner: Floats
    first: Ints
    after: Ints
    own_first: Ints
    own_after: Ints
    by_datasource: Ints
    own_offsets: Ints
    self_cost: Floats
    unit: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings(Tables):
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Hosts(Tables):
    """What one pass needs of servers and groups, in units of the cells; servers are a multiple of `LANES`.

    Attributes:
        spread: By group: what each copy of it on the server adds.
        size_bytes, smallest_bytes: By group; see `Terms`.
        free_bytes: By server; -1 where nothing may go.
        disk: By server.
    """

    spread: Floats
    size_bytes: Floats
    smallest_bytes: Ints
    free_bytes: Ints
    disk: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Lanes(Tables):
    """Memory for one pass, with a column for each of `LANES` servers.

    Attributes:
        weight: By edge: by how much the weight rises there, then the weight of the cell; zero between two uses.
        ahead: By edge: what lies ahead of it.
        sums, own_sums: By edge: the cost of all cells before it, of everything and of one datasource.
        same: By group: how much of it there is; zero between two uses.
        costs: By group.
        at: The row of the holdings that the server has come to, one element each.
    """

    FIXED: ClassVar[dict[str, int]] = dict.fromkeys(
        ("weight", "ahead", "sums", "own_sums", "same", "costs"), LANES
    )

    weight: Floats
    ahead: Floats
    sums: Floats
    own_sums: Floats
    same: Floats
    costs: Floats
    at: Ints


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
    decay, gain, inner = _cells_between(edges, rate)
    own_decay, own_gain, own_inner = _cells_between(edges[own % max(len(edges), 1)], rate)
    return Grid(
        decay=decay,
        gain=gain,
        inner=inner,
        own_decay=own_decay,
        own_gain=own_gain,
        own_inner=own_inner,
        first=first,
        after=after,
        own_first=own_first,
        own_after=own_after,
        by_datasource=np.append(by_datasource, len(groups)).astype(np.int64),
        own_offsets=np.append(bounds, len(own)).astype(np.int64),
        self_cost=np.array(costs, np.float64)[of_group] * unit,
        unit=unit,
    )


def _cells_between(edges: Ints, rate: float) -> tuple[Floats, Floats, Floats]:
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
        server: Server of each replica; what is on a negative one is left out.
        weight: Weight of each group's segments.
        sizes: How many groups and how many servers there are.
    """
    group_count, server_count = sizes
    kind = np.dtype("i4" if group_count * server_count < 1 << 31 else "i8")  # half is sorted sooner
    places = np.empty(len(group), kind)
    places = places[: _find_places(group, server, group_count, places)]
    places.sort()
    offsets = np.zeros(server_count + 1, np.int64)
    groups, held = np.empty(len(places), np.int64), np.empty(len(places))
    count = _sum_up(places, weight, group_count, offsets, groups, held)
    return Holdings(offsets=offsets, group=groups[:count], weight=held[:count])


@compiled
def _find_places(group: Ints, server: Ints, group_count: int, places: Ints) -> int:
    """Write a number for the server and the group of each replica, in that order; return how many there are."""
    count = 0
    for row in range(len(group)):
        if server[row] >= 0:
            places[count] = server[row] * group_count + group[row]
            count += 1
    return count


@compiled
def _sum_up(
    places: Ints, weight: Floats, group_count: int, offsets: Ints, groups: Ints, held: Floats
) -> int:
    """Write what each server holds of each group, from the sorted places; return how many rows that makes."""
    row, count, server, first = 0, 0, 0, 0
    while row < len(places):
        place, begin = places[row], row
        while row < len(places) and places[row] == place:
            row += 1
        while place >= first + group_count:
            server, first = server + 1, first + group_count
            offsets[server] = count
        groups[count] = place - first
        held[count] = (row - begin) * weight[groups[count]]
        count += 1
    offsets[server + 1 :] = count
    return count


def scan_costs(grid: Grid, held: Holdings, terms: Terms) -> tuple[Floats, Floats]:
    """Return what segments cost where they are, and the least that they cost where they could be.

    The first is for each row of `held`, itself included; the second for each group, infinity if no server could take
    one. In hours², for weight 1.
    """
    own = np.zeros(len(held.group))
    least = np.full(len(grid.self_cost), np.inf)
    spare = -len(terms.is_target) % LANES
    hosts = Hosts(
        spread=grid.self_cost * (terms.spread / grid.unit),
        size_bytes=terms.size_bytes,
        smallest_bytes=terms.smallest_bytes,
        free_bytes=np.pad(
            np.where(terms.is_target, terms.free_bytes, -1), (0, spare), constant_values=-1
        ),
        disk=np.pad(terms.disk / grid.unit, (0, spare)),
    )
    offsets = np.pad(held.offsets, (0, spare), mode="edge")
    _scan(grid, offsets, held, hosts, _lanes_for(grid), own, least)
    return own * grid.unit, least * grid.unit


def _lanes_for(grid: Grid) -> Lanes:
    edges, groups = len(grid.decay) + 1, len(grid.self_cost)
    return Lanes(
        weight=np.zeros((edges, LANES)),
        ahead=np.empty((edges, LANES)),
        sums=np.zeros((edges, LANES)),
        own_sums=np.zeros((edges, LANES)),
        same=np.zeros((groups, LANES)),
        costs=np.zeros((groups, LANES)),
        at=np.zeros(LANES, np.int64),
    )


@aside
def _sum_cells(
    decay: Floats, gain: Floats, inner: Floats, weight: Floats, ahead: Floats, sums: Floats
) -> None:
    """Write the cost of all cells before each edge into `sums`, and clear `weight`.

    Args:
        decay, gain, inner: The cells.
        weight: (edge, lane): by how much the weight rises at each edge, of which there is one more than cells.
        ahead: Scratch.
        sums: (edge, lane): written.
    """
    count = len(decay)
    a = b = c = d = 0.0
    for cell in range(count):
        a, b = a + weight[cell, 0], b + weight[cell, 1]
        c, d = c + weight[cell, 2], d + weight[cell, 3]
        weight[cell, 0], weight[cell, 1], weight[cell, 2], weight[cell, 3] = a, b, c, d
    a = b = c = d = 0.0
    for cell in range(count, 0, -1):
        ahead[cell, 0], ahead[cell, 1], ahead[cell, 2], ahead[cell, 3] = a, b, c, d
        fade, share = decay[cell - 1], gain[cell - 1]
        a = fade * a + weight[cell - 1, 0] * share
        b = fade * b + weight[cell - 1, 1] * share
        c = fade * c + weight[cell - 1, 2] * share
        d = fade * d + weight[cell - 1, 3] * share
    _sum_behind(decay, gain, inner, weight, ahead, sums)
    for lane in range(LANES):
        weight[count, lane] = 0.0


@part
def _sum_behind(
    decay: Floats, gain: Floats, inner: Floats, weight: Floats, ahead: Floats, sums: Floats
) -> None:
    """Do the last of the three passes of `_sum_cells`: what lies behind, and the sums."""
    a = b = c = d = 0.0
    e = f = g = h = 0.0
    sums[0, 0] = sums[0, 1] = sums[0, 2] = sums[0, 3] = 0.0
    for cell in range(len(decay)):
        fade, share, own = decay[cell], gain[cell], inner[cell]
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


@part
def _add_weights(
    grid: Grid, held: Holdings, lane: int, rows: tuple[int, int], first_edge: int, work: Lanes
) -> None:
    """Let the weight of a server rise and fall where the rows do, which are of one datasource."""
    for row in range(rows[0], rows[1]):
        group = held.group[row]
        work.weight[grid.own_first[group] - first_edge, lane] += held.weight[row]
        work.weight[grid.own_after[group] - first_edge, lane] -= held.weight[row]
        work.same[group, lane] = held.weight[row]


@compiled
def _scan(
    grid: Grid,
    offsets: Ints,
    held: Holdings,
    hosts: Hosts,
    work: Lanes,
    own: Floats,
    least: Floats,
) -> None:
    group_of, held_weight, at = held.group, held.weight, work.at
    for server in range(0, len(offsets) - 1, LANES):
        for lane in range(LANES):
            at[lane] = offsets[server + lane]
            for row in range(offsets[server + lane], offsets[server + lane + 1]):
                work.weight[grid.first[group_of[row]], lane] += held_weight[row]
                work.weight[grid.after[group_of[row]], lane] -= held_weight[row]
        _sum_cells(grid.decay, grid.gain, grid.inner, work.weight, work.ahead, work.sums)
        for n in range(len(grid.by_datasource) - 1):
            low, last = grid.own_offsets[n], grid.by_datasource[n + 1]
            end = grid.own_offsets[n + 1] - 1
            for lane in range(LANES):
                row = at[lane]
                while row < offsets[server + lane + 1] and group_of[row] < last:
                    row += 1
                _add_weights(grid, held, lane, (at[lane], row), low, work)
            _sum_cells(
                grid.own_decay[low:end],
                grid.own_gain[low:end],
                grid.own_inner[low:end],
                work.weight,
                work.ahead,
                work.own_sums,
            )
            _cost_groups(grid, hosts, work, (grid.by_datasource[n], last, low, server), least)
            for lane in range(LANES):
                row = at[lane]
                while row < offsets[server + lane + 1] and group_of[row] < last:
                    own[row] = work.costs[group_of[row], lane]
                    work.same[group_of[row], lane] = 0.0
                    row += 1
                at[lane] = row


@aside
def _cost_groups(
    grid: Grid, hosts: Hosts, work: Lanes, where: tuple[int, int, int, int], least: Floats
) -> None:
    """Write what a segment of each group of one datasource costs on `LANES` servers, and keep the least."""
    start, stop, low, server = where
    of_all, of_own, same, costs = work.sums, work.own_sums, work.same, work.costs
    disks, free = hosts.disk[server : server + LANES], hosts.free_bytes[server : server + LANES]
    disk_0, disk_1, disk_2, disk_3 = disks[0], disks[1], disks[2], disks[3]
    free_0, free_1, free_2, free_3 = free[0], free[1], free[2], free[3]
    for group in range(start, stop):
        a, b = grid.first[group], grid.after[group]
        c, d = grid.own_first[group] - low, grid.own_after[group] - low
        spread, size, smallest = (
            hosts.spread[group],
            hosts.size_bytes[group],
            hosts.smallest_bytes[group],
        )
        w = of_all[b, 0] - of_all[a, 0] + (of_own[d, 0] - of_own[c, 0]) + spread * same[group, 0]
        x = of_all[b, 1] - of_all[a, 1] + (of_own[d, 1] - of_own[c, 1]) + spread * same[group, 1]
        y = of_all[b, 2] - of_all[a, 2] + (of_own[d, 2] - of_own[c, 2]) + spread * same[group, 2]
        z = of_all[b, 3] - of_all[a, 3] + (of_own[d, 3] - of_own[c, 3]) + spread * same[group, 3]
        w, x, y, z = w + disk_0 * size, x + disk_1 * size, y + disk_2 * size, z + disk_3 * size
        costs[group, 0], costs[group, 1], costs[group, 2], costs[group, 3] = w, x, y, z
        w = w if free_0 >= smallest else np.inf
        x = x if free_1 >= smallest else np.inf
        y = y if free_2 >= smallest else np.inf
        z = z if free_3 >= smallest else np.inf
        w, y = (w if w < x else x), (y if y < z else z)  # noqa: FURB136 - no calls
        w = w if w < y else y  # noqa: FURB136
        least[group] = w if w < least[group] else least[group]  # noqa: FURB136
