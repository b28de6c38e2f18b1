"""Laws of the joint cost: what it equals, and what it must not depend on."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from carnac.core.balancing.cost.joint import DAY_MS, HOUR_MS
from carnac.core.time.intervals import ETERNITY, Interval
from tests.pairs import any_interval, hours, joint_cost, off_grid, on_grid

half_lives = st.sampled_from([1_000, HOUR_MS, DAY_MS, 365 * DAY_MS])
EXACT = 1e-12
"""Relative; the issue asks for 1e-9."""


def closed_form(x: Interval, y: Interval, half_life_ms: int) -> mpmath.mpf:
    """Return g(x1 − y0) − g(x0 − y0) − g(x1 − y1) + g(x0 − y1) with so many digits that cancelling leaves enough."""
    with mpmath.workdps(700):
        rate = mpmath.log(2) * HOUR_MS / half_life_ms

        def g(ms: int) -> mpmath.mpf:
            z = mpmath.mpf(abs(ms)) / HOUR_MS
            return mpmath.exp(-rate * z) / rate**2 + z / rate

        return (
            g(x.end_ms - y.start_ms)
            - g(x.start_ms - y.start_ms)
            - g(x.end_ms - y.end_ms)
            + g(x.start_ms - y.end_ms)
        )


def quadrature(x: Interval, y: Interval) -> mpmath.mpf:
    """Return the double integral by numbers alone; the kink at equal times is the end of a panel."""
    rate = mpmath.log(2) / 24

    def inner(at: mpmath.mpf) -> mpmath.mpf:
        ends = sorted(
            {
                y.start_ms / HOUR_MS,
                min(max(at, y.start_ms / HOUR_MS), y.end_ms / HOUR_MS),
                y.end_ms / HOUR_MS,
            }
        )
        return mpmath.quad(lambda t: mpmath.exp(-rate * abs(t - at)), ends)

    cuts = sorted(
        {x.start_ms, x.end_ms, *(e for e in (y.start_ms, y.end_ms) if x.start_ms < e < x.end_ms)}
    )
    return mpmath.quad(inner, [mpmath.mpf(cut) / HOUR_MS for cut in cuts])


@given(any_interval, any_interval, half_lives)
def test_it_is_the_closed_form(x: Interval, y: Interval, half_life_ms: int) -> None:
    exact = closed_form(x, y, half_life_ms)
    cost = joint_cost(x, y, half_life_ms=half_life_ms)
    if exact < 1e-290:  # doubles end here
        assert 0 <= cost <= 2e-290
    else:
        assert abs(cost - exact) <= EXACT * exact


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (Interval(0, 3 * HOUR_MS), Interval(5 * HOUR_MS, 29 * HOUR_MS)),  # apart
        (Interval(0, 3 * HOUR_MS), Interval(3 * HOUR_MS, 4 * HOUR_MS)),  # touching
        (Interval(0, 7 * HOUR_MS), Interval(5 * HOUR_MS, 29 * HOUR_MS)),  # overlapping
        (Interval(0, 30 * HOUR_MS), Interval(5 * HOUR_MS, 6 * HOUR_MS)),  # nested
        (Interval(0, HOUR_MS), Interval(0, HOUR_MS)),  # equal
        (Interval(0, 1), Interval(0, 2)),
    ],
)
def test_it_is_the_double_integral(x: Interval, y: Interval) -> None:
    integral = quadrature(x, y)
    assert abs(joint_cost(x, y) - integral) <= 1e-12 * integral


@given(any_interval, any_interval, half_lives)
def test_it_is_symmetric_and_never_negative(x: Interval, y: Interval, half_life_ms: int) -> None:
    cost = joint_cost(x, y, half_life_ms=half_life_ms)
    assert cost == joint_cost(y, x, half_life_ms=half_life_ms)
    assert cost >= 0
    assert math.isfinite(cost)


@given(any_interval, any_interval, st.floats(0, 1), half_lives)
def test_a_split_costs_what_the_whole_costs(
    x: Interval, y: Interval, share: float, half_life_ms: int
) -> None:
    assume(x.duration_ms > 1)
    at = min(max(x.start_ms + int(x.duration_ms * share), x.start_ms + 1), x.end_ms - 1)
    parts = [
        joint_cost(Interval(*ends), y, half_life_ms=half_life_ms)
        for ends in ((x.start_ms, at), (at, x.end_ms))
    ]
    assert sum(parts) == pytest.approx(
        joint_cost(x, y, half_life_ms=half_life_ms), rel=EXACT, abs=1e-290
    )


@given(st.one_of(on_grid, off_grid), st.one_of(on_grid, off_grid), st.integers(-(10**12), 10**12))
def test_where_time_begins_does_not_matter(x: Interval, y: Interval, by: int) -> None:
    moved = [Interval(i.start_ms + by, i.end_ms + by) for i in (x, y)]
    assert joint_cost(*moved) == joint_cost(x, y)


@given(on_grid, st.integers(1, 10**9), st.integers(1, 10**9))
def test_farther_apart_costs_less(x: Interval, gap: int, more: int) -> None:
    near, far = (Interval(x.end_ms + g, x.end_ms + g + HOUR_MS) for g in (gap, gap + more))
    assert (
        joint_cost(x, far) < joint_cost(x, near) < joint_cost(x, x) * (HOUR_MS / x.duration_ms + 1)
    )


def test_an_hour_against_eternity_costs_what_the_integral_over_all_time_says() -> None:
    # ∫ over an hour of 2/λ: Druid's own tests expect 138.516732 for a pair of one datasource, an artefact of rounding
    assert 2 * joint_cost(hours(0), ETERNITY) == pytest.approx(2 * 2 * 24 / math.log(2), rel=1e-15)
    assert 2 * joint_cost(hours(0), ETERNITY) == pytest.approx(138.498723925, abs=5e-10)


def test_the_sign_in_the_source_is_wrong() -> None:
    # its last formula: [(e^−y1 − e^−y0) − (e^−(x1−y1) − e^−(x1−y0))] / λ², for X = [0, x1), in units of 1/λ
    rate = math.log(2) / 24
    x1, y0, y1 = (rate * hour for hour in (1.0, 2.0, 3.0))
    theirs = (
        math.exp(-y1) - math.exp(-y0) - (math.exp(-(x1 - y1)) - math.exp(-(x1 - y0)))
    ) / rate**2
    right = (
        math.exp(-y1) - math.exp(-y0) - (math.exp(-(y1 - x1)) - math.exp(-(y0 - x1)))
    ) / rate**2
    cost = joint_cost(Interval(0, HOUR_MS), Interval(2 * HOUR_MS, 3 * HOUR_MS))
    assert right == pytest.approx(cost, rel=1e-9)
    assert theirs < 0 < cost
