"""ISO 8601 periods (`P1M`, `PT6H`): their text, their parts, and counting with them on the calendar.

The calendar is the proleptic Gregorian one, without time zones: `wall_ms` is what a clock on the wall reads, as if it
were UTC. It has no first and no last year here, so that callers may step over the edge of time and clip afterwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from carnac.errors import Invalid

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
MEAN_MONTH_MS = 2_629_746_000
"""A twelfth of 365.2425 days: the mean of the Gregorian calendar."""
LONGEST_MS = 12 * 9999 * MEAN_MONTH_MS

_UNIX_ORDINAL = 719_163
"""date(1970, 1, 1).toordinal()"""
_CYCLE_DAYS = 146_097
"""After 400 years the calendar repeats."""
_PERIOD = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,3}))?S)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A length on the calendar. Weeks stay apart from days because `P1W` starts on Monday and `P7D` does not."""

    months: int = 0
    weeks: int = 0
    days: int = 0
    clock_ms: int = 0

    def __str__(self) -> str:
        dates = ""
        if self.months:
            dates = f"{self.months}M" if self.months % 12 else f"{self.months // 12}Y"
        dates += (f"{self.weeks}W" if self.weeks else "") + (f"{self.days}D" if self.days else "")
        hours, rest_ms = divmod(self.clock_ms, HOUR_MS)
        minutes, rest_ms = divmod(rest_ms, MINUTE_MS)
        seconds, millis = divmod(rest_ms, SECOND_MS)
        clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
        if seconds or millis:
            clock += f"{seconds}.{millis:03d}S" if millis else f"{seconds}S"
        return f"P{dates}" + (f"T{clock}" if clock else "")

    @property
    def length_ms(self) -> int:
        """The length beyond whole months, in milliseconds, with days of 24 hours."""
        return (7 * self.weeks + self.days) * DAY_MS + self.clock_ms

    @property
    def nominal_ms(self) -> int:
        """Mean length."""
        return self.months * MEAN_MONTH_MS + self.length_ms


def parse_period(text: str) -> Period:
    """Return the period that ISO 8601 writes so; upper or lower case, whole numbers, seconds to the millisecond.

    Raises:
        Invalid: `text` is no such period, is empty or longer than 9999 years.
    """
    match = _PERIOD.fullmatch(text.strip().upper())
    if match is None or max(len(part or "") for part in match.groups()) > 18:
        raise Invalid(
            f"'{text}' is not an ISO 8601 period; write one such as P1D, P3M or PT6H", period=text
        )
    years, months, weeks, days, hours, minutes, seconds = (int(match[i] or 0) for i in range(1, 8))
    clock_ms = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
    clock_ms += int((match[8] or "").ljust(3, "0"))
    period = Period(months=12 * years + months, weeks=weeks, days=days, clock_ms=clock_ms)
    if not 0 < period.nominal_ms <= LONGEST_MS:
        raise Invalid(
            f"period '{text}' must be longer than nothing and at most 9999 years", period=text
        )
    return period


def add_period(wall_ms: int, period: Period, times: int = 1) -> int:
    """Return the time that is `times` periods later (earlier if negative).

    All months are added at once, then the rest. A day that the month does not have becomes its last day.
    """
    if not period.months:
        return wall_ms + times * period.length_ms
    month, rest_ms = split_month(wall_ms)
    start_ms = month_start(month + times * period.months)
    if rest_ms >= 28 * DAY_MS:
        last_day_ms = month_start(month + times * period.months + 1) - DAY_MS - start_ms
        rest_ms = min(rest_ms - rest_ms % DAY_MS, last_day_ms) + rest_ms % DAY_MS
    return start_ms + rest_ms + times * period.length_ms


def month_start(month: int) -> int:
    """Return the wall clock at the start of the month; month 0 is January 1970."""
    years, index = divmod(month, 12)
    cycles, year = divmod(years + 1970 - 1, 400)
    ordinal = date(year + 1, index + 1, 1).toordinal() + cycles * _CYCLE_DAYS
    return (ordinal - _UNIX_ORDINAL) * DAY_MS


def split_month(wall_ms: int) -> tuple[int, int]:
    """Return the month (0 is January 1970) and the milliseconds since its start."""
    day = wall_ms // DAY_MS
    cycles, ordinal = divmod(day + _UNIX_ORDINAL - 1, _CYCLE_DAYS)
    moment = date.fromordinal(ordinal + 1)
    month = (moment.year + cycles * 400 - 1970) * 12 + moment.month - 1
    return month, (moment.day - 1) * DAY_MS + wall_ms % DAY_MS
