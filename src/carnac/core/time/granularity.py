"""Granularities: how time is cut into buckets (time chunks, or the truncation of `__time`).

Names, periods, origins and time zones mean what they mean in Druid (Source: Druid's documentation of granularities
and the behaviour of its period granularity, which is that of Joda-Time). The buckets of one granularity always tile
time: no gap, no overlap, also over clock changes. There are four ways to count:

- *all*: one bucket, all of time.
- *elapsed*: every bucket is equally long, counted from an origin. Durations; periods of hours or shorter; everything
  without months in a zone that never changes its offset (UTC).
- *calendar*: periods with years, months, weeks or days in a zone. Bucket k starts when the wall clock first reads
  origin + k periods (or passes it, where clocks skip it). Days of 23 or 25 hours come from that.
- *clock*: one hour or one minute in a zone without an origin, as the wall clock shows it. An hour that the clock shows
  twice is two buckets; a shift by half an hour cuts the hour.

Where we depart from Druid, whose buckets overlap or leave gaps there:

- A shift that is no multiple of the unit (Australia/Lord_Howe) cuts the hour; Joda rounds across it.
- The wall clock that shows midnight twice (America/St_Johns until 2011) starts the day the first time only.
- Compound periods count k periods from the origin at once (months, then the rest, on the wall clock); Druid adds
  them one by one, so that a clipped month end (31 January + P1M) drifts, and adds their hours as elapsed time.
- Several hours in a zone count elapsed time from 1970-01-01T00:00 local, before 1970 too; Druid has a special case.
- `PT60M` is `PT1H` and `P12M` is `P1Y` however they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from carnac.core.json_text import parse_json
from carnac.core.texts import short
from carnac.core.time.intervals import (
    ETERNITY,
    MAX_MS,
    MIN_MS,
    Interval,
    format_ms,
    interval_text,
    parse_instant,
)
from carnac.core.time.periods import (
    DAY_MS,
    HOUR_MS,
    MEAN_MONTH_MS,
    MINUTE_MS,
    Period,
    add_period,
    month_start,
    parse_period,
    split_month,
)
from carnac.core.time.zones import (
    UTC_ZONE,
    canonical_zone,
    first_instant,
    fixed_offset_ms,
    offset_change,
    offset_ms,
)
from carnac.errors import Invalid

WEEK_MS = 7 * DAY_MS
BUCKET_LIMIT = 100_000
"""How many buckets `Granularity.buckets` yields at most, unless told otherwise."""

Mode = Literal["all", "elapsed", "calendar", "clock"]
Json = str | dict[str, str]

_DURATION = re.compile("[0-9]{1,18}")
_MONDAY_MS = 4 * DAY_MS
"""The first Monday after 1970-01-01, on the wall clock."""
_ONE_WEEK = Period(weeks=1)
_PERIODS = {
    "NONE": "PT0.001S",
    "SECOND": "PT1S",
    "MINUTE": "PT1M",
    "FIVE_MINUTE": "PT5M",
    "TEN_MINUTE": "PT10M",
    "FIFTEEN_MINUTE": "PT15M",
    "THIRTY_MINUTE": "PT30M",
    "HOUR": "PT1H",
    "SIX_HOUR": "PT6H",
    "EIGHT_HOUR": "PT8H",
    "DAY": "P1D",
    "WEEK": "P1W",
    "MONTH": "P1M",
    "QUARTER": "P3M",
    "YEAR": "P1Y",
}
NAMES = (*_PERIODS, "ALL")
"""The simple names, fine to coarse."""
_ALLOWED = f"one of {', '.join(NAMES)}, or an ISO 8601 period such as P1D or PT6H"


@dataclass(frozen=True, slots=True)
class Granularity:
    """A way to cut time into buckets. Build it with `parse_granularity` or take a constant of this module.

    Attributes:
        mode: How to count; see the module.
        months: Months per bucket; 0 unless `mode` is calendar.
        length_ms: Length of a bucket on top of its months.
        zone: Normal form of `canonical_zone`.
        anchor_ms: Where some bucket starts, reduced so that equal granularities compare equal: an instant if `mode`
            is elapsed, else on the wall clock.
    """

    mode: Mode
    months: int = 0
    length_ms: int = 0
    zone: str = UTC_ZONE
    anchor_ms: int = 0

    def __str__(self) -> str:
        value = self.to_json()
        if isinstance(value, str):
            return value
        return value["period"] if len(value) == 2 else json.dumps(value)

    def to_json(self) -> Json:
        """Return the canonical form: a simple name if there is one, else a mapping of type period."""
        name = _NAME_OF.get(self)
        if name is not None:
            return name
        value = {"type": "period", "period": str(_period_of(self))}
        if self.zone != UTC_ZONE:
            value["timeZone"] = self.zone
        if parse_granularity(value) != self:
            value["origin"] = format_ms(_origin_of(self))
        return value

    @property
    def fixed_ms(self) -> int | None:
        """Length of every bucket if all are equally long, None if not.

        If it is not None, the bucket of t starts at `t - (t - origin_ms) % fixed_ms` (floor modulo).
        """
        return self.length_ms if self.mode == "elapsed" else None

    @property
    def origin_ms(self) -> int:
        """An instant at which a bucket starts if `fixed_ms` is not None; else 0, without meaning."""
        return self.anchor_ms if self.mode == "elapsed" else 0

    @property
    def nominal_ms(self) -> int:
        """Mean length of a bucket."""
        if self.mode == "all":
            return ETERNITY.duration_ms
        return self.months * MEAN_MONTH_MS + self.length_ms

    def bucket(self, at_ms: int) -> Interval:
        """Return the bucket that holds the instant, clipped to years 1..9999.

        Raises:
            Invalid: The instant lies outside years 1..9999.
        """
        if not MIN_MS <= at_ms < MAX_MS:
            raise Invalid(f"instant {at_ms} (epoch ms) lies outside years 1 to 9999", at_ms=at_ms)
        if self.mode == "elapsed":
            start_ms = at_ms - (at_ms - self.anchor_ms) % self.length_ms
            end_ms = start_ms + self.length_ms
        elif self.mode == "calendar":
            start_ms, end_ms = _calendar_bounds(self, at_ms)
        elif self.mode == "clock":
            start_ms, end_ms = _clock_bounds(self, at_ms)
        else:
            return ETERNITY
        return Interval(max(start_ms, MIN_MS), min(end_ms, MAX_MS))

    def is_bucket(self, interval: Interval) -> bool:
        """Whether the interval is one of the buckets."""
        start_ms, length_ms = interval.start_ms, self.length_ms
        if self.mode == "elapsed" and start_ms > MIN_MS and interval.end_ms < MAX_MS:
            # The first and the last of all may be shorter; the others are asked for by the million.
            return (
                interval.end_ms - start_ms == length_ms
                and not (start_ms - self.anchor_ms) % length_ms
            )
        return self.bucket(interval.start_ms) == interval

    def buckets(self, interval: Interval, *, limit: int = BUCKET_LIMIT) -> Iterator[Interval]:
        """Yield all buckets that overlap the interval, in order, whole (not clipped to it).

        Raises:
            Invalid: There are more than `limit`; raised when the first bucket too many is due.
        """
        at_ms, count = interval.start_ms, 0
        while at_ms < interval.end_ms:
            if count == limit:
                about = max(interval.duration_ms // self.nominal_ms, limit + 1)
                raise Invalid(
                    f"interval {interval_text(interval)} has about {about:,} buckets of granularity "
                    f"{self}, more than the"
                    f" {limit:,} allowed; use a coarser granularity or a shorter interval",
                    interval=str(interval),
                )
            bucket = self.bucket(at_ms)
            yield bucket
            at_ms, count = bucket.end_ms, count + 1

    def buckets_inside(self, interval: Interval) -> Interval | None:
        """Return the time of all buckets that lie wholly inside the interval; None if there is none."""
        first, last = self.bucket(interval.start_ms), self.bucket(interval.end_ms - 1)
        start_ms = first.start_ms if first.start_ms == interval.start_ms else first.end_ms
        end_ms = last.end_ms if last.end_ms == interval.end_ms else last.start_ms
        return Interval(start_ms, end_ms) if start_ms < end_ms else None

    def buckets_over(self, interval: Interval) -> Interval:
        """Return the time of all buckets that overlap the interval."""
        first, last = self.bucket(interval.start_ms), self.bucket(interval.end_ms - 1)
        return Interval(first.start_ms, last.end_ms)

    def is_aligned(self, interval: Interval) -> bool:
        """Whether buckets start at both ends, so that whole buckets make up the interval. Time's ends count."""
        return self.is_boundary(interval.start_ms) and self.is_boundary(interval.end_ms)

    def is_boundary(self, at_ms: int) -> bool:
        """Whether a bucket starts or ends at this instant."""
        return at_ms == MAX_MS or self.bucket(at_ms).start_ms == at_ms


