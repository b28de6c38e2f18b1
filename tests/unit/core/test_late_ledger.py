"""The late ledger adds up: whatever is cut, spread, folded or left out, no late row is counted twice or lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from carnac.core.log.entries import Entry, VisibleSegment
from carnac.core.log.late_ledger import (
    carry_over,
    draw_up_ledger,
    keep_late,
    late_within,
    with_late,
)
from carnac.core.segments.lateness import (
    BOUNDS_MS,
    NONE_LATE,
    LateCounts,
    Lateness,
    LateRows,
    add_counts,
    spread,
    thin_out,
)
from carnac.core.segments.segment import Segment
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from tests.logs import day, segment
from tests.support.lateness import count_late

HOUR_MS = 3_600_000
LATE: LateCounts = (1, 2, 3, 4, 5, 6)
counts = st.tuples(*[st.integers(0, 1_000_000)] * len(Lateness))


def whole(one: Segment) -> IntervalSet:
    return IntervalSet((one.span,))


def late_one(segment_id: str, span: str, counts: LateCounts = LATE, **more: object) -> Segment:
    return replace(segment(segment_id, span, rows=100, **more), late=LateRows(counts=counts))  # type: ignore[arg-type]


def shown(
    one: Segment, chunk: Interval | None = None, clip: IntervalSet | None = None
) -> VisibleSegment:
    entry = Entry(
        entry_id=1,
        segment_id=one.segment_id,
        chunk=chunk or one.chunk,
        span=one.span,
        clip=clip,
        version=SegmentVersion(1, 0),
        partition_id=0,
        overshadowed_ids=IdRanges(),
        update_group=IdRanges(),
    )
    return VisibleSegment(segment=one, entry=entry)


@pytest.mark.parametrize(
    ("late_ms", "lateness"),
    [
        (1, Lateness.MINUTE),
        (60_000, Lateness.MINUTE),
        (60_001, Lateness.HOUR),
        (HOUR_MS, Lateness.HOUR),
        (24 * HOUR_MS, Lateness.DAY),
        (24 * HOUR_MS + 1, Lateness.WEEK),
        (7 * 24 * HOUR_MS + 1, Lateness.MONTH),
        (30 * 24 * HOUR_MS, Lateness.MONTH),
        (30 * 24 * HOUR_MS + 1, Lateness.LONGER),
    ],
)
def test_a_bound_belongs_to_the_lesser_lateness(late_ms: int, lateness: Lateness) -> None:
    found = count_late([1_000 - late_ms, 1_000, 1_001], 1_000)
    assert [name for name, count in zip(Lateness, found, strict=True) if count] == [lateness]
    assert sum(found) == 1, "a row as new as the newest is not late"


def test_nothing_is_late_where_nothing_was() -> None:
    assert count_late([1, 2, 3], None) == NONE_LATE
    assert len(BOUNDS_MS) == len(Lateness) - 1


@given(counts=counts, weights=st.lists(st.integers(0, 10**9), min_size=1).filter(any))
def test_what_is_spread_adds_up(counts: LateCounts, weights: list[int]) -> None:
    parts = spread(counts, weights)
    assert add_counts(parts) == counts
    assert all(count >= 0 for part in parts for count in part)
    assert all(not any(part) for part, weight in zip(parts, weights, strict=True) if not weight)


@given(
    counts=counts,
    cuts=st.lists(st.integers(-5, 30).map(lambda hours: hours * HOUR_MS), max_size=8, unique=True),
)
def test_parts_of_a_segment_add_up_to_it(counts: LateCounts, cuts: list[int]) -> None:
    one = late_one("s", day(1), counts)
    edges = sorted({one.min_time_ms - 1, one.max_time_ms + 9, *(one.min_time_ms + c for c in cuts)})
    pieces = [Interval(a, b) for a, b in pairwise(edges)]
    parts = [late_within(one, IntervalSet((piece,))) for piece in pieces]
    around = interval_set(pieces).intersect(whole(one))
    if around == whole(one):
        assert add_counts(parts) == counts
    assert add_counts(parts) == late_within(one, interval_set(pieces))
    even, odd = interval_set(pieces[::2]), interval_set(pieces[1::2])
    both = late_within(one, even), late_within(one, odd)
    assert add_counts(both) == late_within(one, interval_set(pieces))


def test_late_rows_go_to_the_segments_that_may_have_them() -> None:
    early = segment("early", "2013-01-01T00/2013-01-01T06", rows=30)
    both = segment("both", "2013-01-01T06/2013-01-01T12", rows=10)
    prompt = segment("prompt", "2013-01-01T12/2013-01-01T18", rows=10)
    other = segment("other", day(2), rows=10)
    newest_ms = prompt.min_time_ms
    late = {early.chunk: (0, 0, 40, 0, 0, 0)}
    found = with_late((early, both, prompt, other), late, newest_ms)
    assert [one.late and one.late.counts[2] for one in found] == [30, 10, None, None]
    assert not any(one.late.is_folded for one in found if one.late)
    assert with_late((early, other), late, None) == (early, other)


def test_a_rewrite_hands_on_what_was_late_and_it_is_folded() -> None:
    late, prompt = late_one("late", day(1)), segment("prompt", day(1), rows=300)
    outputs = (segment("o1", day(1), rows=300), segment("o2", day(1), rows=100))
    found = carry_over([(late, whole(late)), (prompt, whole(prompt))], outputs, is_lossy=False)
    assert add_counts(one.late.counts for one in found if one.late) == LATE
    assert all(one.late.is_folded for one in found if one.late)
    assert found[1].late is not None
    assert found[1].late.counts == (1, 1, 1, 1, 2, 2), "a quarter, what is left over included"
    again = carry_over(
        [(one, whole(one)) for one in found], (segment("o3", day(1)),), is_lossy=False
    )
    assert again[0].late == LateRows(counts=LATE, is_folded=True)


@given(
    counts=st.lists(counts, min_size=1, max_size=3),
    taken=st.sets(st.integers(1, 6), min_size=1),
    split=st.integers(1, 6),
)
def test_a_change_of_granularity_loses_no_late_row(
    counts: list[LateCounts], taken: set[int], split: int
) -> None:
    """Segments of a week become some of its days; what has no day of its own goes to one beside it."""
    week = "2013-01-01/2013-01-07"
    inputs = [late_one(f"s{n}", week, one, chunk=week) for n, one in enumerate(counts)]
    outputs = tuple(segment(f"d{number}", day(number)) for number in sorted(taken))
    found = carry_over([(one, whole(one)) for one in inputs], outputs, is_lossy=False)
    assert add_counts(one.late.counts for one in found if one.late) == add_counts(counts)
    done = IntervalSet((Interval(inputs[0].min_time_ms, segment("x", day(split)).max_time_ms + 1),))
    first = carry_over([(one, done) for one in inputs], outputs, is_lossy=False)
    left = add_counts(late_within(one, whole(one).minus(done)) for one in inputs)
    folded = add_counts(one.late.counts for one in first if one.late)
    assert add_counts((folded, left)) == add_counts(counts)


@given(counts=counts.filter(any), share=st.floats(0, 1))
def test_where_all_rows_were_late_those_that_are_left_are(counts: LateCounts, share: float) -> None:
    rows = sum(counts)
    kept = round(rows * share)
    left = thin_out(counts, kept, rows)
    assert sum(left) == kept
    assert all(0 <= few <= many for few, many in zip(left, counts, strict=True))


def test_rows_left_out_take_late_ones_with_them() -> None:
    late = late_one("late", day(1), (0, 0, 50, 0, 0, 0))
    half = (segment("o", day(1), rows=50),)
    (found,) = carry_over([(late, whole(late))], half, is_lossy=True)
    assert found.late is not None
    assert found.late.counts[2] == 25
    assert carry_over([(late, whole(late))], (), is_lossy=True) == ()
    (kept,) = keep_late(late, whole(late), half, rows_before=100)
    assert kept.late == LateRows(counts=(0, 0, 25, 0, 0, 0))
    folded = replace(late, late=LateRows(counts=LATE, is_folded=True))
    (kept,) = keep_late(folded, whole(folded), half, rows_before=50)
    assert kept.late == folded.late
    assert keep_late(folded, whole(folded), (), rows_before=50) == ()
    (plain,) = keep_late(segment("p", day(1)), whole(late), half, rows_before=100)
    assert plain.late is None


def test_the_ledger_by_chunk_lateness_and_whether_folded() -> None:
    a = late_one("a", day(1), (0, 10, 0, 0, 0, 20))
    b = late_one("b", day(1), (0, 5, 0, 0, 0, 0))
    folded = replace(a, segment_id="c", late=LateRows(counts=(0, 1, 0, 0, 0, 0), is_folded=True))
    elsewhere = late_one("d", day(3), (0, 7, 0, 0, 0, 0))
    items = [shown(one) for one in (elsewhere, a, b, folded, segment("prompt", day(1)))]
    ledger = draw_up_ledger(items, datasource="events", revision=3, at_ms=9)
    assert [
        (str(one.chunk)[:10], one.lateness, one.rows, one.rows_folded) for one in ledger.lines
    ] == [
        ("2013-01-01", Lateness.HOUR, 16, 1),
        ("2013-01-01", Lateness.LONGER, 20, 0),
        ("2013-01-03", Lateness.HOUR, 7, 0),
    ]
    first = ledger.lines[0]
    assert (first.segments, first.segments_folded) == (3, 1)
    assert (first.size_bytes, first.bytes_folded) == (160, 10), "ten bytes a row"
    hour, longer = ledger.by_lateness
    assert (hour.lateness, hour.rows, hour.chunks, hour.chunks_waiting) == (Lateness.HOUR, 23, 2, 2)
    assert (longer.lateness, longer.rows, longer.segments) == (Lateness.LONGER, 20, 1)
    total = ledger.total
    assert (total.rows, total.segments, total.chunks) == (43, 4, 2), "no segment is counted twice"


def test_a_ledger_of_a_part_and_of_nothing() -> None:
    one = late_one("a", day(1), (0, 24, 0, 0, 0, 0))
    half = Interval(one.min_time_ms, one.min_time_ms + 12 * HOUR_MS)
    clipped = shown(one, clip=IntervalSet((half,)))
    ledger = draw_up_ledger([clipped], datasource="e", revision=1, at_ms=0)
    assert ledger.total.rows == 12
    third = Interval(one.min_time_ms, one.min_time_ms + 8 * HOUR_MS)
    ledger = draw_up_ledger([shown(one)], datasource="e", revision=1, at_ms=0, within=third)
    assert ledger.total.rows == 8
    empty = draw_up_ledger([], datasource="e", revision=1, at_ms=0)
    assert (empty.lines, empty.by_lateness, empty.total.rows) == ((), (), 0)
