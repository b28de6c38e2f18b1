"""The legacy cost, by hand; and why it makes clusters."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.core.balancing.cost.legacy import MONTH_MS, WEEK_MS, legacy_costs, legacy_pair_cost

DAY_MS = 86_400_000
OLD = 100 * WEEK_MS
"""A reference time so late that nothing is recent."""


def pair(x: tuple[int, int], y: tuple[int, int], *, sizes: tuple[int, int] = (7, 5)) -> float:
    """Return the cost of two segments of two datasources, each (start, end) in days."""
    first = (0, x[0] * DAY_MS, x[1] * DAY_MS, sizes[0])
    second = (1, y[0] * DAY_MS, y[1] * DAY_MS, sizes[1])
    return legacy_pair_cost(first, second, reference_ms=OLD, is_step=False)


def test_the_smaller_size_counts() -> None:
    assert pair((0, 1), (100, 101)) == 5
    assert pair((0, 1), (100, 101), sizes=(2, 9)) == 2


@pytest.mark.parametrize(
    ("start", "factor"),
    [(0, 2.0), (1, 2.0), (2, 2 - 1 / 30), (16, 1.5), (31, 1.0), (300, 1.0)],
)
def test_the_gap_counts_down_over_thirty_days(start: int, factor: float) -> None:
    assert pair((0, 1), (start, start + 1)) == pytest.approx(5 * factor)
    assert pair((start, start + 1), (0, 1)) == pytest.approx(5 * factor)


def test_one_datasource_counts_twice() -> None:
    far = (0, 0, DAY_MS, 5), (0, 90 * DAY_MS, 91 * DAY_MS, 5)
    assert legacy_pair_cost(*far, reference_ms=OLD) == 10


def test_recency_counts_if_both_ended_within_a_week() -> None:
    x, y = (0, 0, DAY_MS, 1), (1, DAY_MS, 2 * DAY_MS, 1)
    a, b = 3 / 7, 2 / 7  # at day 4, they ended 3 and 2 days ago
    assert legacy_pair_cost(x, y, reference_ms=4 * DAY_MS) == pytest.approx((2 - a) * (2 - b) * 2)
    assert legacy_pair_cost(x, y, reference_ms=DAY_MS + WEEK_MS) == 2
    assert legacy_pair_cost(x, y, reference_ms=DAY_MS + WEEK_MS - 1) > 2


@pytest.mark.parametrize(("start", "factor"), [(0, 2), (2, 2), (30, 2), (31, 1), (300, 1)])
def test_what_ran_was_a_step(start: int, factor: int) -> None:
    x, y = (0, 0, DAY_MS, 7), (1, start * DAY_MS, (start + 1) * DAY_MS, 5)
    assert legacy_pair_cost(x, y, reference_ms=OLD) == 5 * factor


def test_between_two_segments_a_third_one_is_dearer_than_on_top_of_one() -> None:
    # The source: "if two segments were placed just at the right distance, the cost of adding a third segment anywhere
    # in between would always be higher than adding an overlapping one". True of the step; the slope is indifferent.
    held = [(0, 0, DAY_MS, 1), (0, MONTH_MS + DAY_MS, MONTH_MS + 2 * DAY_MS, 1)]

    def cost(at_day: int, *, is_step: bool) -> float:
        new = (0, at_day * DAY_MS, (at_day + 1) * DAY_MS, 1)
        costs = (legacy_pair_cost(new, y, reference_ms=OLD, is_step=is_step) for y in held)
        return sum(costs)

    between = range(1, 31)
    assert all(cost(day, is_step=True) > cost(0, is_step=True) for day in between)
    assert all(abs(cost(day, is_step=False) - cost(0, is_step=False)) < 0.2 for day in between)


def test_costs_are_sums_over_the_replicas_of_each_server() -> None:
    rng = np.random.default_rng(5)
    count, servers = 40, 4
    start = rng.integers(0, 50, count) * DAY_MS
    columns = (
        rng.integers(0, 3, count).astype(np.int32), start, start + DAY_MS, rng.integers(1, 9, count)
    )  # fmt: skip
    segment = rng.permutation(count)
    server = rng.integers(-1, servers, count).astype(np.int32)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    costs = legacy_costs(
        keys[3], columns, (segment, server), server_count=servers, reference_ms=45 * DAY_MS
    )
    for at in range(servers):
        held = segment[server == at]
        expected = sum(legacy_pair_cost(keys[3], keys[y], reference_ms=45 * DAY_MS) for y in held)
        assert costs[at] == pytest.approx(expected)
