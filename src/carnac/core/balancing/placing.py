"""The loop that places segments one after another: what would it cost where, who may take it, the cheapest gets it."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.columns import NOWHERE, Bounds, Flags, Floats, Ints, Rows
from carnac.core.balancing.compiled import lean
from carnac.core.balancing.tree import Trees, add, has_spare, holds, pair_cost, put, sum_up
from carnac.core.balancing.tree_queries import add_costs

TIE = 1e-9
"""Costs that differ by less than this share of the smaller count as equal."""


@lean
def least(costs: Floats) -> float:
    """Return the least of the costs; four at a time, for each waits for the one before it."""
    a = b = c = d = np.inf
    even = len(costs) // 4 * 4
    for s in range(0, even, 4):  # not `min`, which looks for NaN as well
        a = costs[s] if costs[s] < a else a  # noqa: FURB136
        b = costs[s + 1] if costs[s + 1] < b else b  # noqa: FURB136
        c = costs[s + 2] if costs[s + 2] < c else c  # noqa: FURB136
        d = costs[s + 3] if costs[s + 3] < d else d  # noqa: FURB136
    for s in range(even, len(costs)):
        a = min(a, costs[s])
    return float(min(a, b, c, d))


@lean
def cheapest(
    costs: Floats, allowed: Flags, size: int, free: Ints, capacity: Ints, barred: Flags
) -> int:
    """Return the server with the lowest cost of those that may and can take `size` bytes; `NOWHERE` if none can.

    Of costs that are equal to `TIE` the larger free share of the disk wins, then the lower number. Overwrites `costs`.
    """
    for s in range(len(costs)):  # no branches, so that it can be vectorised
        cannot = np.uint8(barred[s]) | np.uint8(free[s] < size) | (1 - np.uint8(allowed[s]))
        costs[s] = np.inf if cannot else costs[s]
    lowest = least(costs)
    if lowest == np.inf:
        return NOWHERE
    limit = lowest * (1 + TIE)
    best, best_share = NOWHERE, -1.0
    for s in range(len(costs)):
        if costs[s] <= limit:
            share = free[s] / max(capacity[s], 1)
            if share > best_share:
                best, best_share = s, share
    return best


@lean
def place_rows(
    t: Trees,
    roots: Ints,
    rows: Rows,
    room: Bounds,
    last_copy: Ints,
    earlier: Ints,
    chosen: Ints,
    own: Floats,
    costs: Floats,
    barred: Flags,
    start: int,
) -> int:
    """Place rows from `start` on; return the first row that was not placed, because the trees must grow first.

    `chosen` gets the servers. `last_copy[c]` is the newest row of segment `c`, and `earlier[row]` the one before it.
    """
    servers, free = len(room.free), room.free
    for row in range(start, len(chosen)):
        if not has_spare(t):
            return row
        root = roots[1 + rows.datasources[row]]
        lo, hi = rows.starts[row], rows.ends[row]
        costs[:] = 0.0
        add_costs(t, roots[0], lo, hi, 0, servers, costs)
        add_costs(t, root, lo, hi, 0, servers, costs)
        bar(room, chosen, earlier, last_copy, rows.copies[row], row, barred, True)
        size = rows.sizes[row]
        kind = room.kinds[row]
        best = cheapest(costs, room.allowed[kind], size, free, room.capacity, barred)
        bar(room, chosen, earlier, last_copy, rows.copies[row], row, barred, False)
        chosen[row] = best
        if best >= 0:
            free[best] -= size
            add(t, roots[0], lo, hi, best, rows.weights[row])
            add(t, root, lo, hi, best, rows.weights[row])
            add_own(t, own, best, lo, hi, rows.weights[row], 1)
        earlier[row] = last_copy[rows.copies[row]]
        last_copy[rows.copies[row]] = row
    return len(chosen)


@lean
def bar(
    room: Bounds,
    chosen: Ints,
    earlier: Ints,
    last_copy: Ints,
    copy: int,
    row: int,
    barred: Flags,
    value: bool,
) -> None:
    """Flag the servers that hold a copy already, those named by the room and those of earlier rows."""
    for k in range(room.barred_offsets[row], room.barred_offsets[row + 1]):
        barred[room.barred_servers[k]] = value
    other = last_copy[copy]
    while other >= 0:
        if chosen[other] >= 0:
            barred[chosen[other]] = value
        other = earlier[other]


@lean
def add_own(t: Trees, own: Floats, server: int, lo: int, hi: int, weight: int, sign: int) -> None:
    """Add a segment's cost against itself to a server's sum, which is kept in two doubles so that it cannot drift."""
    term = sign * float(weight) * weight * pair_cost(lo, hi, lo, hi, t.rate)
    total = own[0, server] + term
    shadow = total - own[0, server]
    own[1, server] += (own[0, server] - (total - shadow)) + (term - shadow)
    own[0, server] = total


@lean
def change_rows(
    t: Trees,
    roots: Ints,
    rows: Rows,
    servers: Ints,
    own: Floats,
    sign: int,
    in_bulk: bool,
    start: int,
) -> tuple[int, bool]:
    """Add (or with sign -1 take away) rows from `start` on; in bulk not to the sums: `sum_up_all` must follow.

    Return the first row that was not done, and whether it is because the server does not hold it; otherwise the trees
    must grow first.
    """
    for row in range(start, len(servers)):
        server, weight = servers[row], rows.weights[row]
        if server < 0:
            continue
        if not has_spare(t):
            return row, False
        lo, hi, root = rows.starts[row], rows.ends[row], roots[1 + rows.datasources[row]]
        if sign < 0 and not (
            holds(t, root, lo, hi, server, weight) and holds(t, roots[0], lo, hi, server, weight)
        ):
            return row, True
        for tree in (roots[0], root):
            if in_bulk:
                put(t, tree, lo, hi, server, sign * weight)
            else:
                add(t, tree, lo, hi, server, sign * weight)
        add_own(t, own, server, lo, hi, weight, sign)
    return len(servers), False


@lean
def sum_up_all(t: Trees) -> None:
    """Compute all sums anew; a child's number is higher than its parent's."""
    for node in range(t.used[0] - 1, -1, -1):
        sum_up(t, node, 0, t.sums.shape[2])
