"""No rewrite reads a damaged file: whatever the damage and whichever the door, it is named and nothing is published."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from carnac.api.shapes import ingestion_report
from carnac.core.compaction.plan.groups import CompactionTarget, GroupKind, Partitioning
from carnac.core.log.commits import CommitKind
from carnac.core.segments.segment import ColumnType, Metric, MetricKind, Segment
from carnac.core.tasks.model import TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Corrupt, Unavailable
from carnac.rows.row_hash import add_hashes
from carnac.store import Store
from carnac.store.compacting.reports import CompactionReport, GroupOutcome
from tests.support.clock import FakeClock
from tests.unit.store.conftest import OpenStore
from tests.unit.store.damage import DAMAGES, empty, flip_values
from tests.unit.store.events import DAY_MS, START_MS, files_of, hour, ids, spec
from tests.unit.store.test_jobs import InlinePipeline, Office

Door: TypeAlias = Callable[[Store, Segment], object]
NAMES = ("ada", "bob", "cleo")


@pytest.fixture
def segments(store: Store) -> list[Segment]:
    """One segment in each of three days, and a second one in the first of them."""
    for first, day in ((0, 0), (20, 1), (40, 2), (60, 0)):
        rows = [
            {"id": first + number, "t": hour(24 * day + number % 5), "name": NAMES[number % 3]}
            for number in range(20)
        ]
        store.ingest(spec(), rows)
    found = [item.segment for item in store.segments("events")]
    assert [segment.rows for segment in found] == [20] * 4
    return found


def place_of(folder: Path, segment: Segment) -> Path:
    return folder / "deep-storage" / segment.path


def first_day(store: Store, segment: Segment, **target: Any) -> CompactionReport:
    """Compact the day of the segment alone."""
    return store.compact_interval(
        "events", interval=segment.chunk, target=CompactionTarget(**target)
    )


COUNT = Metric(name="n", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG)
DOORS: dict[str, Door] = {
    "delete where it matches": lambda store, _: store.delete("events", where="name = 'ada'"),
    "delete where nothing matches": lambda store, _: store.delete("events", where="id = -1"),
    "delete all rows": lambda store, _: store.delete("events", where="TRUE"),
    "delete by time": lambda store, it: store.delete(
        "events", where=f"__time >= make_timestamptz({it.chunk.start_ms * 1000})"
    ),
    "delete in an interval": lambda store, it: store.delete(
        "events", interval=it.chunk, where="id % 2 = 0"
    ),
    "compact": first_day,
    "compact minor": lambda store, it: store.compact(
        [
            group
            for group in store.plan_compaction("events", segments=[it.segment_id])
            if group.kind is GroupKind.MINOR
        ]
    ),
    "compact by ranges": lambda store, it: first_day(
        store, it, partitioning=Partitioning(kind="range", dimensions=("name",)), target_rows=5
    ),
    "compact to a coarser time": lambda store, it: first_day(
        store, it, query_granularity="hour", allow_lossy=True
    ),
    "compact with fewer columns": lambda store, it: first_day(
        store, it, dimensions=("id",), allow_lossy=True
    ),
    "compact to rolled-up rows": lambda store, it: first_day(
        store,
        it,
        query_granularity="hour",
        dimensions=("name",),
        metrics=(COUNT,),
        allow_lossy=True,
    ),
    "compact to months": lambda store, _: store.compact_interval(
        "events", target=CompactionTarget(segment_granularity="month")
    ),
    "compact to hours": lambda store, it: first_day(store, it, segment_granularity="hour"),
}


def refusal_of(store: Store, door: Door, segment: Segment) -> CarnacError:
    """Return why a door does not open."""
    try:
        found = door(store, segment)
    except CarnacError as error:
        return error
    assert isinstance(found, CompactionReport), "it did"
    assert found.groups[0].error is not None
    return found.groups[0].error


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_damaged_file_is_named_and_nothing_is_published(
    store: Store, folder: Path, segments: list[Segment], door: Door
) -> None:
    head, files = store.head().revision, files_of(folder)
    place = place_of(folder, segments[0])
    good = place.read_bytes()
    for name, damage in DAMAGES.items():
        damage(place)
        error = refusal_of(store, door, segments[0])
        assert isinstance(error, Corrupt), (name, error)
        assert f"file {segments[0].path} of segment {segments[0].segment_id} of" in error.message
        assert "run 'verify'" in error.message
        assert (store.head().revision, files_of(folder)) == (head, files), name
        place.write_bytes(good)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_file_that_is_gone_is_named(
    store: Store, folder: Path, segments: list[Segment], door: Door
) -> None:
    """Also if something else has its name that is not read to its end."""
    place = place_of(folder, segments[0])
    place.unlink()
    for is_pipe in (False, True):
        if is_pipe:
            os.mkfifo(place)
        error = refusal_of(store, door, segments[0])
        assert isinstance(error, Corrupt), error
        said = f"{segments[0].segment_id} of events is damaged (is not there); run 'verify', then"
        assert said in str(error)


def test_deep_storage_that_is_away_is_no_damage_of_all_segments(
    store: Store, folder: Path, segments: list[Segment]
) -> None:
    place = folder / "deep-storage" / "segments"
    place.rename(folder / "elsewhere")
    error = refusal_of(store, DOORS["compact by ranges"], segments[0])
    assert isinstance(error, Unavailable), error
    assert "has no folder 'segments': mount it" in error.message


def test_damage_that_is_clipped_away_is_found_all_the_same(
    store: Store, folder: Path, segments: list[Segment]
) -> None:
    start_ms = segments[0].chunk.start_ms
    store.delete("events", interval=Interval(start_ms, start_ms + 3_600_000))
    flip_values(place_of(folder, segments[0]))
    for door in DOORS.values():
        assert isinstance(refusal_of(store, door, segments[0]), Corrupt)


def test_the_other_groups_of_a_compaction_go_on(
    store: Store, folder: Path, segments: list[Segment]
) -> None:
    before = ids(store)
    for damage in (flip_values, empty):
        damage(place_of(folder, segments[2]))
        report = store.compact_interval("events", target=CompactionTarget(target_rows=1000))
        failed = [group for group in report.groups if group.error is not None]
        assert len(report.groups) == 3
        assert [group.group.interval for group in failed] == [segments[2].chunk]
        assert isinstance(failed[0].error, Corrupt)
        assert segments[2].segment_id in failed[0].error.message
    assert report.count(GroupOutcome.COMMITTED) == 2
    where = Interval(START_MS, START_MS + DAY_MS)
    store.delete("events", interval=segments[2].chunk)
    assert ids(store) == [one for one in before if not 20 <= one < 40]
    assert store.segments("events", interval=where)


def test_a_deletion_says_what_it_read_kept_and_deleted(
    store: Store, segments: list[Segment]
) -> None:
    store.delete("events", where="name = 'ada' AND id < 40")
    commit = store.show()
    assert (commit.kind, commit.proof is None) == (CommitKind.DELETE, False)
    proof = commit.proof
    assert proof is not None
    touched = [one for one in segments if one.segment_id not in _visible(store)]
    assert (proof.rows_in, proof.rows_out, proof.rows_deleted) == (40, 26, 14)
    assert proof.row_hash_in == add_hashes(*(one.row_hash for one in touched))
    assert proof.row_hash_in == add_hashes(proof.row_hash_out or 0, proof.row_hash_deleted)


def _visible(store: Store) -> set[str]:
    return {item.segment.segment_id for item in store.segments("events")}


def test_a_compact_task_that_meets_damage_fails_and_commits_its_other_groups(
    open_store: OpenStore, clock: FakeClock, folder: Path
) -> None:
    office = Office(open_store(pipeline=InlinePipeline), clock)
    for day in (0, 1, 2):
        for identity in (1, 2):
            office.store.ingest(spec(), [{"id": identity, "t": hour(24 * day), "name": "ada"}])
    damaged = office.store.segments("events")[2].segment
    empty(place_of(folder, damaged))
    task = office.submit(type="compact", interval="2013-10-22/2013-10-25")
    with pytest.raises(Corrupt, match=damaged.segment_id):
        office.run(task)
    ended, report = office.tasks.get(task.task_id), office.tasks.report(task.task_id)
    assert (ended.state, ended.attempts) == (TaskState.FAILED, 1)
    assert report is not None
    assert [one["outcome"] for one in report["groups"]] == ["committed", "failed", "committed"]
    assert damaged.segment_id in report["groups"][1]["error"]
    assert report["rowStats"] == {"read": 4, "written": 4}, "of the groups that were committed"
    druid: Any = ingestion_report(ended, report)["ingestionStatsAndErrors"]
    assert druid["payload"]["rowStats"]["buildSegments"]["processed"] == 4
    assert len(office.store.segments("events")) == 4


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "delete", "where": "name = 'ada'"},
        {"type": "compact", "interval": "2013-10-22/2013-10-23"},
    ],
    ids=lambda payload: payload["type"],
)
def test_a_task_that_meets_damage_fails_and_says_why(
    open_store: OpenStore, clock: FakeClock, folder: Path, payload: dict[str, Any]
) -> None:
    office = Office(open_store(pipeline=InlinePipeline), clock)
    for identity in (1, 2):
        office.store.ingest(spec(), [{"id": identity, "t": hour(1), "name": "ada"}])
    (segment, _) = (item.segment for item in office.store.segments("events"))
    flip_values(place_of(folder, segment))
    task = office.submit(**payload)
    with pytest.raises(Corrupt, match=segment.segment_id):
        office.run(task)
    ended = office.tasks.get(task.task_id)
    assert (ended.state, ended.attempts) == (TaskState.FAILED, 1)
    assert segment.segment_id in str(ended.error)
