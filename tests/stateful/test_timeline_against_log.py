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
from carnac.core.timeline import (
    FollowedTimeline,
    Timeline,
    Visibility,
    check_followed,
    check_timeline,
)
from tests.stateful.test_log_against_rows import DATASOURCE, HOUR_MS, START_MS, LogMachine
from tests.support.told_timelines import apply_to_timeline, timeline_at


@st.composite
def weeks(draw: st.DrawFn) -> Interval:
    """Some hours or days of the first week."""
    first = draw(st.integers(0, 160))
    length = draw(st.sampled_from([1, 5, 24, 48, 168]))
    return Interval(START_MS + first * HOUR_MS, START_MS + (first + length) * HOUR_MS)


class FollowingMachine(LogMachine):
    """The machine of the log, with timelines behind it.

    One announces what is added at once and forgets nothing. One expects it, and hears of it in random order later. One
    unloads what was dropped, as a coordinator does after a rollout: retire, then remove. One follows the log, sometimes
    long after servers have; they announce and take back whatever they have ever had, dead or alive.
    """

    @initialize(seed=st.integers(0, 1000))
    def start_following(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.revision = 0
        self.prompt, self.late, self.tidy = Timeline(), Timeline(), Timeline()
        self.waiting: list[Entry] = []
        self.tidied: list[Entry] = []
        self.followed = FollowedTimeline(DATASOURCE)
        self.ever: list[Entry] = []
        self.announced: set[int] = set()

    def follow(self) -> None:
        while self.revision < self.store.head().revision:
            self.revision += 1
            for change in self.store.commit(self.revision).changes:
                apply_to_timeline(self.prompt, change)
                apply_to_timeline(self.tidy, change)
                apply_to_timeline(self.late, change, are_announced=False)
                self.waiting += change.adds
                self.ever += change.adds
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

    @rule(number=st.integers(1, 20))
    def announce_whatever_there_ever_was(self, number: int) -> None:
        self.follow()
        for item in self.random.sample(self.ever, min(number, len(self.ever))):
            if item.entry_id in self.announced:
                self.announced.discard(item.entry_id)
                self.followed.remove(item)
            else:
                self.announced.add(item.entry_id)
                self.followed.add(item)

    @rule(number=st.integers(1, 9))
    def follow_the_log(self, number: int) -> None:
        self.follow()
        for revision in range(self.followed.revision + 1, self.revision + 1)[:number]:
            self.followed.follow(self.store.commit(revision))

    @rule()
    def start_again(self) -> None:
        """A server that was started anew begins with the log, and hears of everything again."""
        self.follow()
        self.followed = FollowedTimeline(DATASOURCE, self.revision, self._live_at(self.revision))
        for item in self.ever:
            if item.entry_id in self.announced:
                self.followed.add(item)

    @rule(number=st.integers(1, 12))
    def lose_a_server_and_get_it_back(self, number: int) -> None:
        self.follow()
        announced = self.prompt.entries()
        lost = self.random.sample(announced, min(number, len(announced)))
        for item in lost:
            self.prompt.expect(item)
        check_timeline(self.prompt)
        visible = {item.entry_id for item in self.prompt.entries(Visibility.VISIBLE)}
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
        for timeline in (self.prompt, self.tidy, timeline_at(self.states[-1], DATASOURCE)):
            assert shown(timeline) == live
            assert all(p.is_complete and p.is_newest for p in timeline.lookup(ETERNITY))
            assert {e.entry_id for e in timeline.entries(Visibility.VISIBLE)} == set(live)
            check_timeline(timeline)
        if not self.waiting:
            assert shown(self.late) == live

    @invariant()
    def what_follows_the_log_shows_what_is_live_and_here(self) -> None:
        if not hasattr(self, "followed"):
            return
        live = self._live_at(self.followed.revision)
        check_followed(self.followed, live, self.announced)
        rows = self._rows_of(by_segment(self.followed))
        assert all(count == 1 for count in rows.values()), "a row shows twice"
        to_come = [one for one in self.ever if one.added_revision > self.followed.revision]
        assert self.followed.size <= len(live) + len(to_come)

    @invariant()
    def nothing_shows_twice_whatever_is_announced(self) -> None:
        if hasattr(self, "late"):
            check_timeline(self.late)
            rows = self._rows_of(by_segment(self.late))
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

    def _live_at(self, revision: int) -> list[Entry]:
        return list(self.states[revision].entries.get(DATASOURCE, {}).values())

    def live(self) -> dict[int, IntervalSet]:
        entries = self.states[-1].entries.get(DATASOURCE, {})
        return {number: item.visible for number, item in entries.items()}


def shown(timeline: Timeline) -> dict[int, IntervalSet]:
    found: dict[int, IntervalSet] = {}
    for piece in timeline.lookup(ETERNITY):
        for item in piece.entries:
            before = found.get(item.entry_id, IntervalSet())
            found[item.entry_id] = before.union(piece.shows(item))
    return found


def by_segment(timeline: Timeline | FollowedTimeline) -> dict[str, IntervalSet]:
    found: dict[str, IntervalSet] = {}
    is_followed = isinstance(timeline, FollowedTimeline)
    for piece in timeline.lookup(ETERNITY, incomplete=is_followed):
        for item in piece.entries:
            before = found.get(item.segment_id, IntervalSet())
            instants = piece.shows(item)
            assert not before.intersect(instants), "an instant of a segment shows twice"
            found[item.segment_id] = before.union(instants)
    return found


TestTimelineAgainstLog = FollowingMachine.TestCase
TestTimelineAgainstLog.settings = settings(max_examples=1 + settings().max_examples // 4)
