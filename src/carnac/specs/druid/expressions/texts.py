"""Functions of texts, and the general ones: conditions, nulls, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from carnac.errors import Invalid
from carnac.specs.druid.expressions.table import (
    Function,
    constant_int,
    constant_text,
    to_int,
    written,
)
from carnac.specs.druid.expressions.values import (
    NULL,
    CastType,
    Sql,
    cast_to,
    common_type,
    quote_text,
    to_bool,
    to_double,
    to_text,
    to_value,
)
from carnac.specs.druid.patterns import check_pattern

CAST_TYPES: Mapping[str, CastType] = {
    "long": "long",
    "double": "double",
    "float": "double",
    "string": "string",
    "long_array": "array<long>",
    "double_array": "array<double>",
    "string_array": "array<string>",
    "array<long>": "array<long>",
    "array<double>": "array<double>",
    "array<float>": "array<double>",
    "array<string>": "array<string>",
    "complex<json>": "json",
}


def _same_type(values: Sequence[Sql]) -> list[Sql]:
    target = common_type([value.type for value in values])
    return [cast_to(value, target) for value in values]


def _cast(arguments: Sequence[Sql]) -> Sql:
    name = constant_text("cast", "the type", arguments[1]).lower()
    if name not in CAST_TYPES:
        raise Invalid(f"function cast does not know the type '{name}'; use LONG, DOUBLE or STRING")
    return cast_to(to_value(arguments[0]), CAST_TYPES[name])


def _if(arguments: Sequence[Sql]) -> Sql:
    then, otherwise = _same_type([to_value(value) for value in arguments[1:]])
    condition = to_bool(arguments[0]).text
    return Sql(f"CASE WHEN {condition} THEN {then.text} ELSE {otherwise.text} END", then.type)


def _case_searched(arguments: Sequence[Sql]) -> Sql:
    pairs = len(arguments) // 2
    results = [arguments[2 * i + 1] for i in range(pairs)]
    results.append(arguments[-1] if len(arguments) % 2 else NULL)
    results = _same_type([to_value(value) for value in results])
    whens = "".join(
        f" WHEN {to_bool(arguments[2 * i]).text} THEN {results[i].text}" for i in range(pairs)
    )
    return Sql(f"CASE{whens} ELSE {results[-1].text} END", results[-1].type)


def _case_simple(arguments: Sequence[Sql]) -> Sql:
    from carnac.specs.druid.expressions.operators import apply_binary

    subject, rest = arguments[0], list(arguments[1:])
    conditions = [apply_binary("==", subject, rest[i]) for i in range(0, len(rest) - 1, 2)]
    flat = [part for i, c in enumerate(conditions) for part in (c, rest[2 * i + 1])]
    return _case_searched([*flat, rest[-1]] if len(rest) % 2 else flat)


def _coalesce(arguments: Sequence[Sql]) -> Sql:
    values = _same_type([to_value(value) for value in arguments])
    return Sql(f"coalesce({', '.join(value.text for value in values)})", values[0].type)


_TEXTS = ("string", "json", "unknown")
_NUMBERS = ("long", "double", "bool")


def _distinct(word: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        values = [to_value(value) for value in arguments]
        if (
            {value.type in _TEXTS for value in values}
            == {value.type in _NUMBERS for value in values}
            == {True, False}
        ):
            left, right = map(
                to_double, values
            )  # a text beside a number is read as one, as `==` does
        else:
            left, right = _same_type(values)
        return Sql(f"({word}({left.text} <=> {right.text}))", "bool")

    return build


def like_pattern(pattern: str, escape: str | None) -> str:
    r"""Return a LIKE pattern with `\` as the escape, which is Spark's; Druid has none by default."""
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape is not None and character == escape:
            taken = next(characters, "")
            pieces.append("\\" + taken if taken in ("%", "_", "\\") else taken)
        elif character == "\\":
            pieces.append("\\\\")
        else:
            pieces.append(character)
    return "".join(pieces)


def _like(arguments: Sequence[Sql]) -> Sql:
    pattern = constant_text("like", "its pattern", arguments[1])
    escape = constant_text("like", "its escape", arguments[2]) if len(arguments) > 2 else None
    body = quote_text(like_pattern(pattern, escape))
    return Sql(f"({to_text(arguments[0]).text} LIKE {body})", "bool")


def _concat(arguments: Sequence[Sql]) -> Sql:
    if not arguments:
        return Sql("CAST(NULL AS STRING)", "string")
    return Sql(f"concat({', '.join(to_text(value).text for value in arguments)})", "string")


def _substring(arguments: Sequence[Sql]) -> Sql:
    text, start, length = to_text(arguments[0]).text, arguments[1], arguments[2]
    first = str(start.literal + 1) if isinstance(start.literal, int) else f"({to_int(start)} + 1)"
    if isinstance(length.literal, int):
        rest = f", {length.literal}" if length.literal >= 0 else ""
    else:
        rest = f", CASE WHEN {to_int(length)} < 0 THEN 2147483647 ELSE {to_int(length)} END"
    cut = f"substring({text}, {first}{rest})"
    return Sql(f"CASE WHEN length({text}) >= {first} THEN {cut} END", "string")


def _trim(word: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        characters = to_text(arguments[1]).text if len(arguments) > 1 else "' '"
        return Sql(f"trim({word} {characters} FROM {to_text(arguments[0]).text})", "string")

    return build


def _regexp_extract(arguments: Sequence[Sql]) -> Sql:
    pattern = quote_text(
        check_pattern(constant_text("regexp_extract", "its pattern", arguments[1]))
    )
    group = constant_int("regexp_extract", "the group", arguments[2]) if len(arguments) > 2 else 0
    text = to_text(arguments[0]).text
    found = f"regexp_extract({text}, {pattern}, {group})"
    return Sql(f"CASE WHEN {text} RLIKE {pattern} THEN {found} END", "string")


def _regexp_like(arguments: Sequence[Sql]) -> Sql:
    pattern = quote_text(check_pattern(constant_text("regexp_like", "its pattern", arguments[1])))
    return Sql(f"({to_text(arguments[0]).text} RLIKE {pattern})", "bool")


def _regexp_replace(arguments: Sequence[Sql]) -> Sql:
    if isinstance(arguments[1].literal, str):
        check_pattern(arguments[1].literal)
    text, pattern, other = (to_text(one).text for one in arguments)
    return Sql(f"regexp_replace({text}, {pattern}, {other})", "string")


def _strpos(arguments: Sequence[Sql]) -> Sql:
    start = f"greatest({to_int(arguments[2])}, 0) + 1" if len(arguments) > 2 else "1"
    text, part = to_text(arguments[0]).text, to_text(arguments[1]).text
    return Sql(f"CAST(locate({part}, {text}, {start}) - 1 AS BIGINT)", "long")


def _format(arguments: Sequence[Sql]) -> Sql:
    pattern = quote_text(constant_text("format", "its pattern", arguments[0]))
    values = "".join(f", {to_value(value).text}" for value in arguments[1:])
    return Sql(f"format_string({pattern}{values})", "string")


def _parse_long(arguments: Sequence[Sql]) -> Sql:
    radix = constant_int("parse_long", "the radix", arguments[1]) if len(arguments) > 1 else 10
    text = to_text(arguments[0]).text
    if radix == 10:
        return Sql(
            f"CASE WHEN {text} RLIKE '^[+-]?[0-9]+$' THEN try_cast({text} AS BIGINT) END", "long"
        )
    if not 2 <= radix <= 36:
        raise Invalid(f"function parse_long needs a radix of 2 to 36, not {radix}")
    digits = "0-9" if radix > 9 else f"0-{radix - 1}"
    letters = f"a-{chr(ord('a') + radix - 11)}" if radix > 10 else ""
    most = int(64 / math.log2(radix))  # conv fails beyond 64 bits
    pattern = quote_text(f"(?i)^[+-]?0*[{digits}{letters}]{{1,{most}}}$")
    value = f"try_cast(conv(trim(LEADING '+' FROM {text}), {radix}, -10) AS BIGINT)"
    return Sql(f"CASE WHEN {text} RLIKE {pattern} THEN {value} END", "long")


def _extreme(name: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        if not arguments:
            return NULL
        values = _same_type([to_value(value) for value in arguments])
        if len(values) == 1:
            return values[0]
        return Sql(f"{name}({', '.join(value.text for value in values)})", values[0].type)

    return build


FUNCTIONS: Mapping[str, Function] = {
    "cast": Function(_cast, 2, 2, takes_arrays=True),
    "if": Function(_if, 3, 3, takes_arrays=True),
    "case_searched": Function(_case_searched, 2, None, takes_arrays=True),
    "case_simple": Function(_case_simple, 3, None, takes_arrays=True),
    "nvl": Function(_coalesce, 2, 2, takes_arrays=True),
    "coalesce": Function(_coalesce, 1, None, takes_arrays=True),
    "isnull": written("=", "({0} IS NULL)", "bool", takes_arrays=True),
    "notnull": written("=", "({0} IS NOT NULL)", "bool", takes_arrays=True),
    "istrue": written("b", "({0} IS TRUE)", "bool"),
    "isfalse": written("b", "({0} IS FALSE)", "bool"),
    "nottrue": written("b", "({0} IS NOT TRUE)", "bool"),
    "notfalse": written("b", "({0} IS NOT FALSE)", "bool"),
    "is_distinct_from": Function(_distinct("NOT "), 2, 2),
    "notdistinctfrom": Function(_distinct(""), 2, 2),
    "like": Function(_like, 2, 3),
    "greatest": Function(_extreme("greatest"), 0, None),
    "least": Function(_extreme("least"), 0, None),
    "concat": Function(_concat, 0, None),
    "strlen": written("t", "CAST(octet_length(encode({0}, 'UTF-16BE')) div 2 AS BIGINT)", "long"),
    "substring": Function(_substring, 3, 3),
    "left": written("ti", "left({0}, {1})", "string"),
    "right": written("ti", "right({0}, {1})", "string"),
    "lower": written("t", "lower({0})", "string"),
    "upper": written("t", "upper({0})", "string"),
    "reverse": written("t", "reverse({0})", "string"),
    "replace": written("ttt", "replace({0}, {1}, {2})", "string"),
    "trim": Function(_trim("BOTH"), 1, 2),
    "btrim": Function(_trim("BOTH"), 1, 2),
    "ltrim": Function(_trim("LEADING"), 1, 2),
    "rtrim": Function(_trim("TRAILING"), 1, 2),
    "regexp_extract": Function(_regexp_extract, 2, 3),
    "regexp_like": Function(_regexp_like, 2, 2),
    "regexp_replace": Function(_regexp_replace, 3, 3),
    "contains_string": written("tt", "contains({0}, {1})", "bool"),
    "icontains_string": written("tt", "contains(lower({0}), lower({1}))", "bool"),
    "strpos": Function(_strpos, 2, 3),
    "repeat": written("ti", "CASE WHEN {1} >= 1 THEN repeat({0}, {1}) END", "string"),
    "lpad": written("tit", "lpad({0}, {1}, {2})", "string"),
    "rpad": written("tit", "rpad({0}, {1}, {2})", "string"),
    "format": Function(_format, 1, None),
    "parse_long": Function(_parse_long, 1, 2),
}
