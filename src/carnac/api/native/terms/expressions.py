"""Druid's expressions as SQL: the tree that specs have, printed for the engine of queries.

Two texts: `+` joins them, comparisons go by text. Two longs stay long, and `/` drops the fraction. Anything else is
done in doubles. Where an operator wants one value and gets a multi-value dimension, it is applied to each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from carnac.api.native.terms.times import bucket_ms, instant, read_granularity
from carnac.api.native.terms.values import (
    EACH,
    NULL,
    Kind,
    Sql,
    cast_to,
    common_kind,
    element,
    literal,
    sql_type,
    to_bool,
    to_double,
    to_long,
    to_text,
    to_value,
)
from carnac.core.quoting import quote_text
from carnac.errors import Invalid
from carnac.specs.druid.expressions.syntax import (
    ArrayLiteral,
    Binary,
    Call,
    Identifier,
    Literal,
    Node,
    Unary,
    parse,
)
from carnac.specs.druid.expressions.texts import CAST_TYPES
from carnac.specs.druid.filters import TextDialect
from carnac.specs.problems import suggest

Find = Callable[[str], Sql]
"""Returns a column."""
MAX_SQL = 200_000
"""Most characters of SQL that an expression may become: some operations repeat their operands."""
_COMPARISONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compile_expression(text: object, find: Find) -> Sql:
    """Return one of Druid's expressions as SQL.

    Raises:
        Invalid: It is none, or calls what is not supported.
    """
    if not isinstance(text, str):
        raise Invalid("an expression must be a text")
    try:
        found = _compile(parse(text), find)
    except Invalid as error:
        raise Invalid(f"expression '{text}': {error.message}") from None
    except RecursionError:
        raise Invalid(f"expression '{text[:60]}…' is nested too deep") from None
    if len(found.text) > MAX_SQL:
        raise Invalid(f"expression '{text[:60]}…' becomes too long in SQL")
    return found


def _compile(node: Node, find: Find) -> Sql:
    if isinstance(node, Literal):
        return literal(node.value)
    if isinstance(node, Identifier):
        return find(node.name)
    if isinstance(node, ArrayLiteral):
        items = [literal(one.value) for one in node.items]
        kind: Kind = f"array<{node.element or common_kind(items)}>"  # type: ignore[assignment]
        return Sql(f"CAST([{', '.join(one.text for one in items)}] AS {sql_type(kind)})", kind)
    if isinstance(node, Unary):
        operand = _compile(node.operand, find)
        return _each([operand], lambda one: _unary(node.operator, one[0]))
    if isinstance(node, Binary):
        operands = [_compile(node.left, find), _compile(node.right, find)]
        return _each(operands, lambda two: _binary(node.operator, two[0], two[1]))
    return _call(node, find)


def _each(arguments: Sequence[Sql], build: Callable[[Sequence[Sql]], Sql]) -> Sql:
    """Build with single values; if an argument has several, with each of them."""
    places = [place for place, one in enumerate(arguments) if one.is_array]
    if not places:
        return build(arguments)
    if len(places) > 1:
        raise Invalid("two multi-value columns in one operation are not supported")
    single = list(arguments)
    array = single[places[0]]
    single[places[0]] = Sql(EACH, element(array.kind))
    result = to_value(build(single))
    kind: Kind = f"array<{result.kind}>"  # type: ignore[assignment]
    return Sql(f"list_transform({array.text}, lambda {EACH}: {result.text})", kind)


def _unary(operator: str, operand: Sql) -> Sql:
    if operator == "!":
        return Sql(f"(NOT {to_bool(operand).text})", "bool")
    number = to_value(operand) if operand.is_number else to_double(operand)
    if number.is_literal and isinstance(number.value, int | float):
        return literal(-number.value)
    return Sql(f"(- {number.text})", number.kind)


def _binary(operator: str, left: Sql, right: Sql) -> Sql:
    if operator in {"&&", "||"}:
        word = "AND" if operator == "&&" else "OR"
        return Sql(f"({to_bool(left).text} {word} {to_bool(right).text})", "bool")
    left, right = to_value(left), to_value(right)
    are_texts = not left.is_number and not right.is_number
    are_long = left.kind == right.kind == "long"
    if operator in _COMPARISONS:
        if are_texts:
            left, right = to_text(left), to_text(right)
        elif not are_long:
            left, right = to_double(left), to_double(right)
        return Sql(f"({left.text} {_COMPARISONS[operator]} {right.text})", "bool")
    if are_texts and operator == "+":
        return Sql(f"({to_text(left).text} || {to_text(right).text})", "string")
    if are_texts and left is not NULL and right is not NULL:
        raise Invalid(f"operator {operator} does not take two texts; cast them to numbers")
    return _arithmetic(operator, left, right, is_long=are_long)


def _arithmetic(operator: str, left: Sql, right: Sql, *, is_long: bool) -> Sql:
    kind: Kind = "long" if is_long else "double"
    a, b = cast_to(left, kind).text, cast_to(right, kind).text
    if operator == "^":
        power = f"pow({a}, {b})"
        return Sql(f"TRY_CAST({power} AS BIGINT)" if is_long else power, kind)
    if operator in "/%":
        if not is_long:
            return Sql(f"({a} {operator} {b})", kind)
        # of whole numbers `//` rounds down, and Druid towards 0
        divided = f"({a} // nullif({b}, 0))" if operator == "/" else f"({a} % nullif({b}, 0))"
        return Sql(divided, kind)
    return Sql(f"({a} {operator} {b})", kind)


def _call(node: Call, find: Find) -> Sql:
    function = FUNCTIONS.get(node.name)
    if function is None:
        raise Invalid(f"function {node.name} is not supported{suggest(node.name, FUNCTIONS)}")
    if not function.least <= len(node.arguments) <= function.most:
        raise Invalid(
            f"function {node.name} takes {function.least} to {function.most} arguments, not {len(node.arguments)}"
        )
    arguments = [_compile(one, find) for one in node.arguments]
    return function.build(arguments) if function.is_whole else _each(arguments, function.build)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Druid's expressions.

    Attributes:
        least: Fewest arguments.
        most: Most arguments.
        is_whole: Whether it takes lists; else it is applied to each value of one.
    """

    build: Callable[[Sequence[Sql]], Sql]
    least: int
    most: int
    is_whole: bool = False