def parse_granularity(value: str | Mapping[str, object]) -> Granularity:
    """Return the granularity that a spec, a query or a command names.

    Takes a simple name in any case, an ISO 8601 period, or a mapping (also as JSON text) with `type` period (`period`,
    `timeZone`, `origin`), duration (`duration` in ms, `origin`), all or none.

    Raises:
        Invalid: It is none of these.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, Mapping):
        return _parse_mapping(value)
    raise Invalid(f"a granularity cannot be {value!r}; write {_ALLOWED}")


@lru_cache  # records name the same few, over and over
def _parse_text(text: str) -> Granularity:
    word = text.strip().upper()
    if word == "ALL":
        return ALL
    if word in _PERIODS:
        return _of_period(parse_period(_PERIODS[word]), zone=UTC_ZONE, origin_ms=None)
    if word.startswith("P"):
        return _of_period(parse_period(word), zone=UTC_ZONE, origin_ms=None)
    if word.startswith("{"):
        return _parse_mapping(cast("Mapping[str, object]", parse_json(text, "granularity")))
    raise Invalid(f"'{text}' is not a granularity; write {_ALLOWED}", granularity=text)


_FIELDS = {
    "all": frozenset[str](),
    "none": frozenset[str](),
    "duration": frozenset({"duration", "origin"}),
    "period": frozenset({"period", "timeZone", "origin"}),
}


def _parse_mapping(value: Mapping[str, object]) -> Granularity:
    kind = value.get("type")
    fields = _FIELDS.get(kind.lower()) if isinstance(kind, str) else None
    if fields is None or not isinstance(kind, str):
        raise Invalid(
            f"a granularity cannot have the type {kind!r}; use one of {', '.join(_FIELDS)}"
        )
    unknown = sorted(str(key) for key in value if key != "type" and key not in fields)
    if unknown:
        allowed = f"it takes {', '.join(sorted(fields))}" if fields else "it takes none"
        raise Invalid(f"a granularity of type {kind} has no field {', '.join(unknown)}; {allowed}")
    given = {key: item for key, item in value.items() if item is not None}
    if kind.lower() == "all":
        return ALL
    if kind.lower() == "none":
        return NONE
    origin_ms = _parse_origin(given.get("origin"))
    if kind.lower() == "duration":
        length_ms = _parse_duration(given.get("duration"))
        return _elapsed(length_ms, zone=UTC_ZONE, origin_ms=origin_ms or 0)
    period, zone = given.get("period"), given.get("timeZone", UTC_ZONE)
    if not isinstance(period, str):
        raise Invalid(
            f"a granularity of type period needs a period such as P1D or PT6H, not {period!r}"
        )
    if not isinstance(zone, str):
        raise Invalid(f"a time zone is a name such as America/New_York, not {zone!r}")
    return _of_period(parse_period(period), zone=canonical_zone(zone), origin_ms=origin_ms)


def _parse_origin(value: object) -> int | None:
    if value is None:
        return None
    origin_ms = parse_instant(value) if isinstance(value, str) else value
    if isinstance(origin_ms, bool) or not isinstance(origin_ms, int):
        raise Invalid(
            f"an origin is an ISO 8601 time or epoch milliseconds, not {value!r}", origin=value
        )
    if not MIN_MS <= origin_ms < MAX_MS:
        raise Invalid(f"origin {value!r} lies outside years 1 to 9999", origin=value)
    return origin_ms


def _parse_duration(value: object) -> int:
    is_text = isinstance(value, str) and _DURATION.fullmatch(value) is not None
    number = int(cast("str", value)) if is_text else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise Invalid(f"a granularity of type duration needs milliseconds, not {short(value)}")
    if not 0 < number <= ETERNITY.duration_ms:
        raise Invalid(f"duration {number} (ms) must be at least 1 and shorter than 9999 years")
    return number


def _of_period(period: Period, *, zone: str, origin_ms: int | None) -> Granularity:
    months, length_ms = period.months, period.length_ms
    default_ms = _MONDAY_MS if period == _ONE_WEEK else 0
    fixed = fixed_offset_ms(zone) is not None
    if not months and (fixed or length_ms == period.clock_ms):
        if not fixed and origin_ms is None and length_ms in (HOUR_MS, MINUTE_MS):
            return Granularity("clock", 0, length_ms, zone, 0)
        start_ms = first_instant(zone, default_ms) if origin_ms is None else origin_ms
        return _elapsed(length_ms, zone=zone, origin_ms=start_ms)
    wall_ms = default_ms if origin_ms is None else origin_ms + offset_ms(zone, origin_ms)
    return Granularity("calendar", months, length_ms, zone, _reduce(months, length_ms, wall_ms))


def _elapsed(length_ms: int, *, zone: str, origin_ms: int) -> Granularity:
    return Granularity("elapsed", 0, length_ms, zone, origin_ms % length_ms)


def _reduce(months: int, length_ms: int, wall_ms: int) -> int:
    """Return the anchor of a calendar granularity near 1970 that gives the same buckets.

    A compound period, or a day of the month that not all months have, stays as it is.
    """
    if not months:
        return wall_ms % length_ms
    month, rest_ms = split_month(wall_ms)
    if length_ms or rest_ms >= 28 * DAY_MS:
        return wall_ms
    return month_start(month % months) + rest_ms


def _wall_start(granularity: Granularity, index: int) -> int:
    """Return the reading of the wall clock when bucket `index` of a calendar granularity starts."""
    if not granularity.months:
        return granularity.anchor_ms + index * granularity.length_ms
    period = Period(months=granularity.months, clock_ms=granularity.length_ms)
    return add_period(granularity.anchor_ms, period, index)


def _calendar_bounds(granularity: Granularity, at_ms: int) -> tuple[int, int]:
    zone = granularity.zone
    wall_ms = at_ms + offset_ms(zone, at_ms)
    index = (wall_ms - granularity.anchor_ms) // granularity.nominal_ms
    while _wall_start(granularity, index) > wall_ms:
        index -= 1
    start_ms = first_instant(zone, _wall_start(granularity, index))
    while True:
        index += 1
        end_ms = first_instant(zone, _wall_start(granularity, index))
        if end_ms > at_ms:
            return start_ms, end_ms
        start_ms = end_ms


def _clock_bounds(granularity: Granularity, at_ms: int) -> tuple[int, int]:
    zone, unit_ms = granularity.zone, granularity.length_ms
    offset = offset_ms(zone, at_ms)
    start_ms = at_ms - (at_ms + offset) % unit_ms
    end_ms = start_ms + unit_ms
    if (offset_ms(zone, start_ms) - offset) % unit_ms:
        start_ms = offset_change(zone, start_ms, at_ms)
    if (offset_ms(zone, end_ms - 1) - offset) % unit_ms:
        end_ms = offset_change(zone, at_ms, end_ms - 1)
    return start_ms, end_ms


def _period_of(granularity: Granularity) -> Period:
    """Return the period in normal form: days only where they count, one week only where it starts on Monday."""
    months, length_ms, zone = granularity.months, granularity.length_ms, granularity.zone
    fixed = fixed_offset_ms(zone) is not None
    if granularity.mode != "calendar" and (not fixed or length_ms % DAY_MS):
        return Period(clock_ms=length_ms)
    monday_ms = (
        _MONDAY_MS if granularity.mode == "calendar" else first_instant(zone, _MONDAY_MS) % WEEK_MS
    )
    if not months and length_ms == WEEK_MS and granularity.anchor_ms == monday_ms:
        return _ONE_WEEK
    days, clock_ms = divmod(length_ms, DAY_MS)
    return Period(months=months, days=days, clock_ms=clock_ms)


def _origin_of(granularity: Granularity) -> int:
    """Return an instant that, given as origin, leads back to the anchor."""
    if granularity.mode == "elapsed":
        return granularity.anchor_ms
    index = 0
    while True:
        wall_ms = _wall_start(granularity, index)
        origin_ms = first_instant(granularity.zone, wall_ms)
        if granularity.months or origin_ms + offset_ms(granularity.zone, origin_ms) == wall_ms:
            return origin_ms
        index += 1


ALL = Granularity("all")
_SIMPLE = (*(_parse_text(name) for name in NAMES[:15]), ALL)
NONE, SECOND, MINUTE, FIVE_MINUTE, TEN_MINUTE, FIFTEEN_MINUTE, THIRTY_MINUTE, HOUR = _SIMPLE[:8]
SIX_HOUR, EIGHT_HOUR, DAY, WEEK, MONTH, QUARTER, YEAR = _SIMPLE[8:15]
STANDARD: tuple[Granularity, ...] = _SIMPLE[:0:-1]
"""Druid's simple granularities, coarse to fine, without NONE."""
_NAME_OF = dict(zip(_SIMPLE, NAMES, strict=True))


