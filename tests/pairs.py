"""The reference for balancing: the cost of segments, pair by pair, with nothing clever in it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from carnac.core.balancing.cost.columns import Room, SegmentColumns, segment_columns
from carnac.core.balancing.cost.field import TIE
from carnac.core.balancing.cost.joint import (
    DAY_MS,
    SAME_DATASOURCE,
    scaled_cost,
    square_hours,
)
from carnac.core.time.intervals import ETERNITY, Interval

HOUR_MS = 3_600_000
Held = Counter[tuple[int, int, Interval]]
"""How often (or how heavily) a server holds a segment of a datasource and an interval."""


def joint_cost(x: Interval, y: Interval, *, half_life_ms: int = DAY_MS) -> float:
    """Return the joint cost of two intervals in hours², without the factor for equal datasources.

    The relative error is below 1e-14 for gaps of up to a hundred half-lives, and below 1e-12 at any distance at which
    the result is a normal double; beyond about a thousand half-lives it underflows to 0.
    """
    rate = math.log(2) / half_life_ms
    scaled = scaled_cost(x.start_ms, x.end_ms, y.start_ms, y.end_ms, rate)
    return scaled * square_hours(half_life_ms)


def brute_cost(
    held: Held, server: int, datasource: int, interval: Interval, half_life_ms: int = DAY_MS
) -> float:
    """Return what the interval costs on the server: one pair after the other."""
    return sum(
        count
        * joint_cost(interval, other, half_life_ms=half_life_ms)
        * (SAME_DATASOURCE if of == datasource else 1)
        for (where, of, other), count in held.items()
        if where == server and count
    )


def brute_total(held: Held, half_life_ms: int = DAY_MS) -> float:
    """Return the cost of all pairs of different segments on the same server."""
    total = 0.0
    for (server, datasource, interval), count in held.items():
        own = SAME_DATASOURCE * joint_cost(interval, interval, half_life_ms=half_life_ms)
        total += count * (brute_cost(held, server, datasource, interval, half_life_ms) - own) / 2
    return total


def brute_place(held: Held, servers: int, rows: SegmentColumns, room: Room) -> list[set[int]]:
    """Place the rows greedily in `held`; return for each row the servers that are as cheap as the cheapest.

    The first of them in the order of the tie-breaker is taken.
    """
    free = room.free_bytes.copy()
    homes: dict[int, set[int]] = {}
    best: list[set[int]] = []
    for row in range(rows.row_count):
        datasource, interval = int(rows.datasources[row]), interval_of(rows, row)
        barred = set(
            room.barred_servers[room.barred_offsets[row] : room.barred_offsets[row + 1]].tolist()
        )
        barred |= homes.setdefault(int(rows.copy_of[row]), set())
        can = [
            server
            for server in range(servers)
            if room.allowed[room.kinds[row], server]
            and free[server] >= rows.sizes_bytes[row]
            and server not in barred
        ]
        costs = {server: brute_cost(held, server, datasource, interval) for server in can}
        limit = min(costs.values(), default=0.0) * (1 + TIE)
        cheap = [server for server in can if costs[server] <= limit]
        cheap.sort(key=lambda server: (-free[server] / max(room.capacity_bytes[server], 1), server))
        best.append(set(cheap[:1]))
        if cheap:
            held[cheap[0], datasource, interval] += 1
            free[cheap[0]] -= rows.sizes_bytes[row]
            homes[int(rows.copy_of[row])].add(cheap[0])
    return best


def interval_of(rows: SegmentColumns, row: int) -> Interval:
    return Interval(int(rows.starts_ms[row]), int(rows.ends_ms[row]))


def columns_of(segments: list[tuple[int, Interval]], **more: npt.ArrayLike) -> SegmentColumns:
    """Return segments, as pairs of datasource and interval, as columns."""
    return segment_columns(
        np.array([datasource for datasource, _ in segments], np.int64),
        np.array([interval.start_ms for _, interval in segments], np.int64),
        np.array([interval.end_ms for _, interval in segments], np.int64),
        **more,
    )


def hours(start: int, length: int = 1) -> Interval:
    """Return so many hours from an hour of 2026 on."""
    first = 1_767_225_600_000 + start * HOUR_MS
    return Interval(first, first + length * HOUR_MS)


on_grid = st.builds(hours, st.integers(0, 200), st.sampled_from([1, 1, 1, 6, 24, 168]))
off_grid = st.builds(
    lambda start, digits, more: Interval(start, start + 10**digits + more),
    st.integers(-3 * DAY_MS, 3 * DAY_MS),
    st.integers(0, 11),
    st.integers(0, 50),
)
far_away = st.builds(
    lambda start, length: Interval(start, start + length),
    st.integers(ETERNITY.start_ms, ETERNITY.end_ms - 10**13),
    st.integers(1, 10**13),
)
any_interval = st.one_of(on_grid, on_grid, off_grid, off_grid, far_away, st.just(ETERNITY))
"""Grids and none, 1 ms and centuries, side by side and ages apart."""
