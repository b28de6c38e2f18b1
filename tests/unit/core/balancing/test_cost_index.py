"""The cost index by example: what it counts, what it refuses, how it grows."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from carnac.core.balancing.cost.columns import NOWHERE, room_for, segment_columns
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.cost.joint import DAY_MS
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.errors import Invalid
from tests.pairs import HOUR_MS, columns_of, hours, joint_cost

HOUR = hours(0)


def ends(interval: Interval) -> tuple[int, int]:
    return interval.start_ms, interval.end_ms


def memory_bytes(index: CostIndex) -> int:
    return sum(column.nbytes for column in index._field[:-1])


def test_an_empty_index_costs_nothing() -> None:
    index = CostIndex(3)
    assert index.costs(7, *ends(HOUR)).tolist() == [0, 0, 0]
    assert index.totals().sum() == 0


def test_a_datasource_costs_itself_twice_and_others_once() -> None:
    index = CostIndex(2)
    index.load(1, 0, *ends(HOUR))
    once = joint_cost(HOUR, HOUR)
    assert index.costs(1, *ends(HOUR)).tolist() == pytest.approx([0, once])
    assert index.costs(0, *ends(HOUR)).tolist() == pytest.approx([0, 2 * once])


def test_a_segment_does_not_cost_against_itself() -> None:
    index = CostIndex(1)
    index.load(0, 0, *ends(HOUR))
    assert index.totals().sum() == 0
    index.load(0, 0, *ends(HOUR))  # another partition of the hour
    assert index.totals().sum() == pytest.approx(2 * joint_cost(HOUR, HOUR))


def test_eternity_and_a_millisecond_side_by_side() -> None:
    index = CostIndex(1)
    instant = Interval(HOUR.start_ms, HOUR.start_ms + 1)
    for interval in (ETERNITY, instant, HOUR):
        index.load(0, 0, *ends(interval))
    for interval in (ETERNITY, instant, HOUR):
        expected = 2 * sum(joint_cost(interval, other) for other in (ETERNITY, instant, HOUR))
        assert index.costs(0, *ends(interval))[0] == pytest.approx(expected, rel=1e-14)


def test_dropping_what_is_not_held_is_refused() -> None:
    index = CostIndex(2)
    index.load(0, 0, *ends(HOUR))
    for server, datasource, interval in ((1, 0, HOUR), (0, 1, HOUR), (0, 0, hours(0, 2))):
        with pytest.raises(Invalid, match="does not hold"):
            index.drop(server, datasource, *ends(interval))
    index.drop(0, 0, *ends(HOUR))
    assert index.costs(0, *ends(HOUR)).tolist() == [0, 0]
    with pytest.raises(Invalid, match="does not hold"):
        index.drop(0, 0, *ends(HOUR))


def test_a_server_that_is_not_there_is_refused() -> None:
    with pytest.raises(Invalid, match="no server 2"):
        CostIndex(2).load(2, 0, *ends(HOUR))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [5], [5]), "row 0 must end"),
        (([-1], [5], [6]), "negative"),
        (([0, 0], [5], [6]), "has 2 rows"),
        (([0.5], [5], [6]), "whole numbers"),
        (([0], [ETERNITY.start_ms - 1], [6]), "years"),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    columns: tuple[list[int], ...], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        segment_columns(*(np.array(column) for column in columns))


def test_bulk_and_one_by_one_are_the_same() -> None:
    rng = np.random.default_rng(7)
    rows = 3_000
    starts = HOUR.start_ms + rng.integers(0, 50 * HOUR_MS, rows)
    columns = segment_columns(
        rng.integers(0, 3, rows), starts, starts + rng.integers(1, DAY_MS, rows)
    )
    servers = rng.integers(0, 5, rows)
    bulk, single = CostIndex(5), CostIndex(5)
    bulk.load_many(servers, columns)
    for start in range(0, rows, 500):
        some = np.arange(start, start + 500)
        single.load_many(servers[some], columns.take(some))
    costs = bulk.costs(0, *ends(HOUR))
    assert costs.tolist() == pytest.approx(single.costs(0, *ends(HOUR)).tolist(), rel=1e-13)
    bulk.drop_many(servers, columns)
    assert bulk.costs(0, *ends(HOUR)).tolist() == [0] * 5


def test_memory_grows_with_the_segments_and_not_with_their_grid() -> None:
    rng = np.random.default_rng(7)
    starts = HOUR.start_ms + rng.integers(0, 365 * DAY_MS, 60_000)
    columns = segment_columns(np.zeros(60_000, np.int64), starts, starts + 1)
    servers = rng.integers(0, 10, 60_000)
    sizes = []
    for rows in (20_000, 60_000):
        index = CostIndex(10)
        index.load_many(servers[:rows], columns.take(np.arange(rows)))
        sizes.append(memory_bytes(index) / rows)
    assert sizes[1] < 1.5 * sizes[0] < 1_000


def test_of_equal_costs_the_freer_disk_wins_then_the_lower_number() -> None:
    room = room_for(
        1, 4, free_bytes=np.array([5, 9, 9, 20]), capacity_bytes=np.array([10, 10, 10, 40])
    )
    assert CostIndex(4).place(columns_of([(0, HOUR)]), room).tolist() == [1]


def test_copies_go_to_different_servers_and_nowhere_when_there_are_none_left() -> None:
    columns = columns_of([(0, HOUR)] * 3, copy_of=np.zeros(3, np.int64))
    assert CostIndex(2).place(columns).tolist() == [0, 1, NOWHERE]


def test_servers_that_hold_a_copy_are_barred() -> None:
    room = room_for(2, 3, barred_offsets=np.array([0, 2, 2]), barred_servers=np.array([0, 1]))
    assert CostIndex(3).place(columns_of([(0, HOUR)] * 2), room).tolist() == [2, 0]


def test_far_intervals_cost_nothing_and_never_less() -> None:
    index = CostIndex(1)
    index.load(0, 0, ETERNITY.start_ms, ETERNITY.start_ms + HOUR_MS)
    cost = index.costs(0, ETERNITY.end_ms - HOUR_MS, ETERNITY.end_ms)[0]
    assert cost == 0
    assert not math.copysign(1, cost) < 0


def test_the_joint_cost_needs_neither_numpy_nor_numba() -> None:
    code = "import sys, carnac.core.balancing.cost.joint; print(sorted({'numpy', 'numba'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_what_will_come_can_be_said_before() -> None:
    columns = columns_of([(0, hours(at)) for at in range(9)])
    index = CostIndex(2)
    index.reserve(columns)
    reserved = memory_bytes(index)
    assert index.costs(0, *ends(HOUR)).tolist() == [0, 0]
    index.place(columns)
    assert memory_bytes(index) == reserved


def test_an_index_that_would_take_all_memory_is_refused() -> None:
    starts = HOUR.start_ms + 2 * np.arange(20_000)
    columns = segment_columns(np.zeros(20_000, np.int64), starts, starts + 1)
    with pytest.raises(Invalid, match="at most 16 GB"):
        CostIndex(40_000).reserve(columns)
