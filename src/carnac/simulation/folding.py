"""The future of arrivals under compaction: the real planner and task manager, in a simulated world.

Time goes from arrival to arrival and from the end of one task to the next. A task takes as long as its bytes take to
be read, and a while besides. Only the durations are a model: the code of a real store judges, plans, dispatches and
sheds.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from carnac.core.compaction.control.conductor import Conductor
from carnac.core.compaction.control.flow import Verdict
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.commits import Commit, CommitKind
from carnac.core.time.granularity import DAY, parse_granularity
from carnac.core.time.intervals import ETERNITY, MAX_MS, Interval
from carnac.errors import Invalid
from carnac.simulation.folding_world import FoldingWorld

NAME = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A segment that an append commits.

    Attributes:
        at_ms: When it is committed.
        time_ms: Time of its rows.
    """

    at_ms: int
    time_ms: int
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed of tasks.

    Attributes:
        bytes_per_s: Bytes that one task reads and writes in a second.
        task_ms: Time that a task takes besides.
        period_ms: Time between two looks of the controller for changes.
    """

    bytes_per_s: int = 50 << 20
    task_ms: int = 2_000
    period_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldingMoment:
    """The state after an hour.

    Attributes:
        waiting: Tasks that wait; `running`, `deferred` (chunks) likewise.
        surplus: Segments above what sizes ask for, summed over chunks.
        surplus_max: Surplus of the worst chunk.
        write_amplification: Bytes that compaction has written so far, by bytes that have arrived.
        latency_ms: Mean time from the arrival of a segment to the commit that folded it, of those folded in the hour;
            None: none was.
    """

    at_ms: int
    chunks: int
    segments: int
    waiting: int
    running: int
    deferred: int
    surplus: int
    surplus_max: int
    arrived_bytes: int
    rewritten_bytes: int
    latency_ms: float | None

    @property
    def write_amplification(self) -> float:
        """Bytes that compaction has written so far, by bytes that have arrived so far."""
        return self.rewritten_bytes / max(self.arrived_bytes, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldingOutcome:
    """The outcome of the arrivals."""

    moments: tuple[FoldingMoment, ...]
    verdict: Verdict
    tasks: int
    groups: int
    conflicts: int
    settled_at_ms: int | None = None
    """When everything was stable after the last arrival; None: not within the time given."""


@dataclass(slots=True)
class _Meter:
    arrived: int = 0
    rewritten: int = 0
    tasks: int = 0
    groups: int = 0
    conflicts: int = 0
    born: dict[str, int] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=list)


class FoldingSimulation:
    """One run over arrivals."""

    def __init__(
        self,
        settings: CompactionSettings,
        *,
        capacity: Capacity | None = None,
        pace: Pace | None = None,
    ) -> None:
        text = settings.target.segment_granularity
        self._granularity = DAY if text is None else parse_granularity(text)
        self.world = FoldingWorld(self._granularity)
        self.conductor = Conductor(capacity or Capacity())
        self.conductor.watch(NAME, settings)
        self._view = TargetView(settings.target)
        self._pace = pace or Pace()
        self._ends: list[tuple[int, int, CompactionTask]] = []
        self._meter = _Meter()
        self._is_new = True
        self.now_ms = 0

    def run(
        self,
        arrivals: Iterable[Arrival],
        *,
        until_ms: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> FoldingOutcome:
        """Let the arrivals happen, in order of time, and look at what is there every hour."""
        moments: list[FoldingMoment] = []
        coming = iter(arrivals)
        following = next(coming, None)
        self.now_ms = following.at_ms if following else until_ms
        last_ms = self.now_ms
        hour_ms = self.now_ms + 3_600_000
        settled_ms: int | None = None
        while self.now_ms < until_ms:
            round_ms = min(self.now_ms + self._pace.period_ms, until_ms)
            while following is not None and following.at_ms <= round_ms:
                self.finish_due(following.at_ms)
                self._arrive(following)
                last_ms, settled_ms = following.at_ms, None
                following = next(coming, None)
            self.finish_due(round_ms)
            self.look()
            if following is None and settled_ms is None and self.is_settled():
                settled_ms = max(self.now_ms, last_ms)
            if self.now_ms >= hour_ms:
                moments.append(self.measure())
                hour_ms += 3_600_000
                if on_progress is not None:
                    on_progress(self.now_ms)
        if not moments or moments[-1].at_ms < self.now_ms:
            moments.append(self.measure())
        meter = self._meter
        return FoldingOutcome(
            moments=tuple(moments),
            verdict=self.conductor.verdict(self.now_ms),
            tasks=meter.tasks,
            groups=meter.groups,
            conflicts=meter.conflicts,
            settled_at_ms=settled_ms,
        )

    def finish_due(self, now_ms: int) -> None:
        """Let time pass, and tasks end whose time has come, each followed at once by what can start then."""
        while self._ends and self._ends[0][0] <= now_ms:
            self.now_ms, run, task = heapq.heappop(self._ends)
            self._finish(run, task)
            self.look()
        self.now_ms = now_ms

    def look(self) -> None:
        """Let the controller have a round."""
        conductor, world = self.conductor, self.world
        dirty = [ETERNITY] if self._is_new else world.take_changed()
        self._is_new = False
        world.take_changed()
        reached = conductor.reach(NAME, dirty, newest_ms=world.newest_ms, now_ms=self.now_ms)
        if reached:
            due, _ = conductor.look(NAME, reached, world.chunks(reached), now_ms=self.now_ms)
            if due:
                conductor.judge(NAME, world.segments(due))
        starts = conductor.start(revision=world.revision, now_ms=self.now_ms)
        for task in starts.tasks:
            self._meter.tasks += 1
            conductor.note_start(task, str(self._meter.tasks), now_ms=self.now_ms)
            seconds = task.size_bytes / self._pace.bytes_per_s
            end_ms = self.now_ms + self._pace.task_ms + round(seconds * 1000)
            heapq.heappush(self._ends, (end_ms, self._meter.tasks, task))

    def is_settled(self) -> bool:
        """Whether nothing runs, waits or is deferred."""
        survey = self.conductor.survey(NAME)
        return (
            not self._ends
            and not self.conductor.queue.waiting
            and all(
                state.status in {ChunkStatus.STABLE, ChunkStatus.EMPTY}
                for state in survey.states.values()
            )
        )

    def measure(self) -> FoldingMoment:
        """Return the state now."""
        counts = self.world.counts()
        surplus = [
            max(count - self._view.ideal(size_bytes, rows), 0) for count, size_bytes, rows in counts
        ]
        meter = self._meter
        latencies, meter.latencies = meter.latencies, []
        states = self.conductor.survey(NAME).states.values()
        return FoldingMoment(
            at_ms=self.now_ms,
            chunks=len(counts),
            segments=sum(count for count, _, _ in counts),
            waiting=len(self.conductor.queue.waiting),
            running=len(self._ends),
            deferred=sum(state.status is ChunkStatus.DEFERRED for state in states),
            surplus=sum(surplus),
            surplus_max=max(surplus, default=0),
            arrived_bytes=meter.arrived,
            rewritten_bytes=meter.rewritten,
            latency_ms=sum(latencies) / len(latencies) if latencies else None,
        )

    def _arrive(self, arrival: Arrival) -> None:
        segment = self.world.append(
            arrival.time_ms, size_bytes=arrival.size_bytes, rows=arrival.rows
        )
        self._meter.arrived += arrival.size_bytes
        self._meter.born[segment.segment_id] = arrival.at_ms
        chunk = self._target_of(arrival.time_ms)
        self.conductor.survey(NAME).note_bytes(chunk, arrived=arrival.size_bytes)

    def _finish(self, run: int, task: CompactionTask) -> None:
        for group in task.groups:
            if not self.world.commit(task, group):
                self._meter.conflicts += 1
                continue
            self._meter.groups += 1
            self._meter.rewritten += group.size_bytes
            for chunk in task.chunks:
                if group.interval.contains(chunk):
                    self.conductor.survey(NAME).note_bytes(chunk, rewritten=group.size_bytes)
            for segment_id in group.segment_ids:
                born_ms = self._meter.born.pop(segment_id, None)
                if born_ms is not None:
                    self._meter.latencies.append(self.now_ms - born_ms)
        self.conductor.end(str(run), now_ms=self.now_ms)

    def _target_of(self, time_ms: int) -> Interval:
        return self._granularity.bucket(time_ms)


def make_arrivals(
    *,
    start_ms: int,
    days: float,
    every_ms: int,
    size_bytes: int,
    rows: int,
    late_share: float = 0.0,
    lateness_ms: int = 0,
    rng: random.Random,
) -> Iterator[Arrival]:
    """Yield appends at a steady pace; some of them with rows of long ago.

    Args:
        late_share: 0..1: of appends that also bring a segment of an earlier time.
        lateness_ms: How much earlier at most, evenly spread.
    """
    for number in range(int(days * 86_400_000 // every_ms)):
        at_ms = start_ms + number * every_ms
        yield Arrival(at_ms=at_ms, time_ms=at_ms, size_bytes=size_bytes, rows=rows)
        if rng.random() < late_share:
            time_ms = at_ms - rng.randrange(1, lateness_ms + 1)
            late = max(size_bytes // 10, 1)
            yield Arrival(at_ms=at_ms, time_ms=time_ms, size_bytes=late, rows=max(rows // 10, 1))


DAY_MS = 86_400_000


def arrivals_of(commits: Iterable[Commit], datasource: str) -> list[Arrival]:
    """Return what appends and replacements have brought to a datasource, in order of time.

    Raises:
        Invalid: Nothing has arrived.
    """
    found = [
        Arrival(
            at_ms=commit.at_ms,
            time_ms=segment.min_time_ms,
            size_bytes=segment.size_bytes,
            rows=segment.rows,
        )
        for commit in commits
        if commit.kind in {CommitKind.APPEND, CommitKind.REPLACE}
        for change in commit.changes
        if change.datasource == datasource
        for segment in change.segments
    ]
    if not found:
        raise Invalid(
            f"the log has no arrivals of {datasource}; leave the name out and say what arrives: --every, --size-bytes"
        )
    return sorted(found, key=lambda one: one.at_ms)


def repeated(arrivals: Sequence[Arrival], days: float) -> Iterator[Arrival]:
    """Yield the arrivals, and again as much later as they take, in whole days, until the days are over.

    Rows of the end of time, which stand for no time at all, stay there.
    """
    first_ms = arrivals[0].at_ms
    end_ms = first_ms + round(days * DAY_MS)
    length_ms = -(-(arrivals[-1].at_ms - first_ms + 1) // DAY_MS) * DAY_MS
    shift_ms = 0
    while first_ms + shift_ms < end_ms:
        for one in arrivals:
            if one.at_ms + shift_ms >= end_ms:
                return
            yield Arrival(
                at_ms=one.at_ms + shift_ms,
                time_ms=min(one.time_ms + shift_ms, MAX_MS - 1),
                size_bytes=one.size_bytes,
                rows=one.rows,
            )
        shift_ms += length_ms
