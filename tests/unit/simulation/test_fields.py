"""The fields of whole clusters against the cost of pairs, added up one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from carnac.core.balancing.compiled import compiled
from carnac.core.balancing.cost import joint_cost
from carnac.core.balancing.legacy import legacy_pair_cost
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid
from carnac.simulation import exact, legacy
from carnac.simulation.arrivals import Floats

HOUR_MS = 3_600_000
SERVERS = 5
CELLS = 1_500
HOURS = np.array([1, 24, 6], np.int64)
SIZES = np.array([300, 80, 300], np.int64)
NOW = 1_400


@compiled  # parts of compiled functions cannot be called from here
def exact_shift(field: exact.Field, source: int, start: int, server: int, by: int) -> None:
    exact.shift(field, source, start, server, by)


@compiled
def exact_cost_everywhere(field: exact.Field, source: int, start: int, out: Floats) -> None:
    exact.cost_everywhere(field, source, start, out)


@compiled
def exact_self_cost(field: exact.Field, source: int) -> float:
    return exact.self_cost(field, source)


@compiled
def legacy_shift(field: legacy.Field, source: int, start: int, server: int, by: int) -> None:
    legacy.shift(field, source, start, server, by)


@compiled
def legacy_cost_everywhere(field: legacy.Field, source: int, start: int, out: Floats) -> None:
    legacy.cost_everywhere(field, source, start, out)


@compiled
def legacy_self_cost(field: legacy.Field, source: int, start: int) -> float:
    return legacy.self_cost(field, source, start)


def draw_segments(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Return (source, start, server) of segments that ended by NOW, many of them lately."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        source = int(draw.integers(len(HOURS)))
        last = NOW - int(HOURS[source])
        recent = draw.random() < 0.4
        start = int(draw.integers(last - 200 if recent else 0, last + 1))
        found.append((source, start, int(draw.integers(SERVERS))))
    return found


def old_cost(x: tuple[int, int], y: tuple[int, int], *, is_step: bool) -> float:
    rows = [
        (source, start * HOUR_MS, (start + int(HOURS[source])) * HOUR_MS, int(SIZES[source]))
        for source, start in (x, y)
    ]
    return legacy_pair_cost(rows[0], rows[1], reference_ms=NOW * HOUR_MS, is_step=is_step)


@pytest.mark.parametrize("is_step", [True, False])
def test_the_old_cost_of_a_cluster_is_the_sum_over_its_pairs(is_step: bool) -> None:
    field = legacy.make_field(
        hours=HOURS, sizes_bytes=SIZES, server_count=SERVERS, cells=CELLS, is_step=is_step
    )
    legacy.set_now(field, NOW)
    held = draw_segments(1, 120)
    for source, start, server in held:
        legacy_shift(field, source, start, server, 1)
    for source, start, server in held[:20]:
        legacy_shift(field, source, start, server, -1)
    held = held[20:]
    out = np.empty(SERVERS)
    for source, start, _ in [*draw_segments(2, 40), (0, 0, 0), (1, NOW - 24, 0)]:
        legacy_cost_everywhere(field, source, start, out)
        expected = np.zeros(SERVERS)
        for other, begin, server in held:
            expected[server] += old_cost((source, start), (other, begin), is_step=is_step)
        np.testing.assert_allclose(out, expected, rtol=1e-12)
        itself = old_cost((source, start), (source, start), is_step=is_step)
        assert legacy_self_cost(field, source, start) == pytest.approx(itself, rel=1e-12)


def test_time_goes_on_and_recency_with_it() -> None:
    first, later = (
        legacy.make_field(
            hours=HOURS, sizes_bytes=SIZES, server_count=SERVERS, cells=CELLS, is_step=True
        )
        for _ in range(2)
    )
    legacy.set_now(first, NOW - 50)
    for source, start, server in draw_segments(3, 50):
        legacy_shift(first, source, start, server, 1)
        legacy_shift(later, source, start, server, 1)
    legacy.set_now(first, NOW)
    legacy.set_now(later, NOW)
    np.testing.assert_allclose(first.recent, later.recent)


def test_the_exact_cost_of_a_cluster_is_the_sum_over_its_pairs() -> None:
    half_life_hours = 24.0
    field = exact.make_field(
        hours=HOURS, server_count=SERVERS, cells=CELLS, half_life_hours=half_life_hours
    )
    held = draw_segments(4, 150)
    for source, start, server in held:
        exact_shift(field, source, start, server, 1)
    for source, start, server in held[:30]:
        exact_shift(field, source, start, server, -1)
    held = held[30:]
    unit = (half_life_hours / math.log(2)) ** 2

    def pair(x: tuple[int, int], y: tuple[int, int]) -> float:
        spans = [Interval(s * HOUR_MS, (s + int(HOURS[d])) * HOUR_MS) for d, s in (x, y)]
        return joint_cost(*spans) * (2 if x[0] == y[0] else 1)

    out = np.empty(SERVERS)
    for source, start, _ in [*draw_segments(5, 40), (0, 0, 0), (1, NOW - 24, 0)]:
        exact_cost_everywhere(field, source, start, out)
        expected = np.zeros(SERVERS)
        for other, begin, server in held:
            expected[server] += pair((source, start), (other, begin))
        np.testing.assert_allclose(out * unit, expected, rtol=1e-11)
        itself = pair((source, start), (source, start))
        assert exact_self_cost(field, source) * unit == pytest.approx(itself, rel=1e-12)


def test_what_no_laptop_holds_is_refused() -> None:
    many = np.ones(1_000, np.int64)
    with pytest.raises(Invalid, match="GB for 1000 datasources on 5000 servers"):
        legacy.make_field(
            hours=many, sizes_bytes=many, server_count=5_000, cells=9_000, is_step=True
        )
    with pytest.raises(Invalid, match="take fewer datasources or days"):
        exact.make_field(hours=many, server_count=5_000, cells=9_000, half_life_hours=24)
