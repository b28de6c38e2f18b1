"""What tasks do to a store, under locks, once: over real segment files, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from carnac.core.locks.model import LockState
from carnac.core.tasks.model import Task, TaskState
from carnac.core.texts import NAME_MAX
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.overlord import Lockbox, TaskService
from carnac.overlord.attempt import run_attempt
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.ports import JobResult
from carnac.rows.read.inputs import resolve_input
from carnac.specs.ingest.inputs import FilesInput
from carnac.specs.ingest.spec import IngestSpec
from carnac.specs.tasks.spec import load_task
from carnac.store import Store
from carnac.store.jobs import StoreJobs
from tests.locks import wants
from tests.support.clock import FakeClock, SequentialIds
from tests.support.tasks import FakeRunner
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import (
    TTL_MS,
    StampedPipeline,
    append,
    files_of,
    hour,
    ids,
    rows_of,
    spec,
)

DAY = "2013-10-22/2013-10-23"


class InlinePipeline(StampedPipeline):
    """Reads the rows that the spec holds, as JSON lines."""

    def run_ingest(self, spec: IngestSpec, layout: Any, **more: Any) -> JobResult:
        if isinstance(spec.input, FilesInput):
            resolve_input(spec.input)
        data = getattr(spec.input, "data", None)
        if data is not None:
            more["rows"] = [json.loads(line) for line in data.splitlines()]
            frame = {"type": "frame", "frame": "arrow"}
            block = {**spec.to_json_dict(), "input": frame}
            spec = IngestSpec.model_validate(block)
        return super().run_ingest(spec, layout, **more)


class Office:
    """A store, its tasks, and an overlord that runs them here, one after another."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock, self.metadata = store, clock, store._metadata
        self.input_roots: tuple[str, ...] = ()
        self.tasks = TaskService(self.metadata, clock, SequentialIds("t"), load=load_task)
        self.lockbox = Lockbox(self.metadata, clock, holder="test", lease_ms=TTL_MS)
        self.loop = OverlordLoop(
            self.metadata,
            clock,
            leader_id="one",
            holder="here",
            runners={"fake": FakeRunner("fake")},
            settings=LoopSettings(
                runner="fake",
                capacity=1,
                lease_ms=TTL_MS,
                start_lease_ms=TTL_MS,
                period_ms=1,
                upkeep_period_ms=10**9,
            ),
        )

    def submit(self, **payload: Any) -> Task:
        return self.tasks.submit({"dataSource": "events", **payload})

    def run(self, task: Task) -> Mapping[str, Any]:
        """Run the task's next attempt; return its report."""
        assert task.task_id in self.loop.run_round()
        jobs = StoreJobs(
            self.store,
            find_payload=self.metadata.task_payload,
            input_roots=self.input_roots,
            clock=self.clock,
        )
        try:
            return run_attempt(
                self.metadata,
                self.lockbox,
                jobs,
                self.clock,
                holder="here",
                task_id=task.task_id,
                number=self.tasks.get(task.task_id).attempts,
                wait=lambda _: True,
            )
        finally:
            assert self.metadata.locks() == ()


@pytest.fixture
def office(open_store: OpenStore, clock: FakeClock) -> Office:
    return Office(open_store(pipeline=InlinePipeline), clock)


def ingestion(*pairs: tuple[int, int], **more: Any) -> dict[str, Any]:
    rows = rows_of((identity, hour(number)) for identity, number in pairs)
    block = spec(**more).to_json_dict()
    block["input"] = {"type": "inline", "data": "\n".join(map(json.dumps, rows))}
    block["input"]["inputFormat"] = {"type": "json"}
    return block


def test_an_ingestion_publishes_under_the_name_of_its_task(office: Office) -> None:
    task = office.submit(type="index_parallel", spec=ingestion((1, 1), (2, 30)))
    report = office.run(task)
    assert ids(office.store) == [1, 2]
    assert report["revision"] == 1
    assert report["rowStats"]["written"] == 2
    commit = office.store.show(1)
    assert (commit.writer, commit.batch) == ("task", f"{task.task_id}#{task.number}")
    assert commit.message == f"task {task.task_id}"
    assert office.tasks.report(task.task_id) == report


