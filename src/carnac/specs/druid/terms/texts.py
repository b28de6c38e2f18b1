"""Functions of texts, and the general ones: conditions, nulls, casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.core.druid.forms import PARSE_LONG, PARSE_LONG_OF_BASE, POSITION, filled
from carnac.core.quoting import quote_text
from carnac.errors import Invalid
from carnac.specs.druid.patterns import JAVA, compile_javas, is_javas, read_pattern, to_rewrite
from carnac.specs.druid.terms.table import (
    MANY,
    Function,
    constant,
    int_of,
    plain,
    same,
    several,
    text_of,
    whole,
)
from carnac.specs.druid.terms.values import (
    NULL,
    Kind,
    Sql,
    cast_to,
    literal,
    to_bool,
    to_double,
    to_text,
    to_value,
)

CAST_TYPES: Mapping[str, Kind] = {
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


def equal(left: Sql, right: Sql, operator: str = "=") -> Sql:
    """Return a comparison: of two texts by text, of two longs as they are, of anything else as doubles."""
    left, right = to_value(left), to_value(right)
    if not left.is_number and not right.is_number:
        left, right = to_text(left), to_text(right)
    elif not left.kind == right.kind == "long":
        left, right = to_double(left), to_double(right)
    return Sql(f"({left.text} {operator} {right.text})", "bool")


def _cast(arguments: Sequence[Sql]) -> Sql:
    name = constant(arguments[1], "the type").lower()
    if name not in CAST_TYPES:
        raise Invalid(f"function cast does not know the type '{name}'; use LONG, DOUBLE or STRING")
    return cast_to(to_value(arguments[0]), CAST_TYPES[name])


def _case(arguments: Sequence[Sql]) -> Sql:
    rest = list(arguments) if len(arguments) % 2 else [*arguments, NULL]
    results = same([*rest[1:-1:2], rest[-1]])
    whens = zip(rest[:-1:2], results[:-1], strict=True)
    said = "".join(f" WHEN {to_bool(test).text} THEN {then.text}" for test, then in whens)
    return Sql(f"CASE{said} ELSE {results[-1].text} END", results[0].kind)


def _case_simple(arguments: Sequence[Sql]) -> Sql:
    subject, rest = arguments[0], list(arguments[1:])
    flat = []
    for place in range(0, len(rest) - 1, 2):
        flat += [equal(subject, rest[place]), rest[place + 1]]
    return _case([*flat, rest[-1]] if len(rest) % 2 else flat)


def _distinct(word: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        if NULL in arguments:
            left, right = same(arguments)
            return Sql(f"({left.text} {word} {right.text})", "bool")
        return equal(arguments[0], arguments[1], word)

    return build


def _concat(arguments: Sequence[Sql]) -> Sql:
    return (
        Sql(f"({' || '.join(text_of(one).text for one in arguments)})", "string")
        if arguments
        else NULL
    )


def like(value: Sql, pattern: str, escape: str | None) -> Sql:
    """Return whether a text matches a pattern."""
    if escape is not None and len(escape) > 1:
        raise Invalid(f"the escape must be one character, not '{escape}'")
    said = f" ESCAPE {quote_text(escape)}" if escape else ""
    return Sql(f"({to_text(value).text} LIKE {quote_text(pattern)}{said})", "bool")


def _like(arguments: Sequence[Sql]) -> Sql:
    escape = constant(arguments[2], "the escape") if len(arguments) > 2 else None
    return like(to_value(arguments[0]), constant(arguments[1], "the pattern"), escape)


def _substring(arguments: Sequence[Sql]) -> Sql:
    return substring(to_value(arguments[0]), int_of(arguments[1]), int_of(arguments[2]))


def substring(value: Sql, index: str, length: str | None) -> Sql:
    """Return a part of a text, null where there is none; a negative length is the rest."""
    text = to_text(value).text
    rest = f"substr({text}, {index} + 1)"
    cut = rest
    if length is not None:
        cut = f"CASE WHEN {length} < 0 THEN {rest} ELSE substr({text}, {index} + 1, {length}) END"
    return Sql(f"CASE WHEN length({text}) > {index} THEN {cut} END", "string")


def _extract(arguments: Sequence[Sql]) -> Sql:
    group = whole(arguments[2], "the group") if len(arguments) > 2 else 0
    return regexp(to_value(arguments[0]), constant(arguments[1], "the pattern"), group)


def regexp(value: Sql, pattern: str, group: int) -> Sql:
    """Return what a group of a regular expression matches; null if it does not match."""
    text = to_text(value).text
    found = by_pattern("regexp_extract", text, literal(pattern), str(group))
    return Sql(f"CASE WHEN {matches(text, pattern)} THEN {found} END", "string")


def by_pattern(function: str, text: str, pattern: Sql, *more: str) -> str:
    """Return the call of a function that finds a pattern: of one of ours where Java reads it and DuckDB does not.

    Raises:
        Invalid: The pattern is a constant that no engine reads.
    """
    if isinstance(pattern.value, str):
        read = read_pattern(pattern.value)
        if is_javas(read):
            compile_javas(read)
            function = f"{JAVA}{function}"
        pattern = literal(read)
    return f"{function}({', '.join((text, pattern.text, *more))})"


def matches(text: str, pattern: str) -> str:
    """Return whether a regular expression finds something in a text; raises Invalid."""
    return by_pattern("regexp_matches", text, literal(pattern))


def _matches(arguments: Sequence[Sql]) -> Sql:
    text, pattern = text_of(arguments[0]), text_of(arguments[1])
    return Sql(by_pattern("regexp_matches", text.text, pattern), "bool")


def _replaced(arguments: Sequence[Sql]) -> Sql:
    text, pattern, other = (text_of(one) for one in arguments)
    if isinstance(other.value, str):
        other = literal(to_rewrite(other.value))
    return Sql(by_pattern("regexp_replace", text.text, pattern, other.text, "'g'"), "string")


def _trim(name: str) -> Function:
    def build(arguments: Sequence[Sql]) -> Sql:
        characters = text_of(arguments[1]).text if len(arguments) > 1 else "' '"
        return Sql(f"{name}({text_of(arguments[0]).text}, {characters})", "string")

    return Function(build, 1, 2)


def _pad(name: str) -> Function:
    """Return a function that lengthens a text, or cuts it; by nothing it cannot be lengthened."""
    padded = f"{name}({{0}}, CAST({{1}} AS INTEGER), {{2}})"
    cut = "left({0}, {1})"
    return plain("tit", f"CASE WHEN {{2}} = '' THEN {cut} ELSE {padded} END", "string")


def _strpos(arguments: Sequence[Sql]) -> Sql:
    text, part = text_of(arguments[0]).text, text_of(arguments[1]).text
    if len(arguments) == 2:
        return Sql(f"CAST(strpos({text}, {part}) - 1 AS BIGINT)", "long")
    start = f"(greatest({int_of(arguments[2])}, 0) + 1)"
    return Sql(f"CAST({filled(POSITION, part, text, start)} - 1 AS BIGINT)", "long")


def _format(arguments: Sequence[Sql]) -> Sql:
    values = "".join(
        f", {one.text}" if one.is_number else f", coalesce({one.text}, 'null')"
        for one in map(to_value, arguments[1:])
    )
    return Sql(f"printf({quote_text(constant(arguments[0], 'the pattern'))}{values})", "string")


def _parse_long(arguments: Sequence[Sql]) -> Sql:
    radix = whole(arguments[1], "the radix") if len(arguments) > 1 else 10
    if not 2 <= radix <= 36:
        raise Invalid(f"parse_long takes a radix of 2 to 36, not {radix}")
    form = PARSE_LONG if radix == 10 else PARSE_LONG_OF_BASE
    return Sql(filled(form, text_of(arguments[0]).text, str(radix)), "long")


def _lookup(arguments: Sequence[Sql]) -> Sql:
    missing = f", {text_of(arguments[2]).text}" if len(arguments) > 2 else ""
    name = quote_text(constant(arguments[1], "the lookup"))
    return Sql(f"LOOKUP({text_of(arguments[0]).text}, {name}{missing})", "string")


_BEYOND = "length(regexp_replace({0}, '[^\\x{{10000}}-\\x{{10FFFF}}]', '', 'g'))"
"""Characters that Java counts twice."""
FUNCTIONS: Mapping[str, Function] = {
    "cast": Function(_cast, 2, 2, is_whole=True),
    "if": Function(_case, 3, 3),
    "case_searched": Function(_case, 2, MANY),
    "case_simple": Function(_case_simple, 3, MANY),
    "nvl": Function(several("coalesce"), 2, 2, is_whole=True),
    "coalesce": Function(several("coalesce"), 1, MANY, is_whole=True),
    "istrue": plain("b", "({0} IS TRUE)", "bool"),
    "isfalse": plain("b", "({0} IS FALSE)", "bool"),
    "nottrue": plain("b", "({0} IS NOT TRUE)", "bool"),
    "notfalse": plain("b", "({0} IS NOT FALSE)", "bool"),
    "is_distinct_from": Function(_distinct("IS DISTINCT FROM"), 2, 2),
    "notdistinctfrom": Function(_distinct("IS NOT DISTINCT FROM"), 2, 2),
    "like": Function(_like, 2, 3),
    "concat": Function(_concat, 0, MANY),
    "strlen": plain("t", f"CAST(length({{0}}) + {_BEYOND} AS BIGINT)", "long"),
    "substring": Function(_substring, 3, 3),
    "left": plain("ti", "left({0}, if({1} < 0, 0, {1}))", "string"),
    "right": plain("ti", "right({0}, if({1} < 0, 0, {1}))", "string"),
    "lower": plain("t", "lower({0})", "string"),
    "upper": plain("t", "upper({0})", "string"),
    "reverse": plain("t", "reverse({0})", "string"),
    "replace": plain("ttt", "replace({0}, {1}, {2})", "string"),
    "trim": _trim("trim"),
    "btrim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "lpad": _pad("lpad"),
    "rpad": _pad("rpad"),
    "repeat": plain("ti", "CASE WHEN {1} >= 1 THEN repeat({0}, {1}) END", "string"),
    "regexp_extract": Function(_extract, 2, 3),
    "regexp_like": Function(_matches, 2, 2),
    "regexp_replace": Function(_replaced, 3, 3),
    "contains_string": plain("tt", "contains({0}, {1})", "bool"),
    "icontains_string": plain("tt", "contains(lower({0}), lower({1}))", "bool"),
    "strpos": Function(_strpos, 2, 3),
    "format": Function(_format, 1, MANY),
    "parse_long": Function(_parse_long, 1, 2),
    "lookup": Function(_lookup, 2, 3),
}
