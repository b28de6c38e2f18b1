"""Calls of Druid's functions become the expressions that mean the same.

What cannot be said for all arguments stays as it is, and is refused with a form to write in its place
(`specs.druid.sql_functions`). Source of what they mean: Druid's documentation of its SQL functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from carnac.core.time.intervals import parse_interval
from carnac.core.time.periods import DAY_MS, HOUR_MS, Period, parse_period
from carnac.errors import Invalid
from carnac.query.bucketing import PERIODS
from carnac.query.syntax import NOWHERE, Node, arguments, parse, select_of, unparse, walk

if TYPE_CHECKING:
    import duckdb

FORMS: Mapping[tuple[str, int], str] = {
    ("millis_to_timestamp", 1): "make_timestamptz(CAST(_1 AS BIGINT) * 1000)",
    ("timestamp_to_millis", 1): "epoch_ms(_1)",
    ("approx_count_distinct_builtin", 1): "approx_count_distinct(_1)",
    ("approx_distinct", 1): "approx_count_distinct(_1)",
    ("str_position", 2): "strpos(_1, _2)",
    ("earliest", 1): "arg_min(_1, __time)",
    ("earliest", 2): "arg_min(_1, __time)",
    ("earliest_by", 2): "arg_min(_1, _2)",
    ("earliest_by", 3): "arg_min(_1, _2)",
    ("latest", 1): "arg_max(_1, __time)",
    ("latest", 2): "arg_max(_1, __time)",
    ("latest_by", 2): "arg_max(_1, _2)",
    ("latest_by", 3): "arg_max(_1, _2)",
    ("btrim", 1): "trim(_1, ' ')",
    ("btrim", 2): "trim(_1, _2)",
    ("textcat", 2): "_1 || _2",
    ("regexp_like", 2): "regexp_matches(_1, _2)",
    ("contains_string", 2): "contains(_1, _2)",
    ("icontains_string", 2): "contains(lower(_1), lower(_2))",
    ("decode_base64_utf8", 1): "decode(from_base64(_1))",
    # a cast rounds, and reads blanks, exponents and other bases
    (
        "parse_long",
        1,
    ): "CASE WHEN regexp_full_match(_1, '[+-]?[0-9]+') THEN TRY_CAST(_1 AS BIGINT) END",
    ("div", 2): "_1 // _2",
    ("safe_divide", 2): "_1 / nullif(_2, 0)",
    ("truncate", 1): "trunc(_1)",
    ("bitwise_and", 2): "_1 & _2",
    ("bitwise_or", 2): "_1 | _2",
    ("bitwise_xor", 2): "xor(_1, _2)",
    ("bitwise_complement", 1): "~_1",
    ("bitwise_shift_left", 2): "CAST(_1 AS BIGINT) << _2",
    ("bitwise_shift_right", 2): "_1 >> _2",
    ("mv_to_array", 1): "_1",
    ("array_to_mv", 1): "_1",
    # a column of one text in each row has values too, one or none: to Druid, there is no other kind
    ("mv_length", 1): "CASE WHEN typeof(_1) LIKE '%[]' THEN len(_1) WHEN _1 IS NOT NULL THEN 1 END",
    ("mv_to_string", 2): "CASE WHEN typeof(_1) LIKE '%[]'"
    " THEN array_to_string(TRY_CAST(_1 AS VARCHAR[]), _2) ELSE CAST(_1 AS VARCHAR) END",
    ("parse_json", 1): "CAST(_1 AS JSON)",
    ("try_parse_json", 1): "TRY_CAST(_1 AS JSON)",
    ("to_json_string", 1): "CAST(to_json(_1) AS VARCHAR)",
}
"""Expressions by name and number of arguments; `_1` is the first of these. A maximum of bytes is passed over.

Superset prints `APPROX_DISTINCT` and `STR_POSITION` for functions that Druid calls otherwise.
"""

_UNITS = {
    "second": "second",
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "dow": "isodow",
    "doy": "doy",
    "week": "week",
    "month": "month",
    "quarter": "quarter",
    "year": "year",
}
"""Parts of a time by Druid's name; its days of a week begin with Monday, too."""
_TRUNCATED = {period: unit for unit, period in PERIODS.items()}
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_ZONE = re.compile(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)*")
_WHOLE_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:|$)")
_UTC = frozenset({"utc", "etc/utc", "z"})


