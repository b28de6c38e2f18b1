"""What is known of a chunk, and what is seen of it without looking at its segments."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from carnac.core.compaction.control.states import (
    RETRY_MAX_MS,
    ChunkState,
    ChunkStatus,
    ChunkSummary,
    find_summaries,
    fingerprint,
    standing_of,
)
from carnac.core.compaction.control.survey import Survey
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.input_groups import Kin
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.planning import plan_compaction
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent, plan_target_periods
from carnac.core.log.entries import Chunk
from carnac.core.segments.segment import ColumnType
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.core.time.periods import parse_period
from tests.compactions import CHEAP, DAY_MS, HOUR_MS

DAY = Interval(0, DAY_MS)
TARGET = CompactionTarget(segment_granularity="DAY")
STATE = ChunkState(DAY, ChunkStatus.UNSTABLE, 7, 2, "by", "failed once: disk full")
SIGHT = ChunkSummary(DAY, 7, 2, TARGET)


def live(start_h: int, end_h: int, revision: int, entries: int) -> Chunk:
    interval = Interval(start_h * HOUR_MS, end_h * HOUR_MS)
    return Chunk(
        interval=interval,
        version=SegmentVersion(0),
        next_partition_id=entries,
        entries=entries,
        revision=revision,
    )


def test_a_chunk_rests_until_it_is_tried_again() -> None:
    state = STATE._replace(failures=1, retry_at_ms=DAY_MS)
    assert state.rests(DAY_MS - 1)
    assert not state.rests(DAY_MS)
    assert not STATE.rests(0)


def test_a_rest_longer_than_any_has_ended() -> None:
    """A clock that was ahead set it."""
    assert STATE._replace(retry_at_ms=RETRY_MAX_MS + 5).rests(5)
    assert not STATE._replace(retry_at_ms=RETRY_MAX_MS + 6).rests(5)


def test_only_what_is_the_same_in_all_is_as_it_was() -> None:
    assert STATE.is_as_seen(SIGHT, "by")
    assert not STATE.is_as_seen(SIGHT._replace(revision=8), "by")
    assert not STATE.is_as_seen(SIGHT._replace(segments=3), "by")
    assert not STATE.is_as_seen(SIGHT, "other settings")


def test_how_a_chunk_stands_is_said_where_its_score_does_not() -> None:
    assert standing_of(STATE, now_ms=0) is None
    deferred = standing_of(STATE._replace(status=ChunkStatus.DEFERRED), now_ms=0)
    assert deferred is not None
    assert deferred.startswith("the controller has deferred it")
    failed = STATE._replace(failures=1, retry_at_ms=HOUR_MS)
    assert standing_of(failed, now_ms=0) == (
        "the controller's last try failed once: disk full; it rests until 1970-01-01T01:00Z"
    )
    assert standing_of(failed, now_ms=HOUR_MS) == (
        "the controller's last try failed once: disk full; it is tried again"
    )


def test_live_chunks_of_one_target_chunk_are_seen_together() -> None:
    target_periods = plan_target_periods(CompactionSettings(target=TARGET), 0)
    hours = [live(0, 1, 5, 2), live(3, 4, 9, 1), live(5, 6, 4, 3), live(24, 25, 6, 1)]
    assert find_summaries(hours, target_periods) == {
        0: ChunkSummary(DAY, 9, 6, TARGET),
        DAY_MS: ChunkSummary(Interval(DAY_MS, 2 * DAY_MS), 6, 1, TARGET),
    }


def test_a_live_chunk_is_seen_in_every_target_chunk_that_it_touches() -> None:
    target_periods = plan_target_periods(CompactionSettings(target=TARGET), 0)
    found = find_summaries([live(12, 50, 5, 2)], target_periods)
    assert [(one.chunk, one.extent, one.segments) for one in found.values()] == [
        (DAY, Extent.WHOLE, 2),
        (Interval(DAY_MS, 2 * DAY_MS), Extent.COARSE, 2),
        (Interval(2 * DAY_MS, 3 * DAY_MS), Extent.WHOLE, 2),
    ]


def test_the_chunk_of_all_times_is_seen_once_whatever_it_is_to_become() -> None:
    target_periods = plan_target_periods(
        CompactionSettings(target=replace(TARGET, segment_granularity="MINUTE")), 0
    )
    everything = Chunk(
        interval=ETERNITY, version=SegmentVersion(0), next_partition_id=0, entries=7, revision=3
    )
    (summary,) = find_summaries([everything], target_periods).values()
    assert (summary.chunk, summary.extent, summary.segments) == (ETERNITY, Extent.COARSE, 7)


def test_what_the_border_of_two_rules_leaves_of_a_bucket_is_seen_as_cut() -> None:
    weekly = AgeRule(
        older_than=parse_period("P1D"), target=replace(TARGET, segment_granularity="WEEK")
    )
    monthly = CompactionSettings(
        target=replace(TARGET, segment_granularity="MONTH"), age_rules=(weekly,)
    )
    target_periods = plan_target_periods(monthly, 20 * DAY_MS)
    found = find_summaries([live(0, 31 * 24, 5, 2)], target_periods)
    assert [one.extent for one in found.values()] == [Extent.WHOLE, Extent.COARSE, Extent.CUT]
    assert [one.target.segment_granularity for one in found.values()] == ["WEEK", "WEEK", "MONTH"]


@pytest.mark.parametrize(
    "change",
    [
        {"slack": 2},
        {"input_bytes_max": 9},
        {"write_amplification_max": 2.0},
        {"cost": CHEAP},
    ],
)
def test_what_a_chunk_is_judged_by_differs_with_the_settings(change: dict[str, object]) -> None:
    how = CompactionSettings(target=TARGET)
    assert fingerprint(how, TARGET) == fingerprint(CompactionSettings(target=TARGET), TARGET)
    assert fingerprint(replace(how, **change), TARGET) != fingerprint(how, TARGET)  # type: ignore[arg-type]
    assert fingerprint(how, replace(TARGET, target_rows=9)) != fingerprint(how, TARGET)
    assert fingerprint(replace(how, priority=9), TARGET) == fingerprint(how, TARGET)


def test_a_survey_keeps_no_layouts_of_earlier_rounds() -> None:
    """Each round has layouts of its own; a controller has rounds for months."""
    settings = CompactionSettings(target=replace(TARGET, query_granularity="HOUR"))
    survey, summary = Survey("d", settings), SIGHT._replace(target=settings.target, segments=1)

    def judge(number: int) -> None:
        layout = SegmentLayout(kin=Kin(False, "HOUR", ((f"of round {number}", ColumnType.LONG),)))
        segment = PlanSegment(
            segment_id=f"s{number}",
            start_ms=0,
            end_ms=DAY_MS,
            size_bytes=1,
            rows=1,
            chunk=DAY,
            layout=layout,
        )
        (state,) = survey.analyse([summary], [segment], plan_target_periods(settings, 0), now_ms=0)
        assert state.status is ChunkStatus.STABLE

    for number in range(3):
        judge(number)
    kept = {
        one.kin.dimension_names()[0]
        for one in gc.get_objects()
        if type(one) is SegmentLayout and one.kin.dimensions
    }
    assert not kept & {"of round 0", "of round 1"}


def test_a_plan_says_how_a_chunk_stands() -> None:
    segment = PlanSegment(
        segment_id="a", start_ms=0, end_ms=DAY_MS, size_bytes=10, rows=1, chunk=DAY
    )
    how, words = CompactionSettings(target=TARGET), "it rests until noon"
    said = plan_compaction("events", [segment], how, now_ms=0, standings={DAY: words}).explain()
    assert [one.reason for one in said] == ["1 segment, 10 B; it rests until noon"]


def judged(
    survey: Survey, summary: ChunkSummary, *, segments: int, now_ms: int
) -> ChunkState | None:
    """Return what a look at a chunk of so many small segments makes of it; None if it is not due."""
    seen = summary._replace(segments=segments, revision=summary.revision + segments)
    if not survey.find_due([seen], now_ms=now_ms):
        return None
    target_periods = plan_target_periods(survey.settings, 0)
    found = [
        PlanSegment(
            segment_id=f"s{number}", start_ms=0, end_ms=DAY_MS, size_bytes=1, rows=1, chunk=DAY
        )
        for number in range(segments)
    ]
    (state,) = survey.analyse([seen], found, target_periods, now_ms=now_ms)
    return state


@pytest.mark.parametrize(
    ("segments", "status", "failures", "rests"),
    [
        pytest.param(1, ChunkStatus.STABLE, 0, False, id="somebody compacted it"),
        pytest.param(4, ChunkStatus.UNSTABLE, 1, False, id="somebody took segments away"),
        pytest.param(9, ChunkStatus.UNSTABLE, 1, True, id="more was appended"),
    ],
)
def test_what_failed_and_has_changed_since_is_judged_also_by_a_controller_that_starts_anew(
    segments: int, status: ChunkStatus, failures: int, rests: bool
) -> None:
    settings = CompactionSettings(target=TARGET)
    before = Survey("d", settings)
    assert judged(before, SIGHT, segments=8, now_ms=0) is not None
    (failed,) = before.fail({DAY: "disk full"}, now_ms=0)
    assert judged(Survey("d", settings, [failed]), SIGHT, segments=8, now_ms=1) is None, "it rests"
    after = Survey("d", settings, [failed])
    state = judged(after, SIGHT, segments=segments, now_ms=1)
    assert state is not None
    assert (state.status, state.failures, state.rests(1)) == (status, failures, rests)
    waits = bool(after.plan(revision=9).added)
    assert waits == (status is ChunkStatus.UNSTABLE and not rests)
    if rests:
        assert state.reason == failed.reason
        assert judged(after, SIGHT, segments=segments, now_ms=state.retry_at_ms) is not None
        assert after.plan(revision=9).added
