"""Granularities: known buckets, the forms that they are written in, and what is refused.

The instants of clock changes are those of the IANA data; those marked so are the values that Druid's own tests state.
"""

from __future__ import annotations

import pickle
from itertools import islice

import pytest

from carnac.core.time.granularity import (
    ALL,
    DAY,
    EIGHT_HOUR,
    FIFTEEN_MINUTE,
    HOUR,
    MINUTE,
    MONTH,
    NAMES,
    NONE,
    QUARTER,
    SECOND,
    SIX_HOUR,
    STANDARD,
    TEN_MINUTE,
    THIRTY_MINUTE,
    WEEK,
    YEAR,
    Granularity,
    finer_standards,
    parse_granularity,
)
from carnac.core.time.intervals import (
    ETERNITY,
    MAX_MS,
    MIN_MS,
    Interval,
    format_ms,
    parse_instant,
    parse_interval,
)
from carnac.core.time.nesting import is_finer_or_equal
from carnac.errors import Invalid

HOUR_MS = 3_600_000


def in_zone(period: str, zone: str, origin: str | None = None) -> Granularity:
    return parse_granularity(
        {"type": "period", "period": period, "timeZone": zone, "origin": origin}
    )


def bucket(granularity: Granularity, at: str) -> str:
    return str(granularity.bucket(parse_instant(at))).replace(":00.000Z", "")


def hours(granularity: Granularity, at: str) -> float:
    return granularity.bucket(parse_instant(at)).duration_ms / HOUR_MS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", "2012-02-29T13:47:31.123Z/2012-02-29T13:47:31.124Z"),
        ("second", "2012-02-29T13:47:31.000Z/2012-02-29T13:47:32.000Z"),
        ("minute", "2012-02-29T13:47/2012-02-29T13:48"),
        ("five_minute", "2012-02-29T13:45/2012-02-29T13:50"),
        ("ten_minute", "2012-02-29T13:40/2012-02-29T13:50"),
        ("fifteen_minute", "2012-02-29T13:45/2012-02-29T14:00"),
        ("thirty_minute", "2012-02-29T13:30/2012-02-29T14:00"),
        ("hour", "2012-02-29T13:00/2012-02-29T14:00"),
        ("six_hour", "2012-02-29T12:00/2012-02-29T18:00"),
        ("eight_hour", "2012-02-29T08:00/2012-02-29T16:00"),
        ("day", "2012-02-29T00:00/2012-03-01T00:00"),
        ("week", "2012-02-27T00:00/2012-03-05T00:00"),
        ("month", "2012-02-01T00:00/2012-03-01T00:00"),
        ("quarter", "2012-01-01T00:00/2012-04-01T00:00"),
        ("year", "2012-01-01T00:00/2013-01-01T00:00"),
        ("all", str(ETERNITY).replace(":00.000Z", "")),
    ],
)
def test_every_simple_name(name: str, expected: str) -> None:
    granularity = parse_granularity(name)
    assert bucket(granularity, "2012-02-29T13:47:31.123Z") == expected
    assert granularity == parse_granularity(f" {name.upper()} ")
    assert granularity.to_json() == str(granularity) == name.upper()


def test_every_name_is_tested_and_standard_is_coarse_to_fine() -> None:
    assert [str(each) for each in STANDARD] == [name for name in reversed(NAMES) if name != "NONE"]
    assert [each.nominal_ms for each in STANDARD] == sorted(
        (each.nominal_ms for each in STANDARD), reverse=True
    )


