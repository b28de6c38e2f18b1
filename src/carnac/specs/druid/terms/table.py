"""The entries of the function tables of expressions: how a function is called, and what SQL it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from carnac.errors import Invalid
from carnac.specs.druid.terms.values import (
    NULL,
    Kind,
    Sql,
    cast_to,
    common_kind,
    to_bool,
    to_double,
    to_long,
    to_text,
    to_value,
)

MANY = 1_000
"""The most arguments of a function that takes any number."""


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


def text_of(value: Sql) -> Sql:
    """Return a value as functions of texts take it: a condition is 1 or 0."""
    return to_text(to_value(value))


def int_of(value: Sql) -> str:
    """Return a whole number as functions of texts take it; null if it has no room in 32 bits."""
    if value.is_array:
        raise Invalid("several values cannot be a whole number")
    if isinstance(value.value, int) and abs(value.value) < 1 << 31:
        return str(value.value)
    return f"CAST(TRY_CAST({to_long(value).text} AS INTEGER) AS BIGINT)"


_TAKEN: Mapping[str, Callable[[Sql], Sql]] = {
    "b": to_bool,
    "d": to_double,
    "l": to_long,
    "t": text_of,
    "i": lambda one: Sql(int_of(one), "long"),
    "=": lambda one: one,
}


def plain(takes: str, template: str, gives: Kind, *, is_whole: bool = False) -> Function:
    """Return a function of a template; `takes` has a letter for each argument."""

    def build(arguments: Sequence[Sql]) -> Sql:
        taken = [_TAKEN[letter](one).text for letter, one in zip(takes, arguments, strict=True)]
        return Sql(template.format(*taken), gives)

    return Function(build, len(takes), len(takes), is_whole)


def constant(value: Sql, what: str) -> str:
    """Return the constant that an argument is, as a text.

    Raises:
        Invalid: It is none, or null.
    """
    if not value.is_literal or value.value is None:
        raise Invalid(f"{what} must be a constant, such as a text in single quotes")
    return str(value.value)


def whole(value: Sql, what: str) -> int:
    """Return the whole number that an argument is; raises Invalid."""
    if not isinstance(value.value, int):
        raise Invalid(f"{what} must be a whole number, as a constant")
    return value.value


def same(values: Sequence[Sql]) -> list[Sql]:
    """Return values in the one type in which all can stand."""
    kind = common_kind(list(values))
    return [cast_to(to_value(one), kind) for one in values]


def several(name: str) -> Callable[[Sequence[Sql]], Sql]:
    """Return the builder of a function of any number of values of one type."""

    def build(arguments: Sequence[Sql]) -> Sql:
        values = same(arguments)
        if len(values) <= 1:
            return values[0] if values else NULL
        return Sql(f"{name}({', '.join(one.text for one in values)})", values[0].kind)

    return build


def are_long(values: Sequence[Sql]) -> bool:
    """Whether all are whole numbers, or null itself."""
    return all(one.kind in {"long", "bool"} or one is NULL for one in values)
