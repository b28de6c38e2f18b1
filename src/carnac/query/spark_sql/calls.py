"""Calls of functions and operators in Spark's SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from carnac.query.distributed.aggregates import function_name
from carnac.query.spark_sql.functions import (
    COUNTED,
    FLOORS,
    FUNCTIONS,
    PARTS,
    STRFTIME,
    UNITS,
    Form,
    lower,
    upper,
)
from carnac.query.spark_sql.kinds import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FRACTIONS,
    INTERVAL,
    LONG,
    NULL,
    PLAIN_TIME,
    TEXT,
    TIME,
    TIMES,
    WHOLE,
    Kind,
    converted,
    is_decimal,
    is_number,
    quoted,
    refuse,
    spark_type,
)
from carnac.query.spark_sql.typing import Printer, is_constant
from carnac.query.syntax import Node, arguments, name_asked

_PLUS, _MINUS, _TIMES_SIGN, _REST = {"+", "add"}, {"-", "subtract"}, {"*", "multiply"}, {"%", "mod"}
_ARITHMETIC = _PLUS | _MINUS | _TIMES_SIGN | _REST | {"/", "//", "divide", "fdiv"}
_LIKES = {"~~": "", "!~~": "NOT ", "~~*": "", "!~~*": "NOT "}
_BITS = {"&": "&", "|": "|", "xor": "^"}
_BUCKET_ORIGIN_US = 946_857_600_000_000
"""2000-01-03, at which a bucket of DuckDB's `time_bucket` starts; of one of months it is 2000-01-01."""
_DAY_US = 86_400_000_000
_FORMAT = re.compile(r"%(.)|([A-Za-z]+)|([^A-Za-z%'])", re.DOTALL)

Call = Callable[[Printer, Node, Sequence[Node]], str]


def call_of(out: Printer, node: Node) -> str:
    """Return a call of a function that is no aggregate.

    Raises:
        NotInSpark: Spark has none that means the same.
    """
    name, args = function_name(node), arguments(node)
    kind = out.kind(node)
    if name in _ARITHMETIC and len(args) == 2:
        return _arithmetic(out, node, name, args)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(out, node, args)
    for form in FUNCTIONS.get(name, ()):
        found = _formed(out, form, args, kind)
        if found is not None:
            return f"CAST({found} AS {spark_type(kind)})" if kind in WHOLE else f"({found})"
    kinds = ", ".join(out.kind(one) for one in args)
    asked = name_asked(node)
    raise refuse(f"{asked}({kinds})" if asked.lower() in FUNCTIONS else f"the function {asked}")


def _formed(out: Printer, form: Form, args: Sequence[Node], kind: Kind) -> str | None:
    """Return a call by its template; None: it has other arguments than the form takes."""
    letters, template = form
    is_many = letters.endswith("*")
    letters = letters.removesuffix("*")
    if is_many and len(args) >= len(letters):
        letters += letters[-1] * (len(args) - len(letters))
    if len(letters) != len(args):
        return None
    found = []
    for letter, one in zip(letters, args, strict=True):
        text = _argument(out, letter, one, kind, args)
        if text is None:
            return None
        found.append(text)
    if is_many:
        first = form[0].removesuffix("*")
        found = [*found[: len(first) - 1], ", ".join(found[len(first) - 1 :])]
    return template.format(*found)


def _argument(
    out: Printer, letter: str, node: Node, result: Kind, args: Sequence[Node]
) -> str | None:
    kind = out.kind(node)
    if letter in "sk1":
        if not is_constant(node):
            return None
        if letter != "s":
            return str(out.whole_number(node, least=int(letter == "1")))
        text = out.oracle.value(node, TEXT)
        return quoted(str(text)) if kind == TEXT and text else None
    wanted: Mapping[str, tuple[bool, Kind]] = {
        "t": (kind in {TEXT, NULL}, TEXT),
        "v": (not kind.endswith("]"), TEXT),
        "d": (is_number(kind) or kind == NULL, DOUBLE),
        "r": (is_number(kind), result),
        "b": (kind in {BOOLEAN, NULL}, BOOLEAN),
        "i": (kind in WHOLE, LONG),
        "T": (kind in TIMES, PLAIN_TIME),
        "D": (kind in TIMES, DATE),
        "l": (kind.endswith("[]"), kind),
        "x": (True, result),
        "o": (not result.endswith("[]"), result),
        "e": (out.kind(args[0]).endswith("[]"), out.kind(args[0]).removesuffix("[]")),
        "y": (True, result.removesuffix("[]")),
    }
    fits, target = wanted[letter]
    return out.made(node, target) if fits else None


