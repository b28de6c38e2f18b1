"""The laws of granularities, and a naive oracle that walks the wall clock minute by minute."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carnac.core.time.granularity import (
    ALL,
    STANDARD,
    WEEK,
    Granularity,
    finer_standards,
    parse_granularity,
)
from carnac.core.time.intervals import ETERNITY, MAX_MS, MIN_MS, Interval, interval_set
from carnac.core.time.nesting import is_finer_or_equal
from tests.property.strategies import (
    CLOCK_PERIODS,
    DAY_MS,
    HOUR_MS,
    TRICKY_ZONES,
    durations,
    granularities,
    instants,
    moments_near_changes,
    periods,
    recent_instants,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_MS = 60_000
historic_instants = st.integers(-3_500_000_000_000, 2_240_611_200_000)  # from 1859
"""Where zones have rules; earlier there is only local mean time."""


def wall(zone: str, at_ms: int) -> datetime:
    """What a clock shows, without zone."""
    moment = EPOCH + timedelta(milliseconds=at_ms)
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def first_reading(zone: str, reading: datetime) -> int:
    """The first instant at which the clock shows `reading` or later: look at every minute, then at every second."""
    about = int((reading.replace(tzinfo=UTC) - EPOCH).total_seconds()) * 1000
    minutes = range(about - 26 * HOUR_MS, about + 26 * HOUR_MS, MINUTE_MS)
    minute = next(at_ms for at_ms in minutes if wall(zone, at_ms) >= reading)
    return next(
        at for at in range(minute - MINUTE_MS, minute + 1, 1000) if wall(zone, at) >= reading
    )


def naive_calendar_bucket(zone: str, unit: str, at_ms: int) -> Interval:
    """The day, week, month, quarter or year of an instant, from a list of all starts around it."""
    day = wall(zone, at_ms).date()
    if unit == "P1D":
        starts = [day + timedelta(days=step) for step in (-2, -1, 0, 1, 2, 3)]
    elif unit == "P1W":
        monday = date.fromisocalendar(*day.isocalendar()[:2], 1)
        starts = [monday + timedelta(weeks=step) for step in (-1, 0, 1, 2)]
    else:
        months = {"P1M": range(1, 13), "P3M": (1, 4, 7, 10), "P1Y": (1,)}[unit]
        every = [
            date(year, month, 1) for year in range(day.year - 1, day.year + 3) for month in months
        ]
        index = max(i for i, start in enumerate(every) if start <= day)
        starts = every[index - 1 : index + 3]
    cuts = [first_reading(zone, datetime.combine(start, time())) for start in starts]
    return Interval(
        max(cut for cut in cuts if cut <= at_ms), min(cut for cut in cuts if cut > at_ms)
    )


@given(case=moments_near_changes())
def test_the_bucket_of_an_instant_holds_it_and_begins_itself(case: tuple[Granularity, int]) -> None:
    granularity, at_ms = case
    bucket = granularity.bucket(at_ms)
    assert bucket.holds(at_ms)
    assert granularity.bucket(bucket.start_ms) == bucket == granularity.bucket(bucket.end_ms - 1)
    assert granularity.is_aligned(bucket)


@given(case=moments_near_changes())
def test_what_is_called_a_bucket_is_the_bucket_of_its_start(case: tuple[Granularity, int]) -> None:
    granularity, at_ms = case
    bucket = granularity.bucket(at_ms)
    assert granularity.is_bucket(bucket)
    if bucket.end_ms - bucket.start_ms > 2:
        assert not granularity.is_bucket(Interval(bucket.start_ms, bucket.end_ms - 1))
        assert not granularity.is_bucket(Interval(bucket.start_ms + 1, bucket.end_ms))


@given(case=moments_near_changes())
def test_buckets_tile_time(case: tuple[Granularity, int]) -> None:
    granularity, at_ms = case
    bucket = granularity.bucket(at_ms)
    if bucket.end_ms < MAX_MS:
        assert granularity.bucket(bucket.end_ms).start_ms == bucket.end_ms
    if bucket.start_ms > MIN_MS:
        assert granularity.bucket(bucket.start_ms - 1).end_ms == bucket.start_ms


@given(case=moments_near_changes(), length=st.integers(1, 400), share=st.integers(1, 1000))
def test_buckets_of_an_interval_are_those_that_overlap_it(
    case: tuple[Granularity, int], length: int, share: int
) -> None:
    granularity, start_ms = case
    span_ms = max(granularity.nominal_ms * length * share // 10_000, 1)
    interval = Interval(start_ms, min(start_ms + span_ms, MAX_MS))
    buckets = list(granularity.buckets(interval))
    assert interval_set(buckets).span() == Interval(buckets[0].start_ms, buckets[-1].end_ms)
    assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(buckets))
    assert all(bucket.overlaps(interval) for bucket in buckets)
    assert buckets[0].start_ms <= interval.start_ms
    assert buckets[-1].end_ms >= interval.end_ms
    assert granularity.is_aligned(interval) == (
        (buckets[0].start_ms, buckets[-1].end_ms) == (interval.start_ms, interval.end_ms)
    )


@given(granularity=granularities, at_ms=instants)
def test_integer_arithmetic_finds_the_bucket_where_all_are_equally_long(
    granularity: Granularity, at_ms: int
) -> None:
    fixed_ms = granularity.fixed_ms
    bucket = granularity.bucket(at_ms)
    if fixed_ms is not None:
        start = at_ms - (at_ms - granularity.origin_ms) % fixed_ms
        assert bucket.start_ms == max(start, MIN_MS)
        assert bucket.end_ms == min(start + fixed_ms, MAX_MS)


@given(granularity=granularities)
def test_json_and_text_lead_back_to_the_granularity(granularity: Granularity) -> None:
    again = parse_granularity(granularity.to_json())
    assert again == granularity == parse_granularity(str(granularity))
    assert hash(again) == hash(granularity)
    assert again.to_json() == granularity.to_json()


@given(granularity=durations() | periods(CLOCK_PERIODS[2:]), at_ms=instants | recent_instants)
def test_any_boundary_of_equally_long_buckets_is_an_origin(
    granularity: Granularity, at_ms: int
) -> None:
    assert granularity.fixed_ms is not None
    start_ms = at_ms - (at_ms - granularity.origin_ms) % granularity.fixed_ms
    value = {
        "type": "period",
        "period": f"PT{granularity.fixed_ms / 1000:.3f}S",
        "timeZone": granularity.zone,
    }
    again = parse_granularity({**value, "origin": max(start_ms, granularity.origin_ms)})
    assert again == granularity


@pytest.mark.slow
@settings(deadline=None, max_examples=min(150, 3 * settings().max_examples))
@given(
    zone=st.sampled_from(TRICKY_ZONES),
    unit=st.sampled_from(("P1D", "P1D", "P1W", "P1M", "P3M", "P1Y")),
    at_ms=historic_instants,
)
@example(zone="Pacific/Apia", unit="P1D", at_ms=1_325_239_200_000 - 1)
@example(zone="Pacific/Apia", unit="P1D", at_ms=1_325_239_200_000)
@example(zone="America/St_Johns", unit="P1D", at_ms=1_162_089_060_000)
@example(zone="America/Toronto", unit="P1D", at_ms=-1_601_753_400_000)
@example(zone="America/Juneau", unit="P1D", at_ms=-3_225_223_727_000)
@example(zone="America/Sao_Paulo", unit="P1M", at_ms=1_541_300_400_000)
def test_calendar_buckets_are_those_of_the_naive_walk(zone: str, unit: str, at_ms: int) -> None:
    granularity = parse_granularity({"type": "period", "period": unit, "timeZone": zone})
    assert granularity.bucket(at_ms) == naive_calendar_bucket(zone, unit, at_ms)


@given(
    at_ms=st.integers(MIN_MS + 800 * DAY_MS, MAX_MS - 1200 * DAY_MS),
    unit=st.sampled_from(("P1M", "P3M", "P1Y")),
)
def test_utc_months_are_those_of_datetime(at_ms: int, unit: str) -> None:
    length = {"P1M": 1, "P3M": 3, "P1Y": 12}[unit]
    moment = EPOCH + timedelta(milliseconds=at_ms)
    month = (moment.year * 12 + moment.month - 1) // length * length
    cuts = [datetime(m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in (month, month + length)]
    start, end = ((cut - EPOCH) // timedelta(milliseconds=1) for cut in cuts)
    assert parse_granularity(unit).bucket(at_ms) == Interval(start, end)


@settings(deadline=None)
@given(zone=st.sampled_from(TRICKY_ZONES), at_ms=historic_instants)
@example(zone="Australia/Lord_Howe", at_ms=1_349_535_600_000 + HOUR_MS // 4)
@example(zone="Australia/Lord_Howe", at_ms=1_333_204_200_000 - HOUR_MS // 4)
@example(zone="Africa/Monrovia", at_ms=63_593_070_000)
def test_an_hour_in_a_zone_is_a_run_of_one_reading(zone: str, at_ms: int) -> None:
    def reading(at: int) -> tuple[int, int]:
        offset_ms = (
            int((wall(zone, at).replace(tzinfo=UTC) - EPOCH) / timedelta(milliseconds=1)) - at
        )
        return (at + offset_ms % HOUR_MS) // HOUR_MS, offset_ms % HOUR_MS

    bucket = parse_granularity({"type": "period", "period": "PT1H", "timeZone": zone}).bucket(at_ms)
    seconds = range(bucket.start_ms, bucket.end_ms, 1000)
    assert {reading(second) for second in (*seconds, bucket.end_ms - 1)} == {reading(at_ms)}
    assert reading(bucket.start_ms - 1) != reading(at_ms) != reading(bucket.end_ms)


@given(granularity=granularities)
def test_finer_standards_are_shorter_in_order_and_without_weeks(granularity: Granularity) -> None:
    finer = finer_standards(granularity)
    lengths = [each.nominal_ms for each in finer]
    assert lengths == sorted(lengths, reverse=True)
    assert all(length < granularity.nominal_ms for length in lengths)
    expected = [
        each for each in STANDARD if each.nominal_ms < granularity.nominal_ms and each != WEEK
    ]
    assert lengths == [each.nominal_ms for each in expected]
    assert {each.zone for each in finer} <= {granularity.zone}


@settings(deadline=None, max_examples=min(400, 8 * settings().max_examples))
@given(fine=granularities, coarse=granularities, at_ms=recent_instants)
def test_finer_means_that_buckets_are_unions_of_finer_ones(
    fine: Granularity, coarse: Granularity, at_ms: int
) -> None:
    if is_finer_or_equal(fine, coarse):
        bucket = coarse.bucket(at_ms)
        assert fine.is_aligned(bucket) or bucket.start_ms < 0  # zones are judged from 1970 on


@settings(deadline=None)
@given(zone=st.sampled_from(TRICKY_ZONES), day=st.integers(0, 25_000))
def test_hours_and_minutes_nest_in_the_days_of_their_zone(zone: str, day: int) -> None:
    def of(period: str) -> Granularity:
        return parse_granularity({"type": "period", "period": period, "timeZone": zone})

    bucket = of("P1D").bucket(day * DAY_MS)
    for period in ("PT1H", "PT1M"):
        assert is_finer_or_equal(of(period), of("P1D"))
        assert of(period).is_aligned(bucket)


@given(granularity=granularities | durations())
def test_everything_nests_in_all_and_in_itself(granularity: Granularity) -> None:
    assert is_finer_or_equal(granularity, granularity)
    assert is_finer_or_equal(granularity, ALL)
    assert is_finer_or_equal(ALL, granularity) == (granularity == ALL)
    assert granularity.is_aligned(ETERNITY)
