"""The decisions of the controller: the chunks to look at next, the tasks to start now, the states to store.

A shell, or a simulation, gives it the input that it asks for, in rounds:

    reach   changes, and the time that has passed → the target chunks that they affect
    look    their live chunks → those of them that are due for analysis
    judge   their segments → new states, to be stored
    start   the tasks that run now, and those that were shed
    end     the outcome of a run

Nothing waits for anything else: a round may start one task, and the next round comes when something has changed or a
task has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from carnac.core.compaction.control.flow import Flow, Verdict, judge_flow
from carnac.core.compaction.control.manager import (
    Capacity,
    TaskQueue,
    change_queue,
    decide_dispatch,
    end_task,
    shed_surplus,
    start_task,
)
from carnac.core.compaction.control.states import (
    ChunkState,
    ChunkSummary,
    find_summaries,
)
from carnac.core.compaction.control.survey import Survey
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import (
    Extent,
    TargetPeriod,
    find_target_period,
    first_instant_skipped,
    plan_target_periods,
)
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.entries import Chunk
from carnac.core.time.intervals import ETERNITY, MAX_MS, MIN_MS, Interval, IntervalSet, interval_set

_COARSE = Extent.COARSE  # looking up a member of an enumeration takes longer than using it


@dataclass(slots=True, kw_only=True)
class _Watch:
    """A datasource, and where its round is."""

    survey: Survey
    target_periods: Sequence[TargetPeriod] = ()
    skip_from_ms: int = MAX_MS
    now_ms: int = 0
    again: set[Interval] = field(default_factory=set)
    ripe_ms: dict[Interval, int] = field(default_factory=dict)
    """By coarse chunk that reaches past `skip_from_ms`: the `skip_from_ms` from which on more of it is due."""
    due: Sequence[ChunkSummary] = ()
    gone: list[ChunkState] = field(default_factory=list)
    is_stale: bool = False
    is_new: bool = True

    def wait_for_age(self, seen: Iterable[ChunkSummary]) -> None:
        """Note the chunks that are to be looked at again when they are old enough."""
        for one in seen:
            chunk, skip_from_ms = one.chunk, self.skip_from_ms
            if chunk.end_ms <= skip_from_ms:
                continue
            granularity = find_target_period(self.target_periods, chunk.start_ms).granularity
            if one.extent is _COARSE and granularity is not None:
                newest = granularity.bucket(max(skip_from_ms, chunk.start_ms))
                self.ripe_ms[chunk] = newest.end_ms
            else:
                self.again.add(chunk)

    def take_ripe(self) -> list[Interval]:
        """Return the coarse chunks of which more is old enough than when they were looked at."""
        ripe = [chunk for chunk, ripe_ms in self.ripe_ms.items() if ripe_ms <= self.skip_from_ms]
        for chunk in ripe:
            del self.ripe_ms[chunk]
        return ripe

    def is_bucket(self, chunk: Interval) -> bool:
        """Whether a chunk is what the target asks for, and no part of a coarse one."""
        granularity = find_target_period(self.target_periods, chunk.start_ms).granularity
        return granularity is None or granularity.is_bucket(chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The decisions of a round.

    Attributes:
        tasks: Start these, in order; tell `note_start` of each.
        shed: Tasks that found no place in the queue.
        states: States of chunks that were deferred, by datasource.
    """

    tasks: tuple[CompactionTask, ...] = ()
    shed: tuple[CompactionTask, ...] = ()
    states: Mapping[str, Sequence[ChunkState]] = field(default_factory=dict)


