"""The form of values in rows: each field is a column, or several, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from carnac.core.time.intervals import Interval

T = TypeVar("T")


class Part(NamedTuple):
    """A field that is kept under other names, or as other values.

    Attributes:
        columns: Their names, in order.
        write: Returns what they hold.
        read: Returns the field of what they hold.
    """

    columns: tuple[str, ...]
    write: Callable[[Any], Sequence[object]]
    read: Callable[..., object]


INTERVAL = Part(("start_ms", "end_ms"), lambda one: (one.start_ms, one.end_ms), Interval)


class RowForm(Generic[T]):
    """The form of one class of values.

    Args:
        made: A dataclass or a named tuple.
        parts: Parts of fields that are not kept as they are, by name: a `Part`; or a function that reads a word, which
            stands as its text, or a flag, which stands as 0 or 1.
    """

    def __init__(self, made: type[T], **parts: Part | Callable[[Any], object]) -> None:
        self._made = made
        self._parts: list[tuple[str, slice, Part]] = []
        self._words: list[tuple[str, int, Callable[[Any], object]]] = []
        plain: dict[str, int] = {}
        at = 0
        for name in getattr(made, "_fields", None) or [one.name for one in fields(made)]:  # type: ignore[arg-type]  # one of the two
            part = parts.get(name)
            begin, at = at, at + (len(part.columns) if isinstance(part, Part) else 1)
            if isinstance(part, Part):
                self._parts.append((name, slice(begin, at), part))
            elif part is not None:
                self._words.append((name, begin, part))
            else:
                plain[name] = begin
        self._plain = tuple(plain)
        columns = [column for _, _, part in self._parts for column in part.columns]
        self._columns = (*plain, *[name for name, _, _ in self._words], *columns)
        self._get, self._pick = attrgetter(*plain), itemgetter(*plain.values())

    def row(self, value: T) -> dict[str, object]:
        """Return the row of a value."""
        found: list[object] = [*self._get(value)]
        found += [_plain(getattr(value, name)) for name, _, _ in self._words]
        for name, _, part in self._parts:
            found += part.write(getattr(value, name))
        return dict(zip(self._columns, found, strict=True))

    def value(self, row: Sequence[Any]) -> T:
        """Return the value of a row."""
        values = dict(zip(self._plain, self._pick(row), strict=True))
        for name, at, read in self._words:
            values[name] = read(row[at])
        for name, where, part in self._parts:
            values[name] = part.read(*row[where])
        return self._made(**values)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return int(value) if isinstance(value, bool) else value