def without_druid_calls(cursor: duckdb.DuckDBPyConnection, statement: Node) -> None:
    """Replace, in place, calls of Druid's functions; columns without a name keep that of the call."""
    for node in list(walk(statement["node"])):
        for item in node.get("select_list") or ():
            if not item["alias"] and any(map(_is_druids, walk(item))):
                item["alias"] = unparse(cursor, select_of([item])).removeprefix("SELECT ")
    for node in reversed(list(walk(statement["node"]))):  # what is within a call first
        form = _form(node) if _is_druids(node) else None
        if form is not None:
            _replace(cursor, node, form)


def is_here(name: str) -> bool:
    """Whether a function of Druid is here with some arguments."""
    return name.lower() in _NAMES


def _is_druids(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and is_here(str(node["function_name"]))


def _form(node: Node) -> str | None:
    """Return the expression that means the same; None: there is none for these arguments."""
    name, args = str(node["function_name"]).lower(), arguments(node)
    found = FORMS.get((name, len(args)))
    if found is None and name in _SPECIAL:
        try:
            found = _SPECIAL[name]([_text(one) for one in args])
        except Invalid:
            return None
    if name in _STEPPING and len(args) == 3:
        unit = _unit(args[0])
        if unit in PERIODS:
            found = _STEPPING[name].format(unit=unit, step=_interval(parse_period(PERIODS[unit])))
    return found


def _unit(node: Node) -> str:
    """Return the unit of time that a name or a text means."""
    names = node.get("column_names") or [_text(node) or ""]
    return str(names[0]).lower().removeprefix("sql_tsi_")


def _text(node: Node) -> str | None:
    """Return the text of a constant, "" for NULL; None: it is none."""
    literal = node.get("literal") or {}
    if literal.get("kind") == "NULL_LITERAL":
        return ""
    return str(literal["text"]) if literal.get("kind") == "STRING" else None


def _time_parse(texts: list[str | None]) -> str | None:
    """A year, a month or an hour alone is a time to Joda, and none to a cast."""
    if len(texts) != 1:
        return None
    if texts[0] is not None and _WHOLE_TIME.match(texts[0]):
        return "TRY_CAST(_1 AS TIMESTAMPTZ)"  # which conditions on time are found by
    return (
        "TRY_CAST(CASE length(_1) WHEN 4 THEN _1 || '-01-01' WHEN 7 THEN _1 || '-01' ELSE regexp_replace(_1,"
        r" '^(.{10}[T ]\d\d)(Z|[+-]\d\d(:?\d\d)?)?$', '\1:00\2') END AS TIMESTAMPTZ)"
    )


def _time_floor(texts: list[str | None]) -> str | None:
    if len(texts) not in {2, 4} or texts[1] is None:
        return None
    if len(texts) == 2 or (texts[2] == "" and (texts[3] or "").lower() in _UTC):
        return _floored(parse_period(texts[1]), "_1")
    zone = texts[3] or ""
    if texts[2] != "" or _ZONE.fullmatch(zone) is None:
        return None
    wall = f"timezone('{zone}', CAST(_1 AS TIMESTAMPTZ))"
    period = parse_period(texts[1])
    floored = _floored(period, wall)
    if floored is None:
        return None
    if period == Period(clock_ms=period.clock_ms) and period.clock_ms <= HOUR_MS:
        # clocks that go back show an hour twice: it is two hours
        return f"CAST(_1 AS TIMESTAMPTZ) - ({wall} - {floored})"
    return f"timezone('{zone}', {floored})"


def _floored(period: Period, what: str) -> str | None:
    if str(period) in _TRUNCATED:
        return f"date_trunc('{_TRUNCATED[str(period)]}', {what})"
    divides_day = period.clock_ms and DAY_MS % period.clock_ms == 0
    if period == Period(clock_ms=period.clock_ms) and divides_day:
        return f"time_bucket(INTERVAL '{period.clock_ms} milliseconds', {what})"
    if period.months and period == Period(months=period.months) and 12 % period.months == 0:
        return f"time_bucket(INTERVAL '{period.months} months', {what})"
    return None


def _time_ceil(texts: list[str | None]) -> str | None:
    if len(texts) != 2 or texts[1] is None:
        return None
    period = parse_period(texts[1])
    floored = _floored(period, "_1 - INTERVAL '1 microsecond'")
    return None if floored is None else f"{floored} + {_interval(period)}"


def _interval(period: Period) -> str:
    days = period.days + 7 * period.weeks
    return f"INTERVAL '{period.months} months {days} days {period.clock_ms} milliseconds'"


def _time_format(texts: list[str | None]) -> str | None:
    from carnac.specs.druid.joda import to_strftime  # specs take long to load

    pattern, zone = [*texts[1:], None, None][:2]
    if not texts or len(texts) > 3 or (len(texts) > 1 and pattern is None):
        return None
    if len(texts) == 3 and (zone or "").lower() not in _UTC:
        return None
    directives = to_strftime(pattern or _ISO).replace("'", "''")
    return f"strftime(CAST(_1 AS TIMESTAMPTZ), '{directives}')"


def _time_shift(texts: list[str | None]) -> str | None:
    if len(texts) not in {3, 4} or texts[1] is None:
        return None
    if len(texts) == 4 and (texts[3] or "").lower() not in _UTC:
        return None
    return f"_1 + _3 * {_interval(parse_period(texts[1]))}"


def _time_extract(texts: list[str | None]) -> str | None:
    if len(texts) not in {2, 3} or (len(texts) == 3 and (texts[2] or "").lower() not in _UTC):
        return None
    unit = (texts[1] or "").lower()
    if unit == "epoch":
        return "epoch_ms(_1) // 1000"
    return f"date_part('{_UNITS[unit]}', _1)" if unit in _UNITS else None


def _time_in_interval(texts: list[str | None]) -> str | None:
    if len(texts) != 2 or texts[1] is None:
        return None
    within = parse_interval(texts[1])
    start, end = (
        f"make_timestamptz({one_ms * 1000})" for one_ms in (within.start_ms, within.end_ms)
    )
    return f"(_1 >= {start} AND _1 < {end})"


def _lookup(texts: list[str | None]) -> str | None:
    if len(texts) not in {2, 3} or texts[1] is None:
        return None
    name = texts[1].replace('"', '""')
    found = f'(SELECT v FROM lookup."{name}" WHERE k = _1)'
    return found if len(texts) == 2 else f"coalesce({found}, _3)"


_SPECIAL: Mapping[str, Callable[[list[str | None]], str | None]] = {
    "time_parse": _time_parse,
    "time_floor": _time_floor,
    "time_ceil": _time_ceil,
    "time_format": _time_format,
    "time_shift": _time_shift,
    "time_extract": _time_extract,
    "time_in_interval": _time_in_interval,
    "lookup": _lookup,
}
_STEPPING = {
    "timestampadd": "_3 + _2 * {step}",
    "timestampdiff": "date_sub('{unit}', CAST(_2 AS TIMESTAMPTZ), CAST(_3 AS TIMESTAMPTZ))",
}
"""Expressions of functions whose first argument names a unit; a difference is of whole units, as Calcite has it."""
_NAMES = frozenset({name for name, _ in FORMS} | set(_SPECIAL) | set(_STEPPING))


def _replace(cursor: duckdb.DuckDBPyConnection, node: Node, form: str) -> None:
    """Put an expression in the place of a call; FILTER and DISTINCT of an aggregate stay."""
    _, statement = parse(cursor, f"SELECT {form}")
    [new] = statement["node"]["select_list"]
    args = arguments(node)
    new = _given(new, {f"_{place}": arg for place, arg in enumerate(args, start=1)})
    kept = {key: node[key] for key in NOWHERE}
    if new.get("class") == "FUNCTION":
        kept |= {key: node[key] for key in ("filter", "order_bys", "distinct")}
    node.clear()
    node.update(new | kept)


def _given(node: Any, args: Mapping[str, Node]) -> Any:
    """Return a tree in which arguments stand for their names."""
    if isinstance(node, list):
        return [_given(one, args) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        arg = args.get(str(node["column_names"][0]))
        if arg is not None:
            return deepcopy(arg)
    return {key: _given(one, args) for key, one in node.items()}
