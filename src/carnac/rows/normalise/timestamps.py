"""From a cell to `__time`: Druid's `timestampSpec` as SQL.

Every expression yields `TIMESTAMP WITH TIME ZONE`, floored to milliseconds, or null where the cell is no time.
None of them raises. The session's time zone must be UTC.

- Numbers count from 1970-01-01T00:00Z. A fraction is cut off (towards zero), but for `ruby`, which keeps milliseconds.
- `auto` takes digits as milliseconds and all else as ISO 8601; `iso` takes four digits as a year.
- ISO 8601: `T` or a space; dates alone, also `2015-09`, week dates and day-of-year dates; `Z`, an offset, or (as
  Druid's `auto`) the name of a zone after a space.
- A time that names no zone is one of the spec's zone, by Joda's rule: where clocks go back and show it twice, the
  earlier instant; where they go forward over it, it is no time (`REASON_GAP`).
- An offset has at most 23 hours, 59 minutes and 59 seconds, as Joda's.
- Two digits of a year (`yy`) are 1969 to 2068.

Source: Druid's TimestampSpec and TimestampParser. We depart from it where `missingValue` stands for an absent or null
cell only, and numbers written as text are numbers in every numeric format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.druid.joda import has_offset, to_strptime
from carnac.core.quoting import quote_text
from carnac.core.time.intervals import MAX_MS, MIN_MS, parse_instant
from carnac.core.time.zones import canonical_zone, fixed_offset_ms
from carnac.errors import Invalid
from carnac.specs.ingest.schema import TIMESTAMP_FORMATS

if TYPE_CHECKING:
    from carnac.specs.ingest.schema import TimestampSpec

REASON_MISSING = "missing timestamp"
REASON_UNPARSEABLE = "unparseable timestamp"
REASON_RANGE = "timestamp out of range"
"""Outside of the years 1 to 9999."""
REASON_GAP = "timestamp in a gap of the time zone"
"""The clocks of the spec's zone never showed it."""

_MIN_US = MIN_MS * 1000
_MAX_US = MAX_MS * 1000
_EXACT_DOUBLE = 9_007_199_254_740_992
_US_BY_UNIT = {"posix": 1_000_000, "millis": 1_000, "micro": 1}
_ONE_NUMBER = re.compile("[yMdHms]+")
"""Patterns of a whole number, such as a year; beside nulls it is often written as a double, 1950.0."""
_NANOSECONDS = {"TIMESTAMP_NS": "make_timestamp", "TIMESTAMPTZ_NS": "make_timestamptz"}
"""By type, what makes it of microseconds."""
_FINEST = {"micro": 1_000, "nano": 1_000_000}
"""By format, how many make a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCell:
    """SQL of a time.

    Attributes:
        value: The time, not yet checked for its range and offset; null if the cell is no time.
        reason: Why there is no time, or null. Refers to the value by the name it was given. None of a row's other
            reasons goes before it.
        has_far_offset: Whether the cell names an offset that is none: part of `reason`.
        cut: Whether the cell names the time more finely than the value does, as a condition; None: it cannot.
    """

    value: str
    reason: str
    has_far_offset: str = "false"
    cut: str | None = None


def text_time(sql: str, out: str, spec: TimestampSpec) -> TimeCell:
    """Return the time of a VARCHAR expression.

    Args:
        sql: The cell; must be cheap to repeat (a column).
        out: Name under which the caller selects `value`; `reason` uses it.

    Raises:
        Invalid: The format has letters that cannot be read.
    """
    parsed, wall = _parsed_text(sql, spec)
    far, cut = _far_offset(sql, spec), _text_cut(sql, spec)
    return _cell(sql, out, spec, parsed, wall, far=far, cut=cut)


def typed_time(sql: str, out: str, sql_type: str, spec: TimestampSpec) -> TimeCell:
    """Return the time of an expression of a DuckDB type; a typed time needs no format.

    Raises:
        Invalid: Values of that type are no times.
    """
    base = sql_type.split("(", maxsplit=1)[0].upper()
    cut = has_finer(sql, base)
    if base == "TIMESTAMP WITH TIME ZONE" or base.startswith("TIMESTAMPTZ"):
        instant = without_nanoseconds(sql, base)
        return _cell(sql, out, spec, _or_infinite(instant, floor_ms(instant)), None, cut=cut)
    if base in {"TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S", "DATE", "DATETIME"}:
        wall = f"TRY_CAST({without_nanoseconds(sql, base)} AS TIMESTAMP)"
        time = _or_infinite(wall, floor_ms(_in_zone(wall, spec.time_zone)))
        return _cell(sql, out, spec, time, wall, cut=cut)
    if base in _INTEGERS or base in {"DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "UHUGEINT"}:
        return _numeric_cell(sql, out, base, spec)
    if base in {"VARCHAR", "JSON", "ENUM"}:
        text = f"CAST({sql} AS VARCHAR)"
        parsed, wall_text = _parsed_text(text, spec)
        far, cut = _far_offset(text, spec), _text_cut(text, spec)
        return _cell(sql, out, spec, parsed, wall_text, far=far, cut=cut)
    raise Invalid(
        f"column '{spec.column}' of type {sql_type} cannot be the timestamp; "
        "name a column of times, numbers or text in timestampSpec",
        column=spec.column,
        type=sql_type,
    )


_INTEGERS = frozenset(
    f"{sign}{kind}" for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)


def without_nanoseconds(sql: str, sql_type: str) -> str:
    """Return the time floored to microseconds; the engine's cast rounds."""
    if sql_type not in _NANOSECONDS:
        return sql
    return f"{_NANOSECONDS[sql_type]}({_floor_div(f'epoch_ns({sql})', 1000)})"


