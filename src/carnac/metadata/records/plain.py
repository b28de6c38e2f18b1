"""Values whose fields are columns, in order: a word stands as its text, a flag as 0 or 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")


def row_of(value: Any) -> dict[str, object]:
    """Return a value of a dataclass as a row."""
    return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}


def reader_of(made: type[T], **kinds: Callable[[Any], object]) -> Callable[[Sequence[Any]], T]:
    """Return what makes a value of a row.

    Args:
        made: A dataclass.
        kinds: Of the fields that are not kept as they are.
    """
    names = [item.name for item in fields(made)]  # type: ignore[arg-type]
    changed = [(names.index(name), kind) for name, kind in kinds.items()]

    def read(row: Sequence[Any]) -> T:
        values = list(row)
        for at, kind in changed:
            values[at] = kind(values[at])
        return made(**dict(zip(names, values, strict=True)))

    return read


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return int(value) if isinstance(value, bool) else value
