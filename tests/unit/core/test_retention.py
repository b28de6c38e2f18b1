"""Which revisions are kept."""

from __future__ import annotations

from carnac.core.log.retention import DAY_MS, RetentionRules, plan_retention

NOW_MS = 100 * DAY_MS
NOTHING = {"age_ms": 0, "count": 1, "daily": 0}


def test_the_newest_is_always_kept() -> None:
    revisions = [(1, 0), (2, 1)]
    assert plan_retention(revisions, RetentionRules(**NOTHING), now_ms=NOW_MS) == {2}


def test_count_keeps_the_newest_ones() -> None:
    revisions = [(n, n) for n in range(1, 11)]
    rules = RetentionRules(**(NOTHING | {"count": 3}))
    assert plan_retention(revisions, rules, now_ms=NOW_MS) == {8, 9, 10}


def test_age_counts_from_when_a_revision_stopped_being_the_newest() -> None:
    revisions = [(1, 0), (2, NOW_MS - 5 * DAY_MS), (3, NOW_MS - DAY_MS)]
    rules = RetentionRules(**(NOTHING | {"age_ms": 2 * DAY_MS}))
    assert plan_retention(revisions, rules, now_ms=NOW_MS) == {2, 3}


def test_daily_keeps_the_last_of_each_day() -> None:
    revisions = [(1, 97 * DAY_MS), (2, 97 * DAY_MS + 9), (3, 98 * DAY_MS), (4, 100 * DAY_MS - 1)]
    rules = RetentionRules(**(NOTHING | {"daily": 3}))
    assert plan_retention(revisions, rules, now_ms=NOW_MS) == {3, 4}
    rules = RetentionRules(**(NOTHING | {"daily": 4}))
    assert plan_retention(revisions, rules, now_ms=NOW_MS) == {2, 3, 4}


def test_nothing_to_keep_in_an_empty_store() -> None:
    assert plan_retention([], RetentionRules(**NOTHING), now_ms=NOW_MS) == frozenset()