@pytest.mark.parametrize(
    ("granularity", "at", "expected"),
    [
        (DAY, "1969-12-31T23:59:59.999", "1969-12-31T00:00/1970-01-01T00:00"),
        (WEEK, "1969-12-31T12:00", "1969-12-29T00:00/1970-01-05T00:00"),
        (MONTH, "1900-02-28T12:00", "1900-02-01T00:00/1900-03-01T00:00"),  # no leap year
        (QUARTER, "1969-12-31T12:00", "1969-10-01T00:00/1970-01-01T00:00"),
        (YEAR, "0004-02-29", "0004-01-01T00:00/0005-01-01T00:00"),
        (SIX_HOUR, "1582-10-10T07:00", "1582-10-10T06:00/1582-10-10T12:00"),  # proleptic Gregorian
        (parse_granularity("P5Y"), "1969-06-01", "1965-01-01T00:00/1970-01-01T00:00"),
        (parse_granularity("P1Y2M"), "1969-06-01", "1968-11-01T00:00/1970-01-01T00:00"),
    ],
)
def test_before_1970(granularity: Granularity, at: str, expected: str) -> None:
    assert bucket(granularity, at) == expected


@pytest.mark.parametrize(
    ("zone", "at", "expected", "length"),
    [
        ("America/New_York", "2012-03-11T12:00", "2012-03-11T05:00/2012-03-12T04:00", 23),
        ("America/New_York", "2012-11-04T12:00", "2012-11-04T04:00/2012-11-05T05:00", 25),
        ("America/New_York", "2012-07-04T03:59", "2012-07-03T04:00/2012-07-04T04:00", 24),
        # midnight does not exist: clocks go from 24:00 to 01:00
        ("America/Sao_Paulo", "2018-11-04T03:00", "2018-11-04T03:00/2018-11-05T02:00", 23),
        ("America/Sao_Paulo", "2018-11-04T02:59", "2018-11-03T03:00/2018-11-04T03:00", 24),
        ("Asia/Beirut", "2021-03-28T10:00", "2021-03-27T22:00/2021-03-28T21:00", 23),
        # 24:00 to 23:00: the day before has two eleventh hours
        ("America/Sao_Paulo", "2019-02-17T02:30", "2019-02-16T02:00/2019-02-17T03:00", 25),
        ("Australia/Lord_Howe", "2012-10-07T00:00", "2012-10-06T13:30/2012-10-07T13:00", 23.5),
        ("Australia/Lord_Howe", "2012-04-01T00:00", "2012-03-31T13:00/2012-04-01T13:30", 24.5),
        # the day after 29 December 2011 was the 31st
        ("Pacific/Apia", "2011-12-30T09:59", "2011-12-29T10:00/2011-12-30T10:00", 24),
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00/2011-12-31T10:00", 24),
        # 00:01 to 23:01: the 29th begins when it first reads midnight, and keeps the hour shown twice
        ("America/St_Johns", "2006-10-29T03:00", "2006-10-29T02:30/2006-10-30T03:30", 25),
        ("Asia/Kolkata", "2012-01-01T18:29", "2011-12-31T18:30/2012-01-01T18:30", 24),
        ("+05:30", "2012-01-01T18:29", "2011-12-31T18:30/2012-01-01T18:30", 24),
    ],
)
def test_days_in_a_zone(zone: str, at: str, expected: str, length: float) -> None:
    day = in_zone("P1D", zone)
    assert bucket(day, at) == expected
    assert hours(day, at) == length


def test_hours_in_a_zone_with_a_half_hour_shift_are_cut() -> None:
    hour = in_zone("PT1H", "Australia/Lord_Howe")
    spring = hour.buckets(parse_interval("2012-10-06T14:00Z/2012-10-06T17:00Z"))
    assert [
        f"{format_ms(each.start_ms)[11:16]} {each.duration_ms // 60_000}" for each in spring
    ] == [
        "13:30 60",
        "14:30 60",
        "15:30 30",
        "16:00 60",
    ]


def test_the_hour_ends_where_local_mean_time_gives_way() -> None:
    hour = in_zone("PT1H", "America/New_York")
    assert bucket(hour, "1883-11-18T16:58") == "1883-11-18T16:56:02.000Z/1883-11-18T17:00"
    assert bucket(hour, "1883-11-18T17:00") == "1883-11-18T17:00/1883-11-18T18:00"


