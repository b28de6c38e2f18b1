"""Functions of numbers, as java.lang.Math has them: doubles, with NaN and Infinity where Spark has null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.specs.druid.expressions.operators import divide_doubles, divide_longs
from carnac.specs.druid.expressions.table import Function, constant_int, written
from carnac.specs.druid.expressions.values import Sql, to_double, to_long, to_value


def _are_long(arguments: Sequence[Sql]) -> bool:
    return all(value.type in ("long", "bool", "null") for value in arguments)


def _abs(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    if value.type == "long":
        x = value.text
        return Sql(f"CASE WHEN {x} >= 0L THEN {x} ELSE try_subtract(0L, {x}) END", "long")
    return Sql(f"abs({to_double(value).text})", "double")


def _round(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    digits = constant_int("round", "the decimal places", arguments[1]) if len(arguments) > 1 else 0
    if value.type == "long":
        exact = f"CAST({value.text} AS DECIMAL(19, 0))"
        return Sql(
            f"try_cast(round({exact}, {digits}) AS BIGINT)" if digits < 0 else value.text, "long"
        )
    x = to_double(value).text
    return Sql(f"CASE WHEN isnan({x}) THEN 0.0D ELSE round({x}, {digits}) END", "double")


def _div(arguments: Sequence[Sql]) -> Sql:
    if not _are_long(arguments):
        return to_long(_divided(arguments))
    return divide_longs(to_long(arguments[0]), to_long(arguments[1]))


def _safe_divide(arguments: Sequence[Sql]) -> Sql:
    if _are_long(arguments):
        return _div(arguments)
    return _divided(arguments)


def _divided(arguments: Sequence[Sql]) -> Sql:
    x, y = (to_double(value).text for value in arguments)
    return Sql(f"({x} / nullif({y}, 0.0D))", "double")


def _remainder(arguments: Sequence[Sql]) -> Sql:
    x, y = (to_double(value) for value in arguments)
    quotient = divide_doubles("/", x.text, y)
    return Sql(f"({x.text} - {y.text} * rint({quotient}))", "double")


def _two(name: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of `max` or `min` of two numbers, null if one of them is."""

    def build(arguments: Sequence[Sql]) -> Sql:
        number = to_long if _are_long(arguments) else to_double
        x, y = (number(value) for value in arguments)
        both = f"{x.text} IS NOT NULL AND {y.text} IS NOT NULL"
        return Sql(f"CASE WHEN {both} THEN {name}({x.text}, {y.text}) END", x.type)

    return build


_SAME = tuple(
    "acos asin atan cbrt cos cosh cot exp expm1 rint signum sin sinh sqrt tan tanh".split()
)
"""Functions of a double that have one name in both languages."""

_LOG = (
    "CASE WHEN {{0}} > {pole} THEN {name}({{0}}) WHEN {{0}} = {pole} THEN double('-Infinity') "
    "WHEN {{0}} < {pole} THEN double('NaN') END"
)
"""-Infinity at the pole, NaN below it."""
_WHOLE = (
    "CASE WHEN abs({{0}}) < 4503599627370496.0D THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END"
)
"""Spark's `ceil` is a long; from 2^52 on a double is a whole number, or none that a long could be."""


FUNCTIONS: Mapping[str, Function] = {
    **{name: written("d", f"{name}({{0}})", "double") for name in _SAME},
    "todegrees": written("d", "degrees({0})", "double"),
    "toradians": written("d", "radians({0})", "double"),
    "atan2": written("dd", "atan2({0}, {1})", "double"),
    "hypot": written("dd", "hypot({0}, {1})", "double"),
    "pow": written("dd", "pow({0}, {1})", "double"),
    "power": written("dd", "pow({0}, {1})", "double"),
    "ceil": written("d", _WHOLE.format(name="ceil"), "double"),
    "floor": written("d", _WHOLE.format(name="floor"), "double"),
    "log": written("d", _LOG.format(name="ln", pole="0.0D"), "double"),
    "log10": written("d", _LOG.format(name="log10", pole="0.0D"), "double"),
    "log1p": written("d", _LOG.format(name="log1p", pole="-1.0D"), "double"),
    "abs": Function(_abs, 1, 1),
    "round": Function(_round, 1, 2),
    "div": Function(_div, 2, 2),
    "safe_divide": Function(_safe_divide, 2, 2),
    "remainder": Function(_remainder, 2, 2),
    "max": Function(_two("greatest"), 2, 2),
    "min": Function(_two("least"), 2, 2),
    "copysign": written("dd", "CASE WHEN {1} < 0.0D THEN - abs({0}) ELSE abs({0}) END", "double"),
    "scalb": written("dl", "({0} * pow(2.0D, {1}))", "double"),
    "pi": written("", "pi()", "double"),
    "bitwiseand": written("ll", "({0} & {1})", "long"),
    "bitwiseor": written("ll", "({0} | {1})", "long"),
    "bitwisexor": written("ll", "({0} ^ {1})", "long"),
    "bitwisecomplement": written("l", "(~ {0})", "long"),
    "bitwiseshiftleft": written("ll", "shiftleft({0}, CAST({1} & 63L AS INT))", "long"),
    "bitwiseshiftright": written("ll", "shiftright({0}, CAST({1} & 63L AS INT))", "long"),
}
