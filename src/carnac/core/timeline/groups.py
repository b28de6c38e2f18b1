"""An update group as a timeline sees it: which of its entries are here."""

from __future__ import annotations

from collections.abc import Iterator

from carnac.core.log.entries import MAX_ADDS_PER_COMMIT, Entry
from carnac.core.segments.version import IdRanges
from carnac.core.timeline.places import Slot, is_expected, is_present
from carnac.errors import Invalid


class Group:
    """The entries that one commit added in one chunk, in effect together or not at all.

    Attributes:
        ids: The partition ids of all members.
        hides: The partition ids that they replaced: one hop.
        slots: What is known of each member, in order of partition id.
        known: Members of which anything is known.
        missing: Members that are neither announced nor gone.
        expected: Those of them that are known to belong here.
        named: Members that known groups name as replaced.
        in_effect: Whether it belongs to the newest complete state of its generation.
        is_missed: Whether the generation is not whole because this group is not in effect.
    """

    __slots__ = (
        "expected",
        "hides",
        "ids",
        "in_effect",
        "is_missed",
        "known",
        "minor",
        "missing",
        "named",
        "slots",
    )

    def __init__(self, entry: Entry) -> None:
        ranges = entry.update_group.ranges
        if not ranges:
            raise Invalid(f"entry {entry.entry_id} is in no update group", entry_id=entry.entry_id)
        self.ids = entry.update_group
        self.hides = entry.overshadowed_ids
        self.minor = entry.version.minor
        size = len(self.ids) if len(ranges) > 1 else ranges[0][1] - ranges[0][0] + 1
        if size > MAX_ADDS_PER_COMMIT:
            raise Invalid(
                f"entry {entry.entry_id} names an update group of {size} entries; one commit adds at most "
                f"{MAX_ADDS_PER_COMMIT}",
                entry_id=entry.entry_id,
            )
        self.slots: list[Slot] = [None] * size
        self.missing = size
        self.expected = 0
        self.known = 0
        self.named = 0
        self.in_effect = False
        self.is_missed = False

    @property
    def key(self) -> int:
        """The lowest partition id; no other group of the generation has it."""
        return self.ids.ranges[0][0]

    def index(self, partition_id: int) -> int:
        """Return the member's position in `slots`.

        Raises:
            Invalid: It is not a member.
        """
        before = 0
        for first, last in self.ids.ranges:
            if first <= partition_id <= last:
                return before + partition_id - first
            before += last - first + 1
        raise Invalid(f"partition {partition_id} is not in its update group {self.ids}")

    def slot(self, partition_id: int) -> Slot:
        """Return what is known of a member."""
        return self.slots[self.index(partition_id)]

    def members(self) -> Iterator[tuple[int, Slot]]:
        """Yield each member's partition id and what is known of it, in order."""
        return zip(self.ids, self.slots, strict=True)

    def put(self, index: int, slot: Slot) -> bool:
        """Store what is known of a member now; return whether that changed what is missing or expected."""
        old = self.slots[index]
        self.slots[index] = slot
        missing = is_present(old) - is_present(slot)
        expected = is_expected(slot) - is_expected(old)
        self.missing += missing
        self.expected += expected
        self.known += (slot is not None) - (old is not None)
        return missing != 0 or expected != 0

    def is_like(self, entry: Entry) -> bool:
        """Whether the entry says the same of its group as the members that are known."""
        group = entry.update_group
        return (
            (group is self.ids or group.ranges == self.ids.ranges)
            and entry.version.minor == self.minor
            and (
                entry.overshadowed_ids is self.hides
                or entry.overshadowed_ids.ranges == self.hides.ranges
            )
        )


def names_none(ids: IdRanges) -> bool:
    """Whether the set is empty, without counting it."""
    return not ids.ranges
