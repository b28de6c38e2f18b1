"""Random allocations and publications in any order: a place is one segment's, and stands while its chunk does."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from carnac.core.log.allocation import AllocationRequest, PendingSegment
from carnac.core.log.commits import Publication, Reserved
from carnac.core.time.intervals import Interval, format_ms
from carnac.metadata import open_metadata
from tests.logs import append_of, entries, replacement, segment
from tests.support.clock import FakeClock, SequentialIds

HOUR_MS = 3_600_000
DAYS = st.integers(1, 3)
hours = st.integers(24, 96 - 1)
granularities = st.sampled_from(["hour", "six_hour", "day", "week"])
Place = tuple[Interval, int, int]


def text(interval: Interval) -> str:
    return f"{format_ms(interval.start_ms)}/{format_ms(interval.end_ms)}"


class Places(RuleBasedStateMachine):
    """Against the sentence: what is published under a reservation has its place if the chunk is as it was."""

    pending: Bundle[PendingSegment] = Bundle("pending")

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = open_metadata("memory://", clock=self.clock, ids=SequentialIds())
        self.count = 0
        self.given: dict[Place, str] = {}
        self.taken: set[str] = set()
        """Under which somebody published; after all are given up, another one may be given the same."""

    def teardown(self) -> None:
        self.store.close()

    def name(self) -> str:
        self.count += 1
        return f"s{self.count}"

    def rows(self, hour: int, chunk: Interval) -> Publication:
        """An append of an hour's rows, written for a chunk."""
        span = Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS)
        inside = span.intersect(chunk) or span
        one = segment(self.name(), text(inside), chunk=text(chunk))
        return append_of(one, granularity="hour")

    @rule(target=pending, hour=hours, granularity=granularities)
    def allocate(self, hour: int, granularity: str) -> PendingSegment:
        request = AllocationRequest(
            datasource="events",
            at_ms=hour * HOUR_MS,
            segment_granularity=granularity,
            sequence=self.name(),
            owner="task",
        )
        (reply,) = self.store.allocate([request])
        assert isinstance(reply, PendingSegment)
        place = (reply.chunk, reply.major_ms, reply.partition_id)
        assert place not in self.given, "a number is given once"
        assert all(
            place != (one.chunk, one.version.major_ms, one.partition_id)
            for one in entries(self.store)
        )
        self.given[place] = reply.pending_id
        assert self.store.allocate([request]) == (reply,)
        return reply

    @rule(one=consumes(pending), minutes=st.integers(0, 1))
    def publish_reserved(self, one: PendingSegment, minutes: int) -> None:
        chunks = {chunk.interval: chunk for chunk in self.store.chunks("events")}
        live = chunks.get(one.chunk)
        in_the_way = [chunk for chunk in chunks if chunk.overlaps(one.chunk)]
        stands = live.version.major_ms == one.major_ms if live else not in_the_way
        never_was = live is not None or not self.was_there(one)
        is_given = one.pending_id in self.given.values()  # all are given up at once
        is_reserved = is_given and one.pending_id not in self.taken
        self.taken.add(one.pending_id)
        self.clock.advance_ms(minutes)
        publication = self.rows(one.chunk.start_ms // HOUR_MS, one.chunk)
        (change,) = publication.changes
        (new,) = change.adds
        place = Reserved(segment_id=new.segment_id, pending_id=one.pending_id)
        self.store.publish(replace(publication, changes=(replace(change, places=(place,)),)))
        found = {
            (entry.chunk, entry.version.major_ms, entry.partition_id)
            for entry in entries(self.store)
            if entry.segment_id == new.segment_id
        }
        if stands and never_was and is_reserved:
            assert found == {(one.chunk, one.major_ms, one.partition_id)}

    def was_there(self, one: PendingSegment) -> bool:
        """Whether some chunk was made and emptied there since the place was reserved."""
        return any(
            entry.chunk.overlaps(one.chunk) and entry.version.major_ms >= one.major_ms
            for commit in self.store.changes(after=0)
            for change in commit.changes
            for entry in change.adds
        )

    @rule(hour=hours)
    def publish_without(self, hour: int) -> None:
        bucket = Interval(hour // 24 * 24 * HOUR_MS, (hour // 24 + 1) * 24 * HOUR_MS)
        self.store.publish(self.rows(hour, bucket))

    @rule(day=DAYS, length=st.integers(1, 2), is_empty=st.booleans())
    def replace_days(self, day: int, length: int, is_empty: bool) -> None:
        chunk = Interval(day * 24 * HOUR_MS, (day + length) * 24 * HOUR_MS)
        new = () if is_empty else (segment(self.name(), text(chunk), chunk=text(chunk)),)
        publication = replacement(self.store, text(chunk), *new)
        if publication.changes[0].drops or new:
            self.store.publish(publication)

    @rule(one=consumes(pending))
    def give_up_all(self, one: PendingSegment) -> None:
        self.store.release_pending("task")
        self.given.clear()

    @invariant()
    def nothing_contradicts_itself(self) -> None:
        assert self.store.check() == ()


TestPlaces = Places.TestCase
TestPlaces.settings = settings(
    max_examples=min(60, 2 * settings().max_examples),
    stateful_step_count=20,
    deadline=None,
)
