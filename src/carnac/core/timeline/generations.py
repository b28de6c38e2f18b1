"""A generation: what a timeline knows of one chunk under one major version, and which of it is in effect.

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

from collections.abc import Collection, Iterator
from operator import attrgetter

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import interval_text
from carnac.core.timeline.groups import Group, names_none
from carnac.core.timeline.places import is_gone, is_present, shown_entry
from carnac.errors import Invalid

by_partition = attrgetter("partition_id")


class Links:
    """Who replaced whom in a generation.

    Attributes:
        home: The group of each partition id that is a member of a known group.
        namers: The groups that name a partition id as replaced.
    """

    __slots__ = ("home", "namers")

    def __init__(self) -> None:
        self.home: dict[int, Group] = {}
        self.namers: dict[int, list[Group]] = {}

    def add(self, group: Group) -> None:
        """Link a group that has just become known."""
        for partition_id in group.ids:
            self.home[partition_id] = group
            group.named += partition_id in self.namers
        for partition_id in group.hides:
            namers = self.namers.setdefault(partition_id, [])
            namers.append(group)
            if len(namers) == 1 and (home := self.home.get(partition_id)) is not None:
                home.named += 1

    def remove(self, group: Group) -> None:
        """Forget a group."""
        for partition_id in group.ids:
            if self.home.get(partition_id) is group:
                del self.home[partition_id]
        for partition_id in group.hides:
            namers = self.namers[partition_id]
            namers.remove(group)
            if not namers:
                del self.namers[partition_id]
                if (home := self.home.get(partition_id)) is not None:
                    home.named -= 1

    def relatives(self, group: Group) -> Iterator[Group]:
        """Yield the groups that it replaced in part, and those that replaced part of it; some more than once."""
        last = None
        for partition_id in group.hides:
            home = self.home.get(partition_id)
            if home is not None and home is not last:
                last = home
                yield home
        if group.named:
            for partition_id in group.ids:
                yield from self.namers.get(partition_id, ())

    def family(self, group: Group) -> list[Group]:
        """Return the group and all that are connected with it."""
        family = {group: None}  # in order of discovery, so that equal histories do equal work
        waiting = [group]
        while waiting:
            for relative in self.relatives(waiting.pop()):
                if relative not in family:
                    family[relative] = None
                    waiting.append(relative)
        return list(family)


class Generation:
    """The groups of one chunk under one major version.

    While no group replaces anything (as under time-chunk locks) groups do not touch each other and each is judged
    alone. Where one does there are links, made when first needed, and groups are judged by families: those that are
    connected. Where all of every group is here, they are not needed: all are in effect.

    Attributes:
        groups: By their lowest partition id.
        effective: Number of groups in effect.
        missed: Number of groups that are missed.
    """

    __slots__ = ("_has_links", "_links", "_visible", "effective", "groups", "major_ms", "missed")

    def __init__(self, major_ms: int) -> None:
        self.major_ms = major_ms
        self.groups: dict[int, Group] = {}
        self.effective = 0
        self.missed = 0
        self._has_links = False
        self._links: Links | None = None
        self._visible: tuple[Entry, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether something is in effect and nothing is missed."""
        return self.effective > 0 and self.missed == 0

    @property
    def is_settled(self) -> bool:
        """Whether every known group is in effect: nothing newer stands by."""
        return self.effective == len(self.groups)

    def find_group(self, entry: Entry) -> Group | None:
        """Return the entry's group; None if no member is known.

        Raises:
            Invalid: The known members say something else of their group.
        """
        ranges = entry.update_group.ranges
        group = self.groups.get(ranges[0][0]) if ranges else None
        if group is not None and not group.is_like(entry):
            raise Invalid(
                f"entry {entry.entry_id} of chunk {interval_text(entry.chunk)} says that its update "
                f"group is {entry.update_group}, "
                f"replacing [{entry.overshadowed_ids}] as minor version {entry.version.minor}; "
                f"its siblings say {group.ids}, [{group.hides}], {group.minor}",
                entry_id=entry.entry_id,
            )
        return group

    def enter(self, group: Group) -> None:
        """Make a group known. It has no member yet and so is not in effect: `settle` follows."""
        self.groups[group.key] = group
        if group.hides.ranges:
            self._has_links = True
        if self._links is not None:
            self._links.add(group)

    def settle(self, group: Group, partition_id: int, *, is_new: bool) -> None:
        """Decide again what is in effect, after one member's slot has changed."""
        self._visible = None
        links = self._find_links()
        if not group.known:
            self._leave(group, links)
        elif links is None:
            self._mark(group, group.missing == 0)
        elif not is_new and self._stays(group, partition_id):
            if names_none(group.hides):  # else what is missed does not depend on its own members
                self._mark(group, group.in_effect)
            self._mark_namers(links, group, partition_id)
        else:
            self._judge(links.family(group))

    def settle_all(self) -> None:
        """Decide for every group."""
        self._visible = None
        missing = 0
        for group in self.groups.values():
            missing += group.missing
            group.in_effect = group.missing == 0
            group.is_missed = False
        self.effective, self.missed = len(self.groups), 0
        if missing == 0:  # as nearly always
            return
        if self._find_links() is not None:
            self.effective = sum(group.in_effect for group in self.groups.values())
            self._judge(self.groups.values())
            return
        for group in self.groups.values():
            if not group.in_effect:
                group.is_missed = self._misses(group)
                self.effective -= 1
                self.missed += group.is_missed

    def hides(self, partition_id: int) -> bool:
        """Whether a group in effect replaced that partition."""
        links = self._find_links()
        if links is None:
            return False
        return any(namer.in_effect for namer in links.namers.get(partition_id, ()))

    def visible(self) -> tuple[Entry, ...]:
        """Return the announced entries of the newest complete state, by partition id."""
        if self._visible is None:
            self._visible = self._state([g for g in self.groups.values() if g.in_effect])
        return self._visible

    def survivors(self) -> tuple[Entry, ...]:
        """Return what stands if the generation is not whole: the newest that is left of it, by partition id.

        Groups that are missed, but not all lost, count as if nothing of them were missing; where nothing at all is in
        effect, so do the others.
        """
        forgiven = {
            group
            for group in self.groups.values()
            if not group.in_effect
            and (group.is_missed or self.effective == 0)
            and any(shown_entry(slot) is not None for slot in group.slots)
        }
        return self._state(self._largest(self.groups.values(), forgiven))

    # ------------------------------------------------------------------------------------- judging

    def _find_links(self) -> Links | None:
        """Return who replaced whom; None if nobody replaced anybody."""
        if self._links is None and self._has_links:
            self._links = Links()
            for group in self.groups.values():
                self._links.add(group)
        return self._links

    def _leave(self, group: Group, links: Links | None) -> None:
        del self.groups[group.key]
        self._count(group, -1)
        group.in_effect = group.is_missed = False
        if links is None:
            return
        relatives = dict.fromkeys(links.relatives(group))
        links.remove(group)
        while relatives:
            family = links.family(next(iter(relatives)))
            for member in family:
                relatives.pop(member, None)
            self._judge(family)
        if not links.namers:
            self._links, self._has_links = None, False

    def _stays(self, group: Group, partition_id: int) -> bool:
        """Whether a change of one member cannot change what is in effect, told without looking further."""
        if self.hides(partition_id):
            return True
        if group.in_effect:
            return is_present(group.slot(partition_id))
        return group.missing > group.named

    def _judge(self, family: Collection[Group]) -> None:
        if all(group.missing == 0 for group in family):  # as nearly always: then all are in effect
            for group in family:
                if not group.in_effect:
                    self._mark(group, True)
            return
        largest = self._largest(family, frozenset())
        for group in family:
            self._mark(group, group in largest)

    def _largest(self, family: Collection[Group], forgiven: Collection[Group]) -> Collection[Group]:
        """Return the largest complete set of groups: drop what cannot be in it until nothing more drops."""
        left = dict.fromkeys(family)
        waiting = list(family)
        links = self._find_links()
        while waiting:
            group = waiting.pop()
            if group in left and not _holds(group, left, forgiven, links):
                del left[group]
                if links is not None:
                    waiting.extend(links.relatives(group))
        return left

    def _mark(self, group: Group, in_effect: bool) -> None:
        self._count(group, -1)
        group.in_effect = in_effect
        group.is_missed = not in_effect and self._misses(group)
        self._count(group, 1)

    def _mark_namers(self, links: Links, group: Group, partition_id: int) -> None:
        """A group that replaced a partition and is not in effect is missed once that is given up."""
        namers = links.namers.get(partition_id)
        if namers:
            gone = is_gone(group.slot(partition_id))
            for namer in namers:
                if not namer.in_effect and namer.is_missed != gone:
                    self._mark(namer, False)

    def _count(self, group: Group, sign: int) -> None:
        self.effective += sign * group.in_effect
        self.missed += sign * group.is_missed

    def _misses(self, group: Group) -> bool:
        links = self._find_links()
        if names_none(group.hides) or links is None:
            return group.expected > 0 or group.named > 0 or group.key == 0
        for partition_id in group.hides:
            home = links.home.get(partition_id)
            if home is None or is_gone(home.slot(partition_id)):
                return True
        return False

    def _state(self, groups: Collection[Group]) -> tuple[Entry, ...]:
        """Return the announced entries of the groups' state, by partition id."""
        found = [
            entry
            for group in groups
            for slot in group.slots
            if (entry := shown_entry(slot)) is not None
        ]
        links = self._find_links()
        if links is not None:
            chosen, namers = set(groups), links.namers
            found = [
                entry
                for entry in found
                if not any(namer in chosen for namer in namers.get(entry.partition_id, ()))
            ]
        if len(found) > 1:
            found.sort(key=by_partition)
        return tuple(found)


def _holds(
    group: Group, left: Collection[Group], forgiven: Collection[Group], links: Links | None
) -> bool:
    """Whether a group can be in a complete set beside those that are left."""
    if links is None:
        return group.missing == 0 or group in forgiven
    home, namers = links.home, links.namers
    for partition_id in group.hides:
        if partition_id in home and home[partition_id] not in left:
            return False
    if group.missing == 0 or group in forgiven:
        return True
    return all(
        is_present(slot) or any(namer in left for namer in namers.get(partition_id, ()))
        for partition_id, slot in group.members()
    )
