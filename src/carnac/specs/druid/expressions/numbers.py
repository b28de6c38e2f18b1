"""Functions of numbers, as java.lang.Math has them: doubles, with NaN and Infinity where Spark has null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.specs.druid.expressions.operators import divide_doubles
from carnac.specs.druid.expressions.table import Function, constant_int
from carnac.specs.druid.expressions.values import Sql, to_double, to_long, to_value


def _are_long(arguments: Sequence[Sql]) -> bool:
    return all(value.type in ("long", "bool", "null") for value in arguments)


def _double(name: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of a function that takes and gives doubles alike in both languages."""

    def build(arguments: Sequence[Sql]) -> Sql:
        return Sql(f"{name}({', '.join(to_double(v).text for v in arguments)})", "double")

    return build


def _whole(name: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        return Sql(f"CAST({name}({to_double(arguments[0]).text}) AS DOUBLE)", "double")

    return build


def _log(name: str, pole: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of a logarithm: -Infinity at the pole, NaN below it."""

    def build(arguments: Sequence[Sql]) -> Sql:
        x = to_double(arguments[0]).text
        return Sql(
            f"CASE WHEN {x} > {pole} THEN {name}({x}) WHEN {x} = {pole} THEN double('-Infinity') "
            f"WHEN {x} < {pole} THEN double('NaN') END",
            "double",
        )

    return build


def _abs(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    if value.type == "long":
        return Sql(f"abs({value.text})", "long")
    return Sql(f"abs({to_double(value).text})", "double")


def _round(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    digits = constant_int("round", "the decimal places", arguments[1]) if len(arguments) > 1 else 0
    if value.type == "long":
        return Sql(f"round({value.text}, {digits})", "long")
    x = to_double(value).text
    return Sql(f"CASE WHEN isnan({x}) THEN 0.0D ELSE round({x}, {digits}) END", "double")


def _div(arguments: Sequence[Sql]) -> Sql:
    x, y = (to_long(value) for value in arguments)
    divisor = y.text if y.is_literal and y.literal else f"nullif({y.text}, 0L)"
    return Sql(f"({x.text} div {divisor})", "long")


def _safe_divide(arguments: Sequence[Sql]) -> Sql:
    if _are_long(arguments):
        return _div(arguments)
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


def _copysign(arguments: Sequence[Sql]) -> Sql:
    x, y = (to_double(value).text for value in arguments)
    return Sql(f"CASE WHEN {y} < 0.0D THEN - abs({x}) ELSE abs({x}) END", "double")


def _scalb(arguments: Sequence[Sql]) -> Sql:
    return Sql(
        f"({to_double(arguments[0]).text} * pow(2.0D, {to_long(arguments[1]).text}))", "double"
    )


def _bits(operator: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        x, y = (to_long(value).text for value in arguments)
        return Sql(f"({x} {operator} {y})", "long")

    return build


def _shift(name: str) -> Callable[[Sequence[Sql]], Sql]:
    def build(arguments: Sequence[Sql]) -> Sql:
        x, y = (to_long(value).text for value in arguments)
        return Sql(f"{name}({x}, CAST({y} AS INT))", "long")

    return build


def _complement(arguments: Sequence[Sql]) -> Sql:
    return Sql(f"(~ {to_long(arguments[0]).text})", "long")


def _pi(_: Sequence[Sql]) -> Sql:
    return Sql("pi()", "double")


_SAME = {
    "acos": "acos",
    "asin": "asin",
    "atan": "atan",
    "cbrt": "cbrt",
    "cos": "cos",
    "cosh": "cosh",
    "cot": "cot",
    "exp": "exp",
    "expm1": "expm1",
    "rint": "rint",
    "signum": "signum",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
    "todegrees": "degrees",
    "toradians": "radians",
}

FUNCTIONS: Mapping[str, Function] = {
    **{name: Function(_double(spark), 1, 1) for name, spark in _SAME.items()},
    "atan2": Function(_double("atan2"), 2, 2),
    "hypot": Function(_double("hypot"), 2, 2),
    "pow": Function(_double("pow"), 2, 2),
    "power": Function(_double("pow"), 2, 2),
    "ceil": Function(_whole("ceil"), 1, 1),
    "floor": Function(_whole("floor"), 1, 1),
    "log": Function(_log("ln", "0.0D"), 1, 1),
    "log10": Function(_log("log10", "0.0D"), 1, 1),
    "log1p": Function(_log("log1p", "-1.0D"), 1, 1),
    "abs": Function(_abs, 1, 1),
    "round": Function(_round, 1, 2),
    "div": Function(_div, 2, 2),
    "safe_divide": Function(_safe_divide, 2, 2),
    "remainder": Function(_remainder, 2, 2),
    "max": Function(_two("greatest"), 2, 2),
    "min": Function(_two("least"), 2, 2),
    "copysign": Function(_copysign, 2, 2),
    "scalb": Function(_scalb, 2, 2),
    "pi": Function(_pi, 0, 0),
    "bitwiseand": Function(_bits("&"), 2, 2),
    "bitwiseor": Function(_bits("|"), 2, 2),
    "bitwisexor": Function(_bits("^"), 2, 2),
    "bitwisecomplement": Function(_complement, 1, 1),
    "bitwiseshiftleft": Function(_shift("shiftleft"), 2, 2),
    "bitwiseshiftright": Function(_shift("shiftright"), 2, 2),
}
