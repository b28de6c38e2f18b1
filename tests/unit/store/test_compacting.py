from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import (
    CompactionGroup,
    CompactionTarget,
    GroupKind,
    Partitioning,
    whole_intervals,
)
from carnac.core.log.commits import CommitKind
from carnac.core.time.intervals import Interval, parse_interval
from carnac.errors import CarnacError, Conflict, Invalid, NotFound
from carnac.ports import RewriteJob, RewriteResult
from carnac.store import Store
from carnac.store.compacting.reports import GroupOutcome
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import DAY_MS, START_MS, append, files_of, hour, ids, read

DAY = Interval(START_MS, START_MS + DAY_MS)
OpenStore = Callable[..., Store]


def segment_ids(store: Store, interval: Interval | None = None) -> list[str]:
    return [item.segment.segment_id for item in store.segments("events", interval=interval)]


def major(store: Store, *chosen: str, **target: Any) -> CompactionGroup:
    return CompactionGroup(
        group_id="g",
        datasource="events",
        kind=GroupKind.MAJOR,
        interval=DAY,
        segment_ids=chosen,
        target=CompactionTarget(**target),
    )


class Meanwhile(LocalPipeline):
    """A pipeline while whose rewrites something else happens: before they are read, and before they are published."""

    happens: Callable[[], object] = staticmethod(lambda: None)

    def run_rewrites(self, jobs: Sequence[RewriteJob], *, on_end: Any, **more: Any) -> None:
        ended: list[tuple[RewriteJob, RewriteResult | CarnacError]] = []
        super().run_rewrites(jobs, on_end=lambda job, end: ended.append((job, end)), **more)
        self.happens()
        for job, end in ended:
            on_end(job, end)


def test_major_compaction_keeps_every_row_in_fewer_segments(store: Store) -> None:
    for number in range(6):
        append(store, (number, number), (number + 10, number))
    before = read(store)
    revision = store.head().revision
    report = store.compact_interval("events")
    (group,) = report.groups
    assert (group.outcome, group.segments_in, group.segments_out) == (GroupOutcome.COMMITTED, 6, 1)
    assert (group.rows_in, group.rows_out, group.bytes_wasted) == (12, 12, 0)
    assert read(store) == before == read(store, revision)
    (item,) = store.segments("events")
    assert item.entry.version.minor == 0
    assert store.show().kind is CommitKind.REWRITE
    proof = store.show().proof
    assert proof is not None
    assert proof.rows_in == 12
    assert proof.row_hash_in == proof.row_hash_out == item.segment.row_hash


def test_minor_compaction_leaves_the_others_untouched(store: Store) -> None:
    for number in range(5):
        append(store, (number, number))
    before = read(store)
    entries = {item.segment.segment_id: item.entry for item in store.segments("events")}
    chosen = sorted(entries)[1:4]
    report = store.compact_interval("events", segments=chosen)
    assert report.groups[0].group.kind is GroupKind.MINOR
    after = {item.segment.segment_id: item.entry for item in store.segments("events")}
    for segment_id in entries.keys() - set(chosen):
        assert after[segment_id] == entries[segment_id]
    (new,) = after.keys() - entries.keys()
    assert after[new].version.minor == 1
    assert after[new].version.major_ms == entries[chosen[0]].version.major_ms
    assert read(store) == before


def test_segments_that_are_named_are_not_put_into_other_time_chunks(store: Store) -> None:
    for number in range(3):
        append(store, (number, number))
    chosen = segment_ids(store)[:2]
    report = store.compact_interval(
        "events", segments=chosen, target=CompactionTarget(segment_granularity="HOUR")
    )
    (group,) = report.groups
    assert isinstance(group.error, Invalid)
    assert "segments that are named stay in their time chunk" in group.error.message
    assert len(store.segments("events")) == 3
    same = CompactionTarget(segment_granularity="DAY")
    report = store.compact_interval("events", segments=chosen, target=same)
    assert report.count(GroupOutcome.COMMITTED) == 1


