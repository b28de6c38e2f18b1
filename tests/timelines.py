"""Entries for tests of the timeline, and the naive oracle, written straight from the definition of visible entries.

The oracle looks at one hour at a time and at every set of update groups; it keeps nothing and shares no code with the
timeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from carnac.core.log.entries import Entry
from carnac.core.segments.version import IdRanges, SegmentVersion, id_ranges
from carnac.core.time.intervals import Interval, IntervalSet
from tests.support.timeline import Timeline, Visibility

HOUR_MS = 3_600_000


def hours(start: int, end: int) -> Interval:
    """`[start, end)` in hours since 1970."""
    return Interval(start * HOUR_MS, end * HOUR_MS)


def entry(
    entry_id: int,
    chunk: Interval,
    *,
    major: int = 1,
    minor: int = 0,
    partition_id: int = 0,
    group: Iterable[int] | None = None,
    replaces: Iterable[int] = (),
    clip: IntervalSet | None = None,
    span: Interval | None = None,
) -> Entry:
    """An entry that fills its chunk and is a group of its own, unless told otherwise."""
    return Entry(
        entry_id=entry_id,
        segment_id=f"s{entry_id}",
        chunk=chunk,
        span=span or chunk,
        clip=clip,
        version=SegmentVersion(major, minor),
        partition_id=partition_id,
        overshadowed_ids=id_ranges(replaces),
        update_group=id_ranges(group if group is not None else [partition_id]),
    )


@dataclass(frozen=True)
class OracleGroup:
    """An update group: the ids of its members, and of the entries that it replaced."""

    ids: frozenset[int]
    replaces: frozenset[int]


@dataclass
class Oracle:
    """The input of a timeline, and the answers that it should give."""

    announced: dict[int, Entry] = field(default_factory=dict)
    expected: dict[int, Entry] = field(default_factory=dict)
    retired: dict[int, Entry] = field(default_factory=dict)

    def answers(self) -> Answers:
        """Return what it should answer now."""
        known = [*self.announced.values(), *self.expected.values(), *self.retired.values()]
        places = sorted({(item.chunk, item.version.major_ms) for item in known})
        return Answers([OracleGeneration(self, chunk, major_ms) for chunk, major_ms in places])


@dataclass
class Answers:
    """The visible entries, by the definition, of a datasource with these generations."""

    generations: list[OracleGeneration]

    def showing(self, hour: int, *, incomplete: bool = False) -> tuple[set[int], bool]:
        """Return the ids of the entries that show in an hour, and whether that is complete."""
        at_ms = hour * HOUR_MS
        over = [g for g in self.generations if g.chunk.holds(at_ms)]
        whole = [generation for generation in over if generation.is_whole]
        if whole:
            chosen = max(whole, key=lambda generation: generation.rank)
            ids = chosen.visible(chosen.effect)
        else:
            standing = [(g, g.survivors()) for g in over if incomplete and g.survivors()]
            if not standing:
                return set(), True
            chosen, ids = max(standing, key=lambda pair: pair[0].rank)
        shown = [e for e in chosen.announced if e.entry_id in ids and e.visible.holds(at_ms)]
        return {e.entry_id for e in shown}, bool(whole)

    def visibility(self, item: Entry, horizon: range) -> Visibility:
        """Return where an announced entry stands."""
        if any(item.entry_id in self.showing(hour)[0] for hour in horizon):
            return Visibility.VISIBLE
        rank = rank_of(item.chunk, item.version.major_ms)
        mine = next(g for g in self.generations if g.rank == rank)
        is_replaced = item.partition_id in mine.hidden(mine.effect)
        if is_replaced or mine.newest(item.partition_id) != item.entry_id:
            return Visibility.OVERSHADOWED
        is_covered = all(
            any(g.is_whole and g.rank > rank and g.chunk.holds(at_ms) for g in self.generations)
            for at_ms in [hour * HOUR_MS for hour in horizon]
            if item.visible.holds(at_ms)
        )
        return Visibility.OVERSHADOWED if is_covered else Visibility.STANDBY


def rank_of(chunk: Interval, major_ms: int) -> tuple[int, int, int]:
    """Where two meet, the higher one shows."""
    return (major_ms, -chunk.duration_ms, chunk.start_ms)


class OracleGeneration:
    """The known entries of a chunk under one major version."""

    def __init__(self, oracle: Oracle, chunk: Interval, major_ms: int) -> None:
        self.chunk = chunk
        self.rank = rank_of(chunk, major_ms)

        def mine(entries: dict[int, Entry]) -> list[Entry]:
            place = (chunk, major_ms)
            return [e for e in entries.values() if (e.chunk, e.version.major_ms) == place]

        self.announced = mine(oracle.announced)
        self.expected = mine(oracle.expected)
        self.gone: dict[int, int] = defaultdict(int)
        for item in mine(oracle.retired):
            self.gone[item.partition_id] = max(self.gone[item.partition_id], item.entry_id)
        self.groups = sorted(
            {
                OracleGroup(frozenset(e.update_group), frozenset(e.overshadowed_ids))
                for e in [*self.announced, *self.expected, *mine(oracle.retired)]
            },
            key=lambda group: min(group.ids),
        )

        self.counting = {
            partition_id: self._newest(partition_id)
            for group in self.groups
            for partition_id in group.ids
        }
        self.effect = self.largest()
        self.is_whole = bool(self.effect) and not any(
            self.is_missed(group) for group in self.groups if group not in self.effect
        )

    def newest(self, partition_id: int) -> int | None:
        return self.counting.get(partition_id)

    def _newest(self, partition_id: int) -> int | None:
        """The id of the entry that counts in a place; 0 for a place that is given up, None if nothing is known."""
        known = [
            e.entry_id for e in [*self.announced, *self.expected] if e.partition_id == partition_id
        ]
        newest = max(known, default=None)
        if partition_id in self.gone and (newest is None or self.gone[partition_id] >= newest):
            return 0
        return newest

    def is_present(self, partition_id: int) -> bool:
        newest = self.newest(partition_id)
        return newest == 0 or newest in {e.entry_id for e in self.announced}

    def is_expected(self, partition_id: int) -> bool:
        return self.newest(partition_id) in {e.entry_id for e in self.expected}

    def hidden(self, groups: Collection[OracleGroup]) -> set[int]:
        return {replaced for group in groups for replaced in group.replaces}

    def state(self, groups: Collection[OracleGroup]) -> set[int]:
        return {member for group in groups for member in group.ids} - self.hidden(groups)

    def is_closed(self, groups: Collection[OracleGroup]) -> bool:
        """Whether with a group it holds those whose members the group replaced."""
        return all(
            other in groups
            for group in groups
            for other in self.groups
            if other.ids & group.replaces
        )

    def complete_sets(self, forgiven: Collection[int] = ()) -> list[tuple[OracleGroup, ...]]:
        return [
            chosen
            for size in range(len(self.groups) + 1)
            for chosen in combinations(self.groups, size)
            if self.is_closed(chosen)
            and all(self.is_present(p) or p in forgiven for p in self.state(chosen))
        ]

    def largest(self, forgiven: Collection[int] = ()) -> set[OracleGroup]:
        """The largest complete set: that there is one, and only one, is checked here."""
        sets = self.complete_sets(forgiven)
        largest = {group for chosen in sets for group in chosen}
        assert any(set(chosen) == largest for chosen in sets), "two complete sets make one"
        return largest

    def is_missed(self, group: OracleGroup) -> bool:
        if not group.replaces:
            return (
                any(self.is_expected(member) for member in group.ids)
                or any(other.replaces & group.ids for other in self.groups)
                or 0 in group.ids
            )
        known = {member for other in self.groups for member in other.ids}
        return any(p not in known or self.newest(p) == 0 for p in group.replaces)

    def visible(self, groups: Collection[OracleGroup]) -> set[int]:
        state = self.state(groups)
        return {
            e.entry_id
            for e in self.announced
            if e.partition_id in state and self.newest(e.partition_id) == e.entry_id
        }

    def survivors(self) -> set[int]:
        forgiven = {
            member
            for group in self.groups
            if group not in self.effect
            and (self.is_missed(group) or not self.effect)
            and any(
                self.newest(e.partition_id) == e.entry_id
                for e in self.announced
                if e.partition_id in group.ids
            )
            for member in group.ids
        }
        return self.visible(self.largest(forgiven))


def assert_agrees(timeline: Timeline, oracle: Oracle, horizon: range) -> None:
    """Compare every hour, both ways of looking, and every entry."""
    answers = oracle.answers()
    for incomplete in (False, True):
        whole = timeline.lookup(hours(horizon.start, horizon.stop), incomplete=incomplete)
        for hour in horizon:
            expected, is_complete = answers.showing(hour, incomplete=incomplete)
            one = timeline.lookup(hours(hour, hour + 1), incomplete=incomplete)
            inside = [piece.within(hours(hour, hour + 1)) for piece in whole]
            assert [p for p in inside if p is not None and p.entries] == list(one)
            found = {e.entry_id for piece in one for e in piece.entries}
            assert found == expected, f"hour {hour}, incomplete={incomplete}"
            assert all(piece.is_complete == is_complete for piece in one)
    for item in oracle.announced.values():
        assert timeline.find_visibility(item) == answers.visibility(item, horizon), item.entry_id
    assert [e.entry_id for e in timeline.entries()] == sorted(oracle.announced)


def ranges_of(entries: Sequence[Entry]) -> IdRanges:
    """The partition ids of the entries."""
    return id_ranges(item.partition_id for item in entries)
