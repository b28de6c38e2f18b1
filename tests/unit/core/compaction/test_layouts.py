"""What of the layout of a segment is compared with its target, and what the planner is told of a visible segment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.compaction.plan.input_groups import rewritten
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout, plan_segments
from carnac.core.compaction.plan.likeness import TargetView
from carnac.core.compaction.plan.notes import cut_of, with_cut
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.log.entries import Entry, VisibleSegment
from carnac.core.segments.segment import (
    Column,
    ColumnType,
    HashedPartition,
    Metric,
    MetricKind,
    RollupSpec,
    Segment,
)
from carnac.core.segments.version import SegmentVersion, id_ranges
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, parse_interval
from carnac.core.time.periods import parse_period
from carnac.errors import Invalid
from carnac.simulation.folding_world import layout_of
from tests.compactions import apply_tasks, raw

DAY = parse_interval("2013-01-01/2013-01-02")
COUNT = Metric(name="n", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG)
RAW = raw("page", "user", sort_columns=("page",))
NEW_YORK = str(
    parse_granularity({"type": "period", "period": "P1D", "timeZone": "America/New_York"})
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, None),
        ({"query_granularity": "HOUR"}, "query granularity NONE, not HOUR"),
        ({"metrics": (COUNT,)}, "not rolled up"),
        ({"dimensions": ("page",)}, "has dimension user"),
        ({"dimensions": ("page", "user", "more")}, None),
        ({"sort_by": ("page",)}, None),
        ({"sort_by": ("user",)}, "not sorted by user"),
        ({"sort_by": ("gone", "page")}, None),
        ({"sort_by": ("gone", "user")}, "not sorted by user"),
        ({"filter": "n > 0"}, "not filtered"),
        ({"partitioning": Partitioning(kind="hashed")}, "partitioning dynamic, not hashed"),
        ({"partitioning": Partitioning(kind="dynamic")}, None),
    ],
)
def test_only_what_is_asked_for_is_compared(asked: dict[str, object], words: str | None) -> None:
    target = CompactionTarget(**asked)  # type: ignore[arg-type]
    assert TargetView(target).difference(RAW) == words
    assert TargetView(target).difference(layout_of(target, [RAW.kin])) is None


def test_what_another_condition_has_filtered_is_filtered_by_the_new_one() -> None:
    view = TargetView(CompactionTarget(filter="n > 0"))
    assert view.difference(replace(RAW, filtered_by="n > 0")) is None
    other = replace(RAW, filtered_by="n > 1")
    assert view.difference(other) == "filtered by another condition"
    assert TargetView(CompactionTarget()).difference(other) is None


def test_a_coarser_query_granularity_is_no_difference() -> None:
    view = TargetView(CompactionTarget(query_granularity="HOUR"))
    assert view.difference(replace(RAW, kin=RAW.kin._replace(query_granularity="DAY"))) is None
    assert (
        view.difference(replace(RAW, kin=RAW.kin._replace(query_granularity="MINUTE"))) is not None
    )


@pytest.mark.parametrize(
    ("own", "asked"), [("WEEK", "MONTH"), ("HOUR", "PT90M"), ("DAY", NEW_YORK), (NEW_YORK, "MONTH")]
)
def test_times_whose_buckets_do_not_nest_are_no_difference_for_no_rewrite_changes_them(
    own: str, asked: str
) -> None:
    kin = RAW.kin._replace(query_granularity=own)
    target = CompactionTarget(query_granularity=asked)
    assert rewritten(kin, target) == kin
    assert TargetView(target).difference(replace(RAW, kin=kin)) is None


def test_other_partition_dimensions_are_a_difference() -> None:
    by_page = CompactionTarget(partitioning=Partitioning(kind="range", dimensions=("page",)))
    ranged = replace(RAW, partition_kind="range", partition_dimensions=("user",))
    assert TargetView(by_page).difference(ranged) == "partitioned by other dimensions than page"


def test_a_range_dimension_that_a_segment_does_not_have_orders_nothing() -> None:
    """It would be rewritten again and again: nothing can be sorted by what is not there."""
    by = Partitioning(kind="range", dimensions=("gone", "page"))
    written = replace(RAW, partition_kind="range", partition_dimensions=("gone", "page"))
    assert (
        TargetView(CompactionTarget(partitioning=by, sort_by=("page",))).difference(written) is None
    )


def test_so_many_segments_as_buckets_are_ideal() -> None:
    view = TargetView(CompactionTarget(partitioning=Partitioning(kind="hashed", buckets=4)))
    assert view.ideal(1, 1) == 4
    giant = PlanSegment(segment_id="a", start_ms=0, end_ms=1, size_bytes=1 << 50, rows=1)
    assert view.oversize([giant]) == []


SEGMENT = Segment(
    segment_id="a",
    datasource="events",
    chunk=DAY,
    path="a.parquet",
    size_bytes=1000,
    rows=10,
    input_rows=10,
    min_time_ms=DAY.start_ms,
    max_time_ms=DAY.end_ms - 1,
    columns=(Column(name="page", type=ColumnType.STRING),),
    partition=HashedPartition(dimensions=("page",), bucket=0, buckets=2, function="f"),
)


def planned(segment: Segment, clip: Interval | None = None) -> PlanSegment:
    """What the planner is told of a segment that is visible since revision 7."""
    entry = Entry(
        entry_id=7 << 20,
        segment_id=segment.segment_id,
        chunk=DAY,
        span=segment.span,
        clip=None if clip is None else IntervalSet((clip,)),
        version=SegmentVersion(0),
        partition_id=0,
        overshadowed_ids=id_ranges(()),
        update_group=id_ranges((0,)),
    )
    (one,) = plan_segments([VisibleSegment(segment=segment, entry=entry)])
    return one


def test_a_metric_of_rolled_up_rows_is_a_column_that_they_are_sorted_by() -> None:
    rollup = RollupSpec(
        query_granularity="HOUR", dimensions=("page",), metrics=(COUNT,), is_perfect=True
    )
    view = TargetView(CompactionTarget(sort_by=("page", "n")))
    by_page = planned(replace(SEGMENT, rollup=rollup, sort_columns=("page",))).layout
    by_both = planned(replace(SEGMENT, rollup=rollup, sort_columns=("page", "n"))).layout
    assert view.difference(by_page) == "not sorted by page, n"
    assert view.difference(by_both) is None


@pytest.mark.parametrize(
    ("other", "is_too_large"),
    [
        ({}, False),
        ({"target_rows": 5}, True),
        ({"target_bytes": 900}, True),
        ({"partitioning": Partitioning()}, True),
        ({"partitioning": Partitioning(kind="range", dimensions=("user",))}, True),
        ({"sort_by": ("page",)}, False),
        ({"target_rows": 10}, False),
        ({"target_rows": 10, "target_bytes": 400}, True),
    ],
)
def test_what_was_cut_in_vain_is_too_large_for_other_targets_only(
    other: dict[str, Any], *, is_too_large: bool
) -> None:
    by_page = Partitioning(kind="range", dimensions=("page",))
    target = CompactionTarget(target_rows=6, partitioning=by_page)
    (written,) = with_cut([SEGMENT], target)
    assert TargetView(target).oversize([planned(SEGMENT)]), "as long as it was not tried"
    view = TargetView(replace(target, **other))
    assert bool(view.oversize([planned(written)])) is is_too_large


def test_what_was_cut_in_vain_for_some_bytes_is_too_large_for_fewer() -> None:
    (written,) = with_cut([SEGMENT], CompactionTarget(target_bytes=600))
    assert not TargetView(CompactionTarget(target_bytes=600)).oversize([planned(written)])
    assert TargetView(CompactionTarget(target_bytes=500)).oversize([planned(written)])


def test_what_is_small_enough_or_has_buckets_is_as_it_was() -> None:
    hashed = Partitioning(kind="hashed", buckets=2)
    for target in (
        CompactionTarget(target_rows=10, target_bytes=1000),
        CompactionTarget(target_rows=1, partitioning=hashed),
    ):
        assert with_cut([SEGMENT], target) == (SEGMENT,)


def test_a_clipped_segment_counts_by_what_shows() -> None:
    noon = Interval(DAY.start_ms, DAY.start_ms + DAY.duration_ms // 2)
    one = planned(SEGMENT, clip=noon)
    assert (one.size_bytes, one.rows, one.revision, one.chunk) == (500, 5, 7, DAY)
    assert (one.start_ms, one.end_ms) == (noon.start_ms, noon.end_ms)
    assert one.layout.partition_kind == "hashed"


def test_targets_with_and_without_granularity_do_not_mix() -> None:
    rule = AgeRule(
        older_than=parse_period("P1D"), target=CompactionTarget(segment_granularity="DAY")
    )
    with pytest.raises(Invalid, match="segmentGranularity"):
        CompactionSettings(age_rules=(rule,))


def of_day(name: str, size_bytes: int = 10, layout: SegmentLayout = RAW) -> PlanSegment:
    return PlanSegment(
        segment_id=name,
        start_ms=DAY.start_ms,
        end_ms=DAY.end_ms,
        size_bytes=size_bytes,
        rows=size_bytes,
        chunk=DAY,
        layout=layout,
    )


def test_what_is_not_as_asked_for_is_rewritten_and_the_rest_let_be() -> None:
    target = CompactionTarget(target_bytes=1000, filter="n > 0")
    done = replace(RAW, filtered_by="n > 0")
    segments = [of_day("old", 700), of_day("b", 900, done), of_day("c", 900, done)]
    plan = plan_compaction("e", segments, CompactionSettings(target=target), now_ms=0)
    (task,) = plan.tasks
    assert task.segment_ids == {"old"}
    assert [one.reason for one in plan.explain()] == [
        "1 of 3 segments not as asked for: not filtered; "
        "1 segment of 700 B become about 1, 2 stay as they are"
    ]
    after = apply_tasks(segments, plan.tasks, revision=8)
    assert {one.layout.filtered_by for one in after} == {"n > 0"}
    assert not plan_compaction("e", after, CompactionSettings(target=target), now_ms=0).tasks


def test_what_is_too_large_is_cut_and_the_rest_let_be() -> None:
    target = CompactionTarget(target_bytes=1000)
    segments = [of_day("giant", 5000), of_day("b", 900), of_day("c", 900)]
    plan = plan_compaction("e", segments, CompactionSettings(target=target), now_ms=0)
    assert [one.reason for one in plan.explain()] == [
        "1 segment too large: 5.0 kB, 5,000 rows; "
        "1 segment of 5.0 kB become about 5, 2 stay as they are"
    ]


def test_what_is_written_too_large_says_what_it_was_cut_for() -> None:
    """Rows or bytes: one of them is enough, and a tenth too many is not."""
    for target, is_too_large in (
        (CompactionTarget(target_bytes=600), True),
        (CompactionTarget(target_bytes=700), False),
        (CompactionTarget(target_rows=6), True),
        (CompactionTarget(target_rows=7), False),
    ):
        (written,) = with_cut([SEGMENT], target)
        assert (cut_of(written) is not None) is is_too_large, target
    assert cut_of(SEGMENT) is None


def test_what_is_not_as_asked_for_and_reaches_over_a_border_is_rewritten_with_its_chunk() -> None:
    target = CompactionTarget(target_bytes=1000, filter="n > 0")
    after = DAY.end_ms + DAY.duration_ms
    long = replace(of_day("long"), end_ms=after, chunk=None)
    done = replace(of_day("done", 900, replace(RAW, filtered_by="n > 0")), chunk=None)
    later = replace(done, segment_id="later", start_ms=DAY.end_ms, end_ms=after)
    segments = [long, done, later, replace(later, segment_id="last")]
    plan = plan_compaction("e", segments, CompactionSettings(target=target), now_ms=0)
    (task,) = plan.tasks
    assert task.segment_ids == {"long", "done", "later", "last"}
    said = [one.reason.partition("; ")[2] for one in plan.explain()]
    assert [words.startswith("all of it") for words in said] == [True, True]
    assert {one.revision for one in apply_tasks(segments, [task], revision=8)} == {8}


def test_rows_partitioned_by_range_are_sorted_by_the_range_first() -> None:
    by = Partitioning(kind="range", dimensions=("page",))
    view = TargetView(CompactionTarget(partitioning=by, sort_by=("user",)))
    ranged = replace(RAW, partition_kind="range", partition_dimensions=("page",))
    assert view.difference(replace(ranged, sort_columns=("page", "user"))) is None
    wrong = replace(ranged, sort_columns=("user", "page"))
    assert view.difference(wrong) == "not sorted by page, user"
