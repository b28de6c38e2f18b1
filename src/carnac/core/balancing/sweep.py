"""Placement of segments that arrive in order of time: one number a server stands for all that lies behind.

The front is the start of the segment that is placed: nothing that is held starts later. What a server holds has two
parts: what lies before the front, of which only ∫ w(t) exp(−λ(front − t)) dt matters, and what reaches beyond it,
counted by where it ends. All servers' first parts fade by one factor as the front moves on, so a step is one
multiplication a server; and as a rule few different ends lie ahead (one, if all segments are hours).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from carnac.core.balancing.columns import (
    NOWHERE,
    Bounds,
    Floats,
    Ints,
    Room,
    Rows,
    SegmentColumns,
    bounds_of,
    room_for,
    rows_of,
)
from carnac.core.balancing.compiled import compiled, part
from carnac.core.balancing.cost import DAY_MS
from carnac.core.balancing.index import CostIndex
from carnac.core.balancing.placing import Search, choose, note_copy, search_for
from carnac.core.balancing.tables import Tables
from carnac.core.balancing.tree import add_scaled, pair_cost
from carnac.errors import Invalid

MAX_ENDS = 32
"""Different ends ahead of the front, for all segments or those of one datasource, beyond which the trees are faster."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fronts(Tables):
    """What each server holds as seen from the front, for all segments (row 0) and those of each datasource (1 and up).

    Attributes:
        rate: λ, a millisecond.
        at: (row): the front, where the row was last used.
        behind: (row, server): what lies before the front casts on it, in units of 1/λ.
        ends: (row, k): the ends ahead, in no order; `used` says how many.
        ahead: (row, k, server): weight of the segments with that end.
    """

    rate: float
    at: Ints
    behind: Floats
    used: Ints
    ends: Ints
    ahead: Floats


@part
def move_on(f: Fronts, row: int, front: int) -> None:
    """Move the front of a row; what it passes falls behind."""
    step = front - f.at[row]
    if step == 0:
        return
    behind = f.behind[row]
    fade = math.exp(-f.rate * step)
    for s in range(len(behind)):
        behind[s] *= fade
    kept = 0
    for k in range(f.used[row]):
        passed = min(f.ends[row, k], front) - f.at[row]
        cast = math.exp(-f.rate * (step - passed)) * -math.expm1(-f.rate * passed)
        add_scaled(behind, f.ahead[row, k], cast)
        if f.ends[row, k] > front:
            if kept != k:
                f.ends[row, kept] = f.ends[row, k]
                f.ahead[row, kept, :] = 0.0
                add_scaled(f.ahead[row, kept], f.ahead[row, k], 1.0)
            kept += 1
    f.used[row] = kept
    f.at[row] = front


@part
def cost_front(f: Fronts, mine: int, end: int, costs: Floats) -> None:
    """Write what a segment of row `mine` from the front to `end` costs on each server, in units of 1/λ²."""
    front = f.at[0]
    share = -math.expm1(-f.rate * (end - front))
    first = pair_cost(front, end, front, f.ends[0, 0], f.rate) if f.used[0] else 0.0
    second = first
    if not f.used[mine]:
        second = 0.0
    elif f.ends[mine, 0] != f.ends[0, 0]:
        second = pair_cost(front, end, front, f.ends[mine, 0], f.rate)
    behind, ahead = f.behind[0], f.ahead[0, 0]
    my_behind, my_ahead = f.behind[mine], f.ahead[mine, 0]
    for s in range(len(costs)):  # as a rule this is all: one pass over memory
        costs[s] = share * (behind[s] + my_behind[s]) + (first * ahead[s] + second * my_ahead[s])
    for row in (0, mine):
        for k in range(1, f.used[row]):
            cost = pair_cost(front, end, front, f.ends[row, k], f.rate)
            add_scaled(costs, f.ahead[row, k], cost)


@part
def hold(f: Fronts, row: int, end: int, server: int, weight: int) -> bool:
    """Give a server a segment from the front to `end`; False if there are too many different ends."""
    k = 0
    while k < f.used[row] and f.ends[row, k] != end:
        k += 1
    if k == f.ends.shape[1]:
        return False
    if k == f.used[row]:
        f.used[row] += 1
        f.ends[row, k] = end
        f.ahead[row, k, :] = 0.0
    f.ahead[row, k, server] += weight
    return True


