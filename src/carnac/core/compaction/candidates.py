"""From judged chunks to tasks: what belongs together, small ones combined, large ones split.

Source: "Compaction Notes", "create a new list of candidate tasks" and "rewrite the candidate list". A candidate is a
run of chunks that share segments; it is cut at chunk boundaries where it costs too much; where it is small it is put
together with the small one before it, whatever large ones are between. Groups of one task are published one by one, so
a poisoned one costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from carnac.core.compaction.choosing import Choice, choose_all
from carnac.core.compaction.chunks import TimeChunk
from carnac.core.compaction.groups import CompactionGroup, GroupKind
from carnac.core.compaction.likeness import TargetView
from carnac.core.compaction.scoring import Action, Score
from carnac.core.compaction.settings import CompactionSettings
from carnac.core.compaction.tasks import CompactionTask
from carnac.core.compaction.wording import interval_text
from carnac.core.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedChunk:
    """A chunk with its score."""

    chunk: TimeChunk
    score: Score

    @property
    def is_tied(self) -> bool:
        """Whether it shares a segment with a neighbour."""
        return self.chunk.overlaps_prior or self.chunk.overlaps_later

    @property
    def interval(self) -> Interval:
        """The chunk's interval."""
        return self.chunk.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A chunk of a candidate, with what is rewritten of it."""

    chunk: TimeChunk
    choice: Choice


def find_candidates(judged: Iterable[JudgedChunk]) -> Iterator[tuple[JudgedChunk, ...]]:
    """Yield the runs of chunks to be compacted together: tied by segments that reach over their borders.

    A chunk without an opinion comes along with a neighbour that is compacted; a run of such chunks alone is none.

    Args:
        judged: In order of time.
    """
    run: list[JudgedChunk] = []
    for one in judged:
        is_wanted = one.score.action is Action.COMPACT or one.score.may_join
        if run and not (is_wanted and _are_tied(run[-1], one)):
            yield from _finished(run)
            run = []
        if is_wanted:
            run.append(one)
    yield from _finished(run)


def plan_tasks(
    datasource: str, judged: Iterable[JudgedChunk], settings: CompactionSettings, revision: int
) -> list[CompactionTask]:
    """Return the tasks of judged chunks in order of time, not yet coloured.

    Args:
        judged: In order of time.
        revision: Of the state that was judged.
    """
    return combine_small(make_tasks(datasource, judged, settings, revision), settings)


def make_tasks(
    datasource: str, judged: Iterable[JudgedChunk], settings: CompactionSettings, revision: int
) -> list[CompactionTask]:
    """Return the tasks of judged chunks in order of time, before small ones are combined."""
    views: dict[int, TargetView] = {}
    return [
        _make_task(datasource, parts, settings, revision, views)
        for candidate in find_candidates(judged)
        for parts in _split(candidate, settings)
    ]


def make_task_alone(
    datasource: str,
    one: JudgedChunk,
    settings: CompactionSettings,
    revision: int,
    views: dict[int, TargetView],
) -> CompactionTask:
    """Return the task of a chunk to be compacted that shares no segment with a neighbour.

    Args:
        views: By target, to be kept from call to call.
    """
    choice = one.score.choice or _whole(one.chunk, settings)
    part = _Part(chunk=one.chunk, choice=choice)
    return _make_task(datasource, (part,), settings, revision, views)


def combine_small(
    tasks: Sequence[CompactionTask], settings: CompactionSettings
) -> list[CompactionTask]:
    """Return the tasks with small ones put together, in order of time.

    A small task joins the small one before it, until the two together are small no more.
    """
    found: list[list[CompactionTask]] = []
    place: int | None = None  # of the last run of small tasks that may take another one in
    cost = groups = 0
    for task in tasks:
        if not is_small(task, settings):
            found.append([task])
            continue
        fits = (
            cost < settings.task_cost_small
            and groups + len(task.groups) <= settings.task_groups_max
        )
        if place is None or not fits:
            place, cost, groups = len(found), 0, 0
            found.append([])
        found[place].append(task)
        cost += task.cost
        groups += len(task.groups)
    return [run[0] if len(run) == 1 else _combine(run) for run in found]


def is_small(task: CompactionTask, settings: CompactionSettings) -> bool:
    """Whether a task is to be combined with another small one."""
    return task.cost < settings.task_cost_small


def _are_tied(before: JudgedChunk, after: JudgedChunk) -> bool:
    if not (before.chunk.overlaps_later and after.chunk.overlaps_prior):
        return False
    border_ms = after.interval.start_ms
    return before.interval.end_ms == border_ms and any(
        one.start_ms < border_ms for one in after.chunk.segments
    )


def _finished(run: Sequence[JudgedChunk]) -> Iterator[tuple[JudgedChunk, ...]]:
    if any(one.score.action is Action.COMPACT for one in run):
        yield tuple(run)


def _split(
    candidate: Sequence[JudgedChunk], settings: CompactionSettings
) -> Iterator[tuple[_Part, ...]]:
    """Yield the candidate in parts that cost no more than a task may, cut at chunk boundaries.

    A chunk that costs more alone is a part of its own. Chunks of different targets are never one part.
    """
    parts: list[_Part] = []
    cost = 0
    for one in candidate:
        part = _Part(chunk=one.chunk, choice=one.score.choice or _whole(one.chunk, settings))
        if parts and (
            cost + part.choice.cost > settings.task_cost_max
            or part.chunk.target is not parts[-1].chunk.target
        ):
            yield tuple(parts)
            parts, cost = [], 0
        parts.append(part)
        cost += part.choice.cost
    yield tuple(parts)


def _whole(chunk: TimeChunk, settings: CompactionSettings) -> Choice:
    return choose_all(chunk.segments, TargetView(chunk.target), settings, None)


def _make_task(
    datasource: str,
    parts: Sequence[_Part],
    settings: CompactionSettings,
    revision: int,
    views: dict[int, TargetView],
) -> CompactionTask:
    first, last = parts[0].chunk, parts[-1].chunk
    view = views.get(id(first.target))
    if view is None:
        view = views[id(first.target)] = TargetView(first.target)
    interval = first.interval
    if len(parts) > 1:
        interval = Interval(first.interval.start_ms, last.interval.end_ms)
    group = CompactionGroup(
        group_id=f"{datasource} {interval_text(interval)}",
        datasource=datasource,
        kind=parts[0].choice.kind if len(parts) == 1 else GroupKind.MAJOR,
        interval=interval,
        segment_ids=tuple(
            sorted({one.segment_id for part in parts for one in part.choice.segments})
        ),
        target=first.target,
        rows=sum([part.choice.rows for part in parts]),
        size_bytes=sum([part.choice.size_bytes for part in parts]),
        revision=revision,
    )
    return CompactionTask(
        task_id=group.group_id,
        datasource=datasource,
        datasource_priority=settings.priority,
        groups=(group,),
        chunks=tuple([part.chunk.interval for part in parts]),
        segments_out=sum([part.choice.segments_out for part in parts]),
        gain=sum([part.choice.benefit for part in parts]) * view.unit_bytes,
        cost=sum([part.choice.cost for part in parts]),
    )


def _combine(run: Sequence[CompactionTask]) -> CompactionTask:
    first, last = run[0], run[-1]
    span = Interval(first.chunks[0].start_ms, last.chunks[-1].end_ms)
    return CompactionTask(
        task_id=f"{first.datasource} {interval_text(span)}",
        datasource=first.datasource,
        datasource_priority=first.datasource_priority,
        groups=tuple([group for task in run for group in task.groups]),
        chunks=tuple([chunk for task in run for chunk in task.chunks]),
        segments_out=sum(task.segments_out for task in run),
        gain=sum(task.gain for task in run),
        cost=sum(task.cost for task in run),
    )
