"""From judged chunks to tasks: chunks that belong together, small ones combined, large ones split.

Source: "Compaction Notes", "create a new list of candidate tasks" and "rewrite the candidate list". A candidate is a
run of chunks that share segments; it is cut at chunk boundaries where it costs too much; where it is small it is put
together with the small one before it, whatever large ones are between. Groups of one task are published one by one, so
a poisoned one costs the others nothing.

Tasks that share no segment may run side by side (the "red" and "black" lists of the source): of a row in which every
task overlaps the next, every other one runs at once (`color_by_neighbour`), and those between wait for their neighbours
only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeAlias, overload

from carnac.core.compaction.plan.choosing import Choice, choose_all, join
from carnac.core.compaction.plan.chunks import TimeChunk
from carnac.core.compaction.plan.groups import CHUNKS_MAX, CompactionGroup, CompactionTarget
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.scoring import Action, Score
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval, interval_text, time_text

_name_of = attrgetter("segment_id")
_Slice: TypeAlias = "slice[int | None, int | None, int | None]"


class JudgedChunk(NamedTuple):
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


class _Part(NamedTuple):
    """A chunk of a candidate, with what is rewritten of it."""

    chunk: TimeChunk
    choice: Choice


class Candidate(NamedTuple):
    """The smallest unit of a plan: one group.

    Attributes:
        interval: Of the chunks together.
        chunks: The time chunks of the group, in order.
        revision: Of the state that was judged.
    """

    datasource: str
    interval: Interval
    chunks: tuple[Interval, ...]
    target: CompactionTarget
    choice: Choice
    revision: int

    def group(self) -> CompactionGroup:
        """Return the group, as a job wants it."""
        choice = self.choice
        return CompactionGroup(
            f"{self.datasource} {interval_text(self.interval)}",
            self.datasource,
            choice.kind,
            self.interval,
            tuple(sorted(set(map(_name_of, choice.segments)))),
            self.target,
            rows=choice.rows,
            size_bytes=choice.size_bytes,
            revision=self.revision,
        )


_new_candidate = partial(tuple.__new__, Candidate)  # half of what `Candidate(...)` takes


class _Groups(Sequence[CompactionGroup]):
    """The groups of candidates. They are made when somebody asks for one: most tasks change before they start."""

    __slots__ = ("_made", "_run")

    def __init__(self, run: Sequence[Candidate]) -> None:
        self._run = run
        self._made: tuple[CompactionGroup, ...] | None = None

    def _all(self) -> tuple[CompactionGroup, ...]:
        if self._made is None:
            self._made = tuple([one.group() for one in self._run])
        return self._made

    @overload
    def __getitem__(self, place: int) -> CompactionGroup: ...
    @overload
    def __getitem__(self, place: _Slice) -> tuple[CompactionGroup, ...]: ...
    def __getitem__(self, place: int | _Slice) -> CompactionGroup | tuple[CompactionGroup, ...]:
        return self._all()[place]

    def __iter__(self) -> Iterator[CompactionGroup]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._run)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())


def find_runs(judged: Iterable[JudgedChunk]) -> Iterator[tuple[JudgedChunk, ...]]:
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
    candidates = make_candidates(datasource, judged, settings, revision)
    return [make_task(run, settings) for run in combine_small(candidates, settings)]


def make_candidates(
    datasource: str, judged: Iterable[JudgedChunk], settings: CompactionSettings, revision: int
) -> list[Candidate]:
    """Return the candidates in order of time, before small ones are combined."""
    return [
        _candidate_of(datasource, parts, settings, revision)
        for run in find_runs(judged)
        for parts in _split(run, settings)
    ]


def make_candidate_alone(
    datasource: str, one: JudgedChunk, settings: CompactionSettings, revision: int
) -> Candidate:
    """Return the candidate of a chunk to be compacted that shares no segment with a neighbour."""
    chunk = one.chunk
    interval, choice = chunk.interval, one.score.choice or _whole(chunk, settings)
    return _new_candidate((datasource, interval, (interval,), chunk.target, choice, revision))


def combine_small(
    candidates: Iterable[Candidate], settings: CompactionSettings
) -> list[list[Candidate]]:
    """Return the candidates that make one task each, in order of time.

    A small candidate joins the small one before it, until the two together are small no more.
    """
    found: list[list[Candidate]] = []
    place: list[Candidate] | None = (
        None  # the last run of small ones, which may take another one in
    )
    small, groups_max, cost = settings.task_cost_small, settings.task_groups_max, 0
    for one in candidates:
        own = one.choice.cost
        if own >= small:
            found.append([one])
        elif place is None or cost >= small or len(place) >= groups_max:
            place, cost = [one], own
            found.append(place)
        else:
            place.append(one)
            cost += own
    return found


def is_small(candidate: Candidate, settings: CompactionSettings) -> bool:
    """Whether a candidate is to be combined with another small one."""
    return candidate.choice.cost < settings.task_cost_small


def make_task(run: Sequence[Candidate], settings: CompactionSettings) -> CompactionTask:
    """Return the task of candidates that are put together; they are in order of time."""
    datasource, from_ms, upto_ms = (
        run[0].datasource,
        run[0].interval.start_ms,
        run[-1].interval.end_ms,
    )
    chunks: list[Interval] = []
    chunk_costs: list[int] = []
    segments_out = gain = cost = 0
    for one in run:
        choice, mine = one.choice, one.chunks
        own = choice.cost
        chunks += mine
        chunk_costs += [own // len(mine)] * len(mine)
        segments_out, gain, cost = (
            segments_out + choice.segments_out,
            gain + choice.gain,
            cost + own,
        )
    return CompactionTask(
        task_id=f"{datasource} {time_text(from_ms)}/{time_text(upto_ms)}",
        datasource=datasource,
        datasource_priority=settings.priority,
        groups=_Groups(run),
        chunks=tuple(chunks),
        segments_out=segments_out,
        gain=gain,
        cost=cost,
        chunk_costs=tuple(chunk_costs),
    )


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


def _split(run: Sequence[JudgedChunk], settings: CompactionSettings) -> Iterator[tuple[_Part, ...]]:
    """Yield the run in parts that cost no more than a task may, cut at chunk boundaries.

    A chunk that costs more alone is a part of its own. Chunks of different targets are never one part. A part is one
    group: it starts once, and opens a segment once however many of its chunks show some of it.
    """
    parts: list[_Part] = []
    opened: set[str] = set()
    made = size_bytes = 0
    for one in run:
        part = _Part(chunk=one.chunk, choice=one.score.choice or _whole(one.chunk, settings))
        if len(run) == 1:  # as nearly all are
            yield (part,)
            return
        names = set(map(_name_of, part.choice.segments))
        new = len(names) - len(names & opened)
        segments = max(len(opened) + new, made + part.choice.segments_out)
        cost = settings.cost.cost(segments, size_bytes + part.choice.size_bytes)
        if parts and (
            cost > settings.task_cost_max
            or len(parts) == CHUNKS_MAX
            or part.chunk.target is not parts[-1].chunk.target
        ):
            yield tuple(parts)
            parts, opened, made, size_bytes = [], set(), 0, 0
        parts.append(part)
        opened |= names
        made += part.choice.segments_out
        size_bytes += part.choice.size_bytes
    yield tuple(parts)


def _whole(chunk: TimeChunk, settings: CompactionSettings) -> Choice:
    return choose_all(chunk, TargetView(chunk.target), settings, None)


def _candidate_of(
    datasource: str, parts: Sequence[_Part], settings: CompactionSettings, revision: int
) -> Candidate:
    first, choice = parts[0]
    interval = first.interval
    if len(parts) > 1:
        interval = Interval(interval.start_ms, parts[-1].chunk.interval.end_ms)
        choice = join([part.choice for part in parts], settings.cost)
    chunks = tuple([part.chunk.interval for part in parts])
    return Candidate(datasource, interval, chunks, first.target, choice, revision)


def find_neighbours(tasks: Sequence[CompactionTask]) -> list[set[int]]:
    """Return for each task the indexes of the tasks that share a segment with it."""
    owners: dict[str, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        for segment_id in task.segment_ids:
            owners[segment_id].append(index)
    neighbours: list[set[int]] = [set() for _ in tasks]
    for indexes in owners.values():
        if len(indexes) > 1:
            for index in indexes:
                neighbours[index].update(indexes)
    for index, found in enumerate(neighbours):
        found.discard(index)
    return neighbours


def color_by_neighbour(tasks: Sequence[CompactionTask]) -> list[CompactionTask]:
    """Return the tasks coloured so that they run in as few turns as the first free colour of each allows."""
    neighbours = find_neighbours(tasks)
    turns: list[int] = []
    for index, found in enumerate(neighbours):
        taken = {turns[other] for other in found if other < index}
        turns.append(next(turn for turn in range(len(taken) + 1) if turn not in taken))
    return [
        _wait(tasks, index, [other for other in found if turns[other] < turns[index]])
        for index, found in enumerate(neighbours)
    ]


def _wait(tasks: Sequence[CompactionTask], index: int, before: Iterable[int]) -> CompactionTask:
    return replace(tasks[index], after=tuple(tasks[other].task_id for other in sorted(before)))
