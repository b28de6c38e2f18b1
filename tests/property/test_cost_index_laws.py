"""The index against the sum over pairs: costs, totals and placements of any segments on any servers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.balancing.cost.columns import room_for
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.cost.joint import DAY_MS
from carnac.core.time.intervals import Interval
from tests.pairs import any_interval, brute_cost, brute_place, brute_total, columns_of, on_grid

SERVERS = 4
segments = st.tuples(st.integers(0, 2), any_interval)
grid_segments = st.tuples(st.integers(0, 2), on_grid)
held_segments = st.tuples(st.integers(0, SERVERS - 1), segments)
EXACT = 1e-12


def loaded(held: list[tuple[int, tuple[int, Interval]]], half_life_ms: int = DAY_MS) -> CostIndex:
    index = CostIndex(SERVERS, half_life_ms=half_life_ms)
    index.load_many(
        np.array([server for server, _ in held], np.int64), columns_of([s for _, s in held])
    )
    return index


@given(
    st.lists(held_segments, max_size=40),
    segments,
    st.sampled_from([3_600_000, DAY_MS]),
)
def test_costs_are_the_sum_over_pairs(
    held: list[tuple[int, tuple[int, Interval]]],
    one: tuple[int, Interval],
    half_life_ms: int,
) -> None:
    pairs = Counter((server, datasource, interval) for server, (datasource, interval) in held)
    index = loaded(held, half_life_ms)
    datasource, interval = one
    costs = index.costs(datasource, interval.start_ms, interval.end_ms)
    expected = [
        brute_cost(pairs, server, datasource, interval, half_life_ms) for server in range(SERVERS)
    ]
    assert costs.tolist() == pytest.approx(expected, rel=EXACT, abs=1e-280)


@given(st.lists(st.tuples(st.integers(0, SERVERS - 1), grid_segments), max_size=40))
def test_the_total_is_the_sum_over_pairs(
    held: list[tuple[int, tuple[int, Interval]]],
) -> None:
    pairs = Counter((server, datasource, interval) for server, (datasource, interval) in held)
    assert loaded(held).totals().sum() == pytest.approx(brute_total(pairs), rel=1e-11, abs=1e-8)


@given(st.lists(held_segments, max_size=30), st.lists(held_segments, max_size=30), segments)
def test_what_came_and_went_leaves_no_trace(
    stay: list[tuple[int, tuple[int, Interval]]],
    go: list[tuple[int, tuple[int, Interval]]],
    one: tuple[int, Interval],
) -> None:
    index = loaded([*go, *stay])
    index.drop_many(
        np.array([server for server, _ in go], np.int64), columns_of([s for _, s in go])
    )
    datasource, interval = one
    pairs = Counter((server, of, other) for server, (of, other) in stay)
    expected = [brute_cost(pairs, server, datasource, interval) for server in range(SERVERS)]
    costs = index.costs(datasource, interval.start_ms, interval.end_ms)
    assert costs.tolist() == pytest.approx(expected, rel=EXACT, abs=1e-280)
    assert [cost == 0 for cost in costs] == [cost == 0 for cost in expected]


@given(st.data())
def test_placements_are_those_of_brute_force(data: st.DataObject) -> None:
    rows = data.draw(st.lists(segments, min_size=1, max_size=25))
    room = room_for(
        len(rows),
        SERVERS,
        allowed=data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=SERVERS, max_size=SERVERS), min_size=1, max_size=1
            )
        ),
        free_bytes=data.draw(st.lists(st.integers(0, 40), min_size=SERVERS, max_size=SERVERS)),
        capacity_bytes=np.array([40] * SERVERS),
    )
    columns = columns_of(
        rows,
        sizes_bytes=data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows))),
        copy_of=data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows))),
    )
    expected = brute_place(Counter(), SERVERS, columns, room)
    placed = CostIndex(SERVERS).place(columns, room)
    assert [{int(server)} - {-1} for server in placed] == expected