def as_instant(sql: str, sql_type: str) -> str:
    """Return a typed time, in UTC if it names no zone, as TIMESTAMPTZ.

    The engine's cast of one without a zone ends the whole database where the time is out of its range.
    """
    time = without_nanoseconds(sql, sql_type)
    return time if "TZ" in sql_type or "ZONE" in sql_type else f"make_timestamptz(epoch_us({time}))"


def has_finer(sql: str, sql_type: str) -> str | None:
    """Return whether a typed time has digits below the millisecond, as a condition; None: its type has none."""
    if sql_type in _NANOSECONDS:
        return f"epoch_ns({sql}) % 1000000 <> 0"
    is_time = sql_type.startswith("TIMESTAMP") and not sql_type.endswith("]")
    if is_time and sql_type not in {"TIMESTAMP_MS", "TIMESTAMP_S"}:
        return f"epoch_us({sql}) % 1000 <> 0"
    return None


def floor_ms(sql: str) -> str:
    """Return the TIMESTAMPTZ expression floored to milliseconds."""
    return f"make_timestamptz(_floor_us(epoch_us({sql})))"


MACROS = (
    "CREATE OR REPLACE TEMP MACRO _floor_us(us) AS us - ((us % 1000 + 1000) % 1000)",
    # whole part of a number written as text; null if it is none, or too large
    "CREATE OR REPLACE TEMP MACRO _text_long(x) AS CASE"
    f" WHEN abs(TRY_CAST(x AS DOUBLE)) < {_EXACT_DOUBLE}"
    " THEN CAST(trunc(TRY_CAST(x AS DOUBLE)) AS BIGINT)"
    " WHEN TRY_CAST(x AS DOUBLE) IS NULL OR NOT isfinite(TRY_CAST(x AS DOUBLE)) THEN NULL"
    " WHEN contains(lower(x), 'e') THEN TRY_CAST(trunc(TRY_CAST(x AS DOUBLE)) AS BIGINT)"
    " ELSE TRY_CAST(split_part(x, '.', 1) AS BIGINT) END",
    # microseconds -> time; far ones become infinite, which the check of the range catches
    "CREATE OR REPLACE TEMP MACRO _us_time(us) AS CASE"
    f" WHEN us IS NULL THEN NULL WHEN us >= {_MAX_US} THEN 'infinity'::TIMESTAMPTZ"
    f" WHEN us < {_MIN_US} THEN '-infinity'::TIMESTAMPTZ"
    " ELSE make_timestamptz(_floor_us(CAST(us AS BIGINT))) END",
    "CREATE OR REPLACE TEMP MACRO _time_us(t) AS CASE"
    f" WHEN t >= make_timestamptz({_MIN_US}::BIGINT) AND t < make_timestamptz({_MAX_US}::BIGINT)"
    " THEN epoch_us(t) END",
    # rare forms of ISO 8601 as the engine's cast takes them
    "CREATE OR REPLACE TEMP MACRO _iso_rewrite(x) AS regexp_replace(regexp_replace(regexp_replace("
    r"regexp_replace(regexp_replace(upper(trim(x)), '^(\d{4})$', '\1-01-01'),"
    r" '^(\d{4}-\d{2})$', '\1-01'), '\s+(Z|[+-]\d{2}:?\d{2})$', '\1'),"
    r" '[T ](\d{2})(Z|[+-]\d{2}:?\d{2}|)$', 'T\1:00:00\2'), '(:\d{2}),(\d)', '\1.\2')",
    # an offset of more than 23 hours, or with more than 59 minutes or seconds
    "CREATE OR REPLACE TEMP MACRO _has_far_offset(x) AS regexp_matches(x, '[+-]("
    r"(2[4-9]|[3-9]\d)(:?\d\d){0,2}|\d\d:?[6-9]\d(:?\d\d)?|\d\d:?\d\d:?[6-9]\d)\s*$')",
    # the same of a common form, most of which have no sign behind the time: cheap
    "CREATE OR REPLACE TEMP MACRO _is_far(x) AS NOT ends_with(x, 'Z')"
    " AND (contains(x, '+') OR x LIKE '%:%-%') AND _has_far_offset(x)",
    # more than three digits of a second; of a common form one look at a place tells
    "CREATE OR REPLACE TEMP MACRO _has_finer(x) AS CASE"
    " WHEN substr(x, 20, 1) = '.' AND substr(x, 24, 1) NOT BETWEEN '0' AND '9' THEN false"
    r" WHEN contains(x, '.') OR contains(x, ',') THEN regexp_matches(x, '[.,]\d{3}\d*[1-9]') ELSE false END",
    "CREATE OR REPLACE TEMP MACRO _has_rest(x) AS CASE WHEN contains(x, '.')"
    " THEN TRY_CAST(x AS DOUBLE) <> trunc(TRY_CAST(x AS DOUBLE)) ELSE false END",
    # strptime, without the words that mean an instant to the engine
    "CREATE OR REPLACE TEMP MACRO _strptime(x, f) AS CASE WHEN lower(trim(x)) NOT IN"
    " ('epoch', 'infinity', '-infinity') THEN try_strptime(x, f) END",
    # without day 366 of 365 and week 53 of 52, which the engine takes for the first days of the next year
    r"CREATE OR REPLACE TEMP MACRO _numbers(x) AS TRY_CAST(regexp_extract_all(x, '\d+') AS BIGINT[])",
    "CREATE OR REPLACE TEMP MACRO _strptime_of_year(x, f) AS CASE"
    " WHEN dayofyear(_strptime(x, f)) > 7 OR _numbers(strftime(_strptime(x, f), f)) = _numbers(x)"
    " THEN _strptime(x, f) END",
)
"""Functions that the expressions call; temporary, made once per connection."""


