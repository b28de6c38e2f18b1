"""Queries of any span beside hundreds of segments: on their grid, off it, across many of them, inside one of them.

There are many blocks of cells here, and segments cut cells that were held already.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.balancing.cost.columns import SegmentColumns, segment_columns
from carnac.core.balancing.cost.index import CostIndex
from carnac.core.balancing.cost.joint import DAY_MS, HOUR_MS
from carnac.core.time.intervals import Interval
from tests.pairs import Held, brute_cost, hours, interval_of

SERVERS, ROWS = 3, 240
FIRST_MS = hours(0).start_ms
YEAR_MS = 365 * DAY_MS
UNITS = st.sampled_from([1, 7_000, 300_000, HOUR_MS, DAY_MS])
SPANS = st.sampled_from([DAY_MS, 20 * DAY_MS, YEAR_MS])
LATER = st.sampled_from([0, 3 * DAY_MS, -2 * YEAR_MS, 40 * YEAR_MS])


def some_segments(
    rng: np.random.Generator, unit_ms: int, span_ms: int, later_ms: int
) -> SegmentColumns:
    """Return segments of one unit or a few; the second half of them so much later than the first."""
    starts = FIRST_MS + rng.integers(0, max(span_ms // unit_ms, 1), ROWS) * unit_ms
    starts[ROWS // 2 :] += later_ms
    lengths = unit_ms * rng.choice([1, 1, 1, 2, 30], ROWS)
    return segment_columns(rng.integers(0, 2, ROWS), starts, starts + lengths)


def some_queries(rng: np.random.Generator, segments: SegmentColumns) -> list[Interval]:
    """Return segments as they are, moved a little, cut, and stretched over others."""
    found = []
    for row in rng.integers(0, ROWS, 4):
        lo, hi = interval_of(segments, int(row)).start_ms, interval_of(segments, int(row)).end_ms
        other = int(segments.ends_ms[rng.integers(0, ROWS)])
        found += [
            Interval(lo, hi),
            Interval(lo - 1, hi),
            Interval(lo, hi + HOUR_MS // 2),
            Interval(lo, max(lo + (hi - lo) // 3, lo + 1)),
            Interval(min(lo, other), max(hi, other)),
        ]
    return found


def check(index: CostIndex, held: Held, queries: list[Interval]) -> None:
    for interval in queries:
        expected = [brute_cost(held, server, 1, interval) for server in range(SERVERS)]
        costs = index.costs(1, interval.start_ms, interval.end_ms)
        assert costs.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-280)


@given(st.integers(0, 2**32), UNITS, SPANS, LATER)
def test_any_span_costs_the_sum_over_pairs(
    seed: int, unit_ms: int, span_ms: int, later_ms: int
) -> None:
    rng = np.random.default_rng(seed)
    segments = some_segments(rng, unit_ms, span_ms, later_ms)
    servers = rng.integers(0, SERVERS, ROWS)
    index = CostIndex(SERVERS)
    held: Held = Counter()
    for rows in np.array_split(np.arange(ROWS), 3):  # each batch cuts the cells of those before
        index.load_many(servers[rows], segments.take(rows))
        for row in rows:
            held[int(servers[row]), int(segments.datasources[row]), interval_of(segments, row)] += 1
    check(index, held, some_queries(rng, segments))

    gone = rng.permutation(ROWS)[: ROWS // 2]
    index.drop_many(servers[gone], segments.take(gone))
    for row in gone:
        held[int(servers[row]), int(segments.datasources[row]), interval_of(segments, row)] -= 1
    check(index, held, some_queries(rng, segments))

    index.drop_many(np.delete(servers, gone), segments.take(np.delete(np.arange(ROWS), gone)))
    assert index.costs(1, FIRST_MS, FIRST_MS + YEAR_MS).tolist() == [0] * SERVERS
