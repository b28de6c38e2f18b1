"""Functions of times, which are longs: milliseconds since 1970 in UTC, as in Druid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.core.quoting import quote_text
from carnac.core.time.granularity import Granularity
from carnac.specs.druid.terms.table import Function, constant
from carnac.specs.druid.terms.times import bucket_ms, instant, of_time, read_granularity
from carnac.specs.druid.terms.values import Kind, Sql, to_long, to_text

_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
STEPS_MAX = 100_000
"""More steps of a month lead out of what times there are."""


def _is_said(arguments: Sequence[Sql], place: int) -> bool:
    given = arguments[place] if len(arguments) > place else None
    return given is not None and not (given.is_literal and given.value in {None, ""})


def _zone(arguments: Sequence[Sql], place: int) -> str:
    return constant(arguments[place], "the zone") if _is_said(arguments, place) else "UTC"


def _granularity(arguments: Sequence[Sql]) -> Granularity:
    block: dict[str, object] = {"type": "period", "period": constant(arguments[1], "the period")}
    if _is_said(arguments, 2):
        block["origin"] = arguments[2].value
    block["timeZone"] = _zone(arguments, 3)
    return read_granularity(block)


def _floor(arguments: Sequence[Sql]) -> Sql:
    return Sql(bucket_ms(_granularity(arguments), to_long(arguments[0])), "long")


def _ceil(arguments: Sequence[Sql]) -> Sql:
    granularity, t = _granularity(arguments), to_long(arguments[0])
    start = bucket_ms(granularity, t)
    if granularity.fixed_ms is not None:
        after = f"{start} + {granularity.fixed_ms}"
    else:
        period, zone = constant(arguments[1], "the period"), _zone(arguments, 3)
        form = granularity.to_json()
        origin = "" if isinstance(form, str) else str(form.get("origin", ""))
        after = f"epoch_ms({of_time('time_ceil', instant(t), period, origin, zone)})"
    return Sql(f"CASE WHEN {start} = {t.text} THEN {t.text} ELSE {after} END", "long")


def _timed(name: str, gives: Kind, what: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return a function that SQL has for instants: a constant follows, and a zone."""

    def build(arguments: Sequence[Sql]) -> Sql:
        at, said = instant(to_long(arguments[0])), constant(arguments[1], what)
        return Sql(of_time(name, at, said, _zone(arguments, 2)), gives)

    return build


def _format(arguments: Sequence[Sql]) -> Sql:
    zone = _zone(arguments, 2)
    if _is_said(arguments, 1):
        return _timed("time_format", "string", "the pattern")(arguments)
    t = to_long(arguments[0])
    if zone == "UTC":
        return Sql(of_time("time_format", instant(t), _ISO), "string")
    body = of_time("time_format", instant(t), _ISO[:-3], zone)
    wall = f"epoch_ms(timezone({quote_text(zone)}, {instant(t)}))"
    minutes = f"(({wall} - {t.text}) // 60000)"
    sign = f"if({minutes} < 0, '-', '+')"
    offset = f"printf('%s%02d:%02d', {sign}, abs({minutes}) // 60, abs({minutes}) % 60)"
    return Sql(f"({body} || CASE WHEN {minutes} = 0 THEN 'Z' ELSE {offset} END)", "string")


def _shift(arguments: Sequence[Sql]) -> Sql:
    period, zone = constant(arguments[1], "the period"), _zone(arguments, 3)
    t, step = instant(to_long(arguments[0])), to_long(arguments[2])
    moved = f"epoch_ms({of_time('time_shift', t, period, None, zone, step=step.text)})"
    if step.is_literal and abs(int(step.value or 0)) <= STEPS_MAX:
        return Sql(moved, "long")
    return Sql(
        f"CASE WHEN {step.text} BETWEEN -{STEPS_MAX} AND {STEPS_MAX} THEN {moved} END", "long"
    )


def _parse(arguments: Sequence[Sql]) -> Sql:
    text = to_text(arguments[0])
    pattern = constant(arguments[1], "the pattern") if _is_said(arguments, 1) else ""
    first = str(text.value) if isinstance(text.value, str) else None
    read = of_time("time_parse", text.text, pattern, _zone(arguments, 2), first=first)
    return Sql(f"epoch_ms({read})", "long")


def _seconds(arguments: Sequence[Sql]) -> Sql:
    return Sql(f"CAST(floor({_parse(arguments).text} / 1000) AS BIGINT)", "long")


FUNCTIONS: Mapping[str, Function] = {
    "timestamp": Function(_parse, 1, 2),
    "unix_timestamp": Function(_seconds, 1, 2),
    "timestamp_parse": Function(_parse, 1, 3),
    "timestamp_floor": Function(_floor, 2, 4),
    "timestamp_ceil": Function(_ceil, 2, 4),
    "timestamp_shift": Function(_shift, 3, 4),
    "timestamp_extract": Function(_timed("time_extract", "long", "the unit"), 2, 3),
    "timestamp_format": Function(_format, 1, 3),
}