def _parsed_text(sql: str, spec: TimestampSpec) -> tuple[str, str | None]:
    """Return the expression of the time, and that of its wall clock time if it may name no zone."""
    match spec.format:
        case "posix" | "millis" | "micro":
            return f"_us_time(_text_long({sql})::HUGEINT * {_US_BY_UNIT[spec.format]})", None
        case "nano":
            return f"_us_time({_floor_div(f'_text_long({sql})::HUGEINT', 1000)})", None
        case "ruby":
            return _ruby(f"TRY_CAST({sql} AS DOUBLE)"), None
        case "auto":
            iso, wall = _iso(sql, spec.time_zone, year_alone=False)
            millis = f"_us_time(_text_long({sql})::HUGEINT * 1000)"
            return f"COALESCE({iso}, {millis})", wall
        case "iso":
            return _iso(sql, spec.time_zone, year_alone=True)
        case _:
            return _pattern(sql, spec)


def _text_cut(sql: str, spec: TimestampSpec) -> str | None:
    """Return whether a text has digits that are not kept, as a condition; None: its format has none."""
    match spec.format:
        case "posix" | "millis":
            return f"_has_rest({sql})"
        case "micro" | "nano":
            finest = _FINEST[spec.format]
            return f"(_has_rest({sql}) OR _text_long({sql}) % {finest} <> 0)"
        case "auto":
            return (
                f"CASE WHEN contains({sql}, ':') THEN _has_finer({sql}) ELSE _has_rest({sql}) END"
            )
        case "iso" | "ruby":
            return f"_has_finer({sql})"
        case _:
            is_fine = to_strptime(spec.format).endswith(("%f", "%n"))
            return f"_has_finer({sql})" if is_fine else None


