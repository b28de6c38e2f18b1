"""Druid's expressions as SQL, for queries and for loads.

Two texts: `+` joins them, comparisons go by text. Two longs stay long, and `/` drops the fraction. Anything else is
done in doubles. Where an operator wants one value and gets a multi-value dimension, it is applied to each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from carnac.core.words import counted
from carnac.errors import Invalid
from carnac.specs.druid.terms import documents, instants, lists, numbers, texts
from carnac.specs.druid.terms.syntax import (
    ArrayLiteral,
    Binary,
    Call,
    Identifier,
    Literal,
    Node,
    Unary,
    parse,
)
from carnac.specs.druid.terms.table import MANY, Function, are_long
from carnac.specs.druid.terms.values import (
    EACH,
    NULL,
    Kind,
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
_OF_LAMBDAS = frozenset({"map", "filter", "fold", "any", "all", "cartesian_map", "cartesian_fold"})
FACTORS_MAX = 64
"""So many factors have no room in a long, unless they are 0, 1 or -1."""


def compile_expression(text: object, find: Find, *, absent: Set[str] = frozenset()) -> Sql:
    """Return one of Druid's expressions as SQL.

    Args:
        absent: Functions that are for queries, and may not be called here.

    Raises:
        Invalid: It is none, or calls what is not supported.
    """
    if not isinstance(text, str):
        raise Invalid("an expression must be a text")
    try:
        return _Compiler(find, absent).compile(parse(text))
    except Invalid as error:
        if error.message.startswith("expression '"):
            raise
        raise Invalid(f"expression '{text}': {error.message}", expression=text) from None
    except RecursionError:
        raise Invalid(f"expression '{text[:60]}…' is nested too deep", expression=text) from None


@dataclass(frozen=True, slots=True)
class _Compiler:
    find: Find
    absent: Set[str]

    def compile(self, node: Node) -> Sql:
        """Return the SQL of a tree; raises Invalid."""
        found = self._compiled(node)
        if len(found.text) > MAX_SQL:
            raise Invalid("it becomes too long in SQL; split it into several expressions")
        return found

    def _compiled(self, node: Node) -> Sql:
        if isinstance(node, Literal):
            return literal(node.value)
        if isinstance(node, Identifier):
            return self.find(node.name)
        if isinstance(node, ArrayLiteral):
            return _array(node)
        if isinstance(node, Unary):
            operand = self.compile(node.operand)
            return _each([operand], lambda one: _unary(node.operator, one[0]))
        if isinstance(node, Binary):
            operands = [self.compile(node.left), self.compile(node.right)]
            return _each(operands, lambda two: _binary(node.operator, two[0], two[1]))
        return self._call(node)

    def _call(self, node: Call) -> Sql:
        function = FUNCTIONS.get(node.name)
        if node.name in self.absent:
            raise Invalid(f"function {node.name} is for queries; it cannot be used while ingesting")
        if node.name in _OF_LAMBDAS:
            raise Invalid(f"function {node.name} takes a lambda, which is not supported")
        if function is None:
            raise Invalid(f"function {node.name} is not supported{suggest(node.name, FUNCTIONS)}")
        if not function.least <= len(node.arguments) <= function.most:
            raise Invalid(
                f"function {node.name} takes {_arity(function)}, not {len(node.arguments)}"
            )
        arguments = [self.compile(one) for one in node.arguments]
        return function.build(arguments) if function.is_whole else _each(arguments, function.build)


def _arity(function: Function) -> str:
    if function.most == MANY:
        return f"at least {counted(function.least, 'argument')}"
    if function.most == function.least:
        return counted(function.least, "argument")
    return f"{function.least} to {function.most} arguments"


def _array(node: ArrayLiteral) -> Sql:
    elements: Mapping[str, Kind] = {"string": "string", "long": "long", "double": "double"}
    if node.element is not None and node.element not in elements:
        raise Invalid(f"an array cannot be of type {node.element}; use STRING, LONG or DOUBLE")
    items = [literal(one.value) for one in node.items]
    return lists.array_literal(
        items, elements[node.element] if node.element else common_kind(items)
    )


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
    if result.is_array:
        raise Invalid("an array of arrays is not supported")
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
