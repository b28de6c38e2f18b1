"""The unstable chunks of a datasource that wait, and the tasks that they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from carnac.core.compaction.candidates import (
    JudgedChunk,
    combine_small,
    is_small,
    make_task_alone,
    make_tasks,
)
from carnac.core.compaction.colouring import color_by_neighbour
from carnac.core.compaction.likeness import TargetView
from carnac.core.compaction.settings import CompactionSettings
from carnac.core.compaction.tasks import CompactionTask
from carnac.core.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """How tasks differ from what they were: first the ones go, then the others come.

    Attributes:
        removed: Ids; some may be of tasks that have started since.
    """

    removed: frozenset[str] = frozenset()
    added: Sequence[CompactionTask] = ()


class Backlog:
    """Judged chunks that wait to be compacted.

    A chunk that shares no segment with a neighbour makes its task once, and keeps it; only chunks that do, and small
    tasks that are combined, are planned anew each time. So a change of a few chunks costs what these few do.
    """

    def __init__(self, datasource: str, settings: CompactionSettings) -> None:
        self._datasource = datasource
        self._settings = settings
        self._chunks: dict[Interval, JudgedChunk] = {}
        self._alone: dict[Interval, CompactionTask] = {}
        self._small: dict[Interval, CompactionTask] = {}
        self._tied: dict[Interval, JudgedChunk] = {}
        self._planned: set[str] = set()
        self._new: dict[Interval, CompactionTask] = {}
        self._gone: set[str] = set()
        self._owners: dict[str, int] = {}
        self._shared = 0
        self._views: dict[int, TargetView] = {}

    def __contains__(self, chunk: object) -> bool:
        return chunk in self._chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._chunks)

    def put(self, one: JudgedChunk, revision: int) -> None:
        """Add a chunk, in place of what it was.

        Args:
            revision: Of the state that was judged.
        """
        self.take(one.interval)
        self._chunks[one.interval] = one
        owners, ids = self._owners, [segment.segment_id for segment in one.chunk.segments]
        fresh = dict.fromkeys(ids, 1)
        if len(fresh) == len(ids) and owners.keys().isdisjoint(fresh):
            owners.update(fresh)
        else:
            for segment_id in ids:
                count = owners[segment_id] = owners.get(segment_id, 0) + 1
                self._shared += count == 2
        if one.is_tied:
            self._tied[one.interval] = one
            return
        task = make_task_alone(self._datasource, one, self._settings, revision, self._views)
        if is_small(task, self._settings):
            self._small[one.interval] = task
        else:
            self._alone[one.interval] = self._new[one.interval] = task

    def take(self, chunk: Interval) -> None:
        """Take a chunk out, if it is there."""
        one = self._chunks.pop(chunk, None)
        if one is None:
            return
        self._tied.pop(chunk, None)
        self._small.pop(chunk, None)
        self._new.pop(chunk, None)
        task = self._alone.pop(chunk, None)
        if task is not None:
            self._gone.add(task.task_id)
        for segment in one.chunk.segments:
            count = self._owners[segment.segment_id] = self._owners[segment.segment_id] - 1
            self._shared -= count == 1
            if not count:
                del self._owners[segment.segment_id]

    def change(self, *, revision: int) -> PlanChange:
        """Return how the tasks differ from those of the last call; where chunks share segments, all come anew."""
        gone, new = self._gone, list(self._new.values())
        self._gone, self._new = set(), {}
        gone |= self._planned
        tied = sorted(self._tied.values(), key=lambda one: one.interval.start_ms)
        tasks = make_tasks(self._datasource, tied, self._settings, revision)
        tasks = sorted([*self._small.values(), *tasks], key=lambda task: task.chunks[0].start_ms)
        together = combine_small(tasks, self._settings)
        if self._shared:
            gone.update(task.task_id for task in self._alone.values())
            new = color_by_neighbour([*self._alone.values(), *together])
        else:
            new.extend(together)
        self._planned = {task.task_id for task in together}
        return PlanChange(removed=frozenset(gone), added=new)
