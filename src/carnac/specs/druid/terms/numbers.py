"""Functions of numbers, as java.lang.Math has them; a long that has no room is null, as where rows are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carnac.core.druid.forms import SHIFT_LEFT, filled
from carnac.specs.druid.terms.table import MANY, Function, are_long, plain, several, whole
from carnac.specs.druid.terms.values import Sql, to_double, to_long, to_value


def _abs(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    if value.kind == "long":
        return fitting(f"abs({wide(value)})")
    return Sql(f"abs({to_double(value).text})", "double")


def _round(arguments: Sequence[Sql]) -> Sql:
    value = to_value(arguments[0])
    digits = whole(arguments[1], "the digits") if len(arguments) > 1 else 0
    if value.kind == "long":
        exact = f"round(CAST({value.text} AS DECIMAL(20, 0)), {digits})"
        return value if digits >= 0 else fitting(exact)
    x = to_double(value).text
    return Sql(f"CASE WHEN isnan({x}) THEN 0 ELSE round({x}, {digits}) END", "double")


def wide(value: Sql) -> str:
    """Return a long in a type in which sums and products of two have room."""
    return f"CAST({value.text} AS HUGEINT)"


def fitting(text: str) -> Sql:
    """Return a whole number as a long; null if it has no room. `TRY` would not take aggregates."""
    return Sql(f"TRY_CAST({text} AS BIGINT)", "long")


def divide_longs(left: Sql, right: Sql) -> Sql:
    """Return a quotient without its fraction; null of a division by zero."""
    divided = f"({left.text} // nullif({right.text}, 0))"
    if not right.is_literal or right.value == -1:  # the least long has no counterpart
        negative = fitting(f"0 - {wide(left)}").text
        divided = f"CASE WHEN {right.text} = -1 THEN {negative} ELSE {divided} END"
    return Sql(divided, "long")


def _div(arguments: Sequence[Sql]) -> Sql:
    divided = _safe_divide(arguments)
    return divided if divided.kind == "long" else to_long(divided)


def _safe_divide(arguments: Sequence[Sql]) -> Sql:
    if are_long(arguments):
        return divide_longs(to_long(arguments[0]), to_long(arguments[1]))
    x, y = (to_double(one).text for one in arguments)
    return Sql(f"({x} / nullif({y}, 0))", "double")


def _two(name: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of `max` or `min` of two numbers, null if one of them is."""

    def build(arguments: Sequence[Sql]) -> Sql:
        number = to_long if are_long(arguments) else to_double
        x, y = (number(one) for one in arguments)
        both = f"{x.text} IS NOT NULL AND {y.text} IS NOT NULL"
        return Sql(f"CASE WHEN {both} THEN {name}({x.text}, {y.text}) END", x.kind)

    return build


_OF_ONE = "acos asin atan cbrt cos cosh cot exp log10 sin sinh sqrt tan tanh ceil floor".split()
_LOG1P = (
    "CASE WHEN 1 + {0} = 1 THEN {0} WHEN abs({0}) > 1 OR {0} = -1 THEN ln(1 + {0}) "
    "ELSE ln(1 + {0}) * {0} / (1 + {0} - 1) END"
)
_EXPM1 = (
    "CASE WHEN exp({0}) = 1 THEN {0} WHEN abs({0}) > 1 THEN exp({0}) - 1 "
    "ELSE (exp({0}) - 1) * {0} / ln(exp({0})) END"
)
"""As exact near zero as elsewhere: W. Kahan's way, in which the errors of a logarithm and its argument cancel out."""
_HYPOT = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN isinf({0}) OR isinf({1}) THEN CAST('inf' AS DOUBLE) "
    "WHEN {0} = 0 AND {1} = 0 THEN 0 ELSE greatest(abs({0}), abs({1})) "
    "* sqrt(1 + pow(least(abs({0}), abs({1})) / greatest(abs({0}), abs({1})), 2)) END"
)
"""Without squares that have no room."""
FUNCTIONS: Mapping[str, Function] = {
    **{name: plain("d", f"CAST({name}({{0}}) AS DOUBLE)", "double") for name in _OF_ONE},
    "pi": plain("", "pi()", "double"),
    "log": plain("d", "ln({0})", "double"),
    "log1p": plain("d", _LOG1P, "double"),
    "expm1": plain("d", _EXPM1, "double"),
    "pow": plain("dd", "pow({0}, {1})", "double"),
    "power": plain("dd", "pow({0}, {1})", "double"),
    "atan2": plain("dd", "atan2({0}, {1})", "double"),
    "hypot": plain("dd", _HYPOT, "double"),
    "todegrees": plain("d", "degrees({0})", "double"),
    "toradians": plain("d", "radians({0})", "double"),
    "rint": plain("d", "round_even({0}, 0)", "double"),
    "signum": plain("d", "CASE WHEN isnan({0}) THEN {0} ELSE sign({0}) END", "double"),
    "scalb": plain("dl", "({0} * pow(2.0, {1}))", "double"),
    "copysign": plain("dd", "CASE WHEN {1} < 0 THEN - abs({0}) ELSE abs({0}) END", "double"),
    "remainder": plain("dd", "({0} - {1} * round_even({0} / {1}, 0))", "double"),
    "abs": Function(_abs, 1, 1),
    "round": Function(_round, 1, 2),
    "div": Function(_div, 2, 2),
    "safe_divide": Function(_safe_divide, 2, 2),
    "bitwiseand": plain("ll", "({0} & {1})", "long"),
    "bitwiseor": plain("ll", "({0} | {1})", "long"),
    "bitwisexor": plain("ll", "xor({0}, {1})", "long"),
    "bitwisecomplement": plain("l", "(~{0})", "long"),
    "bitwiseshiftleft": plain("ll", filled(SHIFT_LEFT, "{0}", "({1} & 63)"), "long"),
    "bitwiseshiftright": plain("ll", "({0} >> ({1} & 63))", "long"),
    "max": Function(_two("greatest"), 2, 2),
    "min": Function(_two("least"), 2, 2),
    "greatest": Function(several("greatest"), 0, MANY),
    "least": Function(several("least"), 0, MANY),
}
