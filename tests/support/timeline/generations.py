"""A generation: the groups that a timeline knows of one chunk under one major version, and those in effect.

**The rule.** Take any set of the known groups that holds, with a group, the groups whose entries it replaced. Its
*state* is all their entries less those that they replaced. The set is *complete* if nothing of its state is missing.
Two complete sets make a complete one together, so there is a largest: it is in effect, its state is the newest
complete state, and no order of arrivals can lead to another.

So a group that is not all here stands by, and what it replaced shows; if that is not all here either, what that
replaced, through any number of hops. A group that replaced part of another falls back with it: no row shows twice.

A generation is *whole* unless a group that is not in effect is missed: nothing complete stands in for it. A group that
replaced nothing is missed only if it is known to have been here: one of its entries is expected, or was replaced
later, or it founded the chunk. Else it is an append that has not arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval
from carnac.core.timeline import Group, groups_of


def largest_complete(
    groups: Iterable[Group],
    is_present: Callable[[int], bool],
    forgiven: Collection[Group] = (),
) -> list[Group]:
    """Return the largest complete set of groups: drop what cannot be in it until nothing drops.

    Args:
        is_present: Whether nothing is missing in a partition.
        forgiven: Groups that count as if nothing of them were missing.
    """
    left = list(groups)
    home = {member: group for group in left for member in group.ids}
    while True:
        hidden = {partition_id for group in left for partition_id in group.hides}
        still = set(left)
        staying = [
            group
            for group in left
            if (group in forgiven or all(is_present(one) or one in hidden for one in group.ids))
            and all(home[one] in still for one in group.hides if one in home)
        ]
        if len(staying) == len(left):
            return left
        left = staying


class Generation:
    """The groups of one chunk under one major version.

    Args:
        announced: Its entries that some server has loaded.
        expected: Its entries that are known and that no server has.
        retired: Its entries whose partitions are given up.

    Attributes:
        rank: Where two generations meet the higher rank shows: the higher major version; of one major version (a carved
            chunk and what was left of it) the shorter chunk; then the later.
        groups: All that is known of, by their lowest partition id.
        effect: The groups in effect.

    Raises:
        Invalid: Two entries of one update group disagree about it, or an entry is not in its own.
    """

    def __init__(
        self, announced: Collection[Entry], expected: Collection[Entry], retired: Collection[Entry]
    ) -> None:
        known = (*announced, *expected, *retired)
        self.chunk: Interval = known[0].chunk
        self.major_ms = known[0].version.major_ms
        self.rank = (self.major_ms, self.chunk.start_ms - self.chunk.end_ms, self.chunk.start_ms)
        self._newest: dict[int, Entry] = {}
        for entry in sorted((*expected, *announced), key=attrgetter("entry_id")):
            self._newest[entry.partition_id] = entry
        self._here = {entry.entry_id for entry in announced}
        self._gone: dict[int, int] = {}
        for entry in retired:
            before = self._gone.get(entry.partition_id, entry.entry_id)
            self._gone[entry.partition_id] = max(before, entry.entry_id)
        self.groups = groups_of(known)
        self.effect = largest_complete(self.groups, self.is_present)
        in_effect = set(self.effect)
        missed = [one for one in self.groups if one not in in_effect and self._misses(one)]
        self._missed = missed
        self.is_whole = bool(self.effect) and not missed
        self.is_settled = len(self.effect) == len(self.groups)

    def is_gone(self, partition_id: int) -> bool:
        """Whether a partition is given up: nothing that is known of it came after."""
        if partition_id not in self._gone:
            return False
        newest = self._newest.get(partition_id)
        return newest is None or newest.entry_id <= self._gone[partition_id]

    def is_present(self, partition_id: int) -> bool:
        """Whether nothing is missing in a partition: its newest entry is announced, or it is given up."""
        return self.is_gone(partition_id) or self._shown(partition_id) is not None

    def is_shown(self, entry: Entry) -> bool:
        """Whether an entry is what its partition shows if its group is in effect and no group in effect replaced it."""
        shown = self._shown(entry.partition_id)
        hidden = any(entry.partition_id in group.hides for group in self.effect)
        return shown is not None and shown.entry_id == entry.entry_id and not hidden

    def is_in_effect(self, entry: Entry) -> bool:
        """Whether the group of an entry is in effect."""
        return any(entry.partition_id in group.ids for group in self.effect)

    def visible(self) -> tuple[Entry, ...]:
        """Return the announced entries of the newest complete state, by partition id."""
        return self._state(self.effect)

    def survivors(self) -> tuple[Entry, ...]:
        """Return what stands if the generation is not whole: the newest that is left of it, by partition id.

        Groups that are missed, but not all lost, count as if nothing of them were missing; where nothing at all is in
        effect, so do the others.
        """
        lacking = self._missed if self.effect else self.groups
        forgiven = [one for one in lacking if any(map(self._shown, one.ids))]
        return self._state(largest_complete(self.groups, self.is_present, forgiven))

    def _shown(self, partition_id: int) -> Entry | None:
        newest = self._newest.get(partition_id)
        if newest is None or newest.entry_id not in self._here or self.is_gone(partition_id):
            return None
        return newest

    def _misses(self, group: Group) -> bool:
        if not group.hides.ranges:
            return (
                0 in group.ids
                or any(one in self._newest and not self.is_present(one) for one in group.ids)
                or any(other.hides.intersects(group.ids) for other in self.groups)
            )
        members = {member for other in self.groups for member in other.ids}
        return any(one not in members or self.is_gone(one) for one in group.hides)

    def _state(self, groups: Collection[Group]) -> tuple[Entry, ...]:
        hidden = {partition_id for group in groups for partition_id in group.hides}
        members = sorted(one for group in groups for one in group.ids if one not in hidden)
        return tuple(entry for one in members if (entry := self._shown(one)) is not None)