@compiled
def sweep_rows(
    f: Fronts,
    rows: Rows,
    room: Bounds,
    search: Search,
    chosen: Ints,
    given: Ints,
) -> int:
    """Place the rows in order; return how many, which is less than all where too many different ends lie ahead.

    `given` says for each row the server that holds it already, or NOWHERE if it is to be placed.
    """
    for row in range(len(chosen)):
        mine = 1 + rows.datasources[row]
        move_on(f, 0, rows.starts[row])
        move_on(f, mine, rows.starts[row])
        best = given[row]
        if best < 0:
            cost_front(f, mine, rows.ends[row], search.costs)
            best = choose(rows, row, room, search, chosen)
        if best >= 0:
            weight = rows.weights[row]
            if not (
                hold(f, 0, rows.ends[row], best, weight)
                and hold(f, mine, rows.ends[row], best, weight)
            ):
                return row
        chosen[row] = best
        note_copy(rows, row, search)
    return len(chosen)


def place_in_time_order(
    segments: SegmentColumns,
    server_count: int,
    *,
    room: Room | None = None,
    held_by: Ints | None = None,
    held: SegmentColumns | None = None,
    half_life_ms: int = DAY_MS,
) -> Ints:
    """Put each segment, in order of rows, where it costs least; exactly as `CostIndex.place` does, only faster.

    Where more than `MAX_ENDS` different ends lie ahead of the front at once, `CostIndex.place` does it.

    Args:
        held_by, held: What the servers hold already: the server of each row, and the rows, in any order.

    Raises:
        Invalid: A segment starts before one of an earlier row, or before one that is held.
    """
    if held is None or held_by is None:
        held, held_by = segments.take(np.zeros(0, np.int64)), np.zeros(0, np.int64)
    _check_order(segments, held)
    room = room or room_for(len(segments), server_count)
    rows, given = _joined(segments, held, held_by)
    count, before = len(segments), len(given) - len(segments)
    chosen = np.full(before + count, NOWHERE, np.int64)
    done = sweep_rows(
        _fronts(rows, server_count, half_life_ms),
        rows,
        _behind(room, before),
        search_for(int(rows.copies.max(initial=0)) + 1, before + count, server_count),
        chosen,
        given,
    )
    if done == before + count:
        return chosen[before:]
    index = CostIndex(server_count, half_life_ms=half_life_ms)
    index.load_many(held_by, held)
    return index.place(segments, room)


def _check_order(segments: SegmentColumns, held: SegmentColumns) -> None:
    starts = segments.starts_ms
    if (starts[1:] < starts[:-1]).any():
        raise Invalid(
            "segments must come in order of their starts; place them with CostIndex.place"
        )
    if len(held) and len(starts) and held.starts_ms.max() > starts[0]:
        raise Invalid(
            "a held segment starts after the first that arrives; place them with CostIndex.place"
        )


def _joined(segments: SegmentColumns, held: SegmentColumns, held_by: Ints) -> tuple[Rows, Ints]:
    """Return the held rows in order of time, then the others, and the servers that are given."""
    new, different = rows_of(segments)
    if not len(held):
        return new, np.full(len(segments), NOWHERE, np.int64)
    order = np.argsort(held.starts_ms[held_by >= 0])
    old, _ = rows_of(held.take(np.flatnonzero(held_by >= 0)[order]))
    old = old._replace(copies=np.full(len(order), different, np.int64))
    given = np.concatenate(
        (held_by[held_by >= 0][order], np.full(len(segments), NOWHERE, np.int64))
    )
    return Rows(*(np.concatenate(pair) for pair in zip(old, new, strict=True))), given


def _behind(room: Room, before: int) -> Bounds:
    """Return the bounds for rows that come after so many held ones, which need none."""
    bounds = bounds_of(room)
    zeros = np.zeros(before, np.int64)
    return bounds._replace(
        kinds=np.concatenate((zeros, bounds.kinds)),
        barred_offsets=np.concatenate((zeros, bounds.barred_offsets)),
    )


def _fronts(rows: Rows, server_count: int, half_life_ms: int) -> Fronts:
    size = int(rows.datasources.max(initial=0)) + 2
    return Fronts(
        rate=math.log(2) / half_life_ms,
        at=np.full(size, int(rows.starts.min(initial=0)), np.int64),
        behind=np.zeros((size, server_count)),
        used=np.zeros(size, np.int64),
        ends=np.zeros((size, MAX_ENDS), np.int64),
        ahead=np.zeros((size, MAX_ENDS, server_count)),
    )
