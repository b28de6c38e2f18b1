"""Random announcements against the naive oracle: every order leads to what the definition says."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet
from carnac.core.timeline import (
    Timeline,
    check_timeline,
    check_unchanged,
)
from tests.timelines import HOUR_MS, Oracle, assert_agrees, entry, hours

HORIZON = range(8)
CHUNKS = [hours(0, 8), hours(0, 4), hours(4, 8), hours(1, 2), hours(5, 6), hours(2, 4)]
PICK = st.integers(0, 1000)


@st.composite
def generation(draw: st.DrawFn, first_id: int) -> list[Entry]:
    """Up to five update groups in one chunk under one major version, each replacing some of what came before."""
    chunk = draw(st.sampled_from(CHUNKS))
    major = draw(st.integers(1, 3))
    next_partition = draw(st.sampled_from([0, 0, 0, 7]))
    before: list[int] = []
    minors: dict[int, int] = {}
    found: list[Entry] = []
    for _ in range(draw(st.integers(1, 5))):
        members = list(range(next_partition, next_partition + draw(st.integers(1, 3))))
        next_partition = members[-1] + 1
        replaced = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        minor = max((minors[p] for p in replaced), default=-1) + 1
        for member in members:
            for _ in range(1 + draw(st.integers(0, 4)) // 4):
                found.append(
                    entry(
                        first_id + len(found),
                        chunk,
                        major=major,
                        minor=minor,
                        partition_id=member,
                        group=members,
                        replaces=replaced,
                        clip=draw(clips(chunk)),
                    )
                )
            minors[member] = minor
        before += members
    return found


@st.composite
def clips(draw: st.DrawFn, chunk: Interval) -> IntervalSet | None:
    """None, mostly; or the first or the last hour of the chunk."""
    kind = draw(st.integers(0, 7))
    if kind > 1:
        return None
    start = chunk.start_ms if kind else chunk.end_ms - HOUR_MS
    return IntervalSet((Interval(start, start + HOUR_MS),))


@st.composite
def universes(draw: st.DrawFn) -> list[Entry]:
    """One to four generations; those of one chunk and major version are one."""
    found: list[Entry] = []
    places = set()
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3, 4]))):
        made = draw(generation(1 + len(found)))
        place = (made[0].chunk, made[0].version.major_ms)
        if place not in places:
            places.add(place)
            found += made
    return found


class TimelineMachine(RuleBasedStateMachine):
    """Announces, expects, removes and retires at random; asks now and then."""

    @initialize(universe=universes())
    def start(self, universe: list[Entry]) -> None:
        self.universe = universe
        self.oracle = Oracle()
        self.timeline = Timeline()

    def pick(self, which: int) -> Entry:
        return self.universe[which % len(self.universe)]

    @rule(which=PICK)
    def add(self, which: int) -> None:
        item = self.pick(which)
        is_new = item.entry_id not in self.oracle.announced
        self.oracle.expected.pop(item.entry_id, None)
        self.oracle.announced[item.entry_id] = item
        assert self.timeline.add(item) == is_new

    @rule(picks=st.lists(PICK, max_size=12))
    def add_many(self, picks: list[int]) -> None:
        for which in picks:
            self.add(which)

    @rule(which=PICK)
    def add_a_group(self, which: int) -> None:
        chosen = self.pick(which)
        for item in self.universe:
            if (item.chunk, item.version, item.update_group) == (
                chosen.chunk,
                chosen.version,
                chosen.update_group,
            ):
                self.add(self.universe.index(item))

    @rule(which=PICK)
    def expect(self, which: int) -> None:
        item = self.pick(which)
        is_new = item.entry_id not in self.oracle.expected
        self.oracle.announced.pop(item.entry_id, None)
        self.oracle.expected[item.entry_id] = item
        assert self.timeline.expect(item) == is_new

    @rule(which=PICK)
    def remove(self, which: int) -> None:
        item = self.pick(which)
        was_known = item.entry_id in {**self.oracle.announced, **self.oracle.expected}
        self.oracle.announced.pop(item.entry_id, None)
        self.oracle.expected.pop(item.entry_id, None)
        assert self.timeline.remove(item) == was_known

    @rule(which=PICK)
    def remove_and_put_back(self, which: int) -> None:
        item = self.pick(which)
        if item.entry_id in self.oracle.announced:
            before = self.timeline.lookup(ETERNITY, incomplete=True)
            self.timeline.remove(item)
            self.timeline.add(item)
            assert self.timeline.lookup(ETERNITY, incomplete=True) == before

    @rule(which=PICK)
    def retire(self, which: int) -> None:
        item = self.pick(which)
        self.timeline.retire(item)
        self.oracle.retired[item.entry_id] = item

    @invariant()
    def it_is_what_the_definition_says(self) -> None:
        if hasattr(self, "timeline"):
            assert_agrees(self.timeline, self.oracle, HORIZON)
            check_timeline(self.timeline)

    @invariant()
    def it_is_what_a_bulk_build_is(self) -> None:
        if hasattr(self, "timeline"):
            check_unchanged(
                self.timeline,
                Timeline(
                    self.oracle.announced.values(),
                    expected=self.oracle.expected.values(),
                    retired=self.oracle.retired.values(),
                ),
            )


TestTimeline = TimelineMachine.TestCase