def test_what_is_appended_meanwhile_is_carried_forward(open_store: OpenStore) -> None:
    store = open_store(pipeline=Meanwhile)
    other = open_store()
    for number in range(3):
        append(store, (number, number))
    Meanwhile.happens = staticmethod(lambda: append(other, (99, 1)))
    try:
        report = store.compact([major(store)])
    finally:
        Meanwhile.happens = staticmethod(lambda: None)
    assert report.count(GroupOutcome.COMMITTED) == 1
    assert ids(store) == [0, 1, 2, 99]
    assert len(store.segments("events")) == 2


def test_a_group_whose_input_vanished_conflicts_alone(open_store: OpenStore, folder: Path) -> None:
    store, other = open_store(pipeline=Meanwhile), open_store()
    for number in (0, 1, 24, 25):
        append(store, (number, number))
    files = files_of(folder)
    Meanwhile.happens = staticmethod(
        lambda: other.delete("events", interval=Interval(hour(0), hour(0) + 1))
    )
    try:
        report = store.compact_interval("events")
    finally:
        Meanwhile.happens = staticmethod(lambda: None)
    lost, won = report.groups
    assert (lost.outcome, won.outcome) == (GroupOutcome.CONFLICT, GroupOutcome.COMMITTED)
    assert isinstance(lost.error, Conflict)
    assert lost.bytes_wasted > 0
    assert report.bytes_wasted == lost.bytes_wasted
    assert ids(store) == [1, 24, 25]
    assert len(files_of(folder) - files) == won.segments_out == 1


class Interrupted(LocalPipeline):
    """A pipeline whose rewrites are given up when so many bytes of them are written."""

    def run_rewrites(
        self, jobs: Sequence[RewriteJob], *, on_end: Any, on_waste: Any, **more: Any
    ) -> None:
        for job in jobs:
            on_waste(job, 700)
            on_end(job, Conflict("segment s was replaced meanwhile; plan again"))


def test_what_an_interrupted_group_had_written_is_reported(open_store: OpenStore) -> None:
    store = open_store(pipeline=Interrupted)
    append(store, (1, 1))
    append(store, (2, 2))
    report = store.compact_interval("events")
    (group,) = report.groups
    assert (group.outcome, group.bytes_wasted) == (GroupOutcome.CONFLICT, 700)
    assert report.bytes_wasted == 700


def test_a_group_that_was_planned_on_what_is_gone_is_not_run(store: Store) -> None:
    append(store, (0, 0))
    gone = segment_ids(store)
    append(store, (1, 1))
    store.compact_interval("events")
    report = store.compact([major(store, *gone)])
    assert report.groups[0].outcome is GroupOutcome.CONFLICT
    assert ids(store) == [0, 1]


class Unheard(LocalPipeline):
    """A pipeline while which the store does not say whether a job is in vain."""

    def run_rewrites(self, jobs: Sequence[RewriteJob], **more: Any) -> None:
        super().run_rewrites(jobs, **more | {"find_cancel_reason": lambda _: None})


def test_a_delete_after_the_base_revision_conflicts(open_store: OpenStore) -> None:
    """The time chunks of the outputs were those of now, of which none was left: the simulator's seed 5919."""
    store, other = open_store(pipeline=Unheard), open_store()
    tomorrow = Interval(DAY.end_ms, DAY.end_ms + DAY_MS)
    append(store, (0, 0), (1, 1))
    append(store, (25, 25))
    first, second = major(store), major(store)._replace(group_id="h", interval=tomorrow)
    batch = ("writer", "batch")
    store.compact([first], batch=batch)
    report = store.compact(
        [first, second],
        batch=batch,
        on_group=lambda one: (
            other.delete("events", interval=tomorrow) if one.group is first else None
        ),
    )
    assert [one.outcome for one in report.groups] == [GroupOutcome.UNCHANGED, GroupOutcome.CONFLICT]
    assert ids(store) == [0, 1]


