"""Greedy placing and moving: each copy, one after the other, goes where its cost is least.

One pair of loops for both cost functions, the old one and the exact one.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from carnac.core.balancing.compiled import compiled
from carnac.simulation import exact, legacy
from carnac.simulation.arrivals import Codes, Flags, Floats, Ints

REPLICAS_MAX = 10
"""As scenarios allow."""
Columns: TypeAlias = tuple[Codes, Codes, Codes, Ints, Codes]
"""Of all copies: source, start, segment, size, server; only the server changes."""


class Fields(NamedTuple):
    """What a greedy strategy knows of who holds what: the field of its cost function; the other one is of no size."""

    old: legacy.Field
    exact: exact.Field
    is_exact: bool
    min_saving: float
    """A move must save more than this share of what a segment and a copy of itself cost each other."""
    out: Floats
    """Room for a number for each server: kernels make no arrays."""


@compiled
def cost_everywhere(fields: Fields, source: int, start: int, out: Floats) -> None:
    """Set what a segment costs against all segments of each server, itself among them if it is there."""
    if fields.is_exact:
        exact.cost_everywhere(fields.exact, source, start, out)
    else:
        legacy.cost_everywhere(fields.old, source, start, out)


@compiled
def self_cost(fields: Fields, source: int, start: int) -> float:
    """Return what a segment costs against a copy of itself on its server."""
    if fields.is_exact:
        return exact.self_cost(fields.exact, source)
    return legacy.self_cost(fields.old, source, start)


@compiled
def shift(fields: Fields, source: int, start: int, server: int, by: int) -> None:
    """Add `by` segments of a datasource that start in a cell to a server."""
    if fields.is_exact:
        exact.shift(fields.exact, source, start, server, by)
    else:
        legacy.shift(fields.old, source, start, server, by)


@compiled
def shift_rows(
    fields: Fields,
    rows: Ints,
    columns: Columns,
    by: int,
) -> None:
    """Add each row, `by` times, to the server that holds it."""
    source, start, _, _, server_of = columns
    for row in rows:
        shift(fields, source[row], start[row], server_of[row], by)


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
def place_all(
    fields: Fields,
    rows: Ints,
    columns: Columns,
    disks: tuple[Ints, Flags],
) -> None:
    """Put each row in order on the open server with room where it costs least, not beside another copy of its segment.

    Args:
        rows: Which copies; those of one segment, and segments of one source and start, are neighbours.
        columns: Of all copies; the server is set for those that are placed.
        disks: Free bytes and whether a server is open.
    """
    source, start, segment, size, server_of = columns
    free, is_open = disks
    out = fields.out
    step = 0.0
    for position in range(rows.size):
        row = rows[position]
        last = rows[position - 1] if position else -1
        if last < 0 or source[last] != source[row] or start[last] != start[row]:
            cost_everywhere(fields, source[row], start[row], out)
            step = self_cost(fields, source[row], start[row])
        best = -1
        for server in range(free.size):
            if not is_open[server] or free[server] < size[row]:
                continue
            is_cheaper = best < 0 or out[server] < out[best]
            if is_cheaper and not holds_copy(segment, server_of, row, server):
                best = server
        server_of[row] = best
        if best >= 0:
            out[best] += step
            free[best] -= size[row]
            shift(fields, source[row], start[row], best, 1)


@compiled
def move_all(
    fields: Fields,
    rows: Ints,
    columns: Columns,
    disks: tuple[Ints, Flags],
    limit: int,
) -> int:
    """Move each row in order to the server where it costs least, if that saves enough; return how many.

    After `limit` moves no further row is looked at.
    """
    source, start, segment, size, server_of = columns
    free, is_open = disks
    out = fields.out
    moved = 0
    for row in rows:
        here = server_of[row]
        cost_everywhere(fields, source[row], start[row], out)
        itself = self_cost(fields, source[row], start[row])
        out[here] -= (1.0 + fields.min_saving) * itself
        best = here if is_open[here] else -1
        for server in range(free.size):
            if server == here or not is_open[server] or free[server] < size[row]:
                continue
            is_cheaper = best < 0 or out[server] < out[best]
            if is_cheaper and not holds_copy(segment, server_of, row, server):
                best = server
        if best < 0 or best == here:
            continue
        shift(fields, source[row], start[row], here, -1)
        shift(fields, source[row], start[row], best, 1)
        free[here] += size[row]
        free[best] -= size[row]
        server_of[row] = best
        moved += 1
        if moved == limit:
            break
    return moved
