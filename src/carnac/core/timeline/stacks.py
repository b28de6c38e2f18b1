"""A stack: the generations of one time chunk, and where in time the newest whole one shows."""

from __future__ import annotations

from typing import TypeAlias

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.core.timeline.generations import Generation
from carnac.core.timeline.sights import Piece, shows_in

Rank: TypeAlias = tuple[int, int, int]
"""Where two generations meet the higher rank shows: the higher major version; of one major version (a carved chunk and
what was left of it) the shorter chunk; then the later."""
Outline: TypeAlias = tuple[int | None, int]


class Stack:
    """What a timeline knows of one time chunk.

    Attributes:
        generations: By major version, ascending; never empty for long.
        neighbours: Stacks of other chunks that overlap this one, as chunks of several granularities do.
        pieces: Where it shows; None if that must be found out again.
    """

    __slots__ = ("end_ms", "generations", "interval", "neighbours", "pieces", "start_ms")

    def __init__(self, interval: Interval) -> None:
        self.interval = interval
        self.start_ms = interval.start_ms
        self.end_ms = interval.end_ms
        self.generations: list[Generation] = []
        self.neighbours: dict[Stack, None] = {}
        self.pieces: tuple[Piece, ...] | None = None

    def generation(self, major_ms: int) -> Generation:
        """Return the generation of that major version, made if there is none."""
        at = len(self.generations)
        for generation in reversed(self.generations):
            if generation.major_ms == major_ms:
                return generation
            if generation.major_ms < major_ms:
                break
            at -= 1
        made = Generation(major_ms)
        self.generations.insert(at, made)
        return made

    def find_generation(self, major_ms: int) -> Generation | None:
        """Return the generation of that major version; None if nothing of it is known."""
        for generation in self.generations:
            if generation.major_ms == major_ms:
                return generation
        return None

    def top(self) -> Generation | None:
        """Return the newest whole generation."""
        for generation in reversed(self.generations):
            if generation.is_whole:
                return generation
        return None

    def outline(self) -> Outline:
        """Return what neighbours must know: the major version that shows, and the newest one known."""
        top = self.top()
        newest = self.generations[-1].major_ms if self.generations else 0
        return (None if top is None else top.major_ms, newest)

    def rank(self, major_ms: int) -> Rank:
        """Return the rank of one of its generations."""
        return (major_ms, self.start_ms - self.end_ms, self.start_ms)

    def shown(self) -> tuple[Piece, ...]:
        """Return the pieces of time in which it shows a complete state, in order; cached."""
        if self.pieces is None:
            self.pieces = self._find_pieces()
        return self.pieces

    def covered(self, major_ms: int) -> IntervalSet:
        """Return the instants of the chunk at which something complete of a higher rank shows."""
        top = self.top()
        if top is not None and top.major_ms > major_ms:
            return IntervalSet((self.interval,))
        return self._covered_by_neighbours(self.rank(major_ms))

    def find_survivors(self) -> Generation | None:
        """Return the newest generation of which anything stands, where none is whole."""
        for generation in reversed(self.generations):
            if generation.survivors():
                return generation
        return None

    def survivor_pieces(self) -> tuple[Piece, ...]:
        """Return the pieces of time in which its survivors stand because nothing complete shows there, in order."""
        if self.top() is not None:
            return ()
        generation = self.find_survivors()
        if generation is None:
            return ()
        rank = self.rank(generation.major_ms)
        taken = interval_set(
            stack.interval
            for stack in self.neighbours
            if stack.top() is not None
            or ((other := stack.find_survivors()) and stack.rank(other.major_ms) > rank)
        )
        entries = generation.survivors()
        is_newest = generation is self.generations[-1]
        whole = Piece(self.interval, self.interval, generation.major_ms, entries, False, is_newest)
        parts = IntervalSet((self.interval,)).minus(taken.intersect(IntervalSet((self.interval,))))
        cut = [whole.within(part) for part in parts]
        return tuple(piece for piece in cut if piece is not None and piece.entries)

    def _find_pieces(self) -> tuple[Piece, ...]:
        top = self.top()
        if top is None:
            return ()
        entries = top.visible()
        is_newest = top is self.generations[-1] and top.is_settled
        if not self.neighbours:
            if not entries:
                return ()
            return (Piece(self.interval, self.interval, top.major_ms, entries, True, is_newest),)
        rank = self.rank(top.major_ms)
        free = IntervalSet((self.interval,)).minus(self._covered_by_neighbours(rank))
        return tuple(
            piece
            for interval in free
            for piece in self._cut(interval, top.major_ms, entries, is_newest)
        )

    def _cut(
        self, interval: Interval, major_ms: int, entries: tuple[Entry, ...], is_newest: bool
    ) -> tuple[Piece, ...]:
        """Return the piece of an interval, cut where something newer waits if it does not wait everywhere."""
        if interval != self.interval:
            entries = tuple(entry for entry in entries if shows_in(entry, interval))
        if not entries:
            return ()
        if not is_newest:
            return (Piece(interval, self.interval, major_ms, entries, True, False),)
        rank = self.rank(major_ms)
        waiting = interval_set(
            stack.interval
            for stack in self.neighbours
            if stack.rank(stack.generations[-1].major_ms) > rank
        ).intersect(IntervalSet((interval,)))
        if not waiting:
            return (Piece(interval, self.interval, major_ms, entries),)
        parts = [(part, False) for part in waiting]
        parts += [(part, True) for part in IntervalSet((interval,)).minus(waiting)]
        whole = Piece(interval, self.interval, major_ms, entries)
        found = []
        for part, flag in sorted(parts):
            cut = whole.within(part)
            if cut is not None and cut.entries:
                found.append(Piece(part, self.interval, major_ms, cut.entries, True, flag))
        return tuple(found)

    def _covered_by_neighbours(self, rank: Rank) -> IntervalSet:
        return interval_set(
            stack.interval
            for stack in self.neighbours
            if (top := stack.top()) is not None and stack.rank(top.major_ms) > rank
        ).intersect(IntervalSet((self.interval,)))