def test_clipped_rows_stay_away(store: Store) -> None:
    append(store, (0, 0), (1, 1), (2, 2))
    append(store, (3, 1), (4, 5))
    store.delete("events", interval=Interval(hour(1), hour(2)))
    before = read(store)
    store.compact_interval("events")
    (item,) = store.segments("events")
    assert item.entry.clip is None
    assert item.segment.rows == 3
    assert read(store) == before


def test_days_become_a_month_and_days_again(store: Store) -> None:
    for number in (0, 1, 30, 50):
        append(store, (number, number))
    before = read(store)
    store.compact_interval("events", target=CompactionTarget(segment_granularity="month"))
    (item,) = store.segments("events")
    assert item.entry.chunk == parse_interval("2013-10-01/2013-11-01")
    assert read(store) == before
    append(store, (77, 40))
    store.compact_interval("events", target=CompactionTarget(segment_granularity="day"))
    chunks = [chunk.interval for chunk in store.chunks("events")]
    assert [chunk.duration_ms for chunk in chunks] == [DAY_MS] * 3
    assert sum(read(store).values()) == 5


def test_target_rows_cut_evenly(store: Store) -> None:
    append(store, *((number, number % 20) for number in range(10)))
    store.compact([major(store, target_rows=4)])
    assert [item.segment.rows for item in store.segments("events")] == [4, 4, 2]


def test_a_range_has_at_most_half_as_many_rows_again_as_its_target(store: Store) -> None:
    append(store, *[(number // 55, number // 55) for number in range(550)])
    by_id = Partitioning(kind="range", dimensions=("id",))
    report = store.compact_interval(
        "events", target=CompactionTarget(target_rows=66, partitioning=by_id)
    )
    assert report.groups[0].error is None
    rows = [item.segment.rows for item in store.segments("events")]
    assert (sum(rows), max(rows)) == (550, 55)


def test_lossy_steps_need_to_be_allowed(store: Store) -> None:
    append(store, (0, 0), (1, 1))
    report = store.compact([major(store, query_granularity="hour")])
    assert report.groups[0].outcome is GroupOutcome.FAILED
    assert isinstance(report.groups[0].error, Invalid)
    assert "allowLossy" in str(report.groups[0].error)
    report = store.compact([major(store, query_granularity="hour", allow_lossy=True)])
    assert report.groups[0].outcome is GroupOutcome.COMMITTED
    assert {at for _, at in read(store)} == {hour(0) - 1, hour(1) - 1}


def test_a_batch_is_not_run_twice(store: Store) -> None:
    append(store, (0, 0))
    append(store, (1, 1))
    first = store.compact([major(store)], batch=("task", "t1")).groups[0]
    again = store.compact([major(store)], batch=("task", "t1")).groups[0]
    assert first.outcome is GroupOutcome.COMMITTED
    assert (again.outcome, again.revision) == (GroupOutcome.UNCHANGED, first.revision)


def test_groups_that_make_no_sense_are_refused(store: Store) -> None:
    append(store, (0, 0))
    with pytest.raises(Invalid, match="share an id"):
        store.compact([major(store), major(store)])
    with pytest.raises(NotFound, match="no datasource"):
        store.compact_interval("nothing")
    with pytest.raises(NotFound, match="not visible"):
        store.compact_interval("events", segments=["no-such"])
    bad = store.compact([major(store, segment_granularity="month")]).groups[0]
    assert "align" in str(bad.error)


def test_intervals_that_a_granularity_must_rewrite_together() -> None:
    days = [Interval(day * DAY_MS, (day + 1) * DAY_MS) for day in (16_000, 16_001, 16_040)]
    assert list(whole_intervals(days, None)) == days
    months = [str(piece)[:7] for piece in whole_intervals(days, "month")]
    assert months == ["2013-10", "2013-12"]
    month = parse_interval("2013-10-01/2013-11-01")
    assert list(whole_intervals([month], "day")) == [month]
