"""The cost of an interval against all held segments, on every server at once.

Time is cut into cells where segments start and end, for all datasources together and for each one alone. A server's
content is how many segments cover each cell. In a cell of scaled width z, with what lies before it cast as one number
L onto its left end, and what lies after it as R onto its right end, the cell costs

    count · 2(z + e^−z − 1) + (L + R)(1 − e^−z)        in units of 1/λ²,

and L fades by e^−z over the cell and grows by count · (1 − e^−z). Some cells that follow each other are a block. A
row of numbers, one a server, keeps for each cell what it costs against its own block (`among`), and for each block what
the blocks before and behind cast onto its ends. So three rows answer for a segment that is one cell.

A load or a drop changes counts. Then the sums of the blocks that it touches are taken anew, and what these cast on
others, as far as that changes. Nothing is ever subtracted: the sums are a function of the counts, with positive terms
alone, however the counts came to be.

All compiled functions of the cost are in this file; see `compiled`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carnac.core.balancing.cost.columns import NOWHERE, Flags, Floats, Ints, Room, SegmentColumns
from carnac.core.balancing.cost.compiled import compiled
from carnac.core.balancing.cost.joint import scaled_cost

TIE = 1e-9
"""Costs that differ by less than this share of the smaller count as equal."""
PLACE, LOAD, DROP = range(3)
"""The operations on rows."""
EVERYTHING = 0
"""The grid of all datasources together."""
FIRST_CELL, CELLS, FIRST_BLOCK, SIZE = range(4)
"""Columns of `Field.grids`."""
WHOLE, TO_RIGHT, TO_LEFT, FROM_LEFT, FROM_RIGHT = range(5)
"""Rows of a block: its cost against itself, the sums that it casts onto its ends, and those that others cast there."""

pair_cost = compiled(scaled_cost)


class Field(NamedTuple):
    """Grids of cells, one after the other, and how many segments cover each cell on each server.

    Attributes:
        grids: A row for each grid: its first cell, how many cells, its first block, the cells of a block.
        edges: The start of each cell in epoch ms; each grid ends with an edge more, which counts as a cell of no width.
        decay, gain, inner: Of each cell: e^−z, 1 − e^−z, 2(z + e^−z − 1).
        fade: Of each block: e^−z of all its cells together.
        covered: `[cell, server]`: how many segments cover the cell.
        among: `[cell, server]`: the cell's cost against its block.
        sums: `[block, kind, server]`.
        rate: λ per millisecond.
    """

    grids: npt.NDArray[np.int64]
    edges: Ints
    decay: Floats
    gain: Floats
    inner: Floats
    fade: Floats
    covered: npt.NDArray[np.int32]
    among: Floats
    sums: npt.NDArray[np.float64]
    rate: float


class Search(NamedTuple):
    """The arguments for choosing servers besides the rows, and working space.

    Attributes:
        last_copy: By segment: its newest row, -1 at first.
        earlier: By row: the row before it of the same segment.
        costs: By server.
        barred: By server; nothing is barred between two rows.
    """

    last_copy: Ints
    earlier: Ints
    costs: Floats
    barred: Flags


def search_for(different: int, rows: int, servers: int) -> Search:
    """Return what it takes to choose servers for rows that are copies of so many different segments."""
    return Search(
        np.full(different, -1, np.int64),
        np.full(rows, -1, np.int64),
        np.zeros(servers),
        np.zeros(servers, np.bool_),
    )


@compiled
def cell_at(f: Field, grid: int, at: int) -> int:
    """Return the cell of a grid in which an instant lies, which is not before its first edge."""
    low = f.grids[grid, FIRST_CELL]
    high = low + f.grids[grid, CELLS]
    while high - low > 1:
        middle = (low + high) // 2
        if f.edges[middle] <= at:
            low = middle
        else:
            high = middle
    return int(low)


@compiled
def add_cell(f: Field, cells: tuple[int, int], cell: int, lo: int, hi: int, out: Floats) -> None:
    """Add what the part [lo, hi) of a cell costs against the cells of its block."""
    if lo == f.edges[cell] and hi == f.edges[cell + 1]:
        row = f.among[cell]
        for s in range(len(out)):
            out[s] += row[s]
        return
    for other in range(cells[0], cells[1]):
        cost = pair_cost(lo, hi, f.edges[other], f.edges[other + 1], f.rate)
        held = f.covered[other]
        for s in range(len(out)):
            out[s] += cost * held[s]


@compiled
def add_costs(f: Field, grid: int, lo: int, hi: int, out: Floats) -> None:
    """Add what [lo, hi) costs on each server, in units of 1/λ²."""
    first, cells = f.grids[grid, FIRST_CELL], f.grids[grid, CELLS]
    size, first_block = f.grids[grid, SIZE], f.grids[grid, FIRST_BLOCK]
    cell, at = cell_at(f, grid, lo), lo
    while at < hi:
        n = (cell - first) // size
        low, high = first + n * size, min(first + (n + 1) * size, first + cells)
        start, end = f.edges[low], f.edges[high]
        stop = min(hi, end)
        span = -math.expm1(-f.rate * (stop - at))
        left = span * math.exp(-f.rate * (at - start))
        right = span * math.exp(-f.rate * (end - stop))
        behind, ahead = f.sums[first_block + n, FROM_LEFT], f.sums[first_block + n, FROM_RIGHT]
        is_cell = at == f.edges[cell] and stop == f.edges[cell + 1]
        if is_cell or (at == start and stop == end):
            among = f.among[cell] if is_cell else f.sums[first_block + n, WHOLE]
            for s in range(len(out)):
                out[s] += among[s] + left * behind[s] + right * ahead[s]
        else:
            for s in range(len(out)):
                out[s] += left * behind[s] + right * ahead[s]
            while at < stop:
                part = min(stop, f.edges[cell + 1])
                add_cell(f, (low, high), cell, at, part, out)
                at, cell = part, cell + 1
        at, cell = stop, high


@compiled
def sum_block(f: Field, low: int, high: int, block: int, s: int) -> None:
    """Take the sums of a block's cells anew, on one server."""
    cast, whole = 0.0, 0.0
    for cell in range(low, high):
        held, gain = f.covered[cell, s], f.gain[cell]
        f.among[cell, s] = held * f.inner[cell] + cast * gain
        cast = cast * f.decay[cell] + held * gain
    f.sums[block, TO_RIGHT, s] = cast
    cast = 0.0
    for cell in range(high - 1, low - 1, -1):
        f.among[cell, s] += cast * f.gain[cell]
        whole += f.among[cell, s]
        cast = cast * f.decay[cell] + f.covered[cell, s] * f.gain[cell]
    f.sums[block, TO_LEFT, s] = cast
    f.sums[block, WHOLE, s] = whole