def test_a_task_that_came_over_http_reads_below_the_roots_of_its_overlord_alone(
    office: Office, tmp_path: Path
) -> None:
    """The overlord of an attempt decides, whatever the task says itself; one beside the store has no roots."""
    block = {**ingestion((1, 1)), "input": {"paths": "/etc/passwd", "within": ["/"]}}
    office.input_roots = (str(tmp_path),)
    task = office.submit(type="index_parallel", spec=block, context={"origin": "http"})
    with pytest.raises(Invalid, match="is outside of what a task that comes over HTTP may read"):
        office.run(task)
    beside = office.submit(type="index_parallel", spec={**block, "input": "/etc/passwd"})
    with pytest.raises(Invalid, match="does not say its format"):
        office.run(beside)


def test_an_attempt_that_dies_after_its_publish_is_not_done_again(office: Office) -> None:
    task = office.submit(type="index_parallel", spec=ingestion((1, 1)))
    office.loop.run_round()
    with pytest.raises(KeyboardInterrupt):
        _run_and_die(office, task)
    assert office.tasks.get(task.task_id).state is TaskState.WAITING
    office.clock.advance_ms(1_000)
    assert office.run(task)["isReplay"]
    assert ids(office.store) == [1]
    assert office.tasks.get(task.task_id).state is TaskState.SUCCEEDED


def test_a_task_with_the_id_of_a_forgotten_one_does_its_work(office: Office) -> None:
    """Batches are remembered for longer than tasks."""
    for number in (1, 2):
        task = office.submit(type="index_parallel", id="weekly", spec=ingestion((number, number)))
        assert not office.run(task)["isReplay"]
        assert [one.task_id for one in office.tasks.trim(retention_ms=0)] == ["weekly"]
    assert ids(office.store) == [1, 2]


def test_the_longest_names_are_taken(office: Office) -> None:
    """An id is made of the datasource's name, and a batch of the id."""
    block = {**ingestion((1, 1)), "dataSource": "d" * NAME_MAX}
    made = office.submit(type="index_parallel", spec=block)
    assert office.run(made)["rowStats"]["written"] == 1
    given = "x" * NAME_MAX
    deleted = office.submit(type="delete", id=given, dataSource="d" * NAME_MAX, interval=DAY)
    assert office.run(deleted)["segmentsDropped"] == 1
    with pytest.raises(Invalid, match="id has 256 characters"):
        office.submit(type="delete", id=f"{given}x", interval=DAY)


def _run_and_die(office: Office, task: Task) -> None:
    class Dying(StoreJobs):
        def run(self, *args: Any, **more: Any) -> Mapping[str, object]:
            super().run(*args, **more)
            raise KeyboardInterrupt

    jobs = Dying(office.store, find_payload=office.metadata.task_payload, clock=office.clock)
    run_attempt(
        office.metadata,
        office.lockbox,
        jobs,
        office.clock,
        holder="here",
        task_id=task.task_id,
        number=1,
        wait=lambda _: True,
    )


def test_a_replacement_takes_the_place_of_what_is_there(office: Office) -> None:
    append(office.store, (1, 1), (2, 30))
    task = office.submit(type="replace", spec=ingestion((3, 2), mode="replace", intervals=[DAY]))
    office.run(task)
    assert ids(office.store) == [2, 3]


def test_a_deletion_by_interval_and_one_by_predicate(office: Office) -> None:
    append(office.store, (1, 1), (2, 2), (3, 30))
    assert office.run(office.submit(type="delete", where="id = 2"))["rowsDeleted"] == 1
    office.run(office.submit(type="delete", interval=DAY))
    assert ids(office.store) == [3]


def test_a_compaction_of_an_interval_and_of_segments(office: Office) -> None:
    for identity in range(4):
        append(office.store, (identity, 1))
    chosen = [item.segment.segment_id for item in office.store.segments("events")][:2]
    report = office.run(office.submit(type="compact", segments=chosen))
    assert report["groupCounts"]["committed"] == 1
    assert len(office.store.segments("events")) == 3
    office.run(office.submit(type="compact", interval=DAY))
    assert len(office.store.segments("events")) == 1
    assert ids(office.store) == [0, 1, 2, 3]