def test_an_hour_shown_twice_is_two_buckets_and_a_skipped_one_none() -> None:
    hour = in_zone("PT1H", "America/New_York")
    for day in ("2012-11-04T04:00/2012-11-05T05:00", "2012-03-11T05:00/2012-03-12T04:00"):
        interval = parse_interval(day)
        buckets = list(hour.buckets(interval))
        assert len(buckets) == interval.duration_ms // HOUR_MS
        assert {each.duration_ms for each in buckets} == {HOUR_MS}


def test_the_hour_of_an_offset_with_minutes() -> None:
    assert (
        bucket(in_zone("PT1H", "Asia/Kolkata"), "2012-01-01T12:15")
        == "2012-01-01T11:30/2012-01-01T12:30"
    )
    assert (
        bucket(in_zone("PT1H", "Asia/Kathmandu"), "2012-01-01T12:10")
        == "2012-01-01T11:15/2012-01-01T12:15"
    )


def test_several_hours_in_a_zone_count_elapsed_time() -> None:
    six = in_zone("PT6H", "America/New_York")  # from 1970-01-01T00:00-05:00
    assert bucket(six, "2012-01-01T12:00") == "2012-01-01T11:00/2012-01-01T17:00"
    assert bucket(six, "2012-07-01T12:00") == "2012-07-01T11:00/2012-07-01T17:00"
    assert (six.fixed_ms, six.origin_ms) == (6 * HOUR_MS, 5 * HOUR_MS)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2012-01-01T05:00:04.123-08:00", "2012-01-01T04:50:00.000-08:00"),
        ("2012-01-02T07:00:04.123-08:00", "2012-01-02T05:00:00.000-08:00"),
        ("2012-01-03T00:20:04.123-08:00", "2012-01-02T17:05:00.000-08:00"),
        ("2012-02-03T22:25:00.000-08:00", "2012-02-03T22:25:00.000-08:00"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_twelve_hours_five_minutes_as_druids_tests_have_them(
    zone: str, at: str, expected: str
) -> None:
    granularity = in_zone("PT12H5M", zone, "2012-01-02T05:00:00.000-08:00")
    assert granularity.bucket(parse_instant(at)).start_ms == parse_instant(expected)


@pytest.mark.parametrize(
    ("granularity", "at", "expected"),
    [
        (
            in_zone("P1D", "UTC", "2012-02-01T06:00Z"),
            "2012-02-05T05:00",
            "2012-02-04T06:00/2012-02-05T06:00",
        ),
        # in New York the origin reads 19:00 the day before, in summer too
        (
            in_zone("P1D", "America/New_York", "2012-02-01T00:00Z"),
            "2012-07-01T12:00",
            "2012-06-30T23:00/2012-07-01T23:00",
        ),
        (in_zone("P1Y", "UTC", "2012-07-01"), "2012-06-30", "2011-07-01T00:00/2012-07-01T00:00"),
        (in_zone("P3M", "UTC", "2012-02-01"), "2012-01-31", "2011-11-01T00:00/2012-02-01T00:00"),
        (in_zone("P1W", "UTC", "2012-01-04"), "2012-01-10", "2012-01-04T00:00/2012-01-11T00:00"),
        # the end of the month does not drift: January 31st, February 29th, March 31st
        (in_zone("P1M", "UTC", "2012-01-31"), "2012-03-15", "2012-02-29T00:00/2012-03-31T00:00"),
        (in_zone("P1M", "UTC", "2012-01-31"), "2012-03-31", "2012-03-31T00:00/2012-04-30T00:00"),
        # compound: 1970-01-01, 02-02, 03-03
        (parse_granularity("P1M1D"), "1970-03-02", "1970-02-02T00:00/1970-03-03T00:00"),
        (parse_granularity("P1DT12H"), "1970-01-02T11:00", "1970-01-01T00:00/1970-01-02T12:00"),
        # two weeks begin on Thursdays, one week on Mondays, as in Druid
        (parse_granularity("P2W"), "1970-01-10", "1970-01-01T00:00/1970-01-15T00:00"),
        (parse_granularity("P7D"), "1970-01-10", "1970-01-08T00:00/1970-01-15T00:00"),
        (parse_granularity("P1W"), "1970-01-10", "1970-01-05T00:00/1970-01-12T00:00"),
        (
            parse_granularity(
                {"type": "duration", "duration": 7_200_000, "origin": "2012-01-01T00:30Z"}
            ),
            "2012-01-01",
            "2011-12-31T22:30/2012-01-01T00:30",
        ),
    ],
)
def test_origins_and_compound_periods(granularity: Granularity, at: str, expected: str) -> None:
    assert bucket(granularity, at) == expected


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("PT24H", "DAY"),
        ("pt60m", "HOUR"),
        ("P12M", "YEAR"),
        ("P1W", "WEEK"),
        ("P1Y2M", {"type": "period", "period": "P14M"}),
        ("PT0.5S", {"type": "period", "period": "PT0.500S"}),
        ({"type": "all"}, "ALL"),
        ({"type": "none"}, "NONE"),
        ({"type": "duration", "duration": "86400000", "origin": None}, "DAY"),
        (
            {
                "type": "period",
                "period": "P1D",
                "timeZone": "Etc/UTC",
                "origin": "2012-02-01T00:00:00Z",
            },
            "DAY",
        ),
        ({"type": "period", "period": "P1D", "timeZone": None, "origin": 0}, "DAY"),
        ({"type": "period", "period": "P1M", "origin": "2012-02-01"}, "MONTH"),
        ({"type": "period", "period": "P3M", "origin": "2012-04-01"}, "QUARTER"),
        ({"type": "period", "period": "P1W", "origin": "2012-01-02"}, "WEEK"),
        ('{"type": "period", "period": "P1M"}', "MONTH"),
        (
            {"type": "period", "period": "P1D", "timeZone": "Etc/GMT+5"},
            {"type": "period", "period": "P1D", "timeZone": "-05:00"},
        ),
        (
            {"type": "period", "period": "PT24H", "timeZone": "America/New_York"},
            {"type": "period", "period": "PT24H", "timeZone": "America/New_York"},
        ),
        (
            {"type": "period", "period": "PT1H", "timeZone": "America/New_York", "origin": 0},
            {
                "type": "period",
                "period": "PT1H",
                "timeZone": "America/New_York",
                "origin": "1970-01-01T00:00:00.000Z",
            },
        ),
    ],
)
def test_canonical_forms(written: str | dict[str, object], canonical: str | dict[str, str]) -> None:
    granularity = parse_granularity(written)
    assert granularity.to_json() == canonical
    assert parse_granularity(canonical) == granularity
    assert pickle.loads(pickle.dumps(granularity)) == granularity


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("fortnight", "'fortnight' is not a granularity; write one of NONE, SECOND, MINUTE"),
        ("", "'' is not a granularity"),
        ("P", "'P' is not an ISO 8601 period; write one such as P1D"),
        ("P1DT", "is not an ISO 8601 period"),
        ("P1.5D", "is not an ISO 8601 period"),
        ("P-1D", "is not an ISO 8601 period"),
        ("P" + "9" * 5000 + "D", "is not an ISO 8601 period"),
        ("P0D", "must be longer than nothing"),
        ("P10000Y", "at most 9999 years"),
        ("{nonsense", "is not valid JSON"),
        ({"type": "day"}, "cannot have the type 'day'; use one of all, none, duration, period"),
        ({"period": "P1D"}, "cannot have the type None"),
        ({"type": "period"}, "needs a period such as P1D or PT6H, not None"),
        (
            {"type": "period", "period": "P1D", "timezone": "UTC"},
            "has no field timezone; it takes origin, period, time",
        ),
        ({"type": "all", "origin": 0}, "has no field origin; it takes none"),
        (
            {"type": "period", "period": "P1D", "timeZone": "Mars/Olympus"},
            "'Mars/Olympus' is not a time zone",
        ),
        (
            {"type": "period", "period": "P1D", "timeZone": "localtime"},
            "'localtime' is not a time zone",
        ),
        ({"type": "period", "period": "P1D", "timeZone": 5}, "a time zone is a name"),
        ({"type": "period", "period": "P1D", "origin": "then"}, "'then' is not an ISO 8601 date"),
        ({"type": "period", "period": "P1D", "origin": True}, "an origin is an ISO 8601 time"),
        ({"type": "period", "period": "P1D", "origin": MAX_MS}, "lies outside years 1 to 9999"),
        ({"type": "duration"}, "needs milliseconds, not None"),
        ({"type": "duration", "duration": 0}, "must be at least 1"),
        ({"type": "duration", "duration": 1.5}, "needs milliseconds, not 1.5"),
        ({"type": "duration", "duration": "9" * 5_000}, "needs milliseconds, not '999"),
    ],
)
def test_what_is_refused(written: str | dict[str, object], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_granularity(written)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(".")


def test_neither_none_nor_a_number_is_a_granularity() -> None:
    for value in (None, 7):
        with pytest.raises(Invalid, match="a granularity cannot be"):
            parse_granularity(value)  # type: ignore[arg-type]


def test_the_edges_of_time() -> None:
    for granularity in (
        *STANDARD,
        NONE,
        in_zone("P1D", "America/New_York"),
        in_zone("PT1H", "Asia/Tokyo"),
    ):
        assert granularity.bucket(MIN_MS).start_ms == MIN_MS
        assert granularity.bucket(MAX_MS - 1).end_ms == MAX_MS
    assert str(in_zone("P1M", "Asia/Tokyo").bucket(MAX_MS - 1))[:20] == "9999-12-31T15:00:00."
    for at_ms in (MIN_MS - 1, MAX_MS):
        with pytest.raises(Invalid, match="outside years 1 to 9999"):
            DAY.bucket(at_ms)


@pytest.mark.parametrize("name", ["PT1H", {"type": "duration", "duration": 100_000_007}])
@pytest.mark.parametrize("at_ms", [MIN_MS, MAX_MS - 1], ids=["first", "last"])
def test_a_bucket_that_the_edge_of_time_cuts_is_one(name: object, at_ms: int) -> None:
    granularity = parse_granularity(name)
    bucket = granularity.bucket(at_ms)
    assert granularity.is_bucket(bucket)
    assert not granularity.is_bucket(Interval(bucket.start_ms, bucket.end_ms - 1))
    assert not granularity.is_bucket(Interval(bucket.start_ms + 1, bucket.end_ms))


def test_buckets_stop_at_their_limit() -> None:
    year = parse_interval("2013/2014")
    assert len(list(DAY.buckets(year, limit=365))) == 365
    with pytest.raises(
        Invalid, match=r"about 365 buckets of granularity DAY, more than the 364 allowed"
    ):
        list(DAY.buckets(year, limit=364))
    with pytest.raises(Invalid, match=r"about 31,536,000,000 buckets of granularity NONE"):
        list(NONE.buckets(year))
    assert [format_ms(each.start_ms)[:10] for each in islice(MONTH.buckets(year), 2)] == [
        "2013-01-01",
        "2013-02-01",
    ]


def test_aligned_means_whole_buckets() -> None:
    assert DAY.is_aligned(parse_interval("2013-01-05/2013-02-01"))
    assert not MONTH.is_aligned(parse_interval("2013-01-05/2013-02-01"))
    assert not DAY.is_aligned(parse_interval("2013-01-05/2013-02-01T00:00:00.001"))
    new_york = in_zone("P1D", "America/New_York")
    assert new_york.is_aligned(parse_interval("2012-03-10T05:00/2012-03-12T04:00"))
    assert not new_york.is_aligned(parse_interval("2012-03-10T05:00/2012-03-12T05:00"))
    assert ALL.is_aligned(ETERNITY)
    assert not ALL.is_aligned(parse_interval("2013/2014"))


def test_only_equally_long_buckets_have_a_fixed_length() -> None:
    assert (DAY.fixed_ms, DAY.origin_ms) == (86_400_000, 0)
    assert WEEK.fixed_ms == 604_800_000
    assert in_zone("P1D", "+05:30").fixed_ms == 86_400_000
    assert in_zone("PT1S", "America/New_York").fixed_ms == 1000
    for granularity in (
        ALL,
        MONTH,
        in_zone("P1D", "America/New_York"),
        in_zone("PT1H", "America/New_York"),
    ):
        assert granularity.fixed_ms is None


def test_finer_standards() -> None:
    assert finer_standards(MONTH)[:3] == (DAY, EIGHT_HOUR, SIX_HOUR)
    assert finer_standards(WEEK)[0] == DAY
    assert finer_standards(ALL)[:2] == (YEAR, QUARTER)
    assert finer_standards(parse_granularity("PT45M"))[0] == THIRTY_MINUTE
    assert finer_standards(SECOND) == finer_standards(NONE) == ()
    in_new_york = finer_standards(in_zone("P1M", "America/New_York"))
    assert in_new_york[0] == in_zone("P1D", "America/New_York")
    assert in_zone("PT1H", "America/New_York") in in_new_york
    shifted = finer_standards(in_zone("P1D", "UTC", "2012-02-01T06:30Z"))
    assert shifted[2] == in_zone("PT1H", "UTC", "2012-02-01T06:30Z")


@pytest.mark.parametrize(
    ("fine", "coarse", "expected"),
    [
        (HOUR, DAY, True),
        (DAY, WEEK, True),
        (DAY, MONTH, True),
        (MONTH, QUARTER, True),
        (QUARTER, YEAR, True),
        (WEEK, MONTH, False),
        (MONTH, WEEK, False),
        (DAY, HOUR, False),
        (SIX_HOUR, EIGHT_HOUR, False),
        (TEN_MINUTE, FIFTEEN_MINUTE, False),
        (NONE, in_zone("PT1M", "America/New_York"), True),
        (parse_granularity("P2D"), MONTH, False),
        (parse_granularity("P7D"), WEEK, False),
        (parse_granularity("P2M"), YEAR, True),
        (parse_granularity("P5M"), YEAR, False),
        (QUARTER, in_zone("P1Y", "UTC", "2012-04-01"), True),
        (QUARTER, in_zone("P1Y", "UTC", "2012-05-01"), False),
        (DAY, in_zone("P1M", "UTC", "2012-01-31"), True),
        (DAY, in_zone("P1M", "UTC", "2012-01-31T06:00"), False),
        (HOUR, in_zone("P1D", "America/New_York"), True),
        (HOUR, in_zone("P1D", "Asia/Kolkata"), False),
        (FIFTEEN_MINUTE, in_zone("P1D", "Asia/Kathmandu"), True),
        (THIRTY_MINUTE, in_zone("P1D", "Asia/Kathmandu"), False),  # +05:45 since 1986
        (THIRTY_MINUTE, in_zone("P1D", "Australia/Lord_Howe"), True),
        (MINUTE, in_zone("P1M", "Asia/Kathmandu"), True),
        (SIX_HOUR, in_zone("P1D", "America/New_York"), False),
        (DAY, in_zone("P1D", "America/New_York"), False),
        (in_zone("P1D", "America/New_York"), in_zone("P1M", "America/New_York"), True),
        (in_zone("P1D", "America/New_York"), in_zone("P1W", "America/New_York"), True),
        (in_zone("P1D", "America/New_York"), in_zone("P1D", "America/Chicago"), False),
        (in_zone("PT1H", "America/New_York"), DAY, True),
        (in_zone("PT1H", "Asia/Kolkata"), DAY, False),
        (in_zone("PT1M", "Asia/Kolkata"), HOUR, True),
        (in_zone("PT1H", "America/New_York"), in_zone("P1D", "Asia/Kolkata"), False),
        (in_zone("PT1H", "America/New_York"), in_zone("PT6H", "America/New_York"), True),
    ],
)
def test_finer_or_equal(fine: Granularity, coarse: Granularity, expected: bool) -> None:
    assert is_finer_or_equal(fine, coarse) is expected
