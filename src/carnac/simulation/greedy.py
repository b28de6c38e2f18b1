"""Greedy placing and moving: each copy, one after the other, goes where its cost is least.

The way of old: candidates are picked at random, and those that cost less elsewhere by the old function move. The
product's own way is `carnac.core.balancing.plan`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from carnac.core.balancing.cost.compiled import compiled
from carnac.simulation.arrivals import Codes, Flags, Floats, Ints
from carnac.simulation.legacy import Field, cost_everywhere, self_cost, shift

Columns: TypeAlias = tuple[Codes, Codes, Codes, Ints, Codes]
"""The columns of all copies: source, start, segment, size, server; only the server changes."""


@compiled
def _wide(number: int) -> int:
    """Return the number with 64 bits, so that one version of every kernel is compiled."""
    return int(np.int64(number))


@compiled
def shift_rows(field: Field, rows: Ints, columns: Columns, by: int) -> None:
    """Add each row, `by` times, to the server that holds it."""
    source, start, _, _, server_of = columns
    for row in rows:
        shift(field, _wide(source[row]), _wide(start[row]), _wide(server_of[row]), by)


@compiled
def holds_copy(segment: Codes, server_of: Codes, row: int, server: int) -> bool:
    """Whether the server holds another copy of the row's segment; copies are neighbours."""
    other = row - 1
    while other >= 0 and segment[other] == segment[row]:
        if server_of[other] == server:
            return True
        other -= 1
    other = row + 1
    while other < segment.size and segment[other] == segment[row]:
        if server_of[other] == server:
            return True
        other += 1
    return False


@compiled
def settle(
    field: Field, rows: Ints, columns: Columns, disks: tuple[Ints, Flags, Floats], limit: int
) -> int:
    """Put each row, in order, where it costs least: on an open server that has room and no other copy of its segment.

    A row that is nowhere is placed, if a server can take it. One that is somewhere moves if that saves enough, or if
    its server is closed.

    Args:
        rows: Copies to place. It is fast if those that are nowhere come with others of their source and start.
        columns: Columns of all copies.
        disks: Free bytes, whether a server is open, and room for a number for each server.
        limit: Number of changes after which no further row is looked at.

    Returns:
        How many rows were placed or moved.
    """
    source_of, start_of, segment, size, server_of = columns
    free, is_open, out = disks
    changed, known_source, known_start, itself = 0, -1, -1, 0.0
    for row in rows:
        source, start, here = _wide(source_of[row]), _wide(start_of[row]), _wide(server_of[row])
        if here >= 0 or source != known_source or start != known_start:
            cost_everywhere(field, source, start, out)
            itself = self_cost(field, source, start)
        known_source, known_start = (source, start) if here < 0 else (-1, -1)
        best = -1
        if here >= 0:
            out[here] -= itself
            best = here if is_open[here] else best
        for server in range(free.size):
            if server == here or not is_open[server] or free[server] < size[row]:
                continue
            is_cheaper = best < 0 or out[server] < out[best]
            if is_cheaper and not holds_copy(segment, server_of, row, server):
                best = server
        if best < 0 or best == here:
            continue
        for server, by in ((here, -1), (best, 1)):
            if server >= 0:
                shift(field, source, start, server, by)
                free[server] -= by * size[row]
        out[best] += itself
        server_of[row] = best
        changed += 1
        if changed == limit:
            break
    return changed
