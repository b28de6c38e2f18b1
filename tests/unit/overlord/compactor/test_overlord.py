"""The controller over the tasks of an overlord: submitted, run with locks, asked after, adopted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.compaction import CompactionLoop
from carnac.bootstrap.store import open_records
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.cli.commands.compacting.control import progress_text
from carnac.config import Settings
from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.compaction.control.survey import CONFLICTS_MAX
from carnac.core.locks.events import ReleaseLocks
from carnac.core.tasks.model import TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, DiskFull
from carnac.overlord.clearing import note_waste
from carnac.overlord.compactor.overlord import OverlordRunner
from carnac.overlord.compactor.service import CompactionService
from carnac.ports import Clock, DeepStorage, IdSource, RewriteJob, RewriteResult
from tests.locks import LEASE_MS, wants
from tests.support.clock import FakeClock, SequentialIds
from tests.support.tasks import FakeRunner
from tests.unit.store.events import (
    FOREVER_MS,
    NOW_MS,
    StampedPipeline,
    append,
    fast_folder,
    files_of,
    open_stamped,
    read,
)

SPEC = {
    "dataSource": "events",
    "granularitySpec": {"segmentGranularity": "day"},
    "smallTaskBytes": 0,
}


class Halting(StampedPipeline):
    """A pipeline that lets something happen before it hands a group over."""

    def __init__(
        self, storage: DeepStorage, *, clock: Clock, ids: IdSource, between: Callable[[], None]
    ) -> None:
        super().__init__(storage, clock=clock, ids=ids)
        self._between = between

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        def hand(job: RewriteJob, end: RewriteResult | CarnacError) -> None:
            self._between()
            on_end(job, end)

        super().run_rewrites(jobs, on_end=hand, **more)


class Full(StampedPipeline):
    """A pipeline on a disk without room."""

    def run_rewrites(
        self,
        jobs: Sequence[RewriteJob],
        *,
        on_end: Callable[[RewriteJob, RewriteResult | CarnacError], None],
        **more: Any,
    ) -> None:
        for job in jobs:
            on_end(job, DiskFull("there is no room in /data; make some, then retry"))


class Cluster:
    """A store, an overlord whose attempts run when the test says so, and the rounds of compaction."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.ids = FakeClock(NOW_MS), SequentialIds()
        self.settings = Settings(
            store=str(folder / "store"),
            task_runner="in_process",
            safety_period_ms=FOREVER_MS,  # the overlord's upkeep runs beside the attempts
        )
        self.store = open_stamped(self.settings, clock=self.clock, ids=self.ids)
        self.metadata = open_records(settings=self.settings, clock=self.clock)
        self.service = CompactionService(self.metadata, self.clock)
        self.runners = {"in_process": FakeRunner()}
        self.tasks = open_tasks(settings=self.settings, runners=self.runners, clock=self.clock)
        self.loop = open_loop(settings=self.settings, runners=self.runners, clock=self.clock)
        self.fence = 1
        self.rounds = CompactionLoop(
            self.settings, self.runners, self.clock, fence=lambda: self.fence
        )

    def restart_rounds(self) -> None:
        self.rounds.close()
        self.rounds = CompactionLoop(self.settings, self.runners, self.clock)

    def run_attempts(
        self, between: Callable[[], None] = lambda: None, *, is_full: bool = False
    ) -> None:
        """Dispatch what is pending, and run it.

        Args:
            between: Called when a group is written and not yet published.
            is_full: There is no room for what is written.
        """
        self.loop.run_round()
        for attempt in self.tasks.live_attempts():
            try:
                run_task_attempt(
                    attempt.task_id,
                    attempt.number,
                    settings=self.settings,
                    clock=self.clock,
                    pipeline=lambda root, _ids: (
                        Full(root, clock=self.clock, ids=self.ids)
                        if is_full
                        else Halting(root, clock=self.clock, ids=self.ids, between=between)
                    ),
                )
            except CarnacError:
                continue  # it is written down
        self.loop.run_round()

    def close(self) -> None:
        self.rounds.close()
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
        cluster.service.put_spec(SPEC)
        yield cluster
        cluster.close()


def counts(cluster: Cluster) -> list[int]:
    return [chunk.entries for chunk in cluster.store.chunks("events")]


def wasted(cluster: Cluster) -> int:
    told = cluster.service.status().controller
    return 0 if told is None else told["bytes_wasted"]


def test_tasks_run_under_locks_and_chunks_become_stable(cluster: Cluster) -> None:
    before = read(cluster.store)
    cluster.rounds.run_round()
    submitted = cluster.tasks.list()
    assert {task.type for task in submitted} == {"compact"}
    assert len(submitted) == 2
    assert {task.priority for task in submitted} == {25}
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2, "nothing is submitted twice"
    cluster.run_attempts()
    assert [task.state for task in cluster.tasks.list()] == [TaskState.SUCCEEDED] * 2
    assert counts(cluster) == [1, 1]
    assert read(cluster.store) == before
    assert cluster.metadata.locks() == ()
    cluster.rounds.run_round()
    states = cluster.metadata.compaction_states("events")
    assert [state.status for state in states] == [ChunkStatus.STABLE] * 2


