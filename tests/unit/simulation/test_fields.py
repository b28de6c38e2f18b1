"""The field of the old heuristic against the cost of pairs, added up one by one."""

from __future__ import annotations

import numpy as np
import pytest

from carnac.errors import Invalid
from carnac.simulation import legacy

WEEK, MONTH = 7 * 24, 30 * 24
SERVERS = 5
CELLS = 1_500
HOURS = np.array([1, 24, 6], np.int64)
SIZES = np.array([300, 80, 300], np.int64)
NOW = 1_400


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
    """The function of Druid before 0.9.1 for two segments, written down as the source has it."""
    x_end, y_end = x[1] + int(HOURS[x[0]]), y[1] + int(HOURS[y[0]])
    cost = float(min(SIZES[x[0]], SIZES[y[0]])) * (2 if x[0] == y[0] else 1)
    if NOW - x_end < WEEK and NOW - y_end < WEEK:
        cost *= (2 - (NOW - x_end) / WEEK) * (2 - (NOW - y_end) / WEEK)
    gap = max(x[1], y[1]) - min(x_end, y_end)
    if gap <= 0:
        return cost * 2
    if gap < MONTH:
        return cost * (2 if is_step else 2 - gap / MONTH)
    return cost


@pytest.mark.parametrize("is_step", [True, False])
def test_the_old_cost_of_a_cluster_is_the_sum_over_its_pairs(is_step: bool) -> None:
    field = legacy.make_field(
        hours=HOURS, sizes_bytes=SIZES, server_count=SERVERS, cells=CELLS, is_step=is_step
    )
    legacy.set_now(field, NOW)
    held = draw_segments(1, 120)
    for source, start, server in held:
        legacy.shift(field, source, start, server, 1)
    for source, start, server in held[:20]:
        legacy.shift(field, source, start, server, -1)
    held = held[20:]
    out = np.empty(SERVERS)
    for source, start, _ in [*draw_segments(2, 40), (0, 0, 0), (1, NOW - 24, 0)]:
        legacy.cost_everywhere(field, source, start, out)
        expected = np.zeros(SERVERS)
        for other, begin, server in held:
            expected[server] += old_cost((source, start), (other, begin), is_step=is_step)
        np.testing.assert_allclose(out, expected, rtol=1e-12)
        itself = old_cost((source, start), (source, start), is_step=is_step)
        assert legacy.self_cost(field, source, start) == pytest.approx(itself, rel=1e-12)


def test_time_goes_on_and_recency_with_it() -> None:
    first, later = (
        legacy.make_field(
            hours=HOURS, sizes_bytes=SIZES, server_count=SERVERS, cells=CELLS, is_step=True
        )
        for _ in range(2)
    )
    legacy.set_now(first, NOW - 50)
    for source, start, server in draw_segments(3, 50):
        legacy.shift(first, source, start, server, 1)
        legacy.shift(later, source, start, server, 1)
    legacy.set_now(first, NOW)
    legacy.set_now(later, NOW)
    np.testing.assert_allclose(first.recent, later.recent)


def test_what_no_laptop_holds_is_refused() -> None:
    many = np.ones(1_000, np.int64)
    with pytest.raises(Invalid, match="GB for 1000 datasources on 5000 servers"):
        legacy.make_field(
            hours=many, sizes_bytes=many, server_count=5_000, cells=9_000, is_step=True
        )
