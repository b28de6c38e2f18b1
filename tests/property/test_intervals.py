"""Interval algebra against a naive oracle: the plain set of all instants of a small grid."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from carnac.core.time.intervals import (
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    format_ms,
    interval_set,
    parse_instant,
    parse_interval,
)
from tests.property.strategies import (
    GRID,
    grid_intervals,
    grid_ms,
    instants,
    interval_lists,
    interval_sets,
    intervals,
)


def instants_of(*pieces: Interval) -> set[int]:
    return {at_ms for piece in pieces for at_ms in range(piece.start_ms, piece.end_ms)}


def assert_normal(result: IntervalSet) -> None:
    """Sorted, not touching, so that equal sets have equal forms."""
    ends = [(piece.start_ms, piece.end_ms) for piece in result]
    assert all(start < end for start, end in ends)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(ends))


@given(a=grid_intervals(), b=grid_intervals())
def test_one_interval_and_another(a: Interval, b: Interval) -> None:
    ours, theirs = instants_of(a), instants_of(b)
    shared = a.intersect(b)
    assert a.overlaps(b) == bool(ours & theirs) == b.overlaps(a) == (shared is not None)
    assert (instants_of(shared) if shared else set()) == ours & theirs
    assert a.contains(b) == (theirs <= ours)
    rest = a.minus(b)
    assert instants_of(*rest) == ours - theirs
    assert list(rest) == sorted(rest)
    assert a.duration_ms == len(ours)


@given(a=grid_intervals(), at_ms=st.integers(-1, GRID + 1))
def test_an_interval_holds_its_instants(a: Interval, at_ms: int) -> None:
    assert a.holds(at_ms) == (at_ms in instants_of(a))


@given(pieces=interval_lists)
def test_a_set_has_the_instants_of_its_intervals_in_normal_form(pieces: list[Interval]) -> None:
    result = interval_set(pieces)
    assert_normal(result)
    assert instants_of(*result) == instants_of(*pieces)
    assert interval_set(reversed(pieces)) == result
    assert interval_set(result) == result
    assert bool(result) == bool(pieces)


@given(a=interval_sets, b=grid_intervals())
def test_a_set_and_an_interval(a: IntervalSet, b: Interval) -> None:
    ours, theirs = instants_of(*a), instants_of(b)
    assert a.overlaps(b) == bool(ours & theirs)
    assert a.contains(b) == (theirs <= ours)
    assert a.inside(b) == a.intersect(IntervalSet((b,)))
    assert_normal(a.inside(b))


@given(a=interval_sets, b=interval_sets)
def test_set_operations_are_those_of_sets_of_instants(a: IntervalSet, b: IntervalSet) -> None:
    ours, theirs = instants_of(*a), instants_of(*b)
    for result, expected in (
        (a.union(b), ours | theirs),
        (a.intersect(b), ours & theirs),
        (a.minus(b), ours - theirs),
    ):
        assert_normal(result)
        assert instants_of(*result) == expected
    assert (a == b) == (ours == theirs)
    assert (a.minus(b).union(a.intersect(b))) == a


@given(a=interval_sets, at_ms=st.integers(-1, GRID + 1))
def test_a_set_holds_its_instants(a: IntervalSet, at_ms: int) -> None:
    assert a.holds(at_ms) == (at_ms in instants_of(*a))


@given(a=interval_sets)
def test_the_span_is_the_least_interval_around_all(a: IntervalSet) -> None:
    span, inside = a.span(), instants_of(*a)
    assert (span is None) == (not inside)
    if span is not None:
        assert (span.start_ms, span.end_ms) == (min(inside), max(inside) + 1)


@given(at_ms=instants)
def test_instants_survive_their_text(at_ms: int) -> None:
    text = format_ms(at_ms)
    assert parse_instant(text) == at_ms
    assert len(text) == 24
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(a=instants, b=instants | st.just(MAX_MS - 1))
def test_text_order_is_time_order(a: int, b: int) -> None:
    assert (format_ms(a) < format_ms(b)) == (a < b)


@given(
    at_ms=st.integers(MIN_MS + 10**8, MAX_MS - 10**8),
    minutes=st.integers(-14 * 60, 14 * 60),
    micros=grid_ms,
)
def test_an_offset_moves_the_instant_and_micros_are_cut(
    at_ms: int, minutes: int, micros: int
) -> None:
    zone = timezone(timedelta(minutes=minutes))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms, microseconds=micros)
    assert parse_instant(moment.astimezone(zone).isoformat()) == at_ms


@given(interval=intervals())
def test_intervals_survive_their_text(interval: Interval) -> None:
    assert parse_interval(str(interval)) == interval
