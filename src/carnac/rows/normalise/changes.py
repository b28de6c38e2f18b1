"""Values that were taken, but not as they were: the kinds of changes, and their sentences in the report."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Change(StrEnum):
    """The part of a value that the type of a column has no room for."""

    FRACTION = "fraction"
    DIGITS = "digits"
    NUMBER = "number"
    TIME = "time"


_SAID = {
    Change.FRACTION: "a fraction in '{}', a long: it was cut off (a spec that declares a double keeps it)",
    Change.DIGITS: "a number in '{}' of more digits than its type has: it was rounded (a long or a string keeps it)",
    Change.NUMBER: "a number but 0 and 1 in '{}', a boolean: it became true (a spec that declares a long keeps it)",
    Change.TIME: "a time in '{}' that is finer than is kept, to the millisecond: the rest was cut off",
}


def mark(change: Change, field: str) -> str:
    """Return the text that marks a row of which a field was changed; short, for there may be many."""
    return f"{change.value}:{field}"


def sentences(marks: Mapping[str, int]) -> tuple[str, ...]:
    """Return what the report says, by field.

    Args:
        marks: How many rows have each mark.
    """
    found: list[tuple[str, str, int]] = []
    for one, rows in marks.items():
        change, _, field = one.partition(":")
        found.append((field, change, rows))
    return tuple(
        f"{rows:,} {'row has' if rows == 1 else 'rows have'} {_SAID[Change(change)].format(field)}"
        for field, change, rows in sorted(found)
    )
