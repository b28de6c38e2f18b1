"""A week of appends with rows of the last thirty days, on real rows: it keeps itself in order all the while."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.core.compaction.plan.tasks import CompactionTask
from tests.appending import DAY_MS, MINUTE_MS, START_MS, Week, check_folding, ledger_of
from tests.nightly import IS_NIGHTLY
from tests.unit.store.events import fast_folder

MINUTES, EVERY = (7 * 24 * 60, 1) if IS_NIGHTLY else (24 * 60, 10)
"""How long, and which minutes have an append."""
LATENESS_MS = 30 * DAY_MS
LATE_SHARE = 0.5
SEED = 5

pytestmark = pytest.mark.slow


@pytest.fixture
def week() -> Iterator[Week]:
    rng = random.Random(SEED)

    def take_ms(_: CompactionTask) -> int:
        """Most tasks end before the next append; some see several come and go."""
        slow = rng.random() < 0.2
        return rng.randrange(2, 7) * MINUTE_MS * EVERY if slow else 20_000

    with fast_folder() as name:
        week = Week(Path(name), rng, take_ms)
        yield week
        week.close()


def times_of(week: Week, now_ms: int) -> list[int]:
    """Three rows of the last minute; every other append has one to three of the last thirty days besides."""
    rng = week.rng
    times = [now_ms - rng.randrange(MINUTE_MS) for _ in range(3)]
    if rng.random() < LATE_SHARE:
        times += [now_ms - rng.randrange(LATENESS_MS) for _ in range(rng.randrange(1, 4))]
    return times


def test_every_chunk_is_in_order_throughout_and_every_row_is_there_once(week: Week) -> None:
    for minute in range(0, MINUTES, EVERY):
        now_ms = START_MS + minute * MINUTE_MS
        week.clock.advance_ms(now_ms - week.clock.now_ms())
        week.append(times_of(week, now_ms))
        week.pass_until(now_ms + EVERY * MINUTE_MS)
        if (minute + EVERY) % (24 * 60) == 0:
            assert week.found() == Counter(week.rows), f"after {minute} minutes"
            assert ledger_of(week.store) == week.ledger, f"after {minute} minutes"
    week.pass_until(week.clock.now_ms() + 3600 * MINUTE_MS)
    assert week.is_stable()
    assert week.found() == Counter(week.rows)
    assert week.late_reported == week.late
    assert sum(week.late) > len(week.late) // 2
    assert ledger_of(week.store) == week.ledger, "the late ledger is that of the source"
    assert week.ledger.total() == sum(week.late)
    check_folding(week.store)
    commits = Counter(str(commit.kind) for commit in week.store.log(limit=100_000))
    assert commits == {"append": len(week.late), "rewrite": week.runner.committed}
    assert week.runner.lost == 0, "nobody but the controller takes segments away"
    assert list(week.store.verify()) == []
