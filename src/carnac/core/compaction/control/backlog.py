"""The unstable chunks of a datasource that wait, and the tasks that they make."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import NamedTuple

from carnac.core.compaction.plan.candidates import (
    Candidate,
    JudgedChunk,
    color_by_neighbour,
    combine_small,
    is_small,
    make_candidate_alone,
    make_candidates,
    make_task,
)
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """How tasks differ from what they were: first the ones go, then the others come.

    Attributes:
        removed: Some may have started since.
    """

    removed: Sequence[CompactionTask] = ()
    added: Sequence[CompactionTask] = ()


class _Planned(NamedTuple):
    """A task, what it was made of, and whether it may take another small candidate in."""

    run: Sequence[Candidate]
    task: CompactionTask
    has_room: bool


class Backlog:
    """Judged chunks that wait to be compacted. By the start of a chunk: chunks are disjoint.

    A chunk that shares no segment with a neighbour makes its candidate once, and keeps it. Small candidates are put
    together in order of time; where one comes, changes or goes, only its task and those next to it that have room are
    put together anew, so that all other tasks stay what they are, however long nothing starts. No two tasks with room
    follow one another. Chunks that do share segments are planned anew together when one of them has changed.
    """

    def __init__(self, datasource: str, settings: CompactionSettings) -> None:
        self._datasource = datasource
        self._settings = settings
        self._chunks: dict[int, JudgedChunk] = {}
        self._small: dict[int, Candidate] = {}
        self._large: dict[int, CompactionTask] = {}
        self._tied: dict[int, JudgedChunk] = {}
        self._planned: dict[int, _Planned] = {}
        self._starts: list[int] = []
        self._touched: set[int] = set()
        self._planned_tied: dict[int, _Planned] = {}
        self._is_tied_changed = False
        self._new: dict[int, CompactionTask] = {}
        self._gone: list[CompactionTask] = []
        self._owners: dict[str, int] = {}
        self._shared = 0
        self._is_colored = False

    def __contains__(self, chunk: object) -> bool:
        if not isinstance(chunk, Interval):
            return False
        found = self._chunks.get(chunk.start_ms)
        return found is not None and found.interval == chunk

    def put(self, one: JudgedChunk, revision: int) -> None:
        """Add a chunk, in place of what it was.

        Args:
            revision: Of the state that was judged.
        """
        chunk = one.chunk
        interval = chunk.interval
        start_ms = interval.start_ms
        if start_ms in self._chunks:
            self.take(interval)
        self._chunks[start_ms] = one
        if not chunk.is_plain:
            self._own(one)
            if one.is_tied:
                self._tied[start_ms] = one
                self._is_tied_changed = True
                return
        settings = self._settings
        made = make_candidate_alone(self._datasource, one, settings, revision)
        if is_small(made, settings):
            self._small[start_ms] = made
            self._touched.add(start_ms)
        else:
            self._large[start_ms] = self._new[start_ms] = make_task((made,), settings)

    def take(self, chunk: Interval) -> None:
        """Take a chunk out, if it is there."""
        start_ms = chunk.start_ms
        one = self._chunks.pop(start_ms, None)
        if one is None:
            return
        if self._tied.pop(start_ms, None) is not None:
            self._is_tied_changed = True
        if self._small.pop(start_ms, None) is not None:
            self._touched.add(start_ms)
        is_new = self._new.pop(start_ms, None) is not None
        task = self._large.pop(start_ms, None)
        if task is not None and not is_new:
            self._gone.append(task)
        if not one.chunk.is_plain:
            self._disown(one)

    def _own(self, one: JudgedChunk) -> None:
        """Count in what a chunk has of segments that others may have parts of."""
        for segment_id in _ids_shared(one):
            count = self._owners[segment_id] = self._owners.get(segment_id, 0) + 1
            self._shared += count == 2

    def _disown(self, one: JudgedChunk) -> None:
        for segment_id in _ids_shared(one):
            count = self._owners[segment_id] = self._owners[segment_id] - 1
            self._shared -= count == 1
            if not count:
                del self._owners[segment_id]

    def change(self, *, revision: int) -> PlanChange:
        """Return how the tasks differ from those of the last call; where chunks share segments, all come anew."""
        gone, new = self._gone, list(self._new.values())
        self._gone, self._new = [], {}
        if self._touched:
            self._combine(gone, new)
        if self._is_tied_changed:
            self._combine_tied(revision, gone, new)
        if not (self._shared or self._is_colored):
            return PlanChange(removed=gone, added=new)
        new = [
            *self._large.values(),
            *[known.task for known in self._planned.values()],
            *[known.task for known in self._planned_tied.values()],
        ]
        self._is_colored = bool(self._shared)
        return PlanChange(
            removed=[*gone, *new], added=color_by_neighbour(new) if self._shared else new
        )

    def _combine(self, gone: list[CompactionTask], new: list[CompactionTask]) -> None:
        """Put small candidates together anew where one has come, changed or gone."""
        touched, self._touched = sorted(self._touched), set()
        starts, planned, small = self._starts, self._planned, self._small
        kept: list[int] = []
        upto = 0
        for first, last, mine in list(self._regions(touched)):
            kept += starts[upto:first]
            upto = last
            before = {start_ms: planned.pop(start_ms) for start_ms in starts[first:last]}
            for known in before.values():
                mine.update([one.interval.start_ms for one in known.run])
            found = [one for start_ms in sorted(mine) if (one := small.get(start_ms))]
            for run in combine_small(found, self._settings):
                start_ms = run[0].interval.start_ms
                kept.append(start_ms)
                planned[start_ms] = self._planned_as(run, before, new)
            gone.extend([known.task for known in before.values()])
        self._starts = kept + starts[upto:]

    def _regions(self, touched: Sequence[int]) -> Iterator[tuple[int, int, set[int]]]:
        """Yield from where to where tasks are made anew, by their places, and the touched candidates among them."""
        first = last = 0
        mine: set[int] = set()
        for start_ms in touched:
            index = max(bisect_right(self._starts, start_ms) - 1, 0)
            low = index - 1 if index and self._has_room(index - 1) else index
            if mine and low > last:  # those that touch are one
                yield first, last, mine
                first, mine = low, set()
            elif not mine:
                first = low
            high = min(index + 1, len(self._starts))
            last = max(last, high + 1 if self._has_room(high) else high)
            mine.add(start_ms)
        yield first, last, mine

    def _has_room(self, place: int) -> bool:
        """Whether there is a task at this place that may take another small candidate in."""
        starts = self._starts
        return place < len(starts) and self._planned[starts[place]].has_room

    def _combine_tied(
        self, revision: int, gone: list[CompactionTask], new: list[CompactionTask]
    ) -> None:
        self._is_tied_changed = False
        before, self._planned_tied = self._planned_tied, {}
        tied = [self._tied[key] for key in sorted(self._tied)]
        made = make_candidates(self._datasource, tied, self._settings, revision)
        for run in combine_small(made, self._settings):
            self._planned_tied[run[0].interval.start_ms] = self._planned_as(run, before, new)
        gone.extend([known.task for known in before.values()])

    def _planned_as(
        self, run: Sequence[Candidate], before: dict[int, _Planned], new: list[CompactionTask]
    ) -> _Planned:
        """Return the task of a run: the one that it was, which is taken out of `before`, or one more of `new`."""
        start_ms = run[0].interval.start_ms
        known = before.get(start_ms)
        if known is not None and len(known.run) == len(run) and all(map(is_, known.run, run)):
            return before.pop(start_ms)
        settings = self._settings
        task = make_task(run, settings)
        has_room = task.cost < settings.task_cost_small and len(run) < settings.task_groups_max
        known = _Planned(run, task, has_room)
        new.append(known.task)
        return known


def _ids_shared(one: JudgedChunk) -> Sequence[str]:
    """Return the segments of which another chunk may have a part; a plain chunk has none."""
    is_tied = one.is_tied
    return [segment.segment_id for segment in one.chunk.segments if is_tied or segment.is_part]