def check_granularities(segment: Granularity | None, query: Granularity | None) -> None:
    """Check that time chunks of one granularity can have times of the other.

    Raises:
        Invalid: They cannot.
    """
    if segment == NONE:
        raise Invalid("segmentGranularity none would make a time chunk of every millisecond")
    if query == ALL and not segment:
        raise Invalid("queryGranularity all needs a segmentGranularity")
    if segment and query and query != ALL and query.nominal_ms > segment.nominal_ms:
        raise Invalid(f"queryGranularity {query} is coarser than segmentGranularity {segment}")


def finer_standards(granularity: Granularity) -> tuple[Granularity, ...]:
    """Return the standard granularities with a shorter nominal length, coarse to fine, without WEEK and NONE.

    They keep the zone and the origin of the given one, as in Druid. WEEK is left out because weeks do not nest in
    months; so it is a chunk only where somebody asked for it.
    """
    shorter = [
        standard
        for standard in STANDARD
        if standard.nominal_ms < granularity.nominal_ms and standard != WEEK
    ]
    if granularity.mode == "all":
        return tuple(shorter)
    return tuple(_standard_like(standard, granularity) for standard in shorter)


def _standard_like(standard: Granularity, granularity: Granularity) -> Granularity:
    """Return the standard granularity with the zone and the origin of the other one.

    An origin at local midnight says nothing to hours and minutes: those follow the clock of the zone.
    """
    by_clock = (
        standard.nominal_ms < DAY_MS
        and granularity.mode == "calendar"
        and not granularity.anchor_ms % DAY_MS
    )
    origin_ms = None if by_clock or granularity.mode == "clock" else _origin_of(granularity)
    return _of_period(_period_of(standard), zone=granularity.zone, origin_ms=origin_ms)
