"""ISO 8601 periods (`P1M`, `PT6H`): their text and their parts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from carnac.core.zones import DAY_MS
from carnac.errors import Invalid

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
MEAN_MONTH_MS = 2_629_746_000
"""A twelfth of 365.2425 days: the mean of the Gregorian calendar."""
LONGEST_MS = 12 * 9999 * MEAN_MONTH_MS

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
        """What it has on top of its months, with days of 24 hours."""
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