def _far_offset(sql: str, spec: TimestampSpec) -> str:
    """Return whether a text names an offset that is none; not part of the value, which is evaluated several times."""
    if spec.format in {"auto", "iso"}:
        return f"_is_far({sql})"
    if spec.format in TIMESTAMP_FORMATS or not has_offset(spec.format):
        return "false"
    return f"_has_far_offset({sql})"


def _ruby(number: str) -> str:
    return (
        f"CASE WHEN abs({number}) < 1e12 THEN _us_time(CAST(round({number} * 1e6) AS BIGINT))"
        f" WHEN {number} IS NULL OR isnan({number}) THEN NULL ELSE 'infinity'::TIMESTAMPTZ END"
    )


def _floor_div(sql: str, divisor: int) -> str:
    return f"(({sql}) - (({sql}) % {divisor} + {divisor}) % {divisor}) // {divisor}"


def _iso(sql: str, zone: str, *, year_alone: bool) -> tuple[str, str | None]:
    """Common forms are cast as they are; rare ones are rewritten first, only where the cast fails."""
    rare = f"TRY_CAST(_iso_rewrite({sql}) AS TIMESTAMPTZ)"
    rare = f"CASE WHEN {sql} < ':' AND NOT _has_far_offset({sql}) THEN {rare} END"
    if not year_alone:
        rare = f"CASE WHEN NOT regexp_full_match({sql}, '\\s*\\d+\\s*') THEN {rare} END"
    dates = (
        f"TRY_CAST(COALESCE(_strptime_of_year({sql}, '%Y-%j'), _strptime_of_year({sql}, '%G-W%V-%u'))"
        " AS TIMESTAMP)"
    )
    # 'epoch' and 'infinity' are words to the engine, not times
    common = f"CASE WHEN {sql} < ':' THEN TRY_CAST({sql} AS TIMESTAMPTZ) END"
    any_zone = f"COALESCE({common}, {rare}, CAST({dates} AS TIMESTAMPTZ))"
    if zone == "UTC":
        return floor_ms(any_zone), None
    # the cast took a time without a zone as UTC: its value there is the wall clock
    wall = f"({any_zone} AT TIME ZONE 'UTC')"
    names_zone = (
        f"regexp_matches({sql}, '\\d.*(?i)(\\dz|[+-]\\d\\d(:?\\d\\d){{0,2}}| [a-z_][a-z_+0-9:/-]*)\\s*$')"
        f" AND length(trim({sql})) > 10"
    )
    return (
        f"CASE WHEN {names_zone} THEN {floor_ms(any_zone)}"
        f" ELSE {floor_ms(_in_zone(wall, zone))} END",
        wall,
    )


def _pattern(sql: str, spec: TimestampSpec) -> tuple[str, str | None]:
    fmt = to_strptime(spec.format)
    quoted = quote_text(fmt)
    finest = "_NS" if "%n" in fmt else ""
    if has_offset(spec.format):
        # strptime reads offsets, not the Z that stands for +00
        cell = f"regexp_replace({sql}, '[zZ]\\s*$', '+00:00')" if fmt.endswith("%z") else sql
        instant = without_nanoseconds(f"_strptime({cell}, {quoted})", f"TIMESTAMPTZ{finest}")
        return floor_ms(f"CAST({instant} AS TIMESTAMPTZ)"), None
    cell = _short_fraction(sql) if fmt.endswith("%f") else sql
    if _ONE_NUMBER.fullmatch(spec.format):
        cell = f"regexp_replace({cell}, '\\.0+\\s*$', '')"
    # a fraction has fewer digits than it is written with
    is_of_year = ("%j" in fmt or "%V" in fmt) and not fmt.endswith("%f")
    read = "_strptime_of_year" if is_of_year else "_strptime"
    read_time = without_nanoseconds(f"{read}({cell}, {quoted})", f"TIMESTAMP{finest}")
    wall = f"CAST({read_time} AS TIMESTAMP)"
    return floor_ms(_in_zone(wall, spec.time_zone)), wall


