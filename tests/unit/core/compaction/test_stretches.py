"""What time chunks should be like by age, where the borders of age rules fall, and what is too new."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.compaction.plan.target_periods import (
    Extent,
    find_target_period,
    first_instant_skipped,
    instant_before,
    plan_target_periods,
)
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, parse_instant, parse_interval
from carnac.core.time.periods import parse_period

NOW_MS = parse_instant("2026-03-18T12:34:56Z")
RAW = CompactionTarget(segment_granularity="HOUR")
AS_IT_IS = CompactionTarget()


def rule(older_than: str, granularity: str | None) -> AgeRule:
    target = replace(RAW, segment_granularity=granularity)
    return AgeRule(older_than=parse_period(older_than), target=target)


def at(text: str) -> int:
    return parse_instant(text)


def borders(settings: CompactionSettings, now_ms: int = NOW_MS) -> list[tuple[str, int]]:
    """Return the granularity and the end of each target period but the last."""
    *old, last = plan_target_periods(settings, now_ms)
    assert (last.target, last.interval.end_ms) == (settings.target, MAX_MS)
    ends = [one.interval.end_ms for one in old]
    starts = [one.interval.start_ms for one in (*old[1:], last)]
    assert starts == ends, "one begins where the one before it ends"
    assert not old or old[0].interval.start_ms == MIN_MS
    return [(str(one.granularity), one.interval.end_ms) for one in old]


def test_raw_for_a_week_hourly_for_a_month_daily_after() -> None:
    how = CompactionSettings(target=RAW, age_rules=(rule("P1W", "DAY"), rule("P1M", "MONTH")))
    # a month ago is in February, a week ago is on the 11th: chunks follow a rule once all of them is so old
    assert borders(how) == [("MONTH", at("2026-02-01")), ("DAY", at("2026-03-11"))]


def test_a_border_on_a_bucket_stays_where_it_is() -> None:
    how = CompactionSettings(target=RAW, age_rules=(rule("P1W", "DAY"),))
    assert borders(how, at("2026-03-18")) == [("DAY", at("2026-03-11"))]


def test_without_granularity_the_border_is_the_instant() -> None:
    how = CompactionSettings(target=AS_IT_IS, age_rules=(rule("P1D", None),))
    assert borders(how) == [("None", NOW_MS - 86_400_000)]


def test_a_rule_of_which_nothing_is_left_does_not_show() -> None:
    how = CompactionSettings(target=RAW, age_rules=(rule("P1M", "DAY"), rule("P1W", "DAY")))
    assert borders(how) == [("DAY", at("2026-03-11"))]


def test_every_instant_has_its_target_period() -> None:
    how = CompactionSettings(target=RAW, age_rules=(rule("P1W", "DAY"), rule("P1M", "MONTH")))
    target_periods = plan_target_periods(how, NOW_MS)
    for text, wanted in (
        ("1970-01-01", "MONTH"),
        ("2026-01-31T23:59:59.999Z", "MONTH"),
        ("2026-02-01", "DAY"),
        ("2026-03-10T23:59:59.999Z", "DAY"),
        ("2026-03-11", "HOUR"),
        ("2090-01-01", "HOUR"),
    ):
        assert str(find_target_period(target_periods, at(text)).granularity) == wanted
    assert find_target_period(target_periods[2:], at("1970-01-01")) is target_periods[2]


DAY, HALF = parse_interval("2026-03-05/2026-03-06"), parse_interval("2026-03-05/2026-03-05T12:00Z")
WEEK = parse_interval("2026-03-02/2026-03-09")


@pytest.mark.parametrize(
    ("granularity", "live", "chunk"),
    [
        (None, HALF, HALF),
        (None, None, DAY),
        ("DAY", HALF, DAY),
        ("DAY", DAY, DAY),
        ("DAY", None, DAY),
        ("DAY", WEEK, WEEK),
        ("WEEK", DAY, WEEK),
    ],
)
def test_the_target_chunk_of_an_instant(
    granularity: str | None, live: Interval | None, chunk: Interval
) -> None:
    target = replace(RAW, segment_granularity=granularity)
    (target_period,) = plan_target_periods(CompactionSettings(target=target), NOW_MS)
    assert target_period.chunk_at(at("2026-03-05T07:00Z"), live) == (
        chunk,
        Extent.COARSE if (granularity, live) == ("DAY", WEEK) else Extent.WHOLE,
    )


def test_a_border_cuts_a_bucket() -> None:
    how = CompactionSettings(
        target=replace(RAW, segment_granularity="MONTH"), age_rules=(rule("P1W", "DAY"),)
    )
    old, new = plan_target_periods(how, NOW_MS)
    before, after = parse_interval("2026-03-01/2026-03-11"), parse_interval("2026-03-11/2026-04-01")
    month = Interval(before.start_ms, after.end_ms)
    assert new.chunk_at(after.start_ms, month) == (after, Extent.CUT)
    assert old.chunk_at(before.start_ms, month) == (before, Extent.COARSE)


def test_what_ends_within_the_offset_of_the_newest_is_too_new() -> None:
    how = CompactionSettings(skip_offset=parse_period("P1D"))
    assert first_instant_skipped(how, NOW_MS) == NOW_MS - 86_400_000
    assert first_instant_skipped(how, None) == MAX_MS
    assert first_instant_skipped(CompactionSettings(), NOW_MS) == MAX_MS


def test_no_instant_is_before_all_time() -> None:
    assert instant_before(MIN_MS + 5, parse_period("P1D")) == MIN_MS
