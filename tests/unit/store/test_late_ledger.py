"""The late ledger of a store where segments are cut: by layouts that change, deletions, replacements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.lateness import Lateness
from carnac.core.time.intervals import Interval
from carnac.errors import NotFound
from carnac.ports import ChunkLayout, JobResult
from carnac.specs.ingest.spec import IngestSpec
from carnac.store import Store
from tests.unit.store.events import DAY_MS, START_MS, StampedPipeline, append, hour

OpenStore = Callable[..., Store]
LAST = 24 * 12
"""The hour of the newest row."""


def by_lateness(store: Store, **more: Any) -> dict[Lateness | None, tuple[int, int]]:
    """Return (late rows, folded ones)."""
    return {
        one.lateness: (one.rows, one.rows_folded)
        for one in store.late("events", **more).by_lateness
    }


def by_chunk(store: Store) -> Counter[Interval]:
    found: Counter[Interval] = Counter()
    for line in store.late("events").lines:
        found[line.chunk] += line.rows
    return found


@pytest.fixture
def late_store(store: Store) -> Store:
    """A row of the twelfth day, then four late rows of each of three days."""
    append(store, (0, LAST))
    rows = [(1 + 4 * day + n, 24 * day + 6 * n) for day in (2, 3, 9) for n in range(4)]
    append(store, *rows)
    return store


def test_days_become_a_month_and_days_again(late_store: Store) -> None:
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 0), Lateness.MONTH: (8, 0)}
    month = CompactionTarget(segment_granularity="month")
    late_store.compact_interval("events", target=month)
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 4), Lateness.MONTH: (8, 8)}
    append(late_store, (90, 24 * 3))
    assert by_lateness(late_store)[Lateness.MONTH] == (9, 8)
    late_store.compact_interval("events", target=CompactionTarget(segment_granularity="day"))
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 4), Lateness.MONTH: (9, 9)}
    ledger = late_store.late("events")
    assert sum(line.rows for line in ledger.lines) == ledger.total.rows == 13


class Overtaken(StampedPipeline):
    """Others publish between the writing of segments and their publish."""

    happens: Callable[[], object] | None = None

    def run_ingest(self, spec: IngestSpec, layout: ChunkLayout, **more: Any) -> JobResult:
        result = super().run_ingest(spec, layout, **more)
        happens, Overtaken.happens = Overtaken.happens, None
        if happens is not None:
            happens()
        return result


def test_a_segment_that_is_settled_over_several_chunks(open_store: OpenStore) -> None:
    store, other = open_store(pipeline=Overtaken), open_store()
    append(store, (0, 24 * 40))
    Overtaken.happens = staticmethod(lambda: append(other, (1, 24 * 2), (2, 24 * 4)))
    append(store, (3, 24 * 2 + 1), (4, 24 * 3), (5, 24 * 4 + 1), granularity="month")
    settled = [item for item in store.segments("events") if item.entry.clip is not None]
    assert len(settled) > 1
    assert len({item.segment.segment_id for item in settled}) == 1
    assert by_lateness(store) == {Lateness.LONGER: (5, 0)}
    assert len(by_chunk(store)) > 2
    (first, *_) = sorted({item.entry.chunk for item in settled})
    before = by_chunk(store)
    store.compact_interval("events", interval=first)
    assert by_chunk(store) == before, "a part has its share, folded or not"
    store.compact_interval("events")
    assert by_lateness(store) == {Lateness.LONGER: (5, 5)}


def test_what_is_deleted_leaves_the_ledger_and_comes_back(late_store: Store) -> None:
    third = Interval(hour(24 * 3) - 1, hour(24 * 4) - 1)
    late_store.delete("events", interval=third)
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 0), Lateness.MONTH: (4, 0)}
    assert by_lateness(late_store, at=2)[Lateness.MONTH] == (8, 0)
    late_store.revert(late_store.head().revision)
    assert by_lateness(late_store)[Lateness.MONTH] == (8, 0)
    late_store.delete("events", where="id < 15 AND id > 0")
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 0), Lateness.MONTH: (2, 0)}
    late_store.compact_interval("events")
    late_store.delete("events", where="id = 15")
    assert by_lateness(late_store) == {Lateness.WEEK: (4, 4), Lateness.MONTH: (1, 1)}


def test_a_part_of_time_and_nothing(late_store: Store) -> None:
    day = Interval(START_MS + 9 * DAY_MS, START_MS + 10 * DAY_MS)
    assert by_lateness(late_store, interval=day) == {Lateness.WEEK: (4, 0)}
    assert late_store.late("events", interval=str(day)).total.rows == 4
    assert late_store.late("events", at=1).lines == ()
    assert late_store.late("events", interval="1999/2000").total.rows == 0
    with pytest.raises(NotFound, match="there is no datasource 'evnts'; there are events"):
        late_store.late("evnts")