def _arithmetic(out: Printer, node: Node, name: str, args: Sequence[Node]) -> str:
    kind, kinds = out.kind(node), [out.kind(one) for one in args]
    if not all(is_number(one) or one == NULL for one in kinds):
        return _of_times(out, name, args, kinds, kind)
    if not is_number(kind):
        raise refuse(f"{name} of {' and '.join(kinds)}")
    if is_decimal(kind) and name in _TIMES_SIGN:
        left, right = (out.sql(one) for one in args)
        return f"CAST({left} * {right} AS {spark_type(kind)})"
    left, right = (out.made(one, kind) for one in args)
    if name in _PLUS | _MINUS | _TIMES_SIGN:
        sign = "+" if name in _PLUS else "-" if name in _MINUS else "*"
        return f"CAST({left} {sign} {right} AS {spark_type(kind)})"
    if kind in FRACTIONS:
        return _of_fractions(name, left, right, kind)
    if kind not in WHOLE or name not in _REST | {"//", "divide"}:
        raise refuse(f"{name} of {' and '.join(kinds)}")
    if name in _REST:
        return f"({left} % {right})"
    return f"CAST({left} div {right} AS {spark_type(kind)})"


def _of_fractions(name: str, left: str, right: str, kind: Kind) -> str:
    """Return a quotient or a remainder; by zero it is infinite, or no number, as in DuckDB."""
    target = spark_type(kind)
    if name in _REST:
        by_zero = f"CASE WHEN {left} IS NOT NULL THEN double('NaN') END"
        found = f"CASE WHEN {right} = 0 THEN {by_zero} ELSE {left} % {right} END"
        return f"CAST({found} AS {target})"
    if name not in {"/", "fdiv"}:
        raise refuse(f"{name} of {kind}")
    by_zero = (
        f"CASE WHEN {left} = 0 OR isnan({left}) THEN double('NaN') "
        f"WHEN ({left} > 0) = (CAST({right} AS STRING) NOT LIKE '-%') THEN double('Infinity') "
        f"WHEN {left} IS NOT NULL THEN double('-Infinity') END"
    )
    return f"CAST(CASE WHEN {right} = 0 THEN {by_zero} ELSE {left} / {right} END AS {target})"


def _of_times(
    out: Printer, name: str, args: Sequence[Node], kinds: Sequence[Kind], kind: Kind
) -> str:
    """Return a time and an interval, or a date and days, added or subtracted."""
    times = [one for one in args if out.kind(one) in TIMES]
    others = [one for one in args if out.kind(one) not in TIMES]
    if name not in _PLUS | _MINUS or not times or (name in _MINUS and args[0] is not times[0]):
        raise refuse(f"{name} of {' and '.join(kinds)}")
    sign = 1 if name in _PLUS else -1
    if len(times) == 2 and kinds == [DATE, DATE] and name in _MINUS:
        return f"CAST(datediff({out.sql(args[0])}, {out.sql(args[1])}) AS {spark_type(kind)})"
    if len(others) == 1 and out.kind(others[0]) in WHOLE and out.kind(times[0]) == DATE:
        days = f"CAST({out.made(others[0], LONG)} AS INT)"
        return f"date_add({out.sql(times[0])}, {days if sign > 0 else f'-{days}'})"
    if len(others) != 1 or out.kind(others[0]) != INTERVAL or not is_constant(others[0]):
        raise refuse(f"{name} of {' and '.join(kinds)}")
    months, days_, micros = (sign * one for one in out.oracle.interval(others[0]))
    found = out.made(times[0], PLAIN_TIME)
    if months:
        found = f"timestampadd(MONTH, {months}, {found})"
    if days_ or micros:
        found = f"timestamp_micros(unix_micros({found}) + {days_ * _DAY_US + micros}L)"
    return converted(found, PLAIN_TIME, kind)


