"""Operators of Druid's expression language.

Two texts: `+` joins them, comparisons go by text, other arithmetic is an error in Druid and here.
Two longs stay long, and `/` drops the fraction. Anything else is done in doubles. A null operand
gives null, except that `&&` and `||` follow SQL's three values.

Two departures: a long result that does not fit, and a long divided by zero, are null (in Druid the
first wraps around, the second makes the row a bad row). So is a long to a negative power.
"""

from __future__ import annotations

from carnac.errors import Invalid
from carnac.specs.druid.expressions.values import NULL, Sql, to_bool, to_double, to_long, to_text

FACTORS_MAX = 64
"""So many factors have no room in a long, unless they are 0, 1 or -1."""
COMPARISONS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def apply_unary(operator: str, operand: Sql) -> Sql:
    """Return `!x` or `-x`."""
    if operator == "!":
        return Sql(f"(NOT {to_bool(operand).text})", "bool")
    if operand.type == "string":
        raise Invalid("operator - does not take a text; cast it to a number")
    number = operand if operand.type == "long" else to_double(operand)
    if operand.type == "bool":
        number = to_long(operand)
    if number.type == "long":
        return Sql(f"try_subtract(0L, {number.text})", "long")
    return Sql(f"(- {number.text})", number.type)


def apply_binary(operator: str, left: Sql, right: Sql) -> Sql:
    """Return `x <operator> y`."""
    if operator in ("&&", "||"):
        word = "AND" if operator == "&&" else "OR"
        return Sql(f"({to_bool(left).text} {word} {to_bool(right).text})", "bool")
    if operator in COMPARISONS:
        return _compare(COMPARISONS[operator], left, right)
    return _arithmetic(operator, left, right)


def _both(left: Sql, right: Sql, *types: str) -> bool:
    return left.type in types and right.type in types


def _compare(operator: str, left: Sql, right: Sql) -> Sql:
    if _both(left, right, "null"):
        return Sql("CAST(NULL AS BOOLEAN)", "bool")
    if _both(left, right, "long", "bool", "null"):
        left, right = to_long(left), to_long(right)
    elif _both(left, right, "string", "json", "unknown", "null"):
        left, right = to_text(left), to_text(right)
    else:
        left, right = to_double(left), to_double(right)
    return Sql(f"({left.text} {operator} {right.text})", "bool")


def _arithmetic(operator: str, left: Sql, right: Sql) -> Sql:
    if _both(left, right, "null"):
        return NULL
    if _both(left, right, "string", "json", "null"):
        if operator != "+":
            raise Invalid(f"operator {operator} does not take two texts; cast them to numbers")
        return Sql(f"concat({to_text(left).text}, {to_text(right).text})", "string")
    if _both(left, right, "long", "bool", "null"):
        return _long_arithmetic(operator, to_long(left), to_long(right))
    return _double_arithmetic(operator, to_double(left), to_double(right))


def _long_arithmetic(operator: str, left: Sql, right: Sql) -> Sql:
    a, b = left.text, right.text
    if operator in "+-*":
        name = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}[operator]
        return Sql(f"{name}({a}, {b})", "long")
    if operator == "^":
        return _power(a, right)
    if operator == "/":
        return divide_longs(left, right)
    divisor = b if right.is_literal and right.literal not in (0, None) else f"nullif({b}, 0L)"
    return Sql(f"({a} % {divisor})", "long")


def divide_longs(left: Sql, right: Sql) -> Sql:
    """Return a quotient without its fraction: null by zero, and of the least long by -1, which has no room."""
    a, b = left.text, right.text
    if right.is_literal and right.literal not in (0, -1, None):
        return Sql(f"({a} div {b})", "long")
    negative = f"WHEN {b} = -1L THEN try_subtract(0L, {a})"
    return Sql(f"(CASE {negative} ELSE {a} div nullif({b}, 0L) END)", "long")


def _power(base: str, exponent: Sql) -> Sql:
    """Return a product of longs, exact to the last digit, of as many factors as decide: 64 more change its sign alone.

    Source: `BinPowExpr` of Druid, which calls Guava's `LongMath.pow`.
    """
    times = exponent.text
    if isinstance(exponent.literal, int):
        times = f"{min(exponent.literal, FACTORS_MAX + exponent.literal % 2)}L"
    elif not exponent.is_literal:
        times = f"least({times}, {FACTORS_MAX}L + {times} % 2L)"
    factors = f"array_repeat({base}, CAST({times} AS INT))"
    product = f"aggregate({factors}, 1L, (product, factor) -> try_multiply(product, factor))"
    return Sql(f"CASE WHEN {base} IS NOT NULL AND {times} >= 0L THEN {product} END", "long")


def _double_arithmetic(operator: str, left: Sql, right: Sql) -> Sql:
    a, b = left.text, right.text
    if operator in "+-*":
        return Sql(f"({a} {operator} {b})", "double")
    if operator == "^":
        return Sql(f"pow({a}, {b})", "double")
    return Sql(divide_doubles(operator, a, right), "double")


def divide_doubles(operator: str, a: str, divisor: Sql) -> str:
    """Return `a / b` or `a % b` as IEEE 754 has it: 1/0 is Infinity, 0/0 and 1%0 are NaN."""
    b = divisor.text
    if divisor.is_literal and divisor.literal not in (0, 0.0, None):
        return f"({a} {operator} {b})"
    by_zero = "double('Infinity')" if operator == "/" else "double('NaN')"
    return f"(CASE WHEN {b} = 0.0D THEN {a} * {by_zero} ELSE {a} {operator} {b} END)"
