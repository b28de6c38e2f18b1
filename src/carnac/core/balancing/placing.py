"""The loop that places segments one after another: what would it cost where, who may take it, the cheapest gets it."""

from __future__ import annotations

import numpy as np

from carnac.core.balancing.columns import NOWHERE, Bounds, Flags, Floats, Ints, Rows
from carnac.core.balancing.compiled import fetch, lean
from carnac.core.balancing.tree import (
    AMONG,
    CHILDREN,
    COUNT,
    COVER,
    FROM_RIGHT,
    OUTER,
    SUMS,
    Trees,
    child_at,
    has_spare,
    pair_cost,
    sum_up,
)
from carnac.core.balancing.tree_changes import add, holds
from carnac.core.balancing.tree_queries import add_costs

INFINITY_BITS = 0x7FF0000000000000
TIE = 1e-9
"""Costs that differ by less than this share of the smaller count as equal."""


@lean
def first_least(costs: Floats, allowed: Flags, size: int, free: Ints, barred: Flags) -> int:
    """Set the costs of servers that may not or cannot take `size` bytes to infinity; return the first with the least.

    The bits of costs, read as whole numbers, have the same order, for none is negative; and the least of whole numbers
    can be found by vector.
    """
    bits = costs.view(np.int64)
    lowest, at = INFINITY_BITS, 0
    for s in range(len(bits)):  # no branches, for the same reason
        cannot = np.uint8(barred[s]) | np.uint8(free[s] < size) | (1 - np.uint8(allowed[s]))
        value = INFINITY_BITS if cannot else bits[s]
        bits[s] = value
        lowest = value if value < lowest else lowest  # noqa: FURB136
    while bits[at] != lowest:
        at += 1
    return at


@lean
def cheapest(
    costs: Floats, allowed: Flags, size: int, free: Ints, capacity: Ints, barred: Flags
) -> int:
    """Return the server with the lowest cost of those that may and can take `size` bytes; `NOWHERE` if none can.

    Of costs that are equal to `TIE` the larger free share of the disk wins, then the lower number. Overwrites `costs`.
    """
    if not len(costs):
        return NOWHERE
    at = first_least(costs, allowed, size, free, barred)
    if costs[at] == np.inf:
        return NOWHERE
    limit, equal = costs[at] * (1 + TIE), 0
    for s in range(len(costs)):
        equal += 1 if costs[s] <= limit else 0
    if equal == 1:
        return at
    best, best_share = NOWHERE, -1.0
    for s in range(len(costs)):
        if costs[s] <= limit:
            share = free[s] / max(capacity[s], 1)
            if share > best_share:
                best, best_share = s, share
    return best


@lean
def fetch_sums(t: Trees, root: int, at: int, server: int) -> None:
    """Have what loading a segment changes, from an instant on and on one server, brought into the cache."""
    node, size = root, t.sums.itemsize * t.sums.shape[1]
    while t.nodes[node, CHILDREN] >= 0:
        k, count = child_at(t, node, at), t.nodes[node, COUNT]
        among, outer = t.nodes[node, AMONG], t.nodes[node, OUTER]
        here = t.sums.itemsize * server
        for row in range(t.nodes[node, SUMS], t.nodes[node, SUMS] + 3):
            fetch(t.sums, row * size + here)
        if among >= 0:
            for row in range(among, among + count):
                fetch(t.sums, row * size + here)
        if outer >= 0:
            for row in range(outer + FROM_RIGHT, outer + 2 * k, 2):
                fetch(t.sums, row * size + here)
            for row in range(outer + 2 * k + 2, outer + 2 * count, 2):
                fetch(t.sums, row * size + here)
        node = t.nodes[node, CHILDREN] + k
    fetch(t.covers, (t.nodes[node, COVER] * t.covers.shape[1] + server) * t.covers.itemsize)


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
        add_costs(t, roots[0], root, lo, hi, 0, servers, costs)
        bar(room, chosen, earlier, last_copy, rows.copies[row], row, barred, True)
        size = rows.sizes[row]
        kind = room.kinds[row]
        best = cheapest(costs, room.allowed[kind], size, free, room.capacity, barred)
        bar(room, chosen, earlier, last_copy, rows.copies[row], row, barred, False)
        chosen[row] = best
        if best >= 0:
            free[best] -= size
            fetch_sums(t, roots[0], lo, best)
            fetch_sums(t, root, lo, best)
            add(t, roots[0], lo, hi, best, rows.weights[row], False)
            add(t, root, lo, hi, best, rows.weights[row], False)
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
            add(t, tree, lo, hi, server, sign * weight, in_bulk)
        add_own(t, own, server, lo, hi, weight, sign)
    return len(servers), False


@lean
def sum_up_all(t: Trees) -> None:
    """Compute all sums anew; a child's number is higher than its parent's."""
    for node in range(t.used[0] - 1, -1, -1):
        sum_up(t, node, 0, t.sums.shape[1])
