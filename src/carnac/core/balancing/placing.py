"""The loop that places segments one after another: what would it cost where, who may take it, the cheapest gets it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from carnac.core.balancing.columns import NOWHERE, Bounds, Flags, Floats, Ints, Rows
from carnac.core.balancing.compiled import compiled, fetch, part
from carnac.core.balancing.tree import (
    AMONG,
    CHILDREN,
    COUNT,
    FROM_RIGHT,
    NODES,
    OUTER,
    SUMS,
    Trees,
    child_at,
    has_spare,
    new_node,
    pair_cost,
    sum_up,
)
from carnac.core.balancing.tree_changes import add, holds
from carnac.core.balancing.tree_queries import add_both_costs
from carnac.core.time.intervals import MAX_MS, MIN_MS

INFINITY_BITS = 0x7FF0000000000000
TIE = 1e-9
"""Costs that differ by less than this share of the smaller count as equal."""
PLACE, LOAD, DROP = range(3)
"""What is done with rows."""


@part
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


@part
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


@part
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
        if among >= 0:  # a leaf
            break
    fetch(t.covers, (node * t.covers.shape[1] + server) * t.covers.itemsize)


class Search(NamedTuple):
    """What choosing servers takes beside the rows, and room to work in.

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


@part
def bar(room: Bounds, search: Search, copy: int, row: int, chosen: Ints, value: bool) -> None:
    """Flag the servers that hold a copy already, those named by the room and those of earlier rows."""
    for k in range(room.barred_offsets[row], room.barred_offsets[row + 1]):
        search.barred[room.barred_servers[k]] = value
    other = search.last_copy[copy]
    while other >= 0:
        if chosen[other] >= 0:
            search.barred[chosen[other]] = value
        other = search.earlier[other]


@part
def choose(rows: Rows, row: int, room: Bounds, search: Search, chosen: Ints) -> int:
    """Return the server for a row whose costs are known, and take the room there; `NOWHERE` if none can take it."""
    size, copy, costs = rows.sizes[row], rows.copies[row], search.costs
    bar(room, search, copy, row, chosen, True)
    best = cheapest(
        costs, room.allowed[room.kinds[row]], size, room.free, room.capacity, search.barred
    )
    bar(room, search, copy, row, chosen, False)
    if best >= 0:
        room.free[best] -= size
    return best


@part
def note_copy(rows: Rows, row: int, search: Search) -> None:
    """Note where the newest copy of a segment is."""
    copy = rows.copies[row]
    search.earlier[row] = search.last_copy[copy]
    search.last_copy[copy] = row


@part
def root_of(t: Trees, roots: Ints, tree: int) -> int:
    """Return the root of a tree, which is started if need be; there is spare room."""
    if roots[tree] < 0:
        roots[tree] = new_node(t, MIN_MS, MAX_MS)
    return int(roots[tree])


@part
def add_own(t: Trees, own: Floats, server: int, lo: int, hi: int, weight: int, sign: int) -> None:
    """Add a segment's cost against itself to a server's sum, which is kept in two doubles so that it cannot drift."""
    term = sign * float(weight) * weight * pair_cost(lo, hi, lo, hi, t.rate)
    total = own[0, server] + term
    shadow = total - own[0, server]
    own[1, server] += (own[0, server] - (total - shadow)) + (term - shadow)
    own[0, server] = total


@compiled
def change_rows(
    t: Trees,
    roots: Ints,
    rows: Rows,
    room: Bounds,
    search: Search,
    servers: Ints,
    own: Floats,
    how: int,
    in_bulk: bool,
    start: int,
) -> tuple[int, bool]:
    """Place, load or drop rows from `start` on, each on its server; placing finds that out and writes it.

    Return the first row that was not done, and whether it is because the server does not hold it; otherwise the trees
    must grow first. What is loaded in bulk has no sums before the last row is done.
    """
    sign, refused, row = -1 if how == DROP else 1, False, start
    while row < len(servers) and has_spare(t):
        lo, hi, weight, server = rows.starts[row], rows.ends[row], rows.weights[row], servers[row]
        first, second = root_of(t, roots, 0), root_of(t, roots, 1 + rows.datasources[row])
        if how == PLACE:
            search.costs[:] = 0.0
            add_both_costs(t, first, second, lo, hi, 0, len(room.free), search.costs)
            servers[row] = server = choose(rows, row, room, search, servers)
            note_copy(rows, row, search)
        if server < 0:
            row += 1
            continue
        if how == PLACE:
            fetch_sums(t, first, lo, server)
            fetch_sums(t, second, lo, server)
        elif sign < 0 and not (
            holds(t, second, lo, hi, server, weight) and holds(t, first, lo, hi, server, weight)
        ):
            refused = True
            break
        for tree in (first, second):
            add(t, tree, lo, hi, server, sign * weight, in_bulk)
        add_own(t, own, server, lo, hi, weight, sign)
        row += 1
    if in_bulk and (refused or row == len(servers)):
        sum_up_all(t)
    return row, refused


@part
def sum_up_all(t: Trees) -> None:
    """Compute all sums anew; a child's number is higher than its parent's."""
    for node in range(t.used[NODES] - 1, -1, -1):
        sum_up(t, node, 0, t.sums.shape[1])
