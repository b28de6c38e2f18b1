"""Timelines that follow random logs: with everything announced they show what the log says, entry by entry."""

from __future__ import annotations

import random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import initialize, invariant, rule

from carnac.core.log.commits import CommitKind
from carnac.core.log.entries import Entry
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet
from carnac.core.timeline import find_disagreements
from tests.stateful.test_log_against_rows import DATASOURCE, HOUR_MS, START_MS, LogMachine
from tests.support.laws.timeline import check_timeline
from tests.support.timeline import (
    Timeline,
    Visibility,
    timeline_of,
)
from tests.support.told_timelines import Told


@st.composite
def weeks(draw: st.DrawFn) -> Interval:
    """Some hours or days of the first week."""
    first = draw(st.integers(0, 160))
    length = draw(st.sampled_from([1, 5, 24, 48, 168]))
    return Interval(START_MS + first * HOUR_MS, START_MS + (first + length) * HOUR_MS)


class FollowingMachine(LogMachine):
    """The machine of the log, with timelines behind it.

    One announces what is added at once and forgets nothing. One expects it, and hears of it in random order later. One
    unloads what was dropped, as a coordinator does after a rollout: retire, then remove.
    """

    @initialize(seed=st.integers(0, 1000))
    def start_following(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.revision = 0
        self.prompt, self.late, self.tidy = Told(), Told(), Told()
        self.waiting: list[Entry] = []
        self.tidied: list[Entry] = []

    def follow(self) -> None:
        while self.revision < self.store.head().revision:
            self.revision += 1
            for change in self.store.commit(self.revision).changes:
                self.prompt.apply(change)
                self.tidy.apply(change)
                self.late.apply(change, are_announced=False)
                self.waiting += change.adds
                self.tidied += change.drops

    @rule(first=st.integers(0, 5), granularity=st.sampled_from(["hour", "day", "month"]))
    def append_to_a_week(self, first: int, granularity: str) -> None:
        self.append([24 * day + first for day in range(7)] * 2, granularity, 0)

    @rule(covers=weeks(), at_hours=st.lists(st.integers(0, 167), max_size=5))
    def replace_at_once(self, covers: Interval, at_hours: list[int]) -> None:
        self._begin(CommitKind.REPLACE, IntervalSet((covers,)), "day")
        self.finish(len(self.pending) - 1, at_hours)

    @rule(covers=weeks(), granularity=st.sampled_from(["hour", "day", "month"]))
    def rewrite_at_once(self, covers: Interval, granularity: str) -> None:
        waiting = len(self.pending)
        self._begin(CommitKind.REWRITE, IntervalSet((covers,)), granularity)
        if len(self.pending) > waiting:
            self.finish(waiting, [])

    @rule(number=st.integers(1, 12))
    def load_some(self, number: int) -> None:
        """Some segments are announced at last, in no order."""
        self.follow()
        self.random.shuffle(self.waiting)
        for item in self.waiting[:number]:
            self.late.add(item)
        del self.waiting[:number]

    @rule()
    def unload(self) -> None:
        """What the log dropped is unloaded, in no order."""
        self.follow()
        self.random.shuffle(self.tidied)
        for item in self.tidied:
            self.tidy.retire(item)
            self.tidy.remove(item)
        self.tidied.clear()

    @rule(number=st.integers(1, 12))
    def lose_a_server_and_get_it_back(self, number: int) -> None:
        self.follow()
        announced = list(self.prompt.announced.values())
        lost = self.random.sample(announced, min(number, len(announced)))
        for item in lost:
            self.prompt.expect(item)
        timeline = self.prompt.now()
        check_timeline(timeline)
        visible = {item.entry_id for item in timeline.entries(Visibility.VISIBLE)}
        assert not visible & {item.entry_id for item in lost}
        self.random.shuffle(lost)
        for item in lost:
            self.prompt.add(item)

    @invariant()
    def everything_announced_is_what_the_log_says(self) -> None:
        if not hasattr(self, "prompt"):
            return
        self.follow()
        live = self.live()
        entries = self.states[-1].entries.get(DATASOURCE, {}).values()
        assert list(find_disagreements(entries)) == []
        for timeline in (self.prompt.now(), self.tidy.now(), timeline_of(entries)):
            assert timeline.shown() == live
            assert all(p.is_complete and p.is_newest for p in timeline.lookup(ETERNITY))
            assert {e.entry_id for e in timeline.entries(Visibility.VISIBLE)} == set(live)
            check_timeline(timeline)
        if not self.waiting:
            assert self.late.now().shown() == live

    @invariant()
    def nothing_shows_twice_whatever_is_announced(self) -> None:
        if hasattr(self, "late"):
            timeline = self.late.now()
            check_timeline(timeline)
            rows = self._rows_of(by_segment(timeline))
            assert all(count == 1 for count in rows.values()), "a row shows twice"

    def _segments(
        self,
        rows: list[int],
        granularity: str,
        layout: tuple[Interval, ...],
        within: IntervalSet | None,
    ) -> tuple[Segment, ...]:
        """Two segments for a chunk where there are rows enough, so that update groups have several members."""
        rows = sorted(rows, key=lambda row: self.oracle.times[row])
        middle = len(rows) // 2
        is_cut = len(rows) % 3 > 0  # earlier and later rows; else every other row
        halves = (rows[:middle], rows[middle:]) if is_cut else (rows[::2], rows[1::2])
        return tuple(
            segment
            for half in halves
            for segment in super(FollowingMachine, self)._segments(
                half, granularity, layout, within
            )
        )

    def live(self) -> dict[int, IntervalSet]:
        entries = self.states[-1].entries.get(DATASOURCE, {})
        return {number: item.visible for number, item in entries.items()}


def by_segment(timeline: Timeline) -> dict[str, IntervalSet]:
    found: dict[str, IntervalSet] = {}
    for piece in timeline.lookup(ETERNITY):
        for item in piece.entries:
            before = found.get(item.segment_id, IntervalSet())
            instants = piece.shows(item)
            assert not before.intersect(instants), "an instant of a segment shows twice"
            found[item.segment_id] = before.union(instants)
    return found


TestTimelineAgainstLog = FollowingMachine.TestCase
TestTimelineAgainstLog.settings = settings(max_examples=1 + settings().max_examples // 4)
