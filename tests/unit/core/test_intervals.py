"""Intervals and instants: how they are written and what is refused. The algebra is in the property tests."""

from __future__ import annotations

import pytest

from carnac.core.time.intervals import (
    ETERNITY,
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    format_ms,
    interval_set,
    parse_instant,
    parse_interval,
)
from carnac.errors import Invalid

FEBRUARY = "2013-02-01T00:00:00.000Z/2013-03-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970", 0),
        ("1970-02", 31 * 86_400_000),
        ("2013-01-31T18:30:00Z", 1_359_657_000_000),
        (" 2013-01-31T18:30:00.000Z ", 1_359_657_000_000),
        ("2013-01-31T20:30:00+02:00", 1_359_657_000_000),
        ("2013-01-31T18:30", 1_359_657_000_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1969-12-31T23:59:59.999999Z", -1),  # cut towards the past, also before 1970
        ("1970-01-01T00:00:00.001999Z", 1),
        ("0001-01-01", MIN_MS),
        ("9999-12-31T23:59:59.999Z", MAX_MS - 1),
        ("10000-01-01T00:00:00.000Z", MAX_MS),
        ("10000-01-01", MAX_MS),
    ],
)
def test_instants(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2013-13-01",
        "2013-02-30",
        "0000-01-01",
        "10000-01-02",
        "10000-01-01T05:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:00:00-05:00",
        "1359657000000",
        "2013-01-31T18:30:00+25:00",
        "2013-01-31T18:30:00+01:75",
        "2013-01-31 18:30-0160",
    ],
)
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_instant(text)
    assert f"'{text}'" in str(caught.value)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (MIN_MS, "0001-01-01T00:00:00.000Z"),
        (MAX_MS - 1, "9999-12-31T23:59:59.999Z"),
        (MAX_MS, "10000-01-01T00:00:00.000Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
        (2**63 - 1, "10000-01-01T00:00:00.000Z"),
    ],
)
def test_text_of_instants(ms: int, expected: str) -> None:
    assert format_ms(ms) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-02-01/2013-03-01", FEBRUARY),
        ("2013-02/2013-03", FEBRUARY),
        (" 2013-02-01 / 2013-03-01 ", FEBRUARY),
        ("2013-02-01/P1M", FEBRUARY),
        ("P1M/2013-03-01", FEBRUARY),
        ("2013-02-01/P28D", FEBRUARY),
        ("2013-02-01T00:00:00.000000Z/P28D", FEBRUARY),
        ("2013-02-01/PT672H", FEBRUARY),
        ("2013-01-31/p1m", "2013-01-31T00:00:00.000Z/2013-02-28T00:00:00.000Z"),
        ("P1M1D/2013-03-01", "2013-01-31T00:00:00.000Z/2013-03-01T00:00:00.000Z"),
        ("0001-01-01/10000-01-01", str(ETERNITY)),
    ],
)
def test_intervals(text: str, expected: str) -> None:
    assert str(parse_interval(text)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2013-02-01", "'2013-02-01' is not an interval; write it like"),
        ("2013-02-01/", "is not an interval"),
        ("a/b/c", "is not an interval"),
        ("P1D/P1D", "is not an interval"),
        ("2013-02-01/soon", "'soon' is not an ISO 8601 date"),
        ("2013-02-01/P1X", "'P1X' is not an ISO 8601 period"),
        ("2013-02-01/2013-02-01", "must end after it starts; its end is excluded"),
        ("2013-02-02/2013-02-01", "must end after it starts"),
        ("2013-02-01T00:00:00.0005Z/P1D", "must begin and end on whole milliseconds"),
        ("2013-02-01/2013-02-02T00:00:00.123010Z", "must begin and end on whole milliseconds"),
        ("2013-02-01/P9000Y", "must lie within years 1 to 9999"),
        ("P3000Y/2013-02-01", "must lie within years 1 to 9999"),
    ],
)
def test_what_is_no_interval(text: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_interval(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("ends", [(5, 5), (6, 5), (MIN_MS - 1, 0), (0, MAX_MS + 1)])
def test_no_interval_is_empty_or_outside_of_time(ends: tuple[int, int]) -> None:
    with pytest.raises(Invalid, match="must end after it starts, within years 1 to 9999"):
        Interval(*ends)


def test_touching_intervals_merge_and_the_empty_set_is_falsy() -> None:
    assert interval_set([Interval(2, 3), Interval(1, 2)]) == IntervalSet((Interval(1, 3),))
    assert len(interval_set([Interval(1, 2), Interval(3, 4)])) == 2
    assert not interval_set([])
    assert interval_set([]).span() is None
    assert not interval_set([]).holds(0)
