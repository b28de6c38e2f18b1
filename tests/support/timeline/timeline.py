"""The timeline of one datasource: which announced entries show, and what to fall back to. See `__init__.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from tests.support.timeline.generations import Generation


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
        entries: Those that may have rows in `interval`, by partition id; `shows(entry)` is the visible part of one.
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
        """Return the part of the piece inside `interval`, with its entries that show there; None if none do."""
        part = self.interval.intersect(interval)
        if part is None:
            return None
        entries = tuple(
            one
            for one in self.entries
            if one.span.overlaps(part) and any(shown.overlaps(part) for shown in one.visible)
        )
        return replace(self, interval=part, entries=entries) if entries else None


class Timeline:
    """The visible segments of one datasource, derived from the announced ones.

    Args:
        announced: Entries that some server has loaded.
        expected: Entries that belong to the datasource and that no server has (any more). Entries that they replaced
            stay hidden as long as they should, and a state without the expected ones is not passed off as whole.
        retired: Entries that the log dropped, putting nothing in their stead. Their places show nothing, are not missed
            and go on hiding what they hid; an entry of a later commit may take a place again.

    Raises:
        Invalid: Two entries of one update group disagree about it, or an entry is not in its own.
    """

    def __init__(
        self,
        announced: Iterable[Entry] = (),
        *,
        expected: Iterable[Entry] = (),
        retired: Iterable[Entry] = (),
    ) -> None:
        self._announced = {entry.entry_id: entry for entry in announced}
        told: dict[tuple[Interval, int], tuple[list[Entry], ...]] = defaultdict(
            lambda: ([], [], [])
        )
        for which, entries in enumerate((self._announced.values(), expected, retired)):
            for entry in entries:
                told[(entry.chunk, entry.version.major_ms)][which].append(entry)
        made = (Generation(*facts) for facts in told.values())
        self.generations = tuple(sorted(made, key=attrgetter("rank")))
        """All that is known, by ascending rank."""
        self._tops = {one.chunk: one for one in self.generations if one.is_whole}
        self._pieces = {False: self._complete_pieces()}

    def __len__(self) -> int:
        """Return the number of announced entries."""
        return len(self._announced)

    def lookup(self, interval: Interval, *, incomplete: bool = False) -> tuple[Piece, ...]:
        """Return what shows within `interval`, in order of time; where nothing does there is no piece.

        Args:
            incomplete: Where nothing complete is left, return what survives, marked.
        """
        if incomplete not in self._pieces:
            pieces = (*self._pieces[False], *self._surviving_pieces())
            self._pieces[incomplete] = tuple(sorted(pieces, key=attrgetter("interval.start_ms")))
        found = (piece.within(interval) for piece in self._pieces[incomplete])
        return tuple(piece for piece in found if piece is not None)

    def shown(self) -> dict[int, IntervalSet]:
        """Return, by entry id, the instants that show of each entry of which some do."""
        found: dict[int, IntervalSet] = {}
        for piece in self._pieces[False]:
            for entry in piece.entries:
                before = found.get(entry.entry_id, IntervalSet())
                found[entry.entry_id] = before.union(piece.shows(entry))
        return found

    def find_visibility(self, entry: Entry) -> Visibility | None:
        """Return where an entry stands; None if it is not announced."""
        if entry.entry_id not in self._announced:
            return None
        place = (entry.chunk, entry.version.major_ms)
        mine = next(one for one in self.generations if (one.chunk, one.major_ms) == place)
        if not mine.is_shown(entry):
            return Visibility.OVERSHADOWED
        if self._tops.get(entry.chunk) is mine and mine.is_in_effect(entry):
            shown = (one for piece in self._pieces[False] for one in piece.entries)
            if any(one.entry_id == entry.entry_id for one in shown):
                return Visibility.VISIBLE
        is_under = not entry.visible.minus(_chunks_over(mine, self._tops.values()))
        return Visibility.OVERSHADOWED if is_under else Visibility.STANDBY

    def entries(self, visibility: Visibility | None = None) -> tuple[Entry, ...]:
        """Return the announced entries that stand so, or all of them, by entry id."""
        every = tuple(sorted(self._announced.values(), key=attrgetter("entry_id")))
        if visibility is None:
            return every
        return tuple(one for one in every if self.find_visibility(one) is visibility)

    def _complete_pieces(self) -> tuple[Piece, ...]:
        """Return where complete states show, cut where something newer waits if it does not wait everywhere."""
        found: list[Piece | None] = []
        for top in self._tops.values():
            free = IntervalSet((top.chunk,)).minus(_chunks_over(top, self._tops.values()))
            waiting = _chunks_over(top, self.generations) if top.is_settled else free
            piece = Piece(top.chunk, top.chunk, top.major_ms, top.visible())
            found += [piece.within(part) for part in free.minus(waiting)]
            late = replace(piece, is_newest=False)
            found += [late.within(part) for part in free.intersect(waiting)]
        pieces = (piece for piece in found if piece is not None)
        return tuple(sorted(pieces, key=attrgetter("interval.start_ms")))

    def _surviving_pieces(self) -> list[Piece]:
        """Return where something stands because nothing complete shows there."""
        standing = {
            one.chunk: one
            for one in self.generations
            if one.chunk not in self._tops and one.survivors()
        }
        complete = interval_set(self._tops)
        found: list[Piece] = []
        for one in standing.values():
            taken = complete.union(_chunks_over(one, standing.values()))
            entries = one.survivors()
            piece = Piece(one.chunk, one.chunk, one.major_ms, entries, False, is_newest=False)
            parts = (piece.within(part) for part in IntervalSet((one.chunk,)).minus(taken))
            found += [part for part in parts if part is not None]
        return found


def _chunks_over(generation: Generation, others: Iterable[Generation]) -> IntervalSet:
    """Return the time that the chunks of generations of a higher rank cover."""
    return interval_set(other.chunk for other in others if other.rank > generation.rank)


def timeline_of(live: Collection[Entry]) -> Timeline:
    """Return the timeline of a server that has loaded the live entries of a revision, and nothing else.

    Raises:
        Invalid: Two entries of one update group disagree about it, or an entry is not in its own.
    """
    known = {(one.chunk, one.version.major_ms, one.partition_id) for one in live}
    groups = {(one.chunk, one.version.major_ms, one.update_group): one for one in live}
    retired = [
        replace(one, partition_id=partition_id)
        for (chunk, major_ms, group), one in groups.items()
        for partition_id in group
        if (chunk, major_ms, partition_id) not in known
    ]
    return Timeline(live, retired=retired)