def _short_fraction(sql: str) -> str:
    """Cut digits beyond microseconds, which strptime does not take."""
    return f"regexp_replace({sql}, '([.,:]\\d{{6}})\\d+\\s*$', '\\1')"


def _or_infinite(time: str, finite: str) -> str:
    """Return what is made of a typed time if that is finite; else it is out of range, and no less a time."""
    return f"CASE WHEN isinf({time}) THEN CAST({time} AS TIMESTAMPTZ) ELSE {finite} END"


def _in_zone(wall: str, zone: str) -> str:
    """Return the instant of a TIMESTAMP expression in a zone; null in a gap, the earlier one of two."""
    name = canonical_zone(zone)
    fixed = fixed_offset_ms(name)
    if fixed is not None:
        return f"make_timestamptz(epoch_us({wall}) - {fixed * 1000})"
    quoted = quote_text(name)
    later = f"timezone({quoted}, {wall})"
    before = f"(epoch_us(timezone({quoted}, {later} - INTERVAL 1 DAY)) - epoch_us({later} - INTERVAL 1 DAY))"
    earlier = f"make_timestamptz(epoch_us({wall}) - {before})"
    return (
        f"CASE WHEN timezone({quoted}, {later}) <> {wall} THEN NULL"
        f" WHEN timezone({quoted}, {earlier}) = {wall} THEN least({earlier}, {later})"
        f" ELSE {later} END"
    )


def _numeric_cell(sql: str, out: str, base: str, spec: TimestampSpec) -> TimeCell:
    whole = base in _INTEGERS or "HUGEINT" in base
    number = f"CAST({sql} AS HUGEINT)" if whole else f"TRY_CAST(trunc({sql}) AS HUGEINT)"
    cuts = [] if whole else [f"{sql} <> trunc({sql})"]
    if spec.format in _FINEST:
        cuts.append(f"{number} % {_FINEST[spec.format]} <> 0")
    cut = f"({' OR '.join(cuts)})" if cuts else None
    match spec.format:
        case "auto" | "iso" | "millis":
            parsed = f"_us_time({number} * 1000)"
        case "posix" | "micro":
            parsed = f"_us_time({number} * {_US_BY_UNIT[spec.format]})"
        case "nano":
            parsed = f"_us_time({_floor_div(number, 1000)})"
        case "ruby":
            parsed = _ruby(f"CAST({sql} AS DOUBLE)")
            cut = f"CASE WHEN abs({sql}) < 1e12 THEN round(CAST({sql} AS DOUBLE) * 1e6) % 1000 <> 0 END"
        case _:
            text = f"CAST({number} AS VARCHAR)"
            parsed, wall = _pattern(text, spec)
            return _cell(sql, out, spec, parsed, wall)
    return _cell(sql, out, spec, parsed, None, cut=cut)


def _cell(
    sql: str,
    out: str,
    spec: TimestampSpec,
    parsed: str,
    wall: str | None,
    *,
    far: str = "false",
    cut: str | None = None,
) -> TimeCell:
    missing = "NULL"
    if spec.missing_value is not None:
        missing = f"make_timestamptz({parse_instant(spec.missing_value)}::BIGINT * 1000)"
    value = f"CASE WHEN {sql} IS NULL THEN {missing} ELSE {parsed} END"
    gap = ""
    if wall is not None and spec.time_zone != "UTC":
        gap = f" WHEN {out} IS NULL AND {wall} IS NOT NULL THEN {quote_text(REASON_GAP)}"
    reason = (
        f"CASE WHEN {far} THEN {quote_text(REASON_UNPARSEABLE)} WHEN {out} >= make_timestamptz({_MIN_US}::BIGINT)"
        f" AND {out} < make_timestamptz({_MAX_US}::BIGINT) THEN NULL"
        f" WHEN {out} IS NOT NULL THEN {quote_text(REASON_RANGE)}"
        f" WHEN {sql} IS NULL THEN {quote_text(REASON_MISSING)}{gap}"
        f" ELSE {quote_text(REASON_UNPARSEABLE)} END"
    )
    return TimeCell(value=value, reason=reason, has_far_offset=far, cut=cut)
