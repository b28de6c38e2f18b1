from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget, GroupKind
from carnac.core.log.commits import CommitKind
from carnac.core.time.intervals import Interval
from carnac.ports import DeepStorage
from carnac.store import Store
from carnac.store.compacting.reports import GroupOutcome, GroupReport
from tests.support.clock import FakeClock, SequentialIds
from tests.support.pipeline import LocalPipeline
from tests.unit.jobs.faulty_writer import Mistake, double, lose, writer_with
from tests.unit.store.events import DAY_MS, NOW_MS, START_MS, append, ids

OpenStore = Callable[..., Store]
APPENDERS, APPENDS = 8, 6
DAY = Interval(START_MS, START_MS + DAY_MS)


def test_eight_appenders_and_two_compactors_lose_and_double_nothing(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(APPENDERS)]
    compactors = [open_store(), open_store()]
    append(stores[0], (-1, 0))
    is_over = threading.Event()
    reports: list[GroupReport] = []

    def run_appends(number: int) -> None:
        for index in range(APPENDS):
            identity = number * APPENDS + index
            append(stores[number], (identity, identity % 24))

    def run_compactions(number: int) -> None:
        store = compactors[number]
        while not is_over.is_set():
            if number == 0:
                reports.extend(store.compact_interval("events").groups)
                continue
            found = [item.segment.segment_id for item in store.segments("events")]
            reports.extend(store.compact([minor(found[-3:])]).groups)

    with ThreadPoolExecutor(APPENDERS + 2) as pool:
        loops = [pool.submit(run_compactions, number) for number in range(2)]
        for done in [pool.submit(run_appends, number) for number in range(APPENDERS)]:
            done.result()
        is_over.set()
        for loop in loops:
            loop.result()
    assert ids(stores[0]) == list(range(-1, APPENDERS * APPENDS))
    assert not [report for report in reports if report.outcome is GroupOutcome.FAILED]
    assert any(report.outcome is GroupOutcome.COMMITTED for report in reports)
    final = compactors[0].compact_interval("events").groups[0]
    assert final.outcome in {GroupOutcome.COMMITTED, GroupOutcome.UNCHANGED}
    assert len(stores[0].segments("events")) == 1
    assert ids(stores[0]) == list(range(-1, APPENDERS * APPENDS))


def minor(segment_ids: list[str]) -> CompactionGroup:
    return CompactionGroup(
        group_id="m",
        datasource="events",
        kind=GroupKind.MINOR,
        interval=DAY,
        segment_ids=tuple(segment_ids),
    )


def faulty(mistake: Mistake, *, always: bool = False) -> type[LocalPipeline]:
    """Return a pipeline whose writers make the mistake."""

    class Faulty(LocalPipeline):
        def __init__(self, storage: DeepStorage, **more: object) -> None:
            clock, source = FakeClock(NOW_MS), SequentialIds("f")
            writer = writer_with(mistake, always=always)
            super().__init__(storage, clock=clock, ids=source, make_writer=writer)

    return Faulty


def test_a_rewrite_that_loses_or_doubles_a_row_is_not_published(open_store: OpenStore) -> None:
    good = open_store()
    append(good, (0, 0), (1, 1))
    append(good, (2, 2))
    for mistake in (partial(lose, 1), partial(double, 0)):
        before = good.head().revision
        bad = open_store(pipeline=faulty(mistake()))
        (report,) = bad.compact_interval("events").groups
        assert report.outcome is GroupOutcome.FAILED
        assert "would not keep its rows" in str(report.error)
        assert report.bytes_wasted > 0
        assert good.head().revision == before
    assert ids(good) == [0, 1, 2]
    assert good.show().kind is CommitKind.APPEND


def test_a_row_written_into_another_time_chunk_is_not_published(open_store: OpenStore) -> None:
    """Counts and hashes are of all chunks of a group together, and agree; where rows are is looked at besides."""
    good = open_store()
    append(good, (0, 0), (1, 1))
    append(good, (2, 25))
    held: list[dict[str, Any]] = []

    def carry_over(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not held:
            held.append(rows[-1])
            return rows[:-1]
        return [*rows, held[0]]

    month = CompactionTarget(segment_granularity="month")
    assert good.compact_interval("events", target=month).groups[0].outcome is GroupOutcome.COMMITTED
    before = good.head().revision
    bad = open_store(pipeline=faulty(carry_over, always=True))
    day = CompactionTarget(segment_granularity="day")
    (report,) = bad.compact_interval("events", target=day).groups
    assert held
    assert report.outcome is GroupOutcome.FAILED
    assert "has rows outside of its time chunk" in str(report.error)
    assert report.bytes_wasted > 0
    assert good.head().revision == before
    (report,) = good.compact_interval("events", target=day).groups
    assert report.outcome is GroupOutcome.COMMITTED
    assert ids(good) == [0, 1, 2]
