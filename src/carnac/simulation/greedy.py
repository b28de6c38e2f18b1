"""Greedy placing and moving: each copy, one after the other, goes where its cost is least.

One loop for both, and for both cost functions, the old one and the exact one. What is compiled into another function is
imported by its name: see `compiled`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from carnac.core.balancing.compiled import compiled, part
from carnac.simulation.arrivals import Codes, Flags, Floats, Ints
from carnac.simulation.exact import Field as ExactField
from carnac.simulation.exact import cost_everywhere as exact_cost_everywhere
from carnac.simulation.exact import self_cost as exact_self_cost
from carnac.simulation.exact import shift as exact_shift
from carnac.simulation.legacy import Field as LegacyField
from carnac.simulation.legacy import cost_everywhere as legacy_cost_everywhere
from carnac.simulation.legacy import self_cost as legacy_self_cost
from carnac.simulation.legacy import shift as legacy_shift

Columns: TypeAlias = tuple[Codes, Codes, Codes, Ints, Codes]
"""Of all copies: source, start, segment, size, server; only the server changes."""


class Fields(NamedTuple):
    """What a greedy strategy knows of who holds what: the field of its cost function; the other one is of no size."""

    old: LegacyField
    exact: ExactField
    is_exact: bool
    min_saving: float
    """A move must save more than this share of what a segment and a copy of itself cost each other."""
    out: Floats
    """Room for a number for each server: kernels make no arrays."""


@part
def _wide(number: int) -> int:
    """Return the number with 64 bits, so that one version of every kernel is compiled."""
    return int(np.int64(number))


@part
def cost_everywhere(fields: Fields, source: int, start: int, out: Floats) -> None:
    """Set what a segment costs against all segments of each server, itself among them if it is there."""
    if fields.is_exact:
        exact_cost_everywhere(fields.exact, source, start, out)
    else:
        legacy_cost_everywhere(fields.old, source, start, out)


@part
def self_cost(fields: Fields, source: int, start: int) -> float:
    """Return what a segment costs against a copy of itself on its server."""
    if fields.is_exact:
        return exact_self_cost(fields.exact, source)
    return legacy_self_cost(fields.old, source, start)


@part
def shift(fields: Fields, source: int, start: int, server: int, by: int) -> None:
    """Add `by` segments of a datasource that start in a cell to a server."""
    if fields.is_exact:
        exact_shift(fields.exact, source, start, server, by)
    else:
        legacy_shift(fields.old, source, start, server, by)


@compiled
def shift_rows(fields: Fields, rows: Ints, columns: Columns, by: int) -> None:
    """Add each row, `by` times, to the server that holds it."""
    source, start, _, _, server_of = columns
    for row in rows:
        shift(fields, _wide(source[row]), _wide(start[row]), _wide(server_of[row]), by)


@part
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
    fields: Fields, rows: Ints, columns: Columns, disks: tuple[Ints, Flags], limit: int
) -> int:
    """Put each row, in order, where it costs least: on an open server that has room and no other copy of its segment.

    A row that is nowhere is placed, if a server can take it. One that is somewhere moves if that saves enough, or if
    its server is closed.

    Args:
        rows: Which copies. It is fast if those that are nowhere come with others of their source and start.
        columns: Of all copies.
        disks: Free bytes and whether a server is open.
        limit: After so many changes no further row is looked at.

    Returns:
        How many were placed or moved.
    """
    source_of, start_of, segment, size, server_of = columns
    free, is_open = disks
    out = fields.out
    changed, known_source, known_start, itself = 0, -1, -1, 0.0
    for row in rows:
        source, start, here = _wide(source_of[row]), _wide(start_of[row]), _wide(server_of[row])
        if here >= 0 or source != known_source or start != known_start:
            cost_everywhere(fields, source, start, out)
            itself = self_cost(fields, source, start)
        known_source, known_start = (source, start) if here < 0 else (-1, -1)
        best = -1
        if here >= 0:
            out[here] -= (1.0 + fields.min_saving) * itself
            best = here if is_open[here] else best
        for server in range(free.size):
            if server == here or not is_open[server] or free[server] < size[row]:
                continue
            is_cheaper = best < 0 or out[server] < out[best]
            if is_cheaper and not holds_copy(segment, server_of, row, server):
                best = server
        if best < 0 or best == here:
            continue
        if here >= 0:
            shift(fields, source, start, here, -1)
            free[here] += size[row]
        shift(fields, source, start, best, 1)
        free[best] -= size[row]
        out[best] += itself
        server_of[row] = best
        changed += 1
        if changed == limit:
            break
    return changed