class Conductor:
    """Decides over all datasources that are to be compacted."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.queue = TaskQueue()
        self.flow = Flow()
        self._watches: dict[str, _Watch] = {}
        self._known: dict[str, dict[int, int]] = {}
        self._shed = 0

    @property
    def datasources(self) -> tuple[str, ...]:
        """Names of the datasources that are watched."""
        return tuple(sorted(self._watches))

    def survey(self, datasource: str) -> Survey:
        """Return the survey of a datasource."""
        return self._watches[datasource].survey

    def watch(
        self, datasource: str, settings: CompactionSettings, states: Iterable[ChunkState] = ()
    ) -> None:
        """Watch a datasource from now on, or under new settings. Its waiting tasks are planned anew."""
        self.unwatch(datasource)
        self._watches[datasource] = _Watch(survey=Survey(datasource, settings, states))
        self._known[datasource] = {}

    def unwatch(self, datasource: str) -> None:
        """Watch a datasource no more. Its running tasks go on, and its waiting ones are removed."""
        self._watches.pop(datasource, None)
        self._known.pop(datasource, None)
        waiting = [one for one in self.queue.waiting if one.datasource == datasource]
        self.queue = change_queue(self.queue, removed=waiting)

    def reach(
        self, datasource: str, dirty: Iterable[Interval], *, newest_ms: int | None, now_ms: int
    ) -> IntervalSet:
        """Return the time whose live chunks are to be looked at.

        Args:
            dirty: Live chunks that have changed, or are gone; the first time all of time.
            newest_ms: Where the newest data of the datasource end; None: there are none.
        """
        watch = self._watches[datasource]
        settings = watch.survey.settings
        moved: Sequence[Interval] = ()
        if settings.age_rules or not watch.target_periods:  # else they do not depend on the time
            before, watch.target_periods = (
                watch.target_periods,
                plan_target_periods(settings, now_ms),
            )
            moved = _moved(before, watch.target_periods)
        for interval in moved:
            watch.gone.extend(watch.survey.drop(watch.survey.known_in(interval)))
        watch.skip_from_ms = first_instant_skipped(settings, newest_ms)
        watch.again.update(
            [state.chunk for state in watch.survey.resting() if not state.rests(now_ms)]
        )
        ready = {chunk for chunk in watch.again if chunk.end_ms <= watch.skip_from_ms}
        watch.again -= ready
        ready.update(watch.take_ripe())
        return _whole_chunks([*dirty, *moved, *ready], watch.target_periods)

    def look(
        self, datasource: str, reached: IntervalSet, live: Sequence[Chunk], *, now_ms: int
    ) -> tuple[list[Interval], list[ChunkState]]:
        """Return the chunks whose segments are to be judged, and states that are known without that.

        Args:
            reached: Time that `reach` returned.
            live: All live chunks that overlap it.
        """
        watch = self._watches[datasource]
        survey, skip_from_ms, watch.now_ms = watch.survey, watch.skip_from_ms, now_ms
        summaries = _inside(reached, find_summaries(live, watch.target_periods))
        seen = summaries.values()
        busy = self._busy(datasource, seen)
        watch.due = survey.find_due(seen, now_ms=now_ms, skip_from_ms=skip_from_ms, busy=busy)
        watch.again.update(busy)
        if skip_from_ms < MAX_MS:
            watch.wait_for_age(seen)
        coarse = IntervalSet(tuple(sorted(one.chunk for one in seen if one.extent is _COARSE)))
        unseen = [
            chunk
            for interval in reached
            for chunk in survey.known_in(interval)
            if ((one := summaries.get(chunk.start_ms)) is None or one.chunk.end_ms != chunk.end_ms)
            and not (coarse and coarse.contains(chunk))
        ]
        states = [
            *survey.forget([one for one in unseen if watch.is_bucket(one)]),
            *survey.drop([one for one in unseen if not watch.is_bucket(one)]),
        ]
        watch.is_stale = watch.is_stale or bool(states)
        gone, watch.gone = watch.gone, []
        return [one.chunk for one in watch.due], [*gone, *states]

    def judge(self, datasource: str, segments: Sequence[PlanSegment]) -> list[ChunkState]:
        """Judge what is due; return the new states, to be stored."""
        watch = self._watches[datasource]
        if not watch.due:
            return []
        states = watch.survey.analyse(
            watch.due,
            segments,
            watch.target_periods,
            now_ms=watch.now_ms,
            skip_from_ms=watch.skip_from_ms,
        )
        watch.due = ()
        watch.is_stale = True
        return states

    def start(self, *, revision: int, now_ms: int) -> Starts:
        """Return the tasks that start now, most urgent first.

        Args:
            revision: Of the state that was judged.
        """
        self._refill(revision, now_ms)
        queue, starts = decide_dispatch(self.queue, self.capacity)
        for task in starts:
            self._watches[task.datasource].survey.start(task.chunks)
            for chunk in task.chunks:
                self._known[task.datasource].pop(chunk.start_ms, None)
        self.queue, shed = shed_surplus(queue, self.capacity)
        states: dict[str, list[ChunkState]] = {}
        for task in shed:
            survey = self._watches[task.datasource].survey
            states.setdefault(task.datasource, []).extend(survey.defer(task.chunks))
        self._shed = len(shed) or (self._shed if self._has_deferred() else 0)
        if not self.queue.waiting:
            self._retake()
        return Starts(tasks=starts, shed=shed, states=states)

    def note_start(self, task: CompactionTask, run_id: str, *, now_ms: int) -> None:
        """Note that a task of `start` runs."""
        self.queue = start_task(self.queue, task, run_id, now_ms)

    def end(
        self,
        run_id: str,
        *,
        failures: Mapping[Interval, str] | None = None,
        conflicts: Collection[Interval] = (),
        now_ms: int,
    ) -> list[ChunkState]:
        """Note that a run has ended; return new states of chunks that rest.

        Args:
            failures: By chunk, why it failed.
            conflicts: Chunks that were given up because another writer took an input away. They are planned anew at
                once, like all others, and rest like those that failed when that has happened too often in a row.
        """
        self.queue, one = end_task(self.queue, run_id)
        if one is None:
            return []
        self.flow.note_run(now_ms, one.task.cost, now_ms - one.started_ms)
        watch = self._watches.get(one.task.datasource)
        if watch is None:
            return []
        watch.again.update(one.task.chunks)
        watch.is_stale = True
        reasons = {**watch.survey.note_conflicts(conflicts), **(failures or {})}
        watch.again.difference_update(reasons)
        return watch.survey.fail(reasons, now_ms=now_ms)

    def has_more(self) -> bool:
        """Whether the next round has something to look at even if nothing changes."""
        return any(
            watch.survey.has_deferred
            or any(chunk.end_ms <= watch.skip_from_ms for chunk in watch.again)
            or any(ripe_ms <= watch.skip_from_ms for ripe_ms in watch.ripe_ms.values())
            for watch in self._watches.values()
        )

    def give_back(self, task: CompactionTask) -> None:
        """Note that a task of `start` could not be started; its chunks are looked at again."""
        watch = self._watches.get(task.datasource)
        if watch is not None:
            watch.again.update(task.chunks)

    def refuse(self, task: CompactionTask, reason: str, *, now_ms: int) -> list[ChunkState]:
        """Note that nobody takes a task of `start`: its chunks rest as if it had failed. Returns their new states."""
        watch = self._watches.get(task.datasource)
        if watch is None:
            return []
        return watch.survey.fail(dict.fromkeys(task.chunks, reason), now_ms=now_ms)

    def note_bytes(
        self, datasource: str, at_ms: int, *, arrived: int = 0, rewritten: int = 0
    ) -> None:
        """Add to the history of the chunk that holds an instant."""
        watch = self._watches[datasource]
        if watch.target_periods:
            target_period = find_target_period(watch.target_periods, at_ms)
            chunk = (
                None
                if target_period.granularity is None
                else target_period.granularity.bucket(at_ms)
            )
            known = watch.survey.known_in(chunk or Interval(at_ms, at_ms + 1))
            for one in known[:1]:
                watch.survey.note_bytes(one, arrived=arrived, rewritten=rewritten)
            if rewritten and chunk is not None and chunk not in known:
                watch.survey.carry(chunk, rewritten)

    def verdict(self, now_ms: int) -> Verdict:
        """Return whether the backlog clears, and when."""
        deferred = sum(
            state.cost for watch in self._watches.values() for state in watch.survey.deferred()
        )
        return judge_flow(
            backlog=self.queue.cost_waiting + deferred,
            arrivals=self.flow.arrival_rate(now_ms),
            dispatches=self.flow.dispatch_rate(now_ms, self.capacity.tasks),
            now_ms=now_ms,
            shed=self._shed,
        )

    def _busy(self, datasource: str, seen: Iterable[ChunkSummary]) -> set[Interval]:
        """Return the chunks that running tasks are at work on."""
        mine = [one.task for one in self.queue.running if one.task.datasource == datasource]
        if not mine:
            return set()
        working = interval_set([chunk for task in mine for chunk in task.chunks])
        return {one.chunk for one in seen if working.overlaps(one.chunk)}

    def _refill(self, revision: int, now_ms: int) -> None:
        removed: list[CompactionTask] = []
        added: list[CompactionTask] = []
        for name, watch in self._watches.items():
            if watch.is_stale:
                change = watch.survey.plan(revision=revision)
                removed.extend(change.removed)
                added.extend(change.added)
                watch.is_stale = False
                self._note_arrivals(name, change.added, now_ms, is_backlog=watch.is_new)
            watch.is_new = False
        self.flow.note_look(now_ms)
        if removed or added:
            self.queue = change_queue(self.queue, removed=removed, added=added)

    def _note_arrivals(
        self, name: str, tasks: Sequence[CompactionTask], now_ms: int, *, is_backlog: bool
    ) -> None:
        """Count the work of chunks that were not planned before, or are planned at a higher cost.

        Args:
            is_backlog: It was there before anybody looked: it is remembered, and did not arrive now.
        """
        known = self._known[name]
        arrived = 0
        for task in tasks:
            for chunk, cost in zip(task.chunks, task.chunk_costs, strict=True):
                start_ms = chunk.start_ms
                before = known.get(start_ms, 0)
                if cost != before:
                    known[start_ms] = cost
                    if cost > before:
                        arrived += cost - before
        if arrived and not is_backlog:
            self.flow.note_arrival(now_ms, arrived)

    def _retake(self) -> None:
        """Take deferred chunks up again, now that the queue has run empty."""
        for watch in self._watches.values():
            watch.again.update(watch.survey.retake(self.capacity.queue_max))

    def _has_deferred(self) -> bool:
        return any(watch.survey.has_deferred for watch in self._watches.values())


def _moved(before: Sequence[TargetPeriod], after: Sequence[TargetPeriod]) -> list[Interval]:
    """Return the time in which chunks have another target than before, or are cut otherwise."""
    if not before or before == after:
        return []
    changed: list[Interval] = []
    for target_period in after:
        for old in before:
            shared = target_period.interval.intersect(old.interval)
            if shared is not None and old.target is not target_period.target:
                changed.append(shared)
    return changed


def _whole_chunks(
    intervals: Iterable[Interval], target_periods: Sequence[TargetPeriod]
) -> IntervalSet:
    """Return the time of all target chunks that overlap one of the intervals."""
    found: list[Interval] = []
    for interval in intervals:
        if interval.start_ms == MIN_MS and interval == ETERNITY:
            return IntervalSet((ETERNITY,))
        for target_period in target_periods:
            piece = interval.intersect(target_period.interval)
            granularity = target_period.granularity
            if piece is None:
                continue
            if granularity is not None and not granularity.is_bucket(piece):
                piece = granularity.buckets_over(piece)
            found.append(piece)
    return interval_set(found)


def _inside(intervals: IntervalSet, summaries: dict[int, ChunkSummary]) -> dict[int, ChunkSummary]:
    """Return the summaries of chunks that lie in one of the intervals, and of coarse ones that touch one."""
    if intervals.intervals == (ETERNITY,):
        return summaries
    return {
        start_ms: one
        for start_ms, one in summaries.items()
        if intervals.contains(one.chunk)
        or (one.extent is _COARSE and intervals.overlaps(one.chunk))
    }
