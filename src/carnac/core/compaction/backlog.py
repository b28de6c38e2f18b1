"""The unstable chunks of a datasource that wait, and the tasks that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_

from carnac.core.compaction.candidates import (
    Candidate,
    JudgedChunk,
    combine_small,
    is_small,
    make_candidate_alone,
    make_candidates,
    make_task,
)
from carnac.core.compaction.colouring import color_by_neighbour
from carnac.core.compaction.settings import CompactionSettings
from carnac.core.compaction.tasks import CompactionTask
from carnac.core.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """How tasks differ from what they were: first the ones go, then the others come.

    Attributes:
        removed: Some may have started since.
    """

    removed: Sequence[CompactionTask] = ()
    added: Sequence[CompactionTask] = ()


@dataclass(frozen=True, slots=True)
class _Planned:
    """A task, and what it was made of."""

    run: Sequence[Candidate]
    task: CompactionTask


class Backlog:
    """Judged chunks that wait to be compacted. By the start of a chunk: chunks are disjoint.

    A chunk that shares no segment with a neighbour makes its candidate once, and keeps it; only chunks that do are
    planned anew each time. A task stays as long as its candidates do. So a change of a few chunks costs what these few
    do.
    """

    def __init__(self, datasource: str, settings: CompactionSettings) -> None:
        self._datasource = datasource
        self._settings = settings
        self._chunks: dict[int, JudgedChunk] = {}
        self._small: dict[int, Candidate] = {}
        self._large: dict[int, CompactionTask] = {}
        self._tied: dict[int, JudgedChunk] = {}
        self._planned: dict[int, _Planned] = {}
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
        interval = one.chunk.interval
        start_ms = interval.start_ms
        if start_ms in self._chunks:
            self.take(interval)
        self._chunks[start_ms] = one
        for segment_id in _ids_shared(one):
            count = self._owners[segment_id] = self._owners.get(segment_id, 0) + 1
            self._shared += count == 2
        if one.is_tied:
            self._tied[start_ms] = one
            return
        settings = self._settings
        made = make_candidate_alone(self._datasource, one, settings, revision)
        if is_small(made, settings):
            self._small[start_ms] = made
        else:
            self._large[start_ms] = self._new[start_ms] = make_task((made,), settings)

    def take(self, chunk: Interval) -> None:
        """Take a chunk out, if it is there."""
        start_ms = chunk.start_ms
        one = self._chunks.pop(start_ms, None)
        if one is None:
            return
        self._tied.pop(start_ms, None)
        self._small.pop(start_ms, None)
        self._new.pop(start_ms, None)
        task = self._large.pop(start_ms, None)
        if task is not None:
            self._gone.append(task)
        for segment_id in _ids_shared(one):
            count = self._owners[segment_id] = self._owners[segment_id] - 1
            self._shared -= count == 1
            if not count:
                del self._owners[segment_id]

    def change(self, *, revision: int) -> PlanChange:
        """Return how the tasks differ from those of the last call; where chunks share segments, all come anew."""
        gone, new = self._gone, list(self._new.values())
        self._gone, self._new = [], {}
        before, self._planned = self._planned, {}
        for run in combine_small(self._candidates(revision), self._settings):
            start_ms = _start_of(run[0])
            known = before.get(start_ms)
            if known is not None and len(known.run) == len(run) and all(map(is_, known.run, run)):
                del before[start_ms]
            else:
                known = _Planned(run, make_task(run, self._settings))
                new.append(known.task)
            self._planned[start_ms] = known
        gone.extend([known.task for known in before.values()])
        if not (self._shared or self._is_colored):
            return PlanChange(removed=gone, added=new)
        new = [*self._large.values(), *[known.task for known in self._planned.values()]]
        self._is_colored = bool(self._shared)
        return PlanChange(
            removed=[*gone, *new], added=color_by_neighbour(new) if self._shared else new
        )

    def _candidates(self, revision: int) -> list[Candidate]:
        """Return what may be combined, in order of time."""
        if not self._tied:
            return [self._small[key] for key in sorted(self._small)]
        tied = [self._tied[key] for key in sorted(self._tied)]
        made = make_candidates(self._datasource, tied, self._settings, revision)
        return sorted([*self._small.values(), *made], key=_start_of)


def _start_of(candidate: Candidate) -> int:
    return candidate.chunks[0].start_ms


def _ids_shared(one: JudgedChunk) -> Sequence[str]:
    """Return the segments of which another chunk may have a part."""
    if one.chunk.is_plain:
        return ()
    is_tied = one.is_tied
    return [segment.segment_id for segment in one.chunk.segments if is_tied or segment.is_part]
