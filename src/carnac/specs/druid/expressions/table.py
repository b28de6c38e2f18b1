"""The entries of the function tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from carnac.errors import Invalid
from carnac.specs.druid.expressions.values import Sql, SqlType, to_bool, to_double, to_long, to_text

Build = Callable[[Sequence[Sql]], Sql]


@dataclass(frozen=True, slots=True)
class Function:
    """How a function of Druid is written in Spark SQL.

    Attributes:
        build: From the arguments to the SQL.
        least: Fewest arguments.
        most: Most arguments; None means any number.
        takes_arrays: Whether it works on arrays as a whole. Otherwise an array (a multi-value
            dimension) among the arguments means: apply it to each of the values.
    """

    build: Build
    least: int
    most: int | None
    takes_arrays: bool = False


def to_int(value: Sql) -> str:
    """Return a whole number as Spark's functions of texts take it."""
    if isinstance(value.literal, int):
        return str(value.literal)
    return f"try_cast({to_long(value).text} AS INT)"


_TAKEN: Mapping[str, Callable[[Sql], str]] = {
    "b": lambda value: to_bool(value).text,
    "d": lambda value: to_double(value).text,
    "i": to_int,
    "l": lambda value: to_long(value).text,
    "t": lambda value: to_text(value).text,
    "=": lambda value: value.text,
}


def written(takes: str, template: str, gives: SqlType, *, takes_arrays: bool = False) -> Function:
    """Return a function that is the same text whatever its arguments are.

    Args:
        takes: A letter for each argument: bool, double, int, long, text, or `=` for one that stands as it is.
        template: Spark SQL, with `{0}` where the first argument stands.
    """

    def build(arguments: Sequence[Sql]) -> Sql:
        taken = [_TAKEN[letter](value) for letter, value in zip(takes, arguments, strict=True)]
        return Sql(template.format(*taken), gives)

    return Function(build, len(takes), len(takes), takes_arrays)


def constant_text(name: str, what: str, value: Sql) -> str:
    """Return the text that an argument is.

    Raises:
        Invalid: It is not a text literal.
    """
    if not isinstance(value.literal, str):
        raise Invalid(f"function {name} needs {what} as a text in single quotes")
    return value.literal


def constant_int(name: str, what: str, value: Sql) -> int:
    """Return the whole number that an argument is.

    Raises:
        Invalid: It is not a whole number.
    """
    if not isinstance(value.literal, int):
        raise Invalid(f"function {name} needs {what} as a whole number")
    return value.literal
