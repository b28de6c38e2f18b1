"""What a timeline answers: values that a caller may keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet


class Visibility(StrEnum):
    """Where an announced entry stands. Source: segment locking proposal, Timeline management."""

    STANDBY = "standby"
    """It waits: for its update group, or for what else its chunk must have before it may replace what shows now."""
    VISIBLE = "visible"
    """Queries read it."""
    OVERSHADOWED = "overshadowed"
    """Newer entries show in its place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time in which one chunk, under one major version, is what shows.

    Attributes:
        interval: Disjoint from every other piece of the same answer.
        chunk: The chunk itself, of which `interval` may be a part.
        entries: Those that may have rows in `interval`, by partition id. What an entry shows is `shows(entry)`.
        is_complete: Nothing of the chunk's state is missing.
        is_newest: Nothing newer is known that waits or was lost; False says that this is a fallback, or will soon be
            replaced.
    """

    interval: Interval
    chunk: Interval
    major_ms: int
    entries: tuple[Entry, ...]
    is_complete: bool = True
    is_newest: bool = True

    def shows(self, entry: Entry) -> IntervalSet:
        """Return the instants of the entry's segment that a reader takes from it in this piece."""
        return entry.visible.intersect(IntervalSet((self.interval,)))

    def within(self, interval: Interval) -> Piece | None:
        """Return the part of the piece inside `interval`, with the entries that show something there."""
        part = self.interval.intersect(interval)
        if part is None or part == self.interval:
            return self if part is not None else None
        entries = tuple(entry for entry in self.entries if shows_in(entry, part))
        return Piece(part, self.chunk, self.major_ms, entries, self.is_complete, self.is_newest)


def shows_in(entry: Entry, interval: Interval) -> bool:
    """Whether the entry shows anything inside `interval`."""
    if not entry.span.overlaps(interval):
        return False
    return entry.clip is None or any(piece.overlaps(interval) for piece in entry.clip)
