"""Values of JSON that are taken as they are or refused: nothing is converted."""

from __future__ import annotations

from typing import TypeAlias, cast

Json: TypeAlias = dict[str, object]


def text(value: object) -> str:
    """Return a text; raises TypeError for anything else."""
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a text")
    return value


def whole_number(value: object) -> int:
    """Return a whole number; raises TypeError for anything else."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def boolean(value: object) -> bool:
    """Return true or false; raises TypeError for anything else."""
    if type(value) is not bool:
        raise TypeError(f"{value!r} is not true or false")
    return value


def items(value: object) -> list[object]:
    """Return a list; raises TypeError for anything else."""
    if type(value) is not list:
        raise TypeError(f"{value!r} is not a list")
    return value


def members(value: object) -> Json:
    """Return an object; raises TypeError for anything else."""
    if type(value) is not dict:
        raise TypeError(f"{value!r} is not an object")
    return cast("Json", value)


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts; raises TypeError for anything else."""
    if value == ():
        return ()
    return tuple([text(item) for item in items(value)])
