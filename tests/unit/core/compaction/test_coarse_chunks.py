"""Coarse time chunks in the hands of a conductor: seen as one, known in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from carnac.core.compaction.control.conductor import Conductor
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import RETRY_FIRST_MS, ChunkState, ChunkStatus
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.log.entries import Chunk
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import ETERNITY, Interval, interval_set, parse_interval
from carnac.core.time.periods import parse_period

NAME = "events"
HOURS = CompactionSettings(target=CompactionTarget(segment_granularity="HOUR"))
FIRST, SECOND = parse_interval("1970-01-01/PT1H"), parse_interval("2026-01-05/2026-01-09")


def live(interval: Interval = ETERNITY, *, entries: int = 2, revision: int = 1) -> Chunk:
    return Chunk(
        interval=interval,
        version=SegmentVersion(0),
        next_partition_id=0,
        entries=entries,
        revision=revision,
    )


def segment(rows: Interval, chunk: Interval = ETERNITY) -> PlanSegment:
    return PlanSegment(
        segment_id=f"s{rows.start_ms}",
        start_ms=rows.start_ms,
        end_ms=rows.end_ms,
        size_bytes=1 << 20,
        rows=100,
        chunk=chunk,
    )


@dataclass
class Desk:
    """A conductor, and what is live."""

    how: CompactionSettings = HOURS
    capacity: Capacity = field(default_factory=lambda: Capacity(tasks=0))
    chunks: list[Chunk] = field(default_factory=lambda: [live()])
    segments: list[PlanSegment] = field(default_factory=lambda: [segment(FIRST), segment(SECOND)])
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.start_anew()

    def start_anew(self, states: Sequence[ChunkState] = ()) -> None:
        self.conductor = Conductor(self.capacity)
        self.conductor.watch(NAME, self.how, states)

    def look(self, *dirty: Interval) -> list[Interval]:
        """Return what was analysed."""
        newest_ms = max(one.end_ms for one in self.segments)
        reached = self.conductor.reach(NAME, dirty, newest_ms=newest_ms, now_ms=self.now_ms)
        touched = [
            one for one in self.chunks if any(one.interval.overlaps(piece) for piece in reached)
        ]
        due, _ = self.conductor.look(NAME, reached, touched, now_ms=self.now_ms)
        self.conductor.judge(NAME, self.segments if due else [])
        return due

    def states(self) -> dict[Interval, ChunkStatus]:
        known = self.conductor.survey(NAME).states
        return {chunk: state.status for chunk, state in sorted(known.items())}

    def start(self) -> list[Interval]:
        """Return the chunks of what starts."""
        tasks = self.conductor.start(revision=1, now_ms=self.now_ms).tasks
        for task in tasks:
            self.conductor.note_start(task, task.task_id, now_ms=self.now_ms)
        return [chunk for task in tasks for chunk in task.chunks]


def test_it_is_known_in_parts_and_analysed_once() -> None:
    desk = Desk()
    assert desk.look(ETERNITY) == [ETERNITY]
    unstable = dict.fromkeys((FIRST, SECOND), ChunkStatus.UNSTABLE)
    assert desk.states() == unstable
    assert desk.look(ETERNITY) == desk.look(SECOND) == [], "nothing has changed"
    desk.chunks = [live(entries=3, revision=2)]
    assert desk.look(SECOND) == [ETERNITY], "something was appended"
    assert desk.states() == unstable


def test_a_controller_that_starts_anew_plans_its_parts_again() -> None:
    desk = Desk()
    desk.look(ETERNITY)
    desk.start_anew(list(desk.conductor.survey(NAME).states.values()))
    assert desk.look(ETERNITY) == [ETERNITY]
    assert desk.look(ETERNITY) == []


def test_a_part_that_fails_rests_and_delays_no_other() -> None:
    desk = Desk(how=replace(HOURS, task_cost_small=0), capacity=Capacity(tasks=1))
    desk.look(ETERNITY)
    (poisoned,) = desk.start()
    assert poisoned == SECOND, "the newest first"
    (run,) = [one.run_id for one in desk.conductor.queue.running]
    desk.conductor.end(run, failures={poisoned: "disk full"}, now_ms=desk.now_ms)
    desk.look()
    assert desk.start() == [FIRST]
    desk.conductor.end(desk.conductor.queue.running[0].run_id, now_ms=desk.now_ms)
    rest = Interval(FIRST.end_ms, ETERNITY.end_ms)
    desk.chunks = [live(FIRST, entries=1, revision=2), live(rest, entries=1, revision=2)]
    desk.segments = [segment(FIRST, FIRST), segment(SECOND, rest)]
    desk.look(ETERNITY, FIRST, rest)
    assert desk.states() == {FIRST: ChunkStatus.STABLE, SECOND: ChunkStatus.UNSTABLE}
    known = desk.conductor.survey(NAME).states[SECOND]
    assert (known.failures, known.retry_at_ms) == (1, RETRY_FIRST_MS), "a part of a part rests on"
    assert desk.start() == []
    desk.now_ms += RETRY_FIRST_MS
    assert desk.look() == [rest]
    assert desk.start() == [SECOND]


def test_what_a_part_that_failed_has_become_a_part_of_rests_on_and_delays_no_other() -> None:
    desk = Desk(how=replace(HOURS, task_cost_small=0), capacity=Capacity(tasks=1))
    desk.look(ETERNITY)
    (poisoned,) = desk.start()
    assert poisoned == SECOND
    desk.conductor.end(
        desk.conductor.queue.running[0].run_id, failures={SECOND: "disk full"}, now_ms=desk.now_ms
    )
    desk.chunks = [live(entries=3, revision=2)]
    desk.segments.append(segment(parse_interval("2026-01-08T12/2026-01-10")))
    desk.look(ETERNITY)
    wider = parse_interval("2026-01-05/2026-01-10")
    assert set(desk.states()) == {FIRST, wider}
    known = desk.conductor.survey(NAME).states
    rests = [(known[one].failures, known[one].retry_at_ms) for one in (FIRST, wider)]
    assert rests == [(0, 0), (1, RETRY_FIRST_MS)]
    assert desk.start() == [FIRST]


def test_more_of_it_is_due_when_more_is_old_enough() -> None:
    how = replace(HOURS, skip_offset=parse_period("P1D"))
    desk = Desk(how=how, chunks=[live()], segments=[segment(SECOND)])
    desk.look(ETERNITY)
    old = interval_set(desk.states())
    assert old.intervals == (parse_interval("2026-01-05/2026-01-08"),)
    assert not desk.conductor.has_more()
    assert desk.look() == []
    newer = parse_interval("2026-01-09/PT30M")
    desk.segments.append(segment(newer, newer))
    assert desk.look() == [], "no hour more is old enough"
    newer = parse_interval("2026-01-09/PT90M")
    desk.segments.append(segment(newer, newer))
    assert desk.look() == [ETERNITY]
    assert interval_set(desk.states()).intervals == (parse_interval("2026-01-05/2026-01-08T01:00"),)


def test_a_chunk_of_all_times_without_rows_is_remembered_by_nobody() -> None:
    desk = Desk(segments=[segment(SECOND)])
    desk.look(ETERNITY)
    desk.segments = []
    desk.chunks = [live(revision=2)]
    reached = desk.conductor.reach(NAME, [ETERNITY], newest_ms=None, now_ms=0)
    desk.conductor.look(NAME, reached, desk.chunks, now_ms=0)
    (gone,) = desk.conductor.judge(NAME, [])
    assert (gone.chunk, gone.status, gone.segments) == (SECOND, ChunkStatus.EMPTY, 0)
    assert desk.states() == {}
