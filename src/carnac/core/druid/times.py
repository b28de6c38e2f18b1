"""Druid's functions of times, as expressions of DuckDB over `_1`, their first argument.

A function here takes the texts of the arguments ("" for NULL, None for one that is no constant) and returns an
expression; None: there is none that means the same. Source: Druid's documentation of its SQL functions, and answers of
Druid 33.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from carnac.core.druid.joda import has_offset, to_strftime, to_strptime
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import parse_instant, parse_interval
from carnac.core.time.periods import DAY_MS, Period, parse_period

Texts = list[str | None]
PERIODS = {
    "second": "PT1S",
    "minute": "PT1M",
    "hour": "PT1H",
    "day": "P1D",
    "week": "P1W",
    "month": "P1M",
    "quarter": "P3M",
    "year": "P1Y",
}
"""The period of each unit of `FLOOR(x TO unit)`."""
_UNITS = {
    "second": "second",
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "dow": "isodow",
    "isodow": "isodow",
    "doy": "doy",
    "week": "week",
    "month": "month",
    "quarter": "quarter",
    "year": "year",
    "decade": "decade",
    "century": "century",
    "millennium": "millennium",
    "isoyear": "isoyear",
}
"""Parts of a time by Druid's name; its days of a week begin with Monday, too."""
_TRUNCATED = {period: unit for unit, period in PERIODS.items()}
_ORIGIN_MS, _ORIGIN_MONTHS = 946_857_600_000, 360
"""From 1970 on to where DuckDB counts buckets from: 2000-01-03, or 2000-01-01 those of months."""
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"
_YEARS = re.compile(r"\s*P(\d+)Y", re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)*")
_WHOLE_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:|$)")
_OFFSET = r"(Z|[+-]\d\d(:?\d\d)?)"
_HOUR = rf"'^([T ]\d\d){_OFFSET}?$', '\1:00\2'"
_WEEK, _DAY = (
    r"regexp_extract(_1, '^(\d{4}-W\d\d(-\d)?)([T ]|$)', 1)",
    r"regexp_extract(_1, '^(\d{4}-\d{3})([T ]|$)', 1)",
)
_MONDAY = f"({_WEEK} || substr('-1', length({_WEEK}) - 7))"
_DATE = "coalesce({}, {})".format(
    *(
        f"CASE WHEN strftime(try_strptime({text}, '{form}'), '{form}') = {text}"  # no day 366 of 365, no week 53 of 52
        f" THEN strftime(try_strptime({text}, '{form}'), '%Y-%m-%d') END"
        for text, form in ((_DAY, "%Y-%j"), (_MONDAY, "%G-W%V-%u"))
    )
)
_COMPLETED = (
    "CASE WHEN length(_1) = 4 THEN _1 || '-01-01' WHEN length(_1) = 7 THEN _1 || '-01'"
    rf" WHEN regexp_matches(_1, '^\d{{4}}-(W\d\d|\d{{3}})') THEN {_DATE}"
    rf" || regexp_replace(substr(_1, 1 + length({_DAY}) + length({_WEEK})), {_HOUR})"
    rf" ELSE regexp_replace(_1, '^(.{{10}}[T ]\d\d){_OFFSET}?$', '\1:00\2') END"
)
"""A year, a month or an hour alone is a time to Joda, so is a week or a day of the year; none is one to a cast."""


def _given(texts: Texts, most: int, default: str | None = None) -> tuple[str, str] | None:
    """Return the second of the arguments and the zone, which is the last of `most` and "" for UTC.

    None: one of them is no constant, or the zone is none, or they are too few or too many.

    Args:
        default: The second argument where there is one alone; None: there must be two.
    """
    if len(texts) == 1 and default is not None:
        return default, ""
    zone = (texts[most - 1] if len(texts) == most else "") or ""
    if zone.lower() in {"utc", "etc/utc", "z"}:
        zone = ""
    if (
        not 2 <= len(texts) <= most
        or texts[1] is None
        or (len(texts) == most and texts[-1] is None)
    ):
        return None
    return (texts[1], zone) if not zone or _ZONE.fullmatch(zone) else None


def _on_the_wall(zone: str, what: str = "_1") -> str:
    return f"timezone('{zone}', CAST({what} AS TIMESTAMPTZ))" if zone else what


