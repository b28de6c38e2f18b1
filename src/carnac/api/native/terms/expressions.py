"""Druid's expressions as SQL: the tree that specs have, printed for the engine of queries.

Two texts: `+` joins them, comparisons go by text. Two longs stay long, and `/` drops the fraction. Anything else is
done in doubles. Where an operator wants one value and gets a multi-value dimension, it is applied to each value. Values
are those that the same expression has where rows are loaded (`specs.druid.expressions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.api.native.terms import documents, instants, lists, numbers, texts
from carnac.api.native.terms.table import Function, are_long
from carnac.api.native.terms.values import (
    EACH,
    NULL,
    Sql,
    array_of,
    common_kind,
    element,
    literal,
    to_bool,
    to_double,
    to_long,
    to_text,
    to_value,
)
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
from carnac.specs.problems import suggest

Find = Callable[[str], Sql]
"""Returns a column."""
MAX_SQL = 200_000
"""Most characters of SQL that an expression may become: some operations repeat their operands."""
_COMPARISONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
FUNCTIONS: Mapping[str, Function] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **instants.FUNCTIONS,
    **lists.FUNCTIONS,
    **documents.FUNCTIONS,
}
"""Every function that can be called."""
FACTORS_MAX = 64
"""So many factors have no room in a long, unless they are 0, 1 or -1."""


def compile_expression(text: object, find: Find) -> Sql:
    """Return one of Druid's expressions as SQL.

    Raises:
        Invalid: It is none, or calls what is not supported.
    """
    if not isinstance(text, str):
        raise Invalid("an expression must be a text")
    try:
        return _compile(parse(text), find)
    except Invalid as error:
        raise Invalid(f"expression '{text}': {error.message}") from None
    except RecursionError:
        raise Invalid(f"expression '{text[:60]}…' is nested too deep") from None


def _compile(node: Node, find: Find) -> Sql:
    found = _compiled(node, find)
    if len(found.text) > MAX_SQL:
        raise Invalid("it becomes too long in SQL")
    return found


def _compiled(node: Node, find: Find) -> Sql:
    if isinstance(node, Literal):
        return literal(node.value)
    if isinstance(node, Identifier):
        return find(node.name)
    if isinstance(node, ArrayLiteral):
        items = [literal(one.value) for one in node.items]
        return lists.array_literal(items, node.element or common_kind(items))  # type: ignore[arg-type]
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
    return Sql(f"list_transform({array.text}, lambda {EACH}: {result.text})", array_of(result.kind))


def _unary(operator: str, operand: Sql) -> Sql:
    if operator == "!":
        return Sql(f"(NOT {to_bool(operand).text})", "bool")
    number = to_value(operand) if operand.is_number else to_double(operand)
    if number.is_literal and isinstance(number.value, int | float):
        return literal(-number.value)
    if number.kind == "long":
        return numbers.fitting(f"0 - {numbers.wide(number)}")
    return Sql(f"(- {number.text})", number.kind)


def _binary(operator: str, left: Sql, right: Sql) -> Sql:
    if operator in {"&&", "||"}:
        word = "AND" if operator == "&&" else "OR"
        return Sql(f"({to_bool(left).text} {word} {to_bool(right).text})", "bool")
    if operator in _COMPARISONS:
        return texts.equal(left, right, _COMPARISONS[operator])
    left, right = to_value(left), to_value(right)
    are_texts = not left.is_number and not right.is_number
    if are_texts and operator == "+":
        return Sql(f"({to_text(left).text} || {to_text(right).text})", "string")
    if are_texts and left is not NULL and right is not NULL:
        raise Invalid(f"operator {operator} does not take two texts; cast them to numbers")
    if are_long([left, right]):
        return _of_longs(operator, to_long(left), to_long(right))
    a, b = to_double(left).text, to_double(right).text
    return Sql(f"pow({a}, {b})" if operator == "^" else f"({a} {operator} {b})", "double")


def _of_longs(operator: str, left: Sql, right: Sql) -> Sql:
    """Return what has no room in a long, or has no value, as null."""
    a, b = left.text, right.text
    if operator == "^":
        return _power(left, right)
    if operator == "/":
        return numbers.divide_longs(left, right)
    if operator == "%":
        rest = f"({a} % nullif({b}, 0))"
        if right.is_literal and right.value != -1:
            return Sql(rest, "long")
        # DuckDB divides by -1, for which the quotient of the least long has no room
        return Sql(f"CASE WHEN {b} = -1 AND {a} IS NOT NULL THEN 0 ELSE {rest} END", "long")
    return numbers.fitting(f"{numbers.wide(left)} {operator} {b}")


def _power(base: Sql, exponent: Sql) -> Sql:
    """Return a product of longs, exact to the last digit, of as many factors as decide: 64 more change its sign alone.

    Source: `BinPowExpr` of Druid, which calls Guava's `LongMath.pow`.
    """
    times = exponent.text
    if not exponent.is_literal:
        times = f"least({times}, {FACTORS_MAX} + {times} % 2)"
    elif isinstance(exponent.value, int):
        times = str(min(exponent.value, FACTORS_MAX + exponent.value % 2))
    factor = numbers.wide(base)
    factors = (
        f"list_prepend(CAST(1 AS HUGEINT), list_transform(range({times}), lambda __i: {factor}))"
    )
    product = numbers.fitting(f"list_reduce({factors}, lambda __p, __f: __p * __f)").text
    has_room = f"{times} >= 0 AND abs(pow({to_double(base).text}, {times})) < 1e19"
    return Sql(f"CASE WHEN {has_room} THEN {product} END", "long")


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
