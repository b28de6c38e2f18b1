"""Coarse time chunks in parts: by where segments are, never by the calendar."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.compaction.plan.groups import CHUNKS_MAX, CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import CompactionPlan, plan_compaction
from carnac.core.compaction.plan.scoring import Action
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.time.intervals import (
    ETERNITY,
    Interval,
    IntervalSet,
    interval_set,
    parse_instant,
    parse_interval,
)
from carnac.core.time.periods import parse_period

NOW_MS = parse_instant("2026-11-22")
HOURS = CompactionSettings(target=CompactionTarget(segment_granularity="HOUR"))
MIB = 1 << 20


def segment(
    name: str, rows: str, *, chunk: Interval = ETERNITY, count: int = 1, mib: int = 1
) -> PlanSegment:
    where = parse_interval(rows)
    return PlanSegment(
        segment_id=name,
        start_ms=where.start_ms,
        end_ms=where.end_ms,
        size_bytes=mib * MIB,
        rows=count,
        chunk=chunk,
    )


def plan(
    *segments: PlanSegment, how: CompactionSettings = HOURS, within: str = ""
) -> CompactionPlan:
    asked = IntervalSet((parse_interval(within),)) if within else None
    return plan_compaction("d", segments, how, now_ms=NOW_MS, within=asked)


def intervals(made: CompactionPlan) -> list[str]:
    """Return what is compacted, without the zeros of times."""
    return [
        str(one.interval).replace("T00:00:00.000Z", "").replace(":00:00.000Z", "h")
        for one in made.chunks
        if one.score.action is Action.COMPACT
    ]


@pytest.mark.parametrize("granularity", ["MINUTE", "HOUR", "DAY", "MONTH"])
def test_few_rows_of_many_years_are_one_group_whatever_they_are_cut_into(granularity: str) -> None:
    how = CompactionSettings(target=CompactionTarget(segment_granularity=granularity))
    made = plan(segment("a", "1970-01-01/2026-11-01", count=200), how=how)
    (task,) = made.tasks
    (group,) = task.groups
    assert (group.interval, task.segments_out) == (parse_interval("1970-01-01/2026-11-01"), 200)


def test_what_a_deletion_left_of_a_segment_is_divided_around_what_it_took() -> None:
    month = parse_interval("2026-03-01/2026-04-01")
    whole = segment("a", "2026-03-01/2026-04-01", chunk=month, count=10_000)
    shown = (parse_interval("2026-03-01/2026-03-04"), parse_interval("2026-03-29/2026-04-01"))
    how = CompactionSettings(
        target=CompactionTarget(segment_granularity="DAY"), task_cost_max=10 * MIB
    )
    made = plan(replace(whole, pieces=shown), how=how)
    planned = IntervalSet(tuple(one.interval for one in made.chunks))
    assert planned == interval_set(shown)


def test_what_has_no_segments_is_in_no_part() -> None:
    bad, good = segment("bad", "1970-01-01/PT1H"), segment("good", "2026-01-05/2026-01-09")
    made = plan(bad, good)
    assert intervals(made) == ["1970-01-01/1970-01-01T01h", "2026-01-05/2026-01-09"]
    assert [one.action for one in made.explain()] == [
        Action.EMPTY,
        Action.COMPACT,
        Action.EMPTY,
        Action.COMPACT,
        Action.EMPTY,
    ]


def test_what_is_filled_is_divided_so_that_no_group_costs_more_than_a_task_may() -> None:
    made = plan(segment("a", "1970-01-01/2026-01-01", count=10**8, mib=9000))
    assert len(made.chunks) < 200, "half a million hours"
    for task in made.tasks:
        assert task.cost <= HOURS.task_cost_max
        assert task.segments_out <= CHUNKS_MAX
    covered = sum(chunk.duration_ms for task in made.tasks for chunk in task.chunks)
    assert covered == parse_interval("1970-01-01/2026-01-01").duration_ms
    assert made.tasks[1].after == (made.tasks[0].task_id,)


def test_a_bucket_that_costs_too_much_alone_is_a_part_of_its_own() -> None:
    how = replace(HOURS, task_cost_max=MIB)
    made = plan(segment("a", "2026-01-01/PT4H", mib=400), how=how)
    assert [one.duration_ms for task in made.tasks for one in task.chunks] == [3_600_000] * 4


def test_more_than_may_be_read_at_once_is_divided_and_not_left_alone() -> None:
    month = parse_interval("2026-01-01/2026-02-01")
    how = replace(HOURS, input_bytes_max=100 * MIB)
    made = plan(segment("a", str(month), chunk=month, mib=1000), how=how)
    assert {one.score.action for one in made.chunks} == {Action.COMPACT}
    assert max(one.chunk.size_bytes for one in made.chunks) <= 100 * MIB


def test_what_was_asked_for_borders_a_part() -> None:
    made = plan(
        segment("a", "2026-01-01/2026-03-01", count=500), within="2026-01-10T07:30/2026-01-12T12:00"
    )
    assert intervals(made) == ["2026-01-10T08h/2026-01-12T12h"]
    reasons = {one.score.reason for one in made.chunks if one.score.action is Action.NO_OPINION}
    assert reasons == {"it is not wholly inside the interval that was asked for"}


def test_what_is_too_new_borders_a_part() -> None:
    how = replace(HOURS, skip_offset=parse_period("P1D"))
    made = plan(segment("a", "2026-01-01/2026-03-01T10:30", count=500), how=how)
    assert intervals(made) == ["2026-01-01/2026-02-28T10h"]
    assert "too new" in made.chunks[-1].score.reason


def test_age_rules_border_a_part_and_each_has_its_granularity() -> None:
    daily = AgeRule(
        older_than=parse_period("P1M"), target=CompactionTarget(segment_granularity="DAY")
    )
    made = plan(
        segment("a", "2025-01-01/2026-11-22", count=9000), how=replace(HOURS, age_rules=(daily,))
    )
    assert intervals(made) == ["2025-01-01/2026-10-22", "2026-10-22/2026-11-22"]
    assert [one.chunk.target.segment_granularity for one in made.chunks] == ["DAY", "HOUR"]


def test_a_bucket_that_a_live_chunk_fills_in_part_is_judged_alone() -> None:
    week = parse_interval("2026-01-26/2026-02-02")
    how = CompactionSettings(target=CompactionTarget(segment_granularity="DAY"))
    late = parse_interval("2026-02-02T00:00/2026-02-04T12:00")
    made = plan(segment("a", str(week), chunk=week), segment("b", str(late), chunk=late), how=how)
    assert intervals(made) == [
        "2026-01-26/2026-02-02",
        "2026-02-02/2026-02-04",
        "2026-02-04/2026-02-05",
    ]
