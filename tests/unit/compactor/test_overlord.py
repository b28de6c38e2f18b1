"""The controller over the tasks of an overlord: submitted, run with locks, asked after, adopted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.bootstrap import open_records, open_store
from carnac.bootstrap_compaction import CompactionDuty
from carnac.bootstrap_tasks import open_loop, open_tasks, run_task_attempt
from carnac.compactor.desk import CompactionDesk
from carnac.compactor.overlord import OverlordRunner
from carnac.config import Settings
from carnac.core.compaction.states import ChunkStatus
from carnac.core.tasks.model import TaskState
from carnac.errors import CarnacError
from carnac.testing.clock import FakeClock, SequentialIds
from carnac.testing.tasks import FakeRunner
from tests.unit.store.events import NOW_MS, StampedPipeline, append, fast_folder, read

SPEC = {
    "dataSource": "events",
    "granularitySpec": {"segmentGranularity": "day"},
    "smallTaskBytes": 0,
}


class Cluster:
    """A store, an overlord whose attempts run when the test says so, and the duty of compaction."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.ids = FakeClock(NOW_MS), SequentialIds()
        self.settings = Settings(store=str(folder / "store"), task_runner="in_process")
        self.store = open_store(
            create=True,
            settings=self.settings,
            clock=self.clock,
            ids=self.ids,
            pipeline=lambda root: StampedPipeline(root, clock=self.clock, ids=self.ids),
        )
        self.metadata = open_records(settings=self.settings, clock=self.clock)
        self.desk = CompactionDesk(self.metadata, self.clock)
        self.runners = {"in_process": FakeRunner()}
        self.tasks = open_tasks(settings=self.settings, runners=self.runners, clock=self.clock)
        self.loop = open_loop(settings=self.settings, runners=self.runners, clock=self.clock)
        self.duty = CompactionDuty(self.settings, self.runners, self.clock)

    def restart_duty(self) -> None:
        self.duty.close()
        self.duty = CompactionDuty(self.settings, self.runners, self.clock)

    def run_attempts(self) -> None:
        """Dispatch what is pending, and run it."""
        self.loop.run_round()
        for attempt in self.tasks.live_attempts():
            try:
                run_task_attempt(
                    attempt.task_id,
                    attempt.number,
                    settings=self.settings,
                    clock=self.clock,
                    pipeline=lambda root: StampedPipeline(root, clock=self.clock, ids=self.ids),
                )
            except CarnacError:
                continue  # it is written down
        self.loop.run_round()

    def close(self) -> None:
        self.duty.close()
        self.loop.close()
        self.tasks.close()
        self.metadata.close()
        self.store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with fast_folder() as name:
        cluster = Cluster(Path(name))
        for day in range(2):
            for number in range(4):
                append(cluster.store, (number, day * 24), (number + 100, day * 24 + 1))
        cluster.desk.put_spec(SPEC)
        yield cluster
        cluster.close()


def counts(cluster: Cluster) -> list[int]:
    return [chunk.entries for chunk in cluster.store.chunks("events")]


def test_tasks_run_under_locks_and_chunks_become_stable(cluster: Cluster) -> None:
    before = read(cluster.store)
    cluster.duty.run_round()
    submitted = cluster.tasks.list()
    assert {task.type for task in submitted} == {"compact"}
    assert len(submitted) == 2
    assert {task.priority for task in submitted} == {25}
    cluster.duty.run_round()
    assert len(cluster.tasks.list()) == 2, "nothing is submitted twice"
    cluster.run_attempts()
    assert [task.state for task in cluster.tasks.list()] == [TaskState.SUCCEEDED] * 2
    assert counts(cluster) == [1, 1]
    assert read(cluster.store) == before
    assert cluster.metadata.locks() == ()
    cluster.duty.run_round()
    states = cluster.metadata.compaction_states("events")
    assert [state.status for state in states] == [ChunkStatus.STABLE] * 2


def test_another_leader_adopts_what_runs(cluster: Cluster) -> None:
    cluster.duty.run_round()
    cluster.restart_duty()
    cluster.duty.run_round()
    assert len(cluster.tasks.list()) == 2, "what runs is not submitted again"
    cluster.run_attempts()
    cluster.duty.run_round()
    assert counts(cluster) == [1, 1]
    assert OverlordRunner(cluster.tasks, cluster.ids).live() == []


def test_a_task_that_is_cancelled_rests_only_its_own_chunk(cluster: Cluster) -> None:
    cluster.duty.run_round()
    first, second = cluster.tasks.list()
    cluster.tasks.cancel(first.task_id)
    cluster.run_attempts()
    cluster.duty.run_round()
    assert sorted(counts(cluster)) == [1, 4]
    assert cluster.tasks.get(second.task_id).state is TaskState.SUCCEEDED
    cluster.duty.run_round()
    cluster.run_attempts()
    assert counts(cluster) == [1, 1], "what was cancelled is planned anew"