def test_a_compaction_of_what_is_not_there_fails(office: Office) -> None:
    append(office.store, (1, 1))
    task = office.submit(type="compact", dataSource="nothing")
    with pytest.raises(NotFound, match="there is no datasource 'nothing'"):
        office.run(task)
    assert office.tasks.get(task.task_id).state is TaskState.FAILED


def test_kill_deletes_unused_files_of_its_interval_and_no_others(
    office: Office, folder: Any
) -> None:
    append(office.store, (1, 1), (2, 30))
    before = files_of(folder)
    office.run(office.submit(type="delete", interval="2013-10-22/2013-10-24"))
    assert files_of(folder) == before
    office.clock.advance_ms(1)
    report = office.run(office.submit(type="kill", interval=DAY))
    assert (report["filesDeleted"], len(files_of(folder))) == (1, 1)
    assert office.run(office.submit(type="kill"))["filesDeleted"] == 1
    assert files_of(folder) == set()


def test_kill_leaves_what_a_tag_names(office: Office, folder: Any) -> None:
    append(office.store, (1, 1))
    office.store.tag("keep")
    office.run(office.submit(type="delete", interval=DAY))
    assert office.run(office.submit(type="kill"))["filesDeleted"] == 0
    assert ids(office.store, "keep") == [1]
    assert len(files_of(folder)) == 1


def test_clean_folds_what_segments_say_they_overshadow(office: Office) -> None:
    for identity in range(3):
        append(office.store, (identity, 1))
    append(office.store, (9, 30))
    chosen = [item.segment.segment_id for item in office.store.segments("events")][:2]
    office.run(office.submit(type="compact", segments=chosen))
    before = office.store.segments("events")
    assert any(item.entry.overshadowed_ids for item in before)
    report = office.run(office.submit(type="clean"))
    after = office.store.segments("events")
    assert not any(item.entry.overshadowed_ids for item in after)
    assert {item.segment.segment_id for item in after} == {
        item.segment.segment_id for item in before
    }
    assert [item.entry.visible for item in after] == [item.entry.visible for item in before]
    assert ids(office.store) == [0, 1, 2, 9]
    assert office.store.show(report["revision"]).kind == "rewrite"
    folded, untouched = office.store.chunks("events")
    assert (folded.version.minor, folded.revision) == (0, report["revision"])
    assert untouched.revision < folded.revision
    assert office.metadata.check() == ()  # type: ignore[attr-defined]
    assert office.run(office.submit(type="clean"))["revision"] is None


def test_what_druid_says_and_has_no_effect_is_reported(office: Office) -> None:
    append(office.store, (1, 1))
    task = office.submit(type="kill", limit=10, interval=DAY)
    assert office.run(task)["ignored"] == [
        {"path": "limit", "reason": "all that is unused is deleted"}
    ]


def test_a_wrong_interval_fails_for_good(office: Office) -> None:
    append(office.store, (1, 1), (2, 2), query="hour")
    task = office.submit(type="delete", interval="2013-10-22T01:30/2013-10-23")
    with pytest.raises(Invalid, match="align it"):
        office.run(task)
    assert office.tasks.get(task.task_id).state is TaskState.FAILED
    assert office.tasks.get(task.task_id).attempts == 1


def test_a_deletion_waits_for_whoever_replaces_the_same_segments(office: Office) -> None:
    append(office.store, (1, 1))
    (item,) = office.store.segments("events")
    other = wants("other", item.entry.chunk, item.entry.partition_id)
    assert office.lockbox.acquire(other).state is LockState.HELD
    task = office.submit(
        type="delete", interval=DAY, context={"taskLockTimeout": 5_000, "retries": 0}
    )
    office.loop.run_round()
    jobs = StoreJobs(office.store, find_payload=office.metadata.task_payload, clock=office.clock)
    with pytest.raises(Unavailable, match="kept out by lock 1 of other"):
        run_attempt(
            office.metadata,
            office.lockbox,
            jobs,
            office.clock,
            holder="here",
            task_id=task.task_id,
            number=1,
            wait=lambda _: True,
        )
    assert ids(office.store) == [1]
    assert sum(office.clock.slept_ms) == 5_000