_TAKEN: Mapping[str, Callable[[Sql], Sql]] = {
    "b": to_bool,
    "d": to_double,
    "l": to_long,
    "t": to_text,
    "a": lambda one: one if one.is_array else Sql(f"[{to_value(one).text}]", "array<string>"),
    "=": lambda one: one,
}
_MANY = 1_000


def _plain(takes: str, template: str, gives: Kind, *, is_whole: bool = False) -> Function:
    """Return a function of a template; `takes` has a letter for each argument."""

    def build(arguments: Sequence[Sql]) -> Sql:
        taken = [_TAKEN[letter](one).text for letter, one in zip(takes, arguments, strict=True)]
        return Sql(template.format(*taken), gives)

    return Function(build, len(takes), len(takes), is_whole)


def _constant(value: Sql, what: str) -> str:
    if not value.is_literal or value.value is None:
        raise Invalid(f"{what} must be a constant")
    return str(value.value)


def _whole(value: Sql, what: str) -> int:
    if not isinstance(value.value, int):
        raise Invalid(f"{what} must be a whole number")
    return value.value


def _same(values: Sequence[Sql]) -> list[Sql]:
    kind = common_kind(list(values))
    return [cast_to(to_value(one), kind) for one in values]


def _cast(arguments: Sequence[Sql]) -> Sql:
    kind = CAST_TYPES.get(_constant(arguments[1], "the type").lower())
    if kind is None:
        raise Invalid(f"cast takes {', '.join(name.upper() for name in CAST_TYPES)}")
    return cast_to(to_value(arguments[0]), kind)


