"""What an entry of the function tables is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from carnac.errors import Invalid
from carnac.specs.druid.expressions.values import Sql

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
