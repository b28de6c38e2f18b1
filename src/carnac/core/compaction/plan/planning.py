"""The plan of a datasource: every chunk judged, with a reason; the tasks that follow from it.

    segments of a timeline → spans → chunks → scores → candidates → tasks → colours

`plan_compaction` is a function of its arguments. Once everything that it planned is done, it plans nothing more (CP-1).
Tasks that may run at the same time share no segment (CP-2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from carnac.core.arguments import checked
from carnac.core.compaction.plan.candidates import JudgedChunk, color_by_neighbour, plan_tasks
from carnac.core.compaction.plan.choosing import ChunkHistory
from carnac.core.compaction.plan.chunks import cut_chunks, find_gaps, find_spans
from carnac.core.compaction.plan.dividing import divide_coarse
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.scoring import Action, Situation, score_chunk
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import first_instant_skipped, plan_target_periods
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.showing import Listing, Shown, facts_table
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.core.words import bytes_text, number_text

_NULL = "it counts as null in every row"


def note_absent(
    segments: Iterable[PlanSegment],
    settings: CompactionSettings,
    filter_columns: Mapping[str, Collection[str]] | None = None,
) -> tuple[str, ...]:
    """Return a sentence about each column that settings name and no segment has.

    Args:
        filter_columns: By condition of a target, the columns that it names.
    """
    layouts = list({id(one.layout): one.layout for one in segments}.values())
    if not layouts:
        return ()
    targets = (settings.target, *(rule.target for rule in settings.age_rules))
    found = (
        f"no segment has {kind} '{name}', which {asked}; is the name right?"
        for target in targets
        for kind, name, asked in _absent(target, layouts, filter_columns or {})
    )
    return tuple(dict.fromkeys(found))


def _absent(
    target: CompactionTarget,
    layouts: Sequence[SegmentLayout],
    filter_columns: Mapping[str, Collection[str]],
) -> Iterator[tuple[str, str, str]]:
    """Yield what is absent: its kind, its name, and what names it."""
    dimensions = {name for one in layouts for name in one.kin.dimension_names()}
    for name in target.partitioning.dimensions:
        if name not in dimensions:
            yield "dimension", name, f"the spec partitions by: {_NULL}"
    for name in target.dimensions or ():
        if name not in dimensions:
            yield "dimension", name, "dimensionsSpec keeps: all others are left out"
    columns = dimensions.union(*(one.kin.metric_names() for one in layouts), (TIME_COLUMN,))
    made = {metric.name for metric in target.metrics or ()}
    for name in target.sort_by or ():
        if name not in columns | made:
            yield "column", name, "sortBy names: no row is sorted by it"
    raw = [one for one in layouts if not one.kin.is_rollup]
    there = {name for one in raw for name in one.kin.dimension_names()}.union((TIME_COLUMN,))
    for metric in target.metrics or ():
        if raw and metric.input is not None and metric.input not in there:
            yield "column", metric.input, f"metric '{metric.name}' is made of"
    asked = [one for one in layouts if one.filtered_by != target.filter]
    known = {TIME_COLUMN}.union(
        *(one.kin.dimension_names() + one.kin.metric_names() for one in asked)
    )
    for name in filter_columns.get(target.filter or "", ()):
        if asked and name not in known:
            yield "column", name, f"the filter names: {_NULL}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The planner's reasons about one target period of time.

    Attributes:
        interval: The target_period: a time chunk, or a gap.
        action: None: a gap, where there is no segment.
        reason: Why, as a phrase.
        segments: That show something there.
        size_bytes: Their share of bytes there.
        priority: Of the compaction, 0 to 1; 0 if there is none.
        task_id: The task that the chunk is part of; None if there is none.
    """

    interval: Interval
    action: Action | None
    reason: str
    segments: int = 0
    size_bytes: int = 0
    priority: float = 0.0
    task_id: str | None = None


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionPlan(Shown):
    """The tasks that a datasource needs, with reasons.

    Attributes:
        datasource: Its name.
        revision: Revision that was looked at.
        chunks: All chunks that have segments, in order of time.
        tasks: In order of time.
        spans: The time that segments hold without a gap.
        tasks_by_chunk: Id of the task that rewrites something of a chunk.
        standings: Standing of chunks with the controller, beside their scores.
        notes: Probable mistakes in the settings, one sentence each.
    """

    datasource: str
    revision: int
    chunks: Sequence[JudgedChunk]
    tasks: Sequence[CompactionTask]
    spans: IntervalSet = field(default_factory=IntervalSet)
    tasks_by_chunk: Mapping[Interval, str] = field(default_factory=dict)
    standings: Mapping[Interval, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def _facts(self) -> Mapping[str, str]:
        return {
            "datasource": self.datasource,
            "revision": f"{self.revision}",
            "chunks": number_text(len(self.chunks)),
            "tasks": number_text(len(self.tasks)),
            "segments": number_text(sum(len(task.segment_ids) for task in self.tasks)),
            "size": bytes_text(sum(task.size_bytes for task in self.tasks)),
        }

    def _repr_html_(self) -> str:
        """Return what it would do, and its tasks, as tables for a notebook."""
        return facts_table(self._facts()) + Listing(self.tasks)._repr_html_()

    def task_of(self, chunk: Interval) -> str | None:
        """Return the task that rewrites something of the chunk."""
        return self.tasks_by_chunk.get(chunk)

    def explain(self, interval: Interval | None = None) -> list[Explanation]:
        """Return the reason for every chunk that overlaps the interval, and the gaps, in order of time."""
        found = [self._explain(one) for one in self.chunks]
        chunks = interval_set(one.interval for one in self.chunks)
        found.extend(
            Explanation(interval=piece, action=Action.EMPTY, reason="no rows of any segment")
            for piece in self.spans.minus(chunks)
        )
        found.extend(
            Explanation(interval=gap, action=None, reason="gap: no segments")
            for gap in find_gaps(self.spans).minus(chunks)
        )
        wanted = (one for one in found if interval is None or interval.overlaps(one.interval))
        return sorted(wanted, key=lambda one: one.interval)

    def _explain(self, one: JudgedChunk) -> Explanation:
        task_id = self.task_of(one.interval)
        reason = one.score.reason
        if one.score.may_join and task_id is not None:
            reason += "; it goes along with its neighbour"
        standing = self.standings.get(one.interval)
        if standing is not None:
            reason += f"; {standing}"
        return Explanation(
            interval=one.interval,
            action=one.score.action,
            reason=reason,
            segments=len(one.chunk.segments),
            size_bytes=one.chunk.size_bytes,
            priority=one.score.priority,
            task_id=task_id,
        )


def plan_compaction(
    datasource: str,
    segments: Sequence[PlanSegment],
    settings: CompactionSettings,
    *,
    now_ms: int,
    revision: int = 0,
    within: IntervalSet | None = None,
    histories: Mapping[Interval, ChunkHistory] | None = None,
    standings: Mapping[Interval, str] | None = None,
    filter_columns: Mapping[str, Collection[str]] | None = None,
    latest_ms: int | None = None,
) -> CompactionPlan:
    """Return the plan of a datasource.

    Args:
        segments: All that are visible, in any order.
        revision: Of the state that `segments` is.
        within, histories: See `Situation`.
        standings: See `CompactionPlan`.
        filter_columns: See `note_absent`.
        latest_ms: Where the newest data of the datasource end; None: where those of `segments` do.
    """
    situation = Situation(
        settings=settings,
        skip_from_ms=first_instant_skipped(
            settings, end_of(segments) if latest_ms is None else latest_ms
        ),
        within=within,
        histories=histories or {},
    )
    chunks = divide_coarse(
        cut_chunks(segments, plan_target_periods(settings, now_ms)),
        settings,
        starts=[one.start_ms for one in within or ()],
        ends=[situation.skip_from_ms, *(one.end_ms for one in within or ())],
    )
    judged = [JudgedChunk(chunk=chunk, score=score_chunk(chunk, situation)) for chunk in chunks]
    tasks = color_by_neighbour(plan_tasks(datasource, judged, settings, revision))
    return CompactionPlan(
        datasource=datasource,
        revision=revision,
        chunks=judged,
        tasks=tasks,
        spans=find_spans(segments),
        tasks_by_chunk={chunk: task.task_id for task in tasks for chunk in task.chunks},
        standings=standings or {},
        notes=note_absent(segments, settings, filter_columns),
    )


def end_of(segments: Iterable[PlanSegment]) -> int | None:
    """Return where the newest data end; None if there are none.

    Rows count, not time chunks: the month of today is not newer than its rows.
    """
    return max([one.end_ms for one in segments], default=None)
