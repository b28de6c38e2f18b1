"""What a timeline knows of one place: (chunk, major version, partition id).

A place has at most one announced entry in all but the rarest cases, so a slot holds the entry itself; `Place` is for
the rest: an entry that is expected but not announced, a place that is gone, an entry that came back with another clip.
"""

from __future__ import annotations

from typing import TypeAlias

from carnac.core.log.entries import Entry

NEVER = -1


class Place:
    """A place of which more is known than "this entry is announced".

    Attributes:
        known: By entry id: the entry, and whether it is announced (else it is expected).
        gone_id: Entries up to this id show nothing here and are not missed; NEVER if the place is not gone.
    """

    __slots__ = ("gone_id", "known")

    def __init__(self) -> None:
        self.known: dict[int, tuple[Entry, bool]] = {}
        self.gone_id = NEVER

    def newest_id(self) -> int:
        """Return the id of the entry that counts: the newest that is known; NEVER if none is."""
        return max(self.known, default=NEVER)

    def is_gone(self) -> bool:
        """Whether nothing that is known here came after the place was given up."""
        return self.gone_id != NEVER and self.gone_id >= self.newest_id()


Slot: TypeAlias = Entry | Place | None
"""None: nothing is known. An entry: it is announced, and that is all. A place: more than that."""


def is_present(slot: Slot) -> bool:
    """Whether nothing is missing here: the newest entry is announced, or the place is gone."""
    if isinstance(slot, Place):
        return slot.is_gone() or (bool(slot.known) and slot.known[slot.newest_id()][1])
    return slot is not None


def is_expected(slot: Slot) -> bool:
    """Whether an entry is known to belong here and is not announced."""
    return isinstance(slot, Place) and bool(slot.known) and not is_present(slot)


def is_gone(slot: Slot) -> bool:
    """Whether the place is given up."""
    return isinstance(slot, Place) and slot.is_gone()


def shown_entry(slot: Slot) -> Entry | None:
    """Return the entry that shows here if its group is in effect and nobody hides it."""
    if isinstance(slot, Place):
        if slot.is_gone() or not slot.known:
            return None
        entry, is_announced = slot.known[slot.newest_id()]
        return entry if is_announced else None
    return slot


def known_entries(slot: Slot) -> tuple[tuple[Entry, bool], ...]:
    """Return every entry that is known here, oldest first, each with whether it is announced."""
    if isinstance(slot, Place):
        return tuple(known for _, known in sorted(slot.known.items()))
    return () if slot is None else ((slot, True),)


def gone_id_of(slot: Slot) -> int:
    """Return up to which entry id the place is given up; NEVER if it is not."""
    return slot.gone_id if isinstance(slot, Place) else NEVER


def with_entry(slot: Slot, entry: Entry, *, is_announced: bool) -> Slot:
    """Return the slot once the entry is announced, or expected, there."""
    if slot is None and is_announced:
        return entry
    place = _opened(slot)
    place.known[entry.entry_id] = (entry, is_announced)
    return _closed(place)


def without_entry(slot: Slot, entry_id: int) -> Slot:
    """Return the slot once the entry is not known there any more."""
    place = _opened(slot)
    place.known.pop(entry_id, None)
    return _closed(place)


def given_up(slot: Slot, gone_id: int) -> Slot:
    """Return the slot once entries up to `gone_id` are given up there; NEVER takes that back."""
    place = _opened(slot)
    place.gone_id = gone_id
    return _closed(place)


def _opened(slot: Slot) -> Place:
    place = Place()
    if isinstance(slot, Place):
        place.known = dict(slot.known)
        place.gone_id = slot.gone_id
    elif slot is not None:
        place.known[slot.entry_id] = (slot, True)
    return place


def _closed(place: Place) -> Slot:
    if place.gone_id == NEVER:
        if not place.known:
            return None
        if len(place.known) == 1:
            ((entry, is_announced),) = place.known.values()
            if is_announced:
                return entry
    return place