def _case(arguments: Sequence[Sql]) -> Sql:
    rest = list(arguments) if len(arguments) % 2 else [*arguments, NULL]
    results = _same([*rest[1:-1:2], rest[-1]])
    whens = zip(rest[:-1:2], results[:-1], strict=True)
    said = "".join(f" WHEN {to_bool(test).text} THEN {then.text}" for test, then in whens)
    return Sql(f"CASE{said} ELSE {results[-1].text} END", results[0].kind)


def _case_simple(arguments: Sequence[Sql]) -> Sql:
    subject, rest = arguments[0], list(arguments[1:])
    flat = []
    for place in range(0, len(rest) - 1, 2):
        flat += [_binary("==", subject, rest[place]), rest[place + 1]]
    return _case([*flat, rest[-1]] if len(rest) % 2 else flat)


def _several(name: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        values = _same(arguments)
        return Sql(f"{name}({', '.join(one.text for one in values)})", values[0].kind)

    return build


def _concat(arguments: Sequence[Sql]) -> Sql:
    return Sql(f"({' || '.join(to_text(one).text for one in arguments)})", "string")


def _like(arguments: Sequence[Sql]) -> Sql:
    escape = _constant(arguments[2], "the escape") if len(arguments) > 2 else None
    return like(arguments[0], _constant(arguments[1], "the pattern"), escape)


class Texts(TextDialect[Sql]):
    """Texts in the engine's SQL."""

    def text(self, value: Sql) -> str:
        """See `TextDialect`."""
        return to_text(value).text

    def quote(self, text: str) -> str:
        """See `TextDialect`."""
        return quote_text(text)

    def matches(self, value: Sql, pattern: str) -> str:
        """See `TextDialect`."""
        return f"regexp_matches({self.text(value)}, {pattern})"


def like(value: Sql, pattern: str, escape: str | None) -> Sql:
    """Return whether a text matches a pattern."""
    said = f" ESCAPE {quote_text(escape)}" if escape else ""
    return Sql(f"({to_text(value).text} LIKE {quote_text(pattern)}{said})", "bool")


def _substring(arguments: Sequence[Sql]) -> Sql:
    return substring(arguments[0], to_long(arguments[1]).text, to_long(arguments[2]).text)


def substring(value: Sql, index: str, length: str | None) -> Sql:
    """Return a part of a text, null where there is none; a negative length is the rest."""
    text = to_text(value).text
    rest = f"substr({text}, {index} + 1)"
    cut = rest
    if length is not None:
        cut = f"CASE WHEN {length} < 0 THEN {rest} ELSE substr({text}, {index} + 1, {length}) END"
    return Sql(f"CASE WHEN length({text}) > {index} THEN {cut} END", "string")


def _extract(arguments: Sequence[Sql]) -> Sql:
    group = _whole(arguments[2], "the group") if len(arguments) > 2 else 0
    return regexp(arguments[0], _constant(arguments[1], "the pattern"), group)


def regexp(value: Sql, pattern: str, group: int) -> Sql:
    """Return what a group of a regular expression matches; null if it does not match."""
    text, said = to_text(value).text, quote_text(pattern)
    found = f"regexp_extract({text}, {said}, {group})"
    return Sql(f"CASE WHEN regexp_matches({text}, {said}) THEN {found} END", "string")


def _zone(arguments: Sequence[Sql], place: int) -> str:
    is_said = len(arguments) > place and arguments[place].value not in {None, ""}
    return _constant(arguments[place], "the zone") if is_said else "UTC"


def _floor(arguments: Sequence[Sql]) -> Sql:
    block: dict[str, object] = {"type": "period", "period": _constant(arguments[1], "the period")}
    if len(arguments) > 2 and arguments[2].value not in {None, ""}:
        block["origin"] = arguments[2].value
    block["timeZone"] = _zone(arguments, 3)
    return Sql(bucket_ms(read_granularity(block), to_long(arguments[0])), "long")


def _timed(
    name: str, gives: Kind, *, place: int = 1, first: str = ""
) -> Callable[[Sequence[Sql]], Sql]:
    """Return a function that SQL has for instants: constants follow, and a zone."""

    def build(arguments: Sequence[Sql]) -> Sql:
        said = [instant(to_long(arguments[0]))]
        said += [
            str(one.value) if one.kind == "long" else quote_text(_constant(one, "each argument"))
            for one in arguments[1 : place + 1]
        ]
        said += [quote_text(first)] if len(said) == 1 and first else []
        zone = _zone(arguments, place + 1)
        said += [] if zone == "UTC" else [quote_text(zone)]
        text = f"{name}({', '.join(said)})"
        return Sql(f"epoch_ms({text})" if name == "TIME_SHIFT" else text, gives)

    return build


def _round(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    number = value if value.is_number else to_double(value)
    digits = f", {_whole(arguments[1], 'the digits')}" if len(arguments) > 1 else ""
    return Sql(f"round({number.text}{digits})", number.kind)


def _parse_time(arguments: Sequence[Sql]) -> Sql:
    given = (
        "NULL"
        if one.value is None and one.is_literal
        else quote_text(_constant(one, "the pattern"))
        for one in arguments[1:]
    )
    said = "".join(f", {one}" for one in given)
    return Sql(f"epoch_ms(TIME_PARSE({to_text(arguments[0]).text}{said}))", "long")


def _lookup(arguments: Sequence[Sql]) -> Sql:
    missing = f", {to_text(arguments[2]).text}" if len(arguments) > 2 else ""
    name = quote_text(_constant(arguments[1], "the lookup"))
    return Sql(f"LOOKUP({to_text(arguments[0]).text}, {name}{missing})", "string")


def _json_value(arguments: Sequence[Sql]) -> Sql:
    path = quote_text(_constant(arguments[1], "the path"))
    found = Sql(f"JSON_VALUE({to_text(arguments[0]).text}, {path})", "string")
    return _cast([found, arguments[2]]) if len(arguments) > 2 else found


def _at(base: int) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        array, place = _TAKEN["a"](arguments[0]), to_long(arguments[1]).text
        return Sql(f"list_extract({array.text}, {place} + {1 - base})", element(array.kind))

    return build


_OF_ONE = "acos asin atan cbrt cos cosh cot exp sin sinh sqrt tan tanh ceil floor".split()
_OF_LISTS = {
    "length": _plain("a", "CAST(len({0}) AS BIGINT)", "long", is_whole=True),
    "offset": Function(_at(0), 2, 2, is_whole=True),
    "ordinal": Function(_at(1), 2, 2, is_whole=True),
    "contains": _plain("aa", "list_has_all({0}, {1})", "bool", is_whole=True),
    "overlap": _plain("aa", "list_has_any({0}, {1})", "bool", is_whole=True),
    "to_string": _plain("at", "array_to_string({0}, {1})", "string", is_whole=True),
}
FUNCTIONS: Mapping[str, Function] = {
    **{name: _plain("d", f"CAST({name}({{0}}) AS DOUBLE)", "double") for name in _OF_ONE},
    **{f"{kind}_{name}": made for kind in ("array", "mv") for name, made in _OF_LISTS.items()},
    "pi": _plain("", "pi()", "double"),
    "log": _plain("d", "ln({0})", "double"),
    "log10": _plain("d", "log10({0})", "double"),
    "pow": _plain("dd", "pow({0}, {1})", "double"),
    "atan2": _plain("dd", "atan2({0}, {1})", "double"),
    "abs": Function(lambda a: Sql(f"abs({to_value(a[0]).text})", to_value(a[0]).kind), 1, 1),
    "round": Function(_round, 1, 2),
    "div": _plain("ll", "({0} // nullif({1}, 0))", "long"),
    "safe_divide": _plain("dd", "({0} / nullif({1}, 0))", "double"),
    "bitwiseand": _plain("ll", "({0} & {1})", "long"),
    "bitwiseor": _plain("ll", "({0} | {1})", "long"),
    "bitwisexor": _plain("ll", "xor({0}, {1})", "long"),
    "max": Function(_several("greatest"), 2, 2),
    "min": Function(_several("least"), 2, 2),
    "greatest": Function(_several("greatest"), 1, _MANY),
    "least": Function(_several("least"), 1, _MANY),
    "cast": Function(_cast, 2, 2, is_whole=True),
    "if": Function(_case, 3, 3),
    "case_searched": Function(_case, 2, _MANY),
    "case_simple": Function(_case_simple, 3, _MANY),
    "nvl": Function(_several("coalesce"), 2, 2, is_whole=True),
    "coalesce": Function(_several("coalesce"), 1, _MANY, is_whole=True),
    "isnull": _plain("=", "({0} IS NULL)", "bool", is_whole=True),
    "notnull": _plain("=", "({0} IS NOT NULL)", "bool", is_whole=True),
    "istrue": _plain("b", "({0} IS TRUE)", "bool"),
    "isfalse": _plain("b", "({0} IS FALSE)", "bool"),
    "like": Function(_like, 2, 3),
    "concat": Function(_concat, 1, _MANY),
    "strlen": _plain("t", "CAST(length({0}) AS BIGINT)", "long"),
    "substring": Function(_substring, 3, 3),
    "left": _plain("tl", "left({0}, {1})", "string"),
    "right": _plain("tl", "right({0}, {1})", "string"),
    "lower": _plain("t", "lower({0})", "string"),
    "upper": _plain("t", "upper({0})", "string"),
    "reverse": _plain("t", "reverse({0})", "string"),
    "replace": _plain("ttt", "replace({0}, {1}, {2})", "string"),
    "trim": _plain("t", "trim({0}, ' ')", "string"),
    "ltrim": _plain("t", "ltrim({0}, ' ')", "string"),
    "rtrim": _plain("t", "rtrim({0}, ' ')", "string"),
    "lpad": _plain("tlt", "lpad({0}, CAST({1} AS INTEGER), {2})", "string"),
    "rpad": _plain("tlt", "rpad({0}, CAST({1} AS INTEGER), {2})", "string"),
    "repeat": _plain("tl", "repeat({0}, {1})", "string"),
    "regexp_extract": Function(_extract, 2, 3),
    "regexp_like": _plain("tt", "regexp_matches({0}, {1})", "bool"),
    "regexp_replace": _plain("ttt", "regexp_replace({0}, {1}, {2}, 'g')", "string"),
    "contains_string": _plain("tt", "contains({0}, {1})", "bool"),
    "icontains_string": _plain("tt", "contains(lower({0}), lower({1}))", "bool"),
    "strpos": _plain("tt", "CAST(strpos({0}, {1}) - 1 AS BIGINT)", "long"),
    "parse_long": _plain("t", "PARSE_LONG({0})", "long"),
    "lookup": Function(_lookup, 2, 3),
    "json_value": Function(_json_value, 2, 3),
    "json_query": _plain("tt", "CAST(JSON_QUERY({0}, {1}) AS VARCHAR)", "json"),
    "mv_to_array": _plain("a", "{0}", "array<string>", is_whole=True),
    "array_to_mv": _plain("a", "{0}", "array<string>", is_whole=True),
    "string_to_mv": _plain("tt", "string_split_regex({0}, {1})", "array<string>"),
    "string_to_array": _plain("tt", "string_split_regex({0}, {1})", "array<string>"),
    "timestamp": Function(_parse_time, 1, 2),
    "timestamp_parse": Function(_parse_time, 1, 3),
    "timestamp_floor": Function(_floor, 2, 4),
    "timestamp_extract": Function(_timed("TIME_EXTRACT", "long"), 2, 3),
    "timestamp_format": Function(
        _timed("TIME_FORMAT", "string", first="yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"), 1, 3
    ),
    "timestamp_shift": Function(_timed("TIME_SHIFT", "long", place=2), 3, 4),
}
"""Every function that can be called."""