def test_a_task_that_has_no_slot_yet_says_so(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    cluster.rounds.run_round()
    told = cluster.service.status().controller
    assert told is not None
    assert [progress_text(one).partition(", ")[2] for one in told["running"]] == [
        "waits for a slot of the overlord"
    ] * 2
    reasons = [one.reason for one in cluster.service.plan("events").explain()]
    assert all("; task compaction-" in one and " is at work on it since" in one for one in reasons)


def test_a_leader_that_comes_back_adopts_what_runs(cluster: Cluster) -> None:
    cluster.service.remove_spec("events")
    cluster.rounds.run_round()
    cluster.service.put_spec(SPEC)
    with closing(CompactionLoop(cluster.settings, cluster.runners, cluster.clock)) as others:
        others.run_round()
    cluster.fence = 3
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2, "what the leader between them began is not begun again"


def test_another_leader_adopts_what_runs(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    cluster.restart_rounds()
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2, "what runs is not submitted again"
    cluster.run_attempts()
    cluster.rounds.run_round()
    assert counts(cluster) == [1, 1]
    assert OverlordRunner(cluster.tasks, cluster.ids).live() == []


def test_a_full_disk_is_not_tried_again_before_the_chunks_have_rested(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    cluster.run_attempts(is_full=True)
    assert {task.state for task in cluster.tasks.list()} == {TaskState.FAILED}
    assert all(len(cluster.tasks.attempts(one.task_id)) == 1 for one in cluster.tasks.list())
    cluster.rounds.run_round()
    states = cluster.metadata.compaction_states("events")
    assert {state.reason for state in states} == {
        "failed once: there is no room in /data; make some, then retry"
    }
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2
    cluster.clock.advance_ms(60_000)
    cluster.rounds.run_round()
    cluster.run_attempts()
    assert counts(cluster) == [1, 1]


def test_a_task_that_is_cancelled_rests_only_its_own_chunk(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    first, second = cluster.tasks.list()
    cluster.tasks.cancel(first.task_id)
    cluster.run_attempts()
    cluster.rounds.run_round()
    assert sorted(counts(cluster)) == [1, 4]
    assert cluster.tasks.get(second.task_id).state is TaskState.SUCCEEDED
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2, "whoever cancelled it does not want it again at once"
    cluster.clock.advance_ms(60_000)
    cluster.rounds.run_round()
    cluster.run_attempts()
    assert counts(cluster) == [1, 1]


def test_a_task_cancelled_in_the_middle_keeps_what_is_finished_and_says_what_was_wasted(
    cluster: Cluster,
) -> None:
    for number in range(4):
        append(cluster.store, (200 + number, 48), (300 + number, 72))
    before = read(cluster.store)
    cluster.service.put_spec({**SPEC, "smallTaskBytes": 1 << 30})
    cluster.rounds.run_round()
    (task,) = cluster.tasks.list()
    handed: list[int] = []

    def cancel_at_the_third() -> None:
        handed.append(len(cluster.metadata.locks()))
        if len(handed) == 3:
            cluster.rounds.run_round()
            cluster.tasks.cancel(task.task_id)

    cluster.run_attempts(cancel_at_the_third)
    assert handed[0] > 0, "it ran under locks"
    told = cluster.service.status().controller
    assert told is not None
    (running,) = told["running"]
    assert running["groups"] == 4
    assert progress_text(running).endswith(", 1 of 4 groups"), "as it said when it last published"
    assert cluster.tasks.get(task.task_id).state is TaskState.CANCELLED
    assert sorted(counts(cluster)) == [1, 1, 4, 4], "finished groups stay, the rest is given up"
    report: Any = cluster.tasks.report(task.task_id)
    assert report["groupCounts"] == {"committed": 2, "unchanged": 0, "conflict": 0, "failed": 1}
    assert report["groupsGivenUp"] == 1
    assert report["bytesWasted"] > 0
    assert wasted(cluster) == 0, "nobody has looked since"
    assert cluster.metadata.locks() == ()
    assert not cluster.tasks.live_attempts()
    assert read(cluster.store) == before
    live = {item.segment.path for item in cluster.store.segments("events")}
    dropped = {path for path in cluster.metadata.known_paths() if path not in live}
    assert files_of(Path(cluster.settings.store.get_secret_value())) == live | dropped, (
        "what was wasted is removed"
    )
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 1, "the rest rests"
    assert wasted(cluster) == report["bytesWasted"]
    cluster.restart_rounds()
    cluster.rounds.run_round()
    assert wasted(cluster) == report["bytesWasted"], "another leader goes on counting"
    reasons = [state.reason for state in cluster.metadata.compaction_states("events")]
    assert (
        sum(f"failed once: task {task.task_id} was cancelled" in reason for reason in reasons) == 1
    )
    cluster.clock.advance_ms(60_000)
    cluster.rounds.run_round()
    cluster.run_attempts()
    cluster.rounds.run_round()
    assert counts(cluster) == [1, 1, 1, 1]
    assert read(cluster.store) == before


@pytest.mark.slow
def test_a_task_whose_groups_all_lost_their_inputs_is_planned_anew_at_once_but_not_for_ever(
    cluster: Cluster,
) -> None:
    for turn in range(CONFLICTS_MAX + 1):
        cluster.rounds.run_round()
        tasks = cluster.tasks.list()[:2]
        assert [task.state for task in tasks] == [TaskState.PENDING] * 2, "no time has passed"
        cluster.store.delete("events", where=f"id = {turn}")  # a segment of each chunk
        cluster.run_attempts()
        ended = [cluster.tasks.get(task.task_id) for task in tasks]
        assert [task.attempts for task in ended] == [1, 1], "the same once more would be no use"
        assert all("plan again" in (task.error or "") for task in ended)
    cluster.rounds.run_round()
    assert len(cluster.tasks.list()) == 2 * (CONFLICTS_MAX + 1), "now it rests"
    states = cluster.metadata.compaction_states("events")
    assert {state.reason for state in states} == {
        "failed once: another writer took a segment away, 4 times in a row"
    }
    cluster.clock.advance_ms(60_000)
    cluster.rounds.run_round()
    cluster.run_attempts()
    cluster.rounds.run_round()
    assert counts(cluster) == [1, 1]
    states = cluster.metadata.compaction_states("events")
    assert [(state.status, state.failures) for state in states] == [(ChunkStatus.STABLE, 0)] * 2


def test_an_attempt_that_dies_is_followed_by_another_one_at_once(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    cluster.loop.run_round()
    died = cluster.tasks.live_attempts()
    for attempt in died:
        assert attempt.handle is not None
        cluster.runners["in_process"].alive[attempt.handle] = False
    cluster.loop.run_round()
    cluster.loop.run_round()
    again = cluster.tasks.live_attempts()
    assert [one.number for one in again] == [2] * len(died)
    for attempt in died:
        note_waste(cluster.metadata, attempt, 700)  # as the overlord does when it has cleared up
    cluster.run_attempts()
    cluster.rounds.run_round()
    assert counts(cluster) == [1, 1]
    assert wasted(cluster) == 700 * len(died), "of all attempts, not of the last one"


def test_a_chunk_whose_task_waits_for_locks_says_for_which(cluster: Cluster) -> None:
    cluster.rounds.run_round()
    cluster.rounds.run_round()
    cluster.loop.run_round()
    task = next(one for one in cluster.tasks.list() if one.attempts)
    groups: Any = cluster.tasks.payload(task.task_id)["groups"]
    day = Interval(*groups[0]["interval"])
    cluster.clock.advance_ms(1_000)
    for owner in ("replace-9", "replace-10", f"{task.task_id}/1"):
        cluster.metadata.change_locks(wants(owner, day))
    (mine,) = (one for one in cluster.service.plan("events").explain() if one.interval == day)
    assert mine.reason.endswith(
        f"; task {task.task_id} has waited since 2096-10-02T07:06:41Z for lock 1 of task replace-9, held since "
        "2096-10-02T07:06:41Z (without a sign of life it ends at 2096-10-02T07:07:41Z) and lock 3 of task replace-10, "
        "which waits before it, and gives up at 2096-10-02T07:11:41Z"
    )
    others = [one.reason for one in cluster.service.plan("events").explain() if one.interval != day]
    assert all(" is at work on it since " in reason for reason in others)
    cluster.clock.advance_ms(LEASE_MS)
    (mine,) = (one for one in cluster.service.plan("events").explain() if one.interval == day)
    assert "(its lease ended at 2096-10-02T07:07:41Z)" in mine.reason
    cluster.metadata.change_locks(ReleaseLocks(task_id="replace-9", lock_ids=None))
    cluster.metadata.change_locks(ReleaseLocks(task_id="replace-10", lock_ids=None))
    (mine,) = (one for one in cluster.service.plan("events").explain() if one.interval == day)
    assert "has waited" not in mine.reason


def test_what_waits_for_a_lock_and_is_no_compaction_is_not_told_of(cluster: Cluster) -> None:
    (chunk, *_) = cluster.metadata.chunks("events")
    for owner in ("replace-9", "replace-10"):
        cluster.metadata.change_locks(wants(owner, chunk.interval))
    reasons = [one.reason for one in cluster.service.plan("events").explain()]
    assert not any("has waited" in reason for reason in reasons)