def _negative(out: Printer, node: Node, args: Sequence[Node]) -> str:
    kind = out.kind(node)
    if len(args) != 1 or not is_number(kind):
        raise refuse("a minus before something else than a number")
    return f"(- {out.made(args[0], kind)})"


def _same(out: Printer, node: Node, args: Sequence[Node]) -> str:
    return out.made(args[0], out.kind(node))


def _joined(out: Printer, node: Node, args: Sequence[Node]) -> str:
    if out.kind(node) != TEXT:
        raise refuse("|| of something else than texts")
    return f"concat({', '.join(out.made(one, TEXT) for one in args)})"


def _like(out: Printer, node: Node, args: Sequence[Node]) -> str:
    name = function_name(node)
    if any(out.kind(one) not in {TEXT, NULL} for one in args):
        raise refuse("LIKE of something else than texts")
    value, pattern = (out.made(one, TEXT) for one in args)
    pattern = f"replace({pattern}, {quoted(chr(92))}, {quoted(chr(92) * 2)})"
    if name.endswith("*"):
        value, pattern = lower(value), lower(pattern)
    return f"({value} {_LIKES[name]}LIKE {pattern})"


def _upper(out: Printer, node: Node, args: Sequence[Node]) -> str:
    del node
    return upper(out.made(args[0], TEXT))


def _lower(out: Printer, node: Node, args: Sequence[Node]) -> str:
    del node
    return lower(out.made(args[0], TEXT))


def _nullif(out: Printer, node: Node, args: Sequence[Node]) -> str:
    common = out.common(args)
    same = f"{out.made(args[0], common)} = {out.made(args[1], common)}"
    return f"CASE WHEN {same} THEN NULL ELSE {out.made(args[0], out.kind(node))} END"


def _rounded(out: Printer, node: Node, args: Sequence[Node]) -> str:
    kind, own = out.kind(node), out.kind(args[0])
    digits = out.whole_number(args[1]) if len(args) == 2 else 0
    if own in WHOLE:
        return out.made(args[0], kind)
    if is_decimal(own):
        return f"CAST(round({out.sql(args[0])}, {digits}) AS {spark_type(kind)})"
    if own not in FRACTIONS or digits > 15:
        raise refuse(f"round of {own}")
    value = out.made(args[0], DOUBLE)
    found = f"round({value} * 1e{digits}D) / 1e{digits}D"
    bound = "9007199254740992D"  # 2⁵³: larger ones have no digits to round
    return f"CAST(CASE WHEN abs({value}) * 1e{digits}D < {bound} THEN {found} ELSE {value} END AS {spark_type(kind)})"


def _floored(out: Printer, node: Node, args: Sequence[Node]) -> str:
    kind, own = out.kind(node), out.kind(args[0])
    name = function_name(node)
    if own in FRACTIONS:
        return f"CAST({FLOORS[name].format(out.made(args[0], DOUBLE))} AS {spark_type(kind)})"
    if own in WHOLE or is_decimal(own):
        word = "floor" if name == "floor" else "ceil"
        return f"CAST({word}({out.sql(args[0])}) AS {spark_type(kind)})"
    raise refuse(f"{name} of {own}")


def _bits(out: Printer, node: Node, args: Sequence[Node]) -> str:
    kind = out.kind(node)
    if kind not in WHOLE or spark_type(kind).startswith("DECIMAL"):
        raise refuse(f"{function_name(node)} of {kind}")
    left, right = (out.made(one, kind) for one in args)
    return f"({left} {_BITS[function_name(node)]} {right})"