def _time_parse(texts: Texts) -> str | None:
    given = _given(texts, 3, default="")
    if given is None:
        return None
    pattern, zone = given
    if pattern:
        read = "try_strptime(_1, '{}')".format(to_strptime(pattern).replace("'", "''"))
        return read if has_offset(pattern) else f"timezone('{zone or 'UTC'}', {read})"
    if texts[0] is not None and _WHOLE_TIME.match(texts[0]) and not zone:
        return "TRY_CAST(_1 AS TIMESTAMPTZ)"  # which conditions on time are found by
    read = f"TRY_CAST({_COMPLETED} AS TIMESTAMPTZ)"
    if not zone:
        return read
    local = f"timezone('{zone}', TRY_CAST({_COMPLETED} AS TIMESTAMP))"
    return f"CASE WHEN regexp_matches(_1, '^[^T ]+[T ].*{_OFFSET}$') THEN {read} ELSE {local} END"


def _time_floor(texts: Texts) -> str | None:
    return _bucket(texts, before="", step="")


def _time_ceil(texts: Texts) -> str | None:
    return _bucket(texts, before=" - INTERVAL '1 microsecond'", step=" + {}")


def _bucket(texts: Texts, *, before: str, step: str) -> str | None:
    """Return the start of the period that the time `before` lies in, and a `step` on from there."""
    given, origin = _given(texts, 4), texts[2] if len(texts) > 2 else ""
    if given is None or origin is None:
        return None
    period, zone = parse_period(given[0]), given[1]
    at, step = f"_1{before}", step.format(_interval(period))
    if origin:
        return _counted(given[0], zone, origin, at, step)
    elapsed = _elapsed(period, zone, at)
    if elapsed is not None:
        return f"{elapsed}{step}"
    floored = _floored(period, _on_the_wall(zone, at))
    if floored is None or not zone:
        return floored and f"{floored}{step}"
    if period.clock_ms:
        # clocks that go back show an hour twice: it is two hours
        return f"CAST({at} AS TIMESTAMPTZ) - ({_on_the_wall(zone, at)} - {floored}){step}"
    return f"timezone('{zone}', {floored}{step})"


def _counted(period: str, zone: str, origin: str, at: str, step: str) -> str | None:
    """Return the start of a period that is counted from an instant, and a `step` on from there.

    None: the period has months beside shorter units, or begins within a month.
    """
    block = {"type": "period", "period": period, "timeZone": zone or "UTC", "origin": origin}
    granularity = parse_granularity(block)
    if granularity.fixed_ms is not None:
        at = f"CAST({at} AS TIMESTAMPTZ)" if zone else at
        start_ms = granularity.origin_ms - _ORIGIN_MS
        return f"{_bucket_of(granularity.fixed_ms, 'milliseconds', at, start_ms)}{step}"
    wall, months, length_ms = _on_the_wall(zone, at), granularity.months, granularity.length_ms
    if granularity.mode == "clock":
        floored = _bucket_of(length_ms, "milliseconds", wall, -_ORIGIN_MS)
        return f"CAST({at} AS TIMESTAMPTZ) - ({wall} - {floored}){step}"
    if not months:
        start_ms = granularity.anchor_ms - _ORIGIN_MS
        floored = _bucket_of(length_ms, "milliseconds", wall, start_ms)
    else:
        first = _first_month(granularity)
        if length_ms or first is None:
            return None
        floored = _bucket_of(months, "months", wall, first - _ORIGIN_MONTHS)
    return f"timezone('{zone}', {floored}{step})" if zone else f"{floored}{step}"


def _first_month(granularity: Granularity) -> int | None:
    """Return the month, counted from January 1970, at whose start some bucket starts; None: none does."""
    for month in range(granularity.months):
        if granularity.anchor_ms == parse_instant(f"{1970 + month // 12}-{month % 12 + 1:02d}-01"):
            return month
    return None


def _elapsed(period: Period, zone: str, at: str) -> str | None:
    """Return the start of several hours, minutes or seconds, which Druid counts from the start of 1970 in the zone.

    In UTC days are so many hours, too. In a zone, and of months, Druid steps from one bucket to the next, beginning
    in 1970: there is no expression that finds one.
    """
    is_exact = _is_of_clocks(period) or (period.clock_ms and not period.months and not zone)
    if not is_exact or str(period) in _TRUNCATED:
        return None
    origin_ms = parse_granularity(
        {"type": "period", "period": str(period), "timeZone": zone or "UTC"}
    ).origin_ms
    at = f"CAST({at} AS TIMESTAMPTZ)" if zone else at
    return _bucket_of(period.length_ms, "milliseconds", at, origin_ms - _ORIGIN_MS)


