"""The states of all chunks of one datasource, and the chunks to analyse again.

A survey is fed with summaries, which are cheap, and says which chunks are due; it is given their segments, judges them,
and keeps the unstable ones until they are compacted, deferred or changed. It never asks for a chunk whose revision and
count are as they were (CP-4), except for one that it has to plan anew after a restart.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter

from carnac.core.compaction.control.backlog import Backlog, PlanChange
from carnac.core.compaction.control.states import (
    RETRY_FIRST_MS,
    RETRY_MAX_MS,
    ChunkState,
    ChunkStatus,
    ChunkSummary,
    fingerprint,
)
from carnac.core.compaction.plan.candidates import JudgedChunk
from carnac.core.compaction.plan.chunks import TimeChunk, cut_chunks
from carnac.core.compaction.plan.dividing import divide_coarse
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.scoring import Action, Situation, score_chunk
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent, TargetPeriod
from carnac.core.time.intervals import MAX_MS, Interval

CONFLICTS_MAX = 3
"""So often in a row is a chunk taken up again at once after it lost an input to another writer."""

# looking up a member of an enumeration takes longer than using it
_COMPACT = Action.COMPACT
_CUT, _COARSE = Extent.CUT, Extent.COARSE
_STABLE, _UNSTABLE, _DEFERRED = ChunkStatus.STABLE, ChunkStatus.UNSTABLE, ChunkStatus.DEFERRED


_new_state = partial(tuple.__new__, ChunkState)  # half of what `ChunkState(...)` takes


class Survey:
    """The chunks of a datasource, as far as they are known.

    Args:
        states: From the last time, in any order.
    """

    def __init__(
        self, datasource: str, settings: CompactionSettings, states: Iterable[ChunkState] = ()
    ) -> None:
        self.settings = settings
        self.states: dict[Interval, ChunkState] = {state.chunk: state for state in states}
        self._backlog = Backlog(datasource, settings)
        self._known: list[Interval] = []
        self._starts = array("q")
        self._deferred = {
            state.chunk for state in self.states.values() if state.status is ChunkStatus.DEFERRED
        }
        self._divided: dict[int, tuple[ChunkSummary, int]] = {}
        """By start of a coarse chunk: its summary, and the `skip_from_ms`, of its last division."""
        self._carried: Counter[Interval] = Counter()
        """Bytes that compaction has written into chunks of which nothing is known yet: it made them of a coarse one."""
        self._conflicts: Counter[Interval] = Counter()
        self._resting = {state.chunk for state in self.states.values() if state.retry_at_ms}
        self._fingerprints: dict[int, tuple[CompactionTarget, str]] = {}
        self._views: dict[int, TargetView] = {}

    def judged_by(self, target: CompactionTarget) -> str:
        """Return the fingerprint of the settings with a target."""
        known = self._fingerprints.get(id(target))
        if known is None:
            known = self._fingerprints[id(target)] = (target, fingerprint(self.settings, target))
        return known[1]

    def find_due(
        self,
        summaries: Iterable[ChunkSummary],
        *,
        now_ms: int,
        skip_from_ms: int = MAX_MS,
        busy: Collection[Interval] = (),
    ) -> list[ChunkSummary]:
        """Return the chunks that have to be analysed, in order of time.

        Chunks that are too new, cut or in the hands of a task are not due yet. Neither is an unchanged chunk that rests
        after a failure.

        Args:
            busy: Chunks of running tasks.
        """
        due = [
            summary
            for summary in summaries
            if summary.extent is not _CUT
            and (summary.chunk.end_ms <= skip_from_ms or summary.extent is _COARSE)
            and not (busy and summary.chunk in busy)
            and (
                self._is_due(summary, now_ms)
                if summary.extent is not _COARSE
                else self._has_due_parts(summary, now_ms, skip_from_ms)
            )
        ]
        return sorted(due, key=attrgetter("chunk.start_ms"))

    def _is_due(self, summary: ChunkSummary, now_ms: int) -> bool:
        state = self.states.get(summary.chunk)
        return state is None or self._is_changed(state, summary, now_ms)

    def _is_changed(self, state: ChunkState, summary: ChunkSummary, now_ms: int) -> bool:
        """Whether a state is not what an analysis would find, or is unstable and waits for nothing."""
        if state.revision == summary.revision and state.is_as_seen(
            summary, self.judged_by(summary.target)
        ):
            return (
                state.status is _UNSTABLE
                and state.chunk not in self._backlog
                and not (state.retry_at_ms and state.rests(now_ms))
            )
        return True

    def _has_due_parts(self, summary: ChunkSummary, now_ms: int, skip_from_ms: int) -> bool:
        """Whether a coarse chunk is to be divided, or a part of it to be judged."""
        known = self._divided.get(summary.chunk.start_ms)
        if known is not None and known != (summary, skip_from_ms):
            return True  # it has changed, or more of it is old enough now
        parts = [self.states[one] for one in self.known_in(summary.chunk)]
        if known is None and (skip_from_ms < MAX_MS or not parts):
            return True
        return any(self._is_changed(state, summary, now_ms) for state in parts)

    def analyse(
        self,
        due: Iterable[ChunkSummary],
        segments: Sequence[PlanSegment],
        target_periods: Sequence[TargetPeriod],
        *,
        now_ms: int,
        skip_from_ms: int = MAX_MS,
    ) -> list[ChunkState]:
        """Judge the chunks that are due; return their new states, and those of parts of coarse chunks that are gone.

        Args:
            segments: At least all that have rows in them.
        """
        left = {summary.chunk.start_ms: summary for summary in due}
        for view in self._views.values():
            view.forget()
        situation = Situation(settings=self.settings, histories=self.states, views=self._views)
        found: list[ChunkState] = []
        for chunk in cut_chunks(segments, target_periods):
            interval = chunk.interval
            summary = left.get(interval.start_ms)
            if summary is not None and summary.chunk.end_ms == interval.end_ms:
                del left[interval.start_ms]
                if summary.extent is _COARSE:
                    found += self._analyse_parts(chunk, summary, situation, now_ms, skip_from_ms)
                    continue
                score = score_chunk(chunk, situation)
                found.append(self._record(JudgedChunk(chunk, score), summary, now_ms))
        for key in sorted(left):
            if left[key].extent is _COARSE:
                self._divided[key] = (left[key], skip_from_ms)
                found += self.drop(self.known_in(left[key].chunk))
            else:
                found.append(self._record_empty(left[key]))
        if len(self._known) != len(self.states):
            self._order_known()
        return found

    def _analyse_parts(
        self,
        chunk: TimeChunk,
        summary: ChunkSummary,
        situation: Situation,
        now_ms: int,
        skip_from_ms: int,
    ) -> list[ChunkState]:
        """Divide a coarse chunk and judge its parts. A part of what failed rests on as that does."""
        self._divided[chunk.interval.start_ms] = (summary, skip_from_ms)
        parts = [
            part
            for part in divide_coarse((chunk,), self.settings, ends=(skip_from_ms,))
            if part.interval.end_ms <= skip_from_ms
        ]
        wanted = {part.interval for part in parts}
        known = self.known_in(chunk.interval)
        failed = [state for one in known if (state := self.states[one]).rests(now_ms)]
        found = self.drop([one for one in known if one not in wanted])
        for part in parts:
            interval = part.interval
            if interval not in self.states:
                of_it = [state for state in failed if state.chunk.overlaps(interval)]
                if of_it:
                    worst = max(of_it, key=attrgetter("retry_at_ms"))
                    self._set(worst._replace(chunk=interval, segments=summary.segments))
            score = score_chunk(part, situation)
            found.append(self._record(JudgedChunk(part, score), summary, now_ms))
        return found

    def forget(self, chunks: Sequence[Interval]) -> list[ChunkState]:
        """Mark chunks as empty that have no segments any more; return their new states."""
        self.start(chunks)
        return [
            self._set(state._replace(status=ChunkStatus.EMPTY, segments=0, reason="no segments"))
            for chunk in chunks
            if (state := self.states.get(chunk)) and state.status is not ChunkStatus.EMPTY
        ]

    def plan(self, *, revision: int) -> PlanChange:
        """Return how the tasks of the unstable chunks differ from those of the last call.

        Args:
            revision: Of the state that was judged.
        """
        return self._backlog.change(revision=revision)

    def defer(self, chunks: Sequence[Interval]) -> list[ChunkState]:
        """Put chunks off whose task was shed; return their new states."""
        self.start(chunks)
        known = [self.states[chunk] for chunk in chunks if chunk in self.states]
        return [self._set(state._replace(status=_DEFERRED)) for state in known]

    def resting(self) -> list[ChunkState]:
        """Return the chunks that rest after a failure."""
        return [self.states[chunk] for chunk in sorted(self._resting)]

    def known_in(self, interval: Interval) -> list[Interval]:
        """Return the chunks of which something is known that overlap the interval, in order of time."""
        if len(self._known) != len(self.states):
            self._order_known()
        first = bisect_left(self._starts, interval.start_ms)
        while first and self._known[first - 1].end_ms > interval.start_ms:
            first -= 1
        last = bisect_left(self._starts, interval.end_ms, lo=first)
        return self._known[first:last]

    def _order_known(self) -> None:
        self._known = sorted(self.states, key=attrgetter("start_ms"))
        self._starts = array("q", [chunk.start_ms for chunk in self._known])

    def drop(self, chunks: Iterable[Interval]) -> list[ChunkState]:
        """Forget chunks for good, because time is cut otherwise now; return them as empty ones."""
        gone = []
        for chunk in chunks:
            state = self.states.pop(chunk)
            self._backlog.take(chunk)
            self._resting.discard(chunk)
            self._deferred.discard(chunk)
            self._conflicts.pop(chunk, None)
            gone.append(state._replace(status=ChunkStatus.EMPTY, segments=0))
        if gone:
            self._known, self._starts = [], array("q")
        return gone

    @property
    def has_deferred(self) -> bool:
        """Whether any chunk was put off."""
        return bool(self._deferred)

    def deferred(self) -> list[ChunkState]:
        """Return the chunks that were put off."""
        return [self.states[chunk] for chunk in sorted(self._deferred)]

    def retake(self, limit: int) -> list[Interval]:
        """Make the most urgent deferred chunks unstable again, so that they are due; return them."""
        deferred = self.deferred()
        deferred.sort(key=lambda one: (-one.priority, one.chunk))
        for state in deferred[:limit]:
            self._set(state._replace(status=ChunkStatus.UNSTABLE))
        return [state.chunk for state in deferred[:limit]]

    def start(self, chunks: Iterable[Interval]) -> None:
        """Note that a task is at work on the chunks."""
        for chunk in chunks:
            self._backlog.take(chunk)

    def fail(self, reasons: Mapping[Interval, str], *, now_ms: int) -> list[ChunkState]:
        """Note by chunk why compacting it failed; it rests, longer each time. Returns the new states."""
        found = []
        for chunk, reason in sorted(reasons.items()):
            state = self.states.get(chunk)
            if state is None:
                continue
            failures = state.failures + 1
            rest_ms = min(RETRY_FIRST_MS << min(failures - 1, 20), RETRY_MAX_MS)
            often = f"{failures} times in a row, last" if failures > 1 else "once"
            state = state._replace(status=_UNSTABLE, reason=f"failed {often}: {reason}")
            found.append(self._set(state._replace(failures=failures, retry_at_ms=now_ms + rest_ms)))
        return found

    def note_conflicts(self, chunks: Iterable[Interval]) -> dict[Interval, str]:
        """Note that chunks lost an input to another writer; return those for which it was once too often, and why."""
        found = {}
        for chunk in chunks:
            self._conflicts[chunk] += 1
            count = self._conflicts[chunk]
            if count > CONFLICTS_MAX:
                found[chunk] = f"another writer took a segment away, {count} times in a row"
        return found

    def note_bytes(self, chunk: Interval, *, arrived: int = 0, rewritten: int = 0) -> None:
        """Add to the history of a chunk."""
        state = self.states.get(chunk)
        if state is not None:
            self._set(
                state._replace(
                    arrived_bytes=state.arrived_bytes + arrived,
                    rewritten_bytes=state.rewritten_bytes + rewritten,
                    failures=0 if rewritten else state.failures,
                    retry_at_ms=0 if rewritten else state.retry_at_ms,
                )
            )
        if rewritten:
            self._conflicts.pop(chunk, None)

    def carry(self, chunk: Interval, rewritten: int) -> None:
        """Remember what compaction has written into a chunk until the chunk is judged for the first time."""
        self._carried[chunk] += rewritten

    def _record(self, one: JudgedChunk, summary: ChunkSummary, now_ms: int) -> ChunkState:
        chunk = one.chunk
        interval, (action, reason, priority, choice, may_join) = chunk.interval, one.score
        known = self.states.get(interval)
        is_wanted = action is _COMPACT
        retry_at_ms = 0
        if (
            known is not None
            and known.retry_at_ms
            and is_wanted
            and _rests_on(known, summary, now_ms)
        ):
            retry_at_ms, reason = known.retry_at_ms, known.reason
            self._backlog.take(interval)
        elif is_wanted or may_join:
            self._backlog.put(one, summary.revision)
        else:
            self._backlog.take(interval)
        failures = arrived_bytes = rewritten_bytes = 0
        if known is None:
            rewritten_bytes = self._carried.pop(interval, 0)
        else:
            arrived_bytes, rewritten_bytes = known.arrived_bytes, known.rewritten_bytes
            failures = known.failures if is_wanted else 0
        _, revision, segments, target, _ = summary
        return self._set(
            _new_state(
                (
                    interval,
                    _UNSTABLE if is_wanted else _STABLE,
                    revision,
                    segments,
                    self.judged_by(target),
                    reason,
                    priority,
                    choice.cost if choice else 0,
                    failures,
                    retry_at_ms,
                    arrived_bytes or chunk.size_bytes,
                    rewritten_bytes,
                )
            )
        )

    def _record_empty(self, summary: ChunkSummary) -> ChunkState:
        self._backlog.take(summary.chunk)
        return self._set(
            ChunkState(
                chunk=summary.chunk,
                status=ChunkStatus.EMPTY,
                revision=summary.revision,
                segments=summary.segments,
                judged_by=self.judged_by(summary.target),
                reason="no rows of any segment",
            )
        )

    def _set(self, state: ChunkState) -> ChunkState:
        chunk = state.chunk
        self.states[chunk] = state
        if state.retry_at_ms:
            self._resting.add(chunk)
        elif self._resting:
            self._resting.discard(chunk)
        if state.status is _DEFERRED:
            self._deferred.add(chunk)
        elif self._deferred:
            self._deferred.discard(chunk)
        return state


def _rests_on(known: ChunkState, summary: ChunkSummary, now_ms: int) -> bool:
    """Whether a chunk that failed and has changed since rests on. Added segments mend nothing, removed ones may.

    Segments that a coarse chunk loses are lost by other parts of it.
    """
    is_smaller = summary.segments < known.segments and summary.extent is not _COARSE
    return known.rests(now_ms) and not is_smaller
