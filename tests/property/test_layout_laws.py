"""Chunks tile the rows' time and respect what is there, for any layout."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import example, given

from carnac.core.log import laws
from carnac.core.log.layout import fill_free, find_free_cell, plan_chunks
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set

HOUR_MS = 3_600_000
moments = st.one_of(
    st.integers(0, 24 * 60).map(lambda hour: hour * HOUR_MS), st.integers(0, 24 * 60 * HOUR_MS)
)


@st.composite
def layouts(draw: st.DrawFn) -> list[Interval]:
    """Disjoint chunks, aligned or not."""
    cuts = sorted(set(draw(st.lists(moments, max_size=12))))
    pairs = [Interval(left, right) for left, right in itertools.pairwise(cuts)]
    return [pair for pair in pairs if draw(st.booleans())]


@st.composite
def ranges(draw: st.DrawFn) -> Interval:
    """The range of some rows."""
    start = draw(moments)
    return Interval(start, start + draw(st.sampled_from([1, 1000, HOUR_MS, 50 * HOUR_MS])))


names = st.sampled_from(["hour", "six_hour", "day", "week", "month", "all"])


@given(layouts(), ranges(), names)
def test_rows_get_one_chunk_and_existing_ones_win(
    existing: list[Interval], data: Interval, name: str
) -> None:
    planned = plan_chunks(parse_granularity(name), existing, None, data)
    laws.check_chunks("events", planned)
    assert not IntervalSet((data,)).minus(interval_set(planned)), "every row has a chunk"
    for chunk in planned:
        assert chunk in existing or not any(chunk.overlaps(other) for other in existing)
        assert chunk.overlaps(data)
    assert set(planned) >= {chunk for chunk in existing if chunk.overlaps(data)}


@given(layouts(), ranges(), names)
def test_a_replacement_stays_within_its_intervals(
    covers: list[Interval], data: Interval, name: str
) -> None:
    within = interval_set(covers)
    granularity = parse_granularity(name)
    planned = plan_chunks(granularity, (), within, data)
    laws.check_chunks("events", planned)
    assert not interval_set(planned).minus(within)
    assert not within.intersect(IntervalSet((data,))).minus(interval_set(planned))
    for chunk in planned:
        assert granularity.bucket(chunk.start_ms).contains(chunk)


@example([Interval(0, 553 * HOUR_MS)], "day", 558 * HOUR_MS)  # 6 to 12 meets 8 to 16
@given(layouts(), names, moments)
def test_a_free_cell_is_the_one_of_all_that_holds_the_instant(
    existing: list[Interval], name: str, at_ms: int
) -> None:
    granularity = parse_granularity(name)
    bucket = granularity.bucket(at_ms)
    if bucket.duration_ms > 60 * 24 * HOUR_MS or any(chunk.holds(at_ms) for chunk in existing):
        return
    free = IntervalSet((bucket,)).minus(interval_set(existing))
    cells = [cell for cell in fill_free(free, granularity) if cell.holds(at_ms)]
    assert [find_free_cell(free, granularity, at_ms)] == cells