def _floored(period: Period, what: str) -> str | None:
    """Return the start of a period of calendars; several days, weeks or months are counted from 1970, as Druid does."""
    if str(period) in _TRUNCATED:
        return f"date_trunc('{_TRUNCATED[str(period)]}', {what})"
    if period.months and period == Period(months=period.months):
        return _bucket_of(period.months, "months", what, -_ORIGIN_MONTHS)
    days = period.days + 7 * period.weeks
    if not days or period != Period(days=period.days, weeks=period.weeks):
        return None
    return _bucket_of(days, "days", what, -_ORIGIN_MS // DAY_MS)


def _bucket_of(width: int, unit: str, what: str, origin: int) -> str:
    """Return a bucket of so many units, counted from an origin that is so many after DuckDB's."""
    late = origin % width
    rest = f", INTERVAL '{late} {unit}'" if late else ""
    return f"time_bucket(INTERVAL '{width} {unit}', {what}{rest})"


def _is_of_clocks(period: Period) -> bool:
    return bool(period.clock_ms) and period == Period(clock_ms=period.clock_ms)


def _interval(period: Period) -> str:
    days = period.days + 7 * period.weeks
    return f"INTERVAL '{period.months} months {days} days {period.clock_ms} milliseconds'"


def _time_format(texts: Texts) -> str | None:
    given = _given(texts, 3, default="")
    if given is None:
        return None
    pattern, zone = given[0] or _ISO, given[1]
    if zone and has_offset(pattern):
        return None
    at = _on_the_wall(zone, "CAST(_1 AS TIMESTAMPTZ)")
    if pattern == "w":  # which no directive prints without a zero before it
        return f"CAST(date_part('week', {at}) AS VARCHAR)"
    directives = to_strftime(pattern).replace("'", "''")
    return f"strftime({at}, '{directives}')"


def _time_shift(texts: Texts) -> str | None:
    given = _given(texts, 4)
    if given is None or len(texts) == 2:
        return None
    period, zone = parse_period(given[0]), given[1]
    shifted = "_1"
    for part in _parts(given[0], period):
        moved = f"_3 * {_interval(part)}"
        is_elapsed = not zone or _is_of_clocks(part)
        shifted = (
            f"{shifted} + {moved}"
            if is_elapsed
            else f"timezone('{zone}', {_on_the_wall(zone, shifted)} + {moved})"
        )
    return shifted


def _parts(text: str, period: Period) -> list[Period]:
    """Return the units of a period from the largest on, each of which is added by itself.

    The 29th of February and `P1Y1M` make the 28th of March; 14 months would make the 29th.
    """
    years = _YEARS.match(text)
    months = 12 * int(years[1]) if years else 0
    parts = [Period(months=months), Period(months=period.months - months)]
    parts += [Period(weeks=period.weeks), Period(days=period.days)]
    return [one for one in [*parts, Period(clock_ms=period.clock_ms)] if one.nominal_ms]


def _time_extract(texts: Texts) -> str | None:
    given = _given(texts, 3)
    if given is None:
        return None
    unit, zone = given[0].lower(), given[1]
    if unit == "epoch":
        return "epoch_ms(_1) // 1000"
    if unit == "millisecond":
        return f"date_part('millisecond', {_on_the_wall(zone)}) % 1000"
    return f"date_part('{_UNITS[unit]}', {_on_the_wall(zone)})" if unit in _UNITS else None


def _time_in_interval(texts: Texts) -> str | None:
    if len(texts) != 2 or texts[1] is None:
        return None
    within = parse_interval(texts[1])
    start, end = (
        f"make_timestamptz({one_ms * 1000})" for one_ms in (within.start_ms, within.end_ms)
    )
    return f"(_1 >= {start} AND _1 < {end})"


TIMES: Mapping[str, Callable[[Texts], str | None]] = {
    "time_parse": _time_parse,
    "time_floor": _time_floor,
    "time_ceil": _time_ceil,
    "time_format": _time_format,
    "time_shift": _time_shift,
    "time_extract": _time_extract,
    "time_in_interval": _time_in_interval,
}
STEPPING = {
    "timestampadd": "_3 + _2 * {step}",
    "timestampdiff": "date_sub('{unit}', CAST(_2 AS TIMESTAMPTZ), CAST(_3 AS TIMESTAMPTZ))",
}
"""Expressions of functions whose first argument names a unit; a difference is of whole units, as Calcite has it."""


def stepped(name: str, unit: str) -> str | None:
    """Return the expression of one of `STEPPING` for a unit; None: it is no unit."""
    unit = unit.lower().removeprefix("sql_tsi_")
    step = PERIODS.get(unit)
    return step and STEPPING[name].format(unit=unit, step=_interval(parse_period(step)))
