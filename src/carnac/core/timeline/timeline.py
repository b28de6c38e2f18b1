"""The timeline of one datasource: which announced entries show now, and what to fall back to. See `__init__.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval
from carnac.core.timeline.building import fill_slots
from carnac.core.timeline.generations import Generation
from carnac.core.timeline.groups import Group
from carnac.core.timeline.index import ChunkIndex
from carnac.core.timeline.places import (
    given_up,
    gone_id_of,
    known_entries,
    shown_entry,
    with_entry,
    without_entry,
)
from carnac.core.timeline.sights import Piece, Visibility, shows_in
from carnac.core.timeline.stacks import Outline, Stack

Key: TypeAlias = tuple[int, int]
by_start = attrgetter("interval.start_ms")
by_entry_id = attrgetter("entry_id")


class Spot(NamedTuple):
    """Where an entry belongs.

    Attributes:
        at: Position in the group's slots.
        is_new: The group was made for it.
        before: The stack's outline before that, for its neighbours; None if it was made too, or has no neighbours.
    """

    stack: Stack
    generation: Generation
    group: Group
    at: int
    is_new: bool
    before: Outline | None


class Timeline:
    """What shows of one datasource, from what is announced.

    Not for several threads at once. An operation costs what it changes in its own chunk (and in chunks that overlap
    it); results are computed when they are asked for, and kept.

    Args:
        announced: Entries that some server has loaded.
        expected: Entries that are known and that no server has: see `expect`.
        retired: Entries whose places are given up: see `retire`.

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
        self._stacks: dict[Key, Stack] = {}
        self._index = ChunkIndex()
        self._announced = 0
        self._build(announced, expected, retired)

    def __len__(self) -> int:
        """Return the number of announced entries."""
        return self._announced

    # ------------------------------------------------------------------------------------ changing

    def add(self, entry: Entry) -> bool:
        """An entry is announced. Return False if it already was.

        Raises:
            Invalid: Its siblings say something else of their update group, or it is not in its own.
        """
        return self._put(entry, is_announced=True)

    def expect(self, entry: Entry) -> bool:
        """An entry belongs to the datasource and nobody announces it (any more). Return False if that was known.

        Say this rather than `remove` when a server is lost: what the entry replaced stays hidden as long as it should,
        and its absence is not passed off as whole.

        Raises:
            Invalid: As `add`.
        """
        return self._put(entry, is_announced=False)

    def remove(self, entry: Entry) -> bool:
        """Forget an entry, as if it had never been there. Return False if nothing was known of it.

        Of a chain of replacements remove the oldest first: a timeline that has never heard of the middle cannot know
        that the newest hides the oldest. What the log has dropped for good is better retired and then removed.
        """
        spot = self._find(entry)
        if spot is None:
            return False
        slot = spot.group.slots[spot.at]
        known = {item.entry_id: here for item, here in known_entries(slot)}
        if entry.entry_id not in known:
            return False
        self._announced -= known[entry.entry_id]
        spot.group.put(spot.at, without_entry(slot, entry.entry_id))
        self._settle(spot, entry.partition_id)
        return True

    def retire(self, entry: Entry) -> bool:
        """The log dropped an entry and put nothing in its stead: give its place up. Return False if it was.

        The place shows nothing from now on, is not missed, and goes on hiding what it hid: it is the tombstone that
        the store does not need. An entry of a later commit may take it again.

        Raises:
            Invalid: As `add`.
        """
        spot = self._locate(entry)
        slot = spot.group.slots[spot.at]
        if gone_id_of(slot) >= entry.entry_id:
            return False
        spot.group.put(spot.at, given_up(slot, entry.entry_id))
        self._settle(spot, entry.partition_id)
        return True

    def retire_unknown(self, entry: Entry, gone_id: int) -> bool:
        """Whatever is not known of an entry's update group is given up, up to entry id `gone_id`.

        For those who know from the log that the rest of the group is not to come. Return False if all was known.

        Raises:
            Invalid: As `add`.
        """
        spot = self._locate(entry)
        unknown = [index for index, slot in enumerate(spot.group.slots) if slot is None]
        for index in unknown:
            spot.group.put(index, given_up(None, gone_id))
        if unknown:
            self._settle(spot, entry.partition_id, several=True)
        return bool(unknown)

    # -------------------------------------------------------------------------------------- asking

    def lookup(self, interval: Interval, *, incomplete: bool = False) -> tuple[Piece, ...]:
        """Return what shows within `interval`, in order of time; where nothing does there is no piece.

        Args:
            incomplete: Where nothing complete is left, return what survives, marked.
        """
        start_ms, end_ms = interval.start_ms, interval.end_ms
        found: list[Piece] = []
        for stack in self._index.overlapping(start_ms, end_ms):
            pieces = stack.pieces
            if pieces is None:
                pieces = stack.shown()
            if incomplete and stack.top() is None:
                pieces = stack.survivor_pieces()
            if stack.start_ms >= start_ms and stack.end_ms <= end_ms:
                found += pieces
            else:
                for piece in pieces:
                    part = piece.within(interval)
                    if part is not None and part.entries:
                        found.append(part)
        found.sort(key=by_start)
        return tuple(found)

    def find_visibility(self, entry: Entry) -> Visibility | None:
        """Return where an entry stands; None if it is not announced."""
        spot = self._find(entry)
        if spot is None or not self._is_announced(spot, entry):
            return None
        shown = shown_entry(spot.group.slots[spot.at])
        if shown is None or shown.entry_id != entry.entry_id:
            return Visibility.OVERSHADOWED
        if spot.generation.hides(entry.partition_id):
            return Visibility.OVERSHADOWED
        stack = spot.stack
        is_up = spot.group.in_effect and spot.generation is stack.top()
        if is_up and any(shows_in(shown, piece.interval) for piece in stack.shown()):
            return Visibility.VISIBLE
        is_under = not shown.visible.minus(stack.covered(spot.generation.major_ms))
        return Visibility.OVERSHADOWED if is_under else Visibility.STANDBY

    def entries(self, visibility: Visibility | None = None) -> tuple[Entry, ...]:
        """Return the announced entries that stand so, or all of them, by entry id."""
        found = (entry for stack in self._stacks.values() for entry in _announced_in(stack))
        if visibility is not None:
            found = (entry for entry in found if self.find_visibility(entry) is visibility)
        return tuple(sorted(found, key=by_entry_id))

    def generations(self) -> Iterator[tuple[Stack, Generation]]:
        """Yield everything that is known, by chunk and ascending major version: for the laws and for inspection."""
        for _, stack in sorted(self._stacks.items()):
            for generation in stack.generations:
                yield stack, generation

    # --------------------------------------------------------------------------------------- helpers

    def _build(
        self, announced: Iterable[Entry], expected: Iterable[Entry], retired: Iterable[Entry]
    ) -> None:
        self._announced = fill_slots(self._stacks, announced, self._new_stack, self._place_one)
        for entry in expected:
            spot = self._locate(entry)
            self._announced -= self._is_announced(spot, entry)
            self._place(spot, entry, is_announced=False)
        for entry in retired:
            spot = self._locate(entry)
            slot = spot.group.slots[spot.at]
            gone_id = max(gone_id_of(slot), entry.entry_id)
            spot.group.put(spot.at, given_up(slot, gone_id))
        for stack in self._stacks.values():
            stack.pieces = None
            for generation in stack.generations:
                generation.settle_all()

    def _place_one(self, entry: Entry) -> int:
        return self._place(self._locate(entry), entry, is_announced=True)

    def _put(self, entry: Entry, *, is_announced: bool) -> bool:
        spot = self._locate(entry)
        was_announced = self._is_announced(spot, entry)
        if not self._place(spot, entry, is_announced=is_announced):
            return False
        self._announced += is_announced - was_announced
        self._settle(spot, entry.partition_id)
        return True

    def _place(self, spot: Spot, entry: Entry, *, is_announced: bool) -> bool:
        """Store an entry in its slot; return False if it was there and as announced as now."""
        slot = spot.group.slots[spot.at]
        if slot is not None and (entry, is_announced) in known_entries(slot):
            return False
        spot.group.put(spot.at, with_entry(slot, entry, is_announced=is_announced))
        return True

    def _locate(self, entry: Entry) -> Spot:
        """Return the entry's spot, made if there is none; nothing is made if the entry is not valid."""
        chunk, major_ms = entry.chunk, entry.version.major_ms
        stack = self._stacks.get((chunk.start_ms, chunk.end_ms))
        generation = None if stack is None else stack.find_generation(major_ms)
        group = None if generation is None else generation.find_group(entry)
        if group is not None and stack is not None and generation is not None:
            before = stack.outline() if stack.neighbours else None
            return Spot(stack, generation, group, group.index(entry.partition_id), False, before)
        group = Group(entry)
        at = group.index(entry.partition_id)
        before = stack.outline() if stack is not None and stack.neighbours else None
        if stack is None:
            stack = self._new_stack(chunk)
        if generation is None:
            generation = stack.generation(major_ms)
        generation.enter(group)
        return Spot(stack, generation, group, at, True, before)

    def _find(self, entry: Entry) -> Spot | None:
        stack = self._stacks.get((entry.chunk.start_ms, entry.chunk.end_ms))
        generation = None if stack is None else stack.find_generation(entry.version.major_ms)
        group = None if generation is None else generation.find_group(entry)
        if stack is None or generation is None or group is None:
            return None
        before = stack.outline() if stack.neighbours else None
        return Spot(stack, generation, group, group.index(entry.partition_id), False, before)

    def _settle(self, spot: Spot, partition_id: int, *, several: bool = False) -> None:
        """Decide again what shows, after a slot (or several of the group) has changed."""
        stack, generation = spot.stack, spot.generation
        generation.settle(spot.group, partition_id, is_new=spot.is_new or several)
        stack.pieces = None
        if not generation.groups:
            stack.generations.remove(generation)
        if not stack.generations:
            self._drop_stack(stack)
        elif stack.neighbours and stack.outline() != spot.before:
            for neighbour in stack.neighbours:
                neighbour.pieces = None

    def _new_stack(self, interval: Interval) -> Stack:
        stack = Stack(interval)
        for neighbour in self._index.overlapping(interval.start_ms, interval.end_ms):
            stack.neighbours[neighbour] = None
            neighbour.neighbours[stack] = None
        stack.pieces = ()
        self._stacks[(interval.start_ms, interval.end_ms)] = stack
        self._index.add(stack)
        return stack

    def _drop_stack(self, stack: Stack) -> None:
        key = (stack.start_ms, stack.end_ms)
        del self._stacks[key]
        self._index.remove(stack)
        for neighbour in stack.neighbours:
            del neighbour.neighbours[stack]
            neighbour.pieces = None

    def _is_announced(self, spot: Spot, entry: Entry) -> bool:
        slot = spot.group.slots[spot.at]
        return slot is not None and any(
            is_announced and known.entry_id == entry.entry_id
            for known, is_announced in known_entries(slot)
        )


def _announced_in(stack: Stack) -> Iterator[Entry]:
    for generation in stack.generations:
        for group in generation.groups.values():
            for slot in group.slots:
                for entry, is_announced in known_entries(slot):
                    if is_announced:
                        yield entry
