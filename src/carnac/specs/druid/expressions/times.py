"""Functions of times. A time is a long here, milliseconds since 1970 in UTC, as in Druid.

Arithmetic on milliseconds does the work, so that nothing depends on the session's time zone, except
where a text is read or written: there the session's zone must be UTC, as Carnac's sessions have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import EPOCH, parse_instant
from carnac.core.time.zones import UTC_ZONE, canonical_zone
from carnac.errors import Invalid
from carnac.specs.druid.expressions.table import Function, constant_text
from carnac.specs.druid.expressions.values import Sql, quote_text, to_long, to_text
from carnac.specs.druid.joda import has_offset, to_spark_pattern

_DAY_MS = 86_400_000
_EPOCH_DATE = f"DATE'{EPOCH:%Y-%m-%d}'"
_SHIFT = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?"
)


def _zone(name: str, arguments: Sequence[Sql], index: int) -> str:
    if len(arguments) <= index or arguments[index].literal in (None, ""):
        if len(arguments) > index and not arguments[index].is_literal:
            raise Invalid(f"function {name} needs the time zone as a text in single quotes")
        return UTC_ZONE
    return canonical_zone(constant_text(name, "the time zone", arguments[index]))


def to_wall(t: str, zone: str) -> str:
    """Return the SQL of what the wall clock of `zone` reads, in milliseconds as if it were UTC."""
    if zone == UTC_ZONE:
        return t
    return f"unix_millis(from_utc_timestamp(timestamp_millis({t}), {quote_text(zone)}))"


def from_wall(wall: str, zone: str) -> str:
    """Return the SQL of the instant at which the wall clock of `zone` reads so."""
    if zone == UTC_ZONE:
        return wall
    return f"unix_millis(to_utc_timestamp(timestamp_millis({wall}), {quote_text(zone)}))"


def _date(wall: str) -> str:
    return f"date_add({_EPOCH_DATE}, try_cast(floor({wall} / {_DAY_MS}.0D) AS INT))"


def _day_ms(date: str) -> str:
    return f"(CAST(datediff({date}, {_EPOCH_DATE}) AS BIGINT) * {_DAY_MS}L)"


def _granularity(name: str, arguments: Sequence[Sql]) -> Granularity:
    period = constant_text(name, "the period", arguments[1])
    block: dict[str, object] = {"type": "period", "period": period}
    if len(arguments) > 2 and arguments[2].literal not in (None, ""):
        origin = arguments[2].literal
        block["origin"] = parse_instant(origin) if isinstance(origin, str) else origin
    zone = _zone(name, arguments, 3)
    if zone != UTC_ZONE:
        block["timeZone"] = zone
    return parse_granularity(block)


def bucket_start(t: str, granularity: Granularity, buckets: int = 0) -> str:
    """Return the SQL of the start of the bucket that holds `t`, or of a later one.

    Raises:
        Invalid: The period mixes months with shorter units, or starts in the middle of a month.
    """
    zone, length_ms = granularity.zone, granularity.length_ms
    if granularity.fixed_ms is not None:
        offset = f"{t} - {granularity.origin_ms}L" if granularity.origin_ms else t
        start = f"({t} - pmod({offset}, {length_ms}L))"
        return f"({start} + {buckets * length_ms}L)" if buckets else start
    wall = to_wall(t, zone)
    if granularity.mode == "clock":
        start = f"({t} - pmod({wall}, {length_ms}L))"
        return f"({start} + {buckets * length_ms}L)" if buckets else start
    if not granularity.months:
        anchor = granularity.anchor_ms
        start = f"({wall} - pmod({wall} - {anchor}L, {length_ms}L) + {buckets * length_ms}L)"
        return from_wall(start, zone)
    if length_ms or granularity.mode != "calendar":
        raise Invalid(
            f"period {granularity} mixes months with shorter units, which is not supported"
        )
    first = _first_month(granularity)
    date, months = _date(wall), granularity.months
    index = f"((year({date}) - 1970) * 12 + month({date}) - 1)"
    month = f"({index} - pmod({index} - {first}, {months}) + {buckets * months})"
    return from_wall(_day_ms(f"add_months({_EPOCH_DATE}, try_cast({month} AS INT))"), zone)


def _first_month(granularity: Granularity) -> int:
    """Return the month, counted from January 1970, at whose start some bucket starts."""
    year, month, rest = 1970, 1, granularity.anchor_ms
    for index in range(granularity.months):
        start_ms = parse_instant(f"{year:04d}-{month:02d}-01")
        if rest == start_ms:
            return index
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    raise Invalid(f"period {granularity} starts in the middle of a month, which is not supported")


def _floor(arguments: Sequence[Sql]) -> Sql:
    granularity = _granularity("timestamp_floor", arguments)
    return Sql(bucket_start(to_long(arguments[0]).text, granularity), "long")


def _ceil(arguments: Sequence[Sql]) -> Sql:
    granularity = _granularity("timestamp_ceil", arguments)
    t = to_long(arguments[0]).text
    start, after = bucket_start(t, granularity), bucket_start(t, granularity, 1)
    return Sql(f"CASE WHEN {start} = {t} THEN {t} ELSE {after} END", "long")


def _shift(arguments: Sequence[Sql]) -> Sql:
    """Move by a period, `step` times: months and days on the wall clock, hours as elapsed time."""
    period = constant_text("timestamp_shift", "the period", arguments[1]).upper()
    match = _SHIFT.fullmatch(period)
    if match is None:
        raise Invalid(f"function timestamp_shift needs an ISO 8601 period, not '{period}'")
    years, months, weeks, days, hours, minutes, seconds = (
        int(part or 0) for part in match.groups()
    )
    months, days = months + 12 * years, days + 7 * weeks
    elapsed_ms = ((hours * 60 + minutes) * 60 + seconds) * 1000
    zone = _zone("timestamp_shift", arguments, 3)
    t, step = to_long(arguments[0]).text, to_long(arguments[2]).text
    moved = t
    if months or days:
        wall = to_wall(t, zone)
        if months:
            date = f"add_months({_date(wall)}, try_cast(try_multiply({months}L, {step}) AS INT))"
            wall = f"({_day_ms(date)} + pmod({wall}, {_DAY_MS}L))"
        if days:
            wall = f"({wall} + {days * _DAY_MS}L * {step})"
        moved = from_wall(wall, zone)
    return Sql(f"({moved} + {elapsed_ms}L * {step})" if elapsed_ms else moved, "long")


def _unit_sql(unit: str, t: str, wall: str) -> str | None:
    """Return the SQL of one part of a time; None for a unit that is not known."""
    date = _date(wall)
    seconds = f"floor({wall} / 1000.0D)"
    parts = {
        "EPOCH": f"floor({t} / 1000.0D)",
        "MICROSECOND": f"(pmod({wall}, 1000L) * 1000L)",
        "MILLISECOND": f"pmod({wall}, 1000L)",
        "SECOND": f"pmod({seconds}, 60L)",
        "MINUTE": f"pmod(floor({wall} / 60000.0D), 60L)",
        "HOUR": f"pmod(floor({wall} / 3600000.0D), 24L)",
        "DAY": f"day({date})",
        "DOW": f"(weekday({date}) + 1)",
        "ISODOW": f"(weekday({date}) + 1)",
        "DOY": f"dayofyear({date})",
        "WEEK": f"weekofyear({date})",
        "MONTH": f"month({date})",
        "QUARTER": f"quarter({date})",
        "YEAR": f"year({date})",
        "ISOYEAR": f"extract(YEAROFWEEK FROM {date})",
        "DECADE": f"(year({date}) div 10)",
        "CENTURY": f"ceil(year({date}) / 100.0D)",
        "MILLENNIUM": f"ceil(year({date}) / 1000.0D)",
    }
    return parts.get(unit)


def _extract(arguments: Sequence[Sql]) -> Sql:
    unit = constant_text("timestamp_extract", "the unit", arguments[1]).upper()
    t = to_long(arguments[0]).text
    part = _unit_sql(unit, t, to_wall(t, _zone("timestamp_extract", arguments, 2)))
    if part is None:
        raise Invalid(f"function timestamp_extract does not know the unit '{unit}'; use e.g. 'DAY'")
    return Sql(f"CAST({part} AS BIGINT)", "long")


def _parse(name: str, arguments: Sequence[Sql]) -> str:
    """Return the SQL of the milliseconds of a text; null if it cannot be read."""
    text, zone = to_text(arguments[0]).text, _zone(name, arguments, 2)
    if len(arguments) > 1 and arguments[1].literal not in (None, ""):
        pattern = constant_text(name, "the pattern", arguments[1])
        spark = quote_text(to_spark_pattern(pattern))
        read = f"unix_millis(try_to_timestamp({text}, {spark}))"
        return read if has_offset(pattern) else from_wall(read, zone)
    read = f"unix_millis(try_cast({text} AS TIMESTAMP))"
    if zone == UTC_ZONE:
        return read
    zoned = f"{text} RLIKE '[T ].*(Z|[+-][0-9:]+)$'"
    return f"CASE WHEN {zoned} THEN {read} ELSE {from_wall(read, zone)} END"


def _parser(name: str, divisor: int) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        millis = _parse(name, arguments)
        return Sql(millis if divisor == 1 else f"floor(({millis}) / {divisor}.0D)", "long")

    return build


def _format(arguments: Sequence[Sql]) -> Sql:
    t, zone = to_long(arguments[0]).text, _zone("timestamp_format", arguments, 2)
    moment = f"timestamp_millis({to_wall(t, zone)})"
    if len(arguments) < 2 or arguments[1].literal in (None, ""):
        body = f"date_format({moment}, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS')"
        return Sql(f"concat({body}, {_offset_text(t, zone)})", "string")
    pattern = constant_text("timestamp_format", "the pattern", arguments[1])
    if zone != UTC_ZONE and has_offset(pattern):
        raise Invalid("function timestamp_format cannot write an offset in a zone other than UTC")
    spark = quote_text(to_spark_pattern(pattern, printing=True))
    return Sql(f"date_format({moment}, {spark})", "string")


def _offset_text(t: str, zone: str) -> str:
    if zone == UTC_ZONE:
        return "'Z'"
    minutes = f"CAST(({to_wall(t, zone)} - {t}) / 60000.0D AS INT)"
    sign = f"CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END"
    clock = f"format_string('%02d:%02d', abs({minutes}) div 60L, abs({minutes}) % 60)"
    return f"CASE WHEN {minutes} = 0 THEN 'Z' ELSE concat({sign}, {clock}) END"


FUNCTIONS: Mapping[str, Function] = {
    "timestamp": Function(_parser("timestamp", 1), 1, 2),
    "unix_timestamp": Function(_parser("unix_timestamp", 1000), 1, 2),
    "timestamp_floor": Function(_floor, 2, 4),
    "timestamp_ceil": Function(_ceil, 2, 4),
    "timestamp_shift": Function(_shift, 3, 4),
    "timestamp_extract": Function(_extract, 2, 3),
    "timestamp_parse": Function(_parser("timestamp_parse", 1), 1, 3),
    "timestamp_format": Function(_format, 1, 3),
}