@compiled
def shift(f: Field, grid: int, lo: int, hi: int, s: int, sign: int, is_bulk: bool) -> None:
    """Add to the count of the cells in [lo, hi), whose ends are edges, on one server; in bulk only that."""
    first, cells = f.grids[grid, FIRST_CELL], f.grids[grid, CELLS]
    size, first_block = f.grids[grid, SIZE], f.grids[grid, FIRST_BLOCK]
    begin = cell_at(f, grid, lo)
    cell = begin
    while f.edges[cell] < hi:
        f.covered[cell, s] += sign
        cell += 1
    if is_bulk:
        return
    blocks = -(-cells // size)
    low, high = (begin - first) // size, (cell - 1 - first) // size
    for n in range(low, high + 1):
        end = min(first + (n + 1) * size, first + cells)
        sum_block(f, first + n * size, end, first_block + n, s)
    sums = f.sums
    for block in range(first_block + low, first_block + blocks - 1):
        cast = sums[block, FROM_LEFT, s] * f.fade[block] + sums[block, TO_RIGHT, s]
        if block >= first_block + high and cast == sums[block + 1, FROM_LEFT, s]:
            break  # the blocks behind are as they were
        sums[block + 1, FROM_LEFT, s] = cast
    for block in range(first_block + high, first_block, -1):
        cast = sums[block, FROM_RIGHT, s] * f.fade[block] + sums[block, TO_LEFT, s]
        if block <= first_block + low and cast == sums[block - 1, FROM_RIGHT, s]:
            break
        sums[block - 1, FROM_RIGHT, s] = cast


@compiled
def sum_all(f: Field) -> None:
    """Take all sums anew."""
    for grid in range(len(f.grids)):
        first, cells = f.grids[grid, FIRST_CELL], f.grids[grid, CELLS]
        size, first_block = f.grids[grid, SIZE], f.grids[grid, FIRST_BLOCK]
        last_block = first_block - (-cells // size) - 1
        for block in range(first_block, last_block + 1):
            low = first + (block - first_block) * size
            for s in range(f.covered.shape[1]):
                sum_block(f, low, min(low + size, first + cells), block, s)
        sums = f.sums
        sums[first_block, FROM_LEFT] = 0.0
        sums[last_block, FROM_RIGHT] = 0.0
        for block in range(first_block, last_block):
            for s in range(f.covered.shape[1]):
                cast = sums[block, FROM_LEFT, s] * f.fade[block] + sums[block, TO_RIGHT, s]
                sums[block + 1, FROM_LEFT, s] = cast
        for block in range(last_block, first_block, -1):
            for s in range(f.covered.shape[1]):
                cast = sums[block, FROM_RIGHT, s] * f.fade[block] + sums[block, TO_LEFT, s]
                sums[block - 1, FROM_RIGHT, s] = cast


@compiled
def holds(f: Field, grid: int, lo: int, hi: int, server: int) -> bool:
    """Whether a server holds a segment of all of [lo, hi), which starts and ends where segments do."""
    cell = cell_at(f, grid, lo)
    if f.edges[cell] != lo:
        return False
    while f.edges[cell] < hi:
        if f.covered[cell, server] < 1:
            return False
        cell += 1
    return bool(f.edges[cell] == hi)


@compiled
def add_energies(f: Field, out: Floats) -> None:
    """Add for each server what all its content costs against all its content."""
    for grid in range(len(f.grids)):
        first, cells = f.grids[grid, FIRST_CELL], f.grids[grid, CELLS]
        size, first_block = f.grids[grid, SIZE], f.grids[grid, FIRST_BLOCK]
        for block in range(first_block, first_block - (-cells // size)):
            low = first + (block - first_block) * size
            for cell in range(low, min(low + size, first + cells)):
                for s in range(len(out)):
                    out[s] += f.covered[cell, s] * f.among[cell, s]
            sums = f.sums[block]
            for s in range(len(out)):
                out[s] += sums[TO_LEFT, s] * sums[FROM_LEFT, s]
                out[s] += sums[TO_RIGHT, s] * sums[FROM_RIGHT, s]


@compiled
def cheapest(
    costs: Floats, allowed: Flags, size: int, free: Ints, capacity: Ints, barred: Flags
) -> int:
    """Return the server with the lowest cost of those that may and can take `size` bytes; `NOWHERE` if none can.

    Of costs that are equal to `TIE` the larger free share of the disk wins, then the lower number. Overwrites `costs`.
    """
    lowest = np.inf
    for s in range(len(costs)):
        cannot = barred[s] | (free[s] < size) | (not allowed[s])
        costs[s] = np.inf if cannot else costs[s]
        lowest = min(lowest, costs[s])
    if lowest == np.inf:
        return NOWHERE
    limit = lowest + abs(lowest) * TIE
    best, best_share = NOWHERE, -np.inf
    for s in range(len(costs)):
        if costs[s] <= limit:
            share = free[s] / max(capacity[s], 1)
            if share > best_share:
                best, best_share = s, share
    return best


@compiled
def bar(room: Room, search: Search, copy: int, row: int, chosen: Ints) -> None:
    """Flag the servers that hold a copy already, those named by the room and those of earlier rows."""
    for k in range(room.barred_offsets[row], room.barred_offsets[row + 1]):
        search.barred[room.barred_servers[k]] = True
    other = search.last_copy[copy]
    while other >= 0:
        if chosen[other] >= 0:
            search.barred[chosen[other]] = True
        other = search.earlier[other]


@compiled
def choose(rows: SegmentColumns, row: int, room: Room, search: Search, chosen: Ints) -> int:
    """Return the server for a row whose costs are known, and take the room there; `NOWHERE` if none can take it."""
    size, copy, allowed = rows.sizes_bytes[row], rows.copy_of[row], room.allowed[room.kinds[row]]
    bar(room, search, copy, row, chosen)
    best = cheapest(
        search.costs, allowed, size, room.free_bytes, room.capacity_bytes, search.barred
    )
    search.barred[:] = False
    if best >= 0:
        room.free_bytes[best] -= size
    search.earlier[row] = search.last_copy[copy]
    search.last_copy[copy] = row
    return best


@compiled
def add_own(f: Field, own: Floats, server: int, lo: int, hi: int, sign: int) -> None:
    """Add a segment's cost against itself to a server's sum, which is kept in two doubles so that it cannot drift."""
    term = sign * pair_cost(lo, hi, lo, hi, f.rate)
    total = own[0, server] + term
    shadow = total - own[0, server]
    own[1, server] += (own[0, server] - (total - shadow)) + (term - shadow)
    own[0, server] = total


@compiled
def change_rows(
    f: Field,
    grid_of: Ints,
    rows: SegmentColumns,
    room: Room,
    search: Search,
    servers: Ints,
    own: Floats,
    how: int,
    is_bulk: bool,
) -> int:
    """Place, load or drop rows, each on its server; placing finds that out and writes it.

    Return the first row that was not done because the server does not hold it, or their number. In bulk the sums are
    taken at the end.
    """
    sign, done = -1 if how == DROP else 1, len(servers)
    for row in range(len(servers)):
        lo, hi, server = rows.starts_ms[row], rows.ends_ms[row], servers[row]
        grid = grid_of[rows.datasources[row]]
        if how == PLACE:
            search.costs[:] = 0.0
            for one in (EVERYTHING, grid):
                add_costs(f, one, lo, hi, search.costs)
            servers[row] = server = choose(rows, row, room, search, servers)
        if server >= 0:
            if sign < 0 and (grid < 0 or not holds(f, grid, lo, hi, server)):
                done = row
                break
            for one in (EVERYTHING, grid):
                shift(f, one, lo, hi, server, sign, is_bulk)
            add_own(f, own, server, lo, hi, sign)
    if is_bulk:
        sum_all(f)
    return done


class Held(NamedTuple):
    """How much of each group of equal segments which server holds, sorted by group, then server.

    Attributes:
        offsets: Where the rows of each group begin, and the end.
        server: Of each row.
        copies: How many of the group's replicas are there; > 0.
    """

    offsets: Ints
    server: Ints
    copies: Ints


class Takers(NamedTuple):
    """The sizes of segments and the room of servers, by which a server may take a segment.

    Attributes:
        smallest_bytes: By group: size of its smallest segment.
        free_bytes: By server; -1 where nothing may go.
    """

    smallest_bytes: Ints
    free_bytes: Ints


@compiled
def scan_groups(
    f: Field,
    grid_of: Ints,
    groups: tuple[Ints, Ints, Ints],
    held: Held,
    takers: Takers,
    own: Floats,
    least: Floats,
    costs: Floats,
) -> None:
    """Write what a segment of each group costs where it is, itself included, and the least where it could be.

    Args:
        groups: Datasource, start and end of each.
        own: By row of `held`.
        least: By group; infinity if no server could take it, or none holds any.
        costs: By server, to work in.
    """
    datasource, start, end = groups
    for group in range(len(start)):
        least[group] = np.inf
        if held.offsets[group] == held.offsets[group + 1]:
            continue
        costs[:] = 0.0
        for one in (EVERYTHING, grid_of[datasource[group]]):
            add_costs(f, one, start[group], end[group], costs)
        smallest, lowest = takers.smallest_bytes[group], np.inf
        for s in range(len(costs)):
            cost = costs[s] if takers.free_bytes[s] >= smallest else np.inf
            lowest = min(lowest, cost)
        least[group] = lowest
        for row in range(held.offsets[group], held.offsets[group + 1]):
            own[row] = costs[held.server[row]]
