"""The controller: follows the log, judges chunks that have changed, starts the runs that are most worth while.

`core.compaction.conductor` makes all decisions; this module only reads and writes. Any process may stop and start the
controller at any time. It finds unstable chunks again, and adopts runs that an overlord has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.compaction.control.conductor import Conductor
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import ChunkState
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.inputs import plan_segments
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.commits import Commit, CommitKind
from carnac.core.log.entries import Chunk, VisibleSegment
from carnac.core.segments.schema import find_kept_apart
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet, interval_set
from carnac.errors import CarnacError, NotFound, Unavailable
from carnac.overlord.compactor.status import StatusBoard, read_status
from carnac.ports import Clock
from carnac.ports.compaction import CompactionRunner, RunEnd, RunTerms
from carnac.specs.compaction.spec import CompactionSpec, load_compaction

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

_log = logging.getLogger(__name__)

COMMITS_PER_READ = 500
COMMITS_FOLLOWED_MAX = 20_000
"""A controller that is further behind examines everything again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """The report of a round.

    Attributes:
        analysed: Chunks whose segments were looked at.
        ended: Runs that had ended.
    """

    analysed: int = 0
    started: tuple[CompactionTask, ...] = ()
    ended: tuple[RunEnd, ...] = ()


class Controller:
    """Keeps the datasources of a store compacted; call `run_round` whenever something may have changed."""

    def __init__(
        self,
        metadata: MetadataStore,
        runner: CompactionRunner,
        clock: Clock,
        *,
        capacity: Capacity,
        datasources: Iterable[str] | None = None,
    ) -> None:
        self._metadata = metadata
        self._runner = runner
        self._clock = clock
        self._only = None if datasources is None else set(datasources)
        self._specs: dict[str, str] = {}
        self._terms: dict[str, RunTerms] = {}
        self._seen: int | None = None
        self._dirty: dict[str, set[Interval]] = {}
        self._is_adopted = False
        self._status = StatusBoard(metadata)
        self._bytes_wasted: int | None = None
        self.conductor = Conductor(capacity)

    def run_round(self) -> RoundReport:
        """Follow the log, judge, and start what may start.

        Raises:
            Unavailable: The metadata store or the runner of the tasks does not answer; try again later.
        """
        ended = self._take_ended()
        self._follow_specs()
        self._adopt()
        head = self._follow_log()
        analysed = 0
        for name in self.conductor.datasources:
            try:
                analysed += self._judge(name)
            except (Unavailable, NotFound):
                raise
            except CarnacError as error:  # one datasource does not stop the others
                _log.warning("compaction of %s is not planned: %s", name, error.message)
        starts = self.conductor.start(revision=head, now_ms=self._clock.now_ms())
        for name, states in starts.states.items():
            self._metadata.put_compaction_states(name, states)
        self._start(starts.tasks)
        self._status.write(
            self.conductor,
            self._runner.live(),
            now_ms=self._clock.now_ms(),
            bytes_wasted=self._bytes_wasted or 0,
        )
        return RoundReport(analysed=analysed, started=starts.tasks, ended=ended)

    def count_resting(self) -> int:
        """Return how many chunks rest because they failed."""
        conductor = self.conductor
        return sum(len(conductor.survey(name).resting()) for name in conductor.datasources)

    def has_more(self) -> bool:
        """Whether the next round has something to do even if nothing changes."""
        return self.conductor.has_more()

    def is_idle(self) -> bool:
        """Whether nothing runs or waits, though something may rest after a failure."""
        queue = self.conductor.queue
        return not queue.waiting and not queue.running

    def _follow_specs(self) -> None:
        found = {
            name: text
            for name, text in self._metadata.compaction_specs().items()
            if self._only is None or name in self._only
        }
        for name in sorted(self._specs.keys() - found.keys()):
            self.conductor.unwatch(name)
            del self._specs[name]
        for name, text in found.items():
            if self._specs.get(name) == text:
                continue
            try:
                spec = load_compaction(text)
            except CarnacError as error:
                _log.warning("the compaction spec of %s is not readable: %s", name, error.message)
                continue
            self._watch(name, text, spec)

    def _watch(self, name: str, text: str, spec: CompactionSpec) -> None:
        self.conductor.watch(name, spec.to_settings(), self._metadata.compaction_states(name))
        self._specs[name] = text
        self._terms[name] = RunTerms(priority=spec.task_priority, context=spec.task_context)
        self._dirty[name] = {ETERNITY}

    def _adopt(self) -> None:
        """Take over the runs of a controller that is no more."""
        if self._is_adopted:
            return
        for run in self._runner.live():
            task = CompactionTask(
                task_id=run.run_id,
                datasource=run.datasource,
                datasource_priority=0,
                groups=tuple(run.groups),
                chunks=tuple(group.interval for group in run.groups),
                segments_out=len(run.groups),
                gain=1,
                cost=max(sum(group.size_bytes for group in run.groups), 1),
            )
            self.conductor.note_start(task, run.run_id, now_ms=run.started_ms)
        self._is_adopted = True

    def _follow_log(self) -> int:
        """Note what has changed since the last round; return the revision up to which the log was read."""
        head = self._metadata.head().revision
        if self._seen is None or head - self._seen > COMMITS_FOLLOWED_MAX:
            self._look_at_all()
            self._seen = head
            return head
        while self._seen < head:
            try:
                commits = self._metadata.changes(after=self._seen, limit=COMMITS_PER_READ)
            except NotFound:  # trimmed meanwhile
                self._look_at_all()
                self._seen = head
                return head
            if not commits:
                break
            for commit in commits:
                self._note(commit)
            self._seen = commits[-1].revision
        return self._seen

    def _look_at_all(self) -> None:
        for name in self.conductor.datasources:
            self._dirty[name] = {ETERNITY}

    def _note(self, commit: Commit) -> None:
        for change in commit.changes:
            if change.datasource not in self._specs:
                continue
            dirty = self._dirty.setdefault(change.datasource, set())
            dirty.update(entry.chunk for entry in change.adds)
            dirty.update(entry.chunk for entry in change.drops)
            for segment in change.segments:
                is_ours = commit.kind is CommitKind.REWRITE
                self.conductor.note_bytes(
                    change.datasource,
                    segment.min_time_ms,
                    arrived=0 if is_ours else segment.size_bytes,
                    rewritten=segment.size_bytes if is_ours else 0,
                )

    def _judge(self, name: str) -> int:
        now_ms = self._clock.now_ms()
        reached = self.conductor.reach(
            name, self._dirty.get(name, ()), newest_ms=self._newest_ms(name), now_ms=now_ms
        )
        if reached:
            due, states = self.conductor.look(
                name, reached, self._live(name, reached), now_ms=now_ms
            )
            if due:
                segments = plan_segments(
                    self._visible(name, interval_set(due)),
                    find_kept_apart(self._metadata.schemas(name)),
                )
                states = [*states, *self.conductor.judge(name, segments)]
            self._metadata.put_compaction_states(name, states)
        else:
            due = []
        self._dirty[name] = set()
        return len(due)

    def _live(self, name: str, reached: IntervalSet) -> Sequence[Chunk]:
        if reached.intervals == (ETERNITY,):
            return self._metadata.chunks(name)
        found = {
            chunk.interval: chunk
            for interval in reached
            for chunk in self._metadata.chunks(name, interval=interval)
        }
        return list(found.values())

    def _visible(self, name: str, intervals: IntervalSet) -> Sequence[VisibleSegment]:
        return self._metadata.visible(name, intervals=intervals)

    def _newest_ms(self, name: str) -> int | None:
        """Return where the newest rows of a datasource end; only asked where something is left alone for being new."""
        if self.conductor.survey(name).settings.skip_offset is None:
            return None
        chunks = self._metadata.chunks(name)
        if not chunks:
            return None
        found = self._visible(name, IntervalSet((chunks[-1].interval,)))
        return max((item.entry.visible.intervals[-1].end_ms for item in found), default=None)

    def _start(self, tasks: Sequence[CompactionTask]) -> None:
        for index, task in enumerate(tasks):
            try:
                run_id = self._runner.start(task, self._terms[task.datasource])
            except Unavailable:
                for rest in tasks[index:]:
                    self.conductor.give_back(rest)
                raise
            except CarnacError as error:  # one task does not stop the others
                now_ms = self._clock.now_ms()
                states = self.conductor.refuse(task, error.message, now_ms=now_ms)
                self._keep(task.datasource, states)
                continue
            self.conductor.note_start(task, run_id, now_ms=self._clock.now_ms())

    def _take_ended(self) -> tuple[RunEnd, ...]:
        ended = tuple(self._runner.take_ended())
        self._note_waste(ended)
        running = {one.run_id: one.task for one in self.conductor.queue.running}
        for end in ended:
            task = running.get(end.run_id)
            if task is None:
                continue
            states = self.conductor.end(
                end.run_id,
                failures=failures_of(task, end),
                conflicts=conflicts_of(task, end),
                now_ms=self._clock.now_ms(),
            )
            self._keep(task.datasource, states)
        return ended

    def _note_waste(self, ended: Sequence[RunEnd]) -> None:
        """Add the bytes that runs wrote for nothing to the count of earlier controllers."""
        if self._bytes_wasted is None:
            told = read_status(self._metadata)
            self._bytes_wasted = 0 if told is None else int(told.get("bytes_wasted", 0))
        self._bytes_wasted += sum(end.bytes_wasted for end in ended)

    def _keep(self, name: str, states: Sequence[ChunkState]) -> None:
        if name in self._specs and states:
            self._metadata.put_compaction_states(name, states)


def failures_of(task: CompactionTask, end: RunEnd) -> Mapping[Interval, str]:
    """Return why chunks failed, by chunk; a group that lost its inputs did not fail: it is planned again."""
    reasons = {
        one.group_id: one.error or "no reason is known"
        for one in end.groups
        if one.outcome == "failed"
    }
    if end.error is not None:
        known = {one.group_id for one in end.groups}
        reasons.update(
            {one.group_id: end.error for one in task.groups if one.group_id not in known}
        )
    return {
        chunk: reasons[group.group_id]
        for group, chunk in _places(task)
        if group.group_id in reasons
    }


def conflicts_of(task: CompactionTask, end: RunEnd) -> frozenset[Interval]:
    """Return the chunks whose groups lost an input to another writer."""
    lost = {one.group_id for one in end.groups if one.outcome == "conflict"}
    return frozenset(chunk for group, chunk in _places(task) if group.group_id in lost)


def _places(task: CompactionTask) -> Iterator[tuple[CompactionGroup, Interval]]:
    for group in task.groups:
        for chunk in task.chunks:
            if group.interval.contains(chunk):
                yield group, chunk