def _unit(out: Printer, node: Node, known: Mapping[str, str] | frozenset[str]) -> str:
    text = str(out.oracle.value(node, TEXT)).lower() if is_constant(node) else ""
    for one in (text, text.removesuffix("s")):
        if one in known:
            return one
    raise refuse(f"the part of a time '{text}'")


def _time_of(out: Printer, node: Node) -> str:
    if out.kind(node) not in TIMES:
        raise refuse(f"a part of {out.kind(node)}")
    return out.made(node, PLAIN_TIME)


def _truncated(out: Printer, node: Node, args: Sequence[Node]) -> str:
    unit = _unit(out, args[0], UNITS)
    found = f"date_trunc('{unit.upper()}', {_time_of(out, args[1])})"
    return converted(found, PLAIN_TIME, out.kind(node))


def _part(out: Printer, node: Node, args: Sequence[Node]) -> str:
    unit = _unit(out, args[0], frozenset(PARTS))
    kind = out.kind(node)
    found = PARTS[unit].format(_time_of(out, args[1]))
    return f"({found})" if kind == DOUBLE else f"CAST({found} AS {spark_type(kind)})"


def _counted(out: Printer, node: Node, args: Sequence[Node]) -> str:
    unit = _unit(out, args[0], frozenset(COUNTED))
    start, end = (COUNTED[unit].format(_time_of(out, one)) for one in args[1:])
    return f"CAST({end} - {start} AS {spark_type(out.kind(node))})"


def _bucket(out: Printer, node: Node, args: Sequence[Node]) -> str:
    if len(args) != 2 or not is_constant(args[0]):
        raise refuse("time_bucket with an origin or a width of its own for each row")
    months, days, micros = out.oracle.interval(args[0])
    width_us = days * _DAY_US + micros
    time = _time_of(out, args[1])
    if months > 0 and not width_us:
        over = f"pmod(year({time}) * 12 + month({time}) - 24001, {months})"
        found = f"timestampadd(MONTH, - {over}, date_trunc('MONTH', {time}))"
    elif width_us > 0 and not months:
        over = f"pmod(unix_micros({time}) - {_BUCKET_ORIGIN_US}L, {width_us}L)"
        found = f"timestamp_micros(unix_micros({time}) - {over})"
    else:
        raise refuse("time_bucket of such a width")
    return converted(found, PLAIN_TIME, out.kind(node))


def _zoned(out: Printer, node: Node, args: Sequence[Node]) -> str:
    if len(args) != 2 or not is_constant(args[0]) or out.kind(args[1]) != TIME:
        raise refuse("the time of a zone made an instant")
    zone = quoted(str(out.oracle.value(args[0], TEXT)))
    return f"from_utc_timestamp({out.sql(args[1])}, {zone})" if out.kind(node) == PLAIN_TIME else ""


def _formatted(out: Printer, node: Node, args: Sequence[Node]) -> str:
    del node
    if len(args) != 2 or not is_constant(args[1]):
        raise refuse("strftime with a format of its own for each row")
    found = ""
    for letter, word, sign in _FORMAT.findall(str(out.oracle.value(args[1], TEXT))):
        if letter:
            found += STRFTIME.get(letter, "?")
        else:
            found += f"'{word}'" if word else sign
    if re.search(r"[?#{}\[\]]", found) is not None:
        raise refuse("such a format of strftime")
    return f"date_format({_time_of(out, args[0])}, {quoted(found)})"


_SPECIAL: Mapping[str, Call] = {
    "-": _negative,
    "+": _same,
    "||": _joined,
    **dict.fromkeys(_LIKES, _like),
    "upper": _upper,
    "ucase": _upper,
    "lower": _lower,
    "lcase": _lower,
    "nullif": _nullif,
    "round": _rounded,
    **dict.fromkeys(FLOORS, _floored),
    **dict.fromkeys(_BITS, _bits),
    "date_trunc": _truncated,
    "datetrunc": _truncated,
    "date_part": _part,
    "datepart": _part,
    "date_diff": _counted,
    "datediff": _counted,
    "time_bucket": _bucket,
    "timezone": _zoned,
    "strftime": _formatted,
}
"""Calls that are printed differently for other types or constants."""
