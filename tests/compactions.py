"""Builders for tests of compaction: segments by a word, random timelines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.compaction.plan.input_groups import Kin
from carnac.core.compaction.plan.inputs import PLAIN, PlanSegment, SegmentLayout
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings, CostModel
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.core.time.intervals import Interval
from carnac.core.time.periods import parse_period
from carnac.errors import Invalid
from carnac.overlord.compactor.controller import Controller
from carnac.simulation.folding_world import apply_group, chunks_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 40 * DAY_MS
GRANULARITIES = ("HOUR", "SIX_HOUR", "DAY", "WEEK")

SUM = Metric(name="m", kind=MetricKind.SUM, input="n", type=ColumnType.LONG)
MAX = replace(SUM, kind=MetricKind.MAX)
LIKES = Metric(name="likes", kind=MetricKind.SUM, input="likes", type=ColumnType.LONG)


def is_settled(controller: Controller) -> bool:
    """Whether nothing runs, waits or is put off, and nothing failed lately."""
    conductor = controller.conductor
    surveys = [conductor.survey(name) for name in conductor.datasources]
    return not (
        conductor.queue.waiting
        or conductor.queue.running
        or any(one.deferred() or one.resting() for one in surveys)
    )


def raw(*columns: str, **more: Any) -> SegmentLayout:
    """The layout of raw rows."""
    kin = Kin(False, "none", tuple((name, ColumnType.LONG) for name in columns))
    return SegmentLayout(kin=kin, **more)


def rolled_up(*metrics: Metric, granularity: str = "MINUTE", **more: Any) -> SegmentLayout:
    """The layout of rolled-up rows of one dimension."""
    return SegmentLayout(
        kin=Kin(True, granularity, (("page", ColumnType.STRING),), metrics),
        **more,
    )


LAYOUTS = (
    PLAIN,
    replace(PLAIN, filtered_by="n > 0"),
    raw("n", "page"),
    raw("n", filtered_by="n > 0"),
    rolled_up(SUM),
    rolled_up(SUM, LIKES),
    rolled_up(MAX, filtered_by="n > 0"),
    rolled_up(SUM, granularity="DAY"),
    rolled_up(SUM, granularity="WEEK"),
)
PARTITIONINGS = (
    Partitioning(kind="range", dimensions=("page",)),
    Partitioning(kind="range", dimensions=("gone", "page")),
    Partitioning(kind="hashed"),
)
CHEAP = CostModel(group_bytes=4, segment_bytes=1)


class History(NamedTuple):
    """The history of a chunk."""

    arrived_bytes: int
    rewritten_bytes: int


@st.composite
def settings(draw: st.DrawFn) -> CompactionSettings:
    """Settings with targets of a hundred bytes, so that small numbers meet every rule."""
    cuts = st.none() if draw(st.booleans()) else st.sampled_from(GRANULARITIES)
    rules = tuple(
        AgeRule(older_than=parse_period(period), target=draw(targets(cuts)))
        for period in ("P10D", "P20D")[: draw(st.integers(0, 2))]
    )
    task_cost_max = draw(st.sampled_from((50, 200, 10_000)))
    return CompactionSettings(
        target=draw(targets(cuts)),
        age_rules=rules,
        skip_offset=draw(st.sampled_from((None, parse_period("P1D")))),
        slack=draw(st.integers(0, 2)),
        input_bytes_max=draw(st.sampled_from((500, 100_000))),
        task_cost_max=task_cost_max,
        task_cost_small=draw(st.sampled_from((0, 30, 100))),
        task_groups_max=draw(st.integers(1, 4)),
        cost=CHEAP,
    )


@st.composite
def targets(draw: st.DrawFn, granularities: st.SearchStrategy[str | None]) -> CompactionTarget:
    """Targets of a hundred bytes or rows."""
    chosen: dict[str, Any] = {
        "target_bytes": draw(st.sampled_from((None, 100))),
        "target_rows": draw(st.sampled_from((100, 10_000))),
        "segment_granularity": draw(granularities),
        "query_granularity": draw(st.sampled_from((None, "HOUR", "WEEK", "MONTH"))),
        "metrics": draw(st.sampled_from((None, None, (SUM,), (MAX, LIKES)))),
        "dimensions": draw(st.sampled_from((None, None, ("gone", "page", "n"), ("gone",)))),
        "filter": draw(st.sampled_from((None, None, "n > 0"))),
        "sort_by": draw(st.sampled_from((None, None, ("n",), ("gone", "page")))),
        "partitioning": draw(st.sampled_from((*[Partitioning()] * 3, *PARTITIONINGS))),
    }
    try:
        return CompactionTarget(**chosen)
    except Invalid:
        reject()


@st.composite
def timelines(draw: st.DrawFn) -> list[PlanSegment]:
    """Segments of disjoint time chunks of all lengths, as a store has them, within 40 days."""
    found: list[PlanSegment] = []
    start_ms = draw(st.integers(0, 30)) * DAY_MS
    for _ in range(draw(st.integers(0, 6))):
        start_ms += draw(st.sampled_from((0, 0, HOUR_MS, 3 * DAY_MS)))
        length_ms = draw(st.sampled_from((HOUR_MS, 6 * HOUR_MS, DAY_MS, 2 * DAY_MS)))
        chunk = Interval(start_ms, start_ms + length_ms)
        for _ in range(draw(st.integers(1, 6))):
            found.append(draw(segments_in(chunk, len(found))))
        start_ms = chunk.end_ms
    return found


@st.composite
def segments_in(draw: st.DrawFn, chunk: Interval, number: int) -> PlanSegment:
    """A segment with rows somewhere in the chunk."""
    start_ms = draw(st.integers(chunk.start_ms, chunk.end_ms - 1))
    end_ms = draw(st.integers(start_ms + 1, chunk.end_ms))
    if draw(st.booleans()):
        start_ms, end_ms = chunk.start_ms, chunk.end_ms
    size_bytes = draw(st.sampled_from((1, 2, 10, 60, 99, 140, 151, 400)))
    return PlanSegment(
        segment_id=f"s{number}",
        start_ms=start_ms,
        end_ms=end_ms,
        size_bytes=size_bytes,
        rows=draw(st.sampled_from((size_bytes, 10 * size_bytes))),
        chunk=chunk,
        revision=number + 1,
        layout=draw(st.sampled_from(LAYOUTS)),
    )


@st.composite
def segment_lists(draw: st.DrawFn) -> list[PlanSegment]:
    """Segments that overlap as they like: the other form of a timeline, which knows no time chunks."""
    found: list[PlanSegment] = []
    for number in range(draw(st.integers(0, 12))):
        start_ms = draw(st.integers(0, 20 * 24)) * HOUR_MS
        hours = draw(st.sampled_from((1, 2, 6, 24, 30)))
        size_bytes = draw(st.sampled_from((1, 2, 10, 60, 99, 140, 151, 400)))
        found.append(
            PlanSegment(
                segment_id=f"s{number}",
                start_ms=start_ms,
                end_ms=start_ms + hours * HOUR_MS,
                size_bytes=size_bytes,
                rows=size_bytes,
                revision=number + 1,
            )
        )
    return found


def apply_tasks(
    segments: Sequence[PlanSegment], tasks: Iterable[CompactionTask], *, revision: int
) -> list[PlanSegment]:
    """Return the segments after the tasks, done in the order given.

    Args:
        revision: Of the first group's commit; each group after it makes the next one.
    """
    state = list(segments)
    for task in tasks:
        for group in task.groups:
            state = apply_group(state, group, chunks_of(task, group, state), revision=revision)
            revision += 1
    return state
