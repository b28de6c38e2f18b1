"""Times in native queries: buckets of granularities, and texts of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from carnac.core.druid.forms import filled
from carnac.core.druid.times import TIMES
from carnac.core.time.granularity import ALL, NONE, Granularity, parse_granularity
from carnac.core.time.intervals import format_ms
from carnac.core.time.periods import DAY_MS
from carnac.core.time.zones import UTC_ZONE, fixed_offset_ms
from carnac.errors import Invalid
from carnac.specs.druid.terms.values import TIME_SQL, Sql, to_long

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEK_MS, _MONDAY_MS = 7 * DAY_MS, 4 * DAY_MS
_MOST_MS = 9 * 10**15
"""Times beyond have no room in DuckDB's."""
_NAMED = {"WEEK": "P1W", "MONTH": "P1M", "QUARTER": "P3M", "YEAR": "P1Y"}


def read_granularity(value: object) -> Granularity:
    """Return a granularity of a query.

    Raises:
        Invalid: It is none.
    """
    if value is None:
        return ALL
    return parse_granularity(value)  # type: ignore[arg-type]  # what it does not take it refuses


def instant(value: Sql) -> str:
    """Return a time in milliseconds as an instant."""
    if value.is_time:
        return TIME_SQL
    ms = to_long(value).text
    if value.is_literal and isinstance(value.value, int) and abs(value.value) <= _MOST_MS:
        return f"make_timestamptz({ms} * 1000)"
    return (
        f"make_timestamptz(CASE WHEN {ms} BETWEEN -{_MOST_MS} AND {_MOST_MS} THEN {ms} * 1000 END)"
    )


def of_time(name: str, at: str, *said: str | None, first: str | None = None, step: str = "") -> str:
    """Return one of Druid's functions of times, as DuckDB computes it.

    Args:
        at: The first argument.
        said: The constants that follow; empty: not given, None: `step` stands there.
        first: The first argument, if it is a constant.

    Raises:
        Invalid: There is none for these constants.
    """
    form = TIMES[name]([first, *said])
    if form is None:
        given = ", ".join(repr(one) for one in said if one and one != UTC_ZONE)
        raise Invalid(f"{name.upper()} does not take {given}")
    return filled(form, at, "", step)


def bucket_ms(granularity: Granularity, value: Sql) -> str:
    """Return the start of the bucket that a time in milliseconds lies in.

    Raises:
        Invalid: No function of SQL counts so.
    """
    if granularity == NONE:
        return to_long(value).text
    period, zone = _period(granularity), granularity.zone
    if period:
        return f"epoch_ms({of_time('time_floor', instant(value), period, '', zone)})"
    length_ms = granularity.fixed_ms
    form = granularity.to_json()
    if length_ms is None and not isinstance(form, str):
        counted = of_time("time_floor", instant(value), form["period"], str(form["origin"]), zone)
        return f"epoch_ms({counted})"
    if length_ms is None:
        raise Invalid(f"granularity {granularity} is not one of times of rows")
    ms, origin_ms = to_long(value).text, granularity.origin_ms
    return f"({ms} - (({ms} - {origin_ms}) % {length_ms} + {length_ms}) % {length_ms})"


def _period(granularity: Granularity) -> str:
    """Return the period that TIME_FLOOR takes; empty: there is none."""
    if granularity.fixed_ms is not None:
        length_ms = granularity.fixed_ms
        if (length_ms, granularity.origin_ms) == (_WEEK_MS, _MONDAY_MS):
            return "P1W"
        is_plain = granularity.origin_ms == 0 and DAY_MS % length_ms == 0
        if is_plain and length_ms == DAY_MS:
            return "P1D"
        return f"PT{length_ms // 1000}S" if is_plain and length_ms % 1000 == 0 else ""
    form = granularity.to_json()
    if isinstance(form, str):
        return _NAMED.get(form, "")
    return "" if "origin" in form else form["period"]


def written(ms: int, zone: str) -> str:
    """Return a time as native answers write it: three digits, and `Z` or the offset of the zone."""
    if zone == UTC_ZONE:
        return format_ms(ms)
    fixed_ms = fixed_offset_ms(zone)
    moment = _EPOCH + timedelta(milliseconds=ms)
    if fixed_ms is not None:
        text = format_ms(ms + fixed_ms)
        minutes = abs(fixed_ms) // 60_000
        return f"{text[:-1]}{'-' if fixed_ms < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    text = moment.astimezone(ZoneInfo(zone)).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
