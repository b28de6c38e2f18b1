"""Tasks between real processes that die and stop: overlords and attempts, on SQLite. No Spark: they delete."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import make_lockbox, open_records, open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.core.ids import bears_mark, mark_of
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.tasks.model import Attempt, AttemptState, TaskState
from carnac.core.time.intervals import ETERNITY
from carnac.overlord import Lockbox, TaskService
from tests.freezing import freeze
from tests.integration.task_children import DIES_AFTER_PUBLISHING, run_overlord
from tests.locks import wants
from tests.support.segments import write_segment
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

SPAWN = multiprocessing.get_context("spawn")
LEASE_MS = 3_000
GONE = "the process of attempt {} ended without a word; carnac task log says what it wrote"
"""What is said of one that is known to be gone, for which nobody waits a lease."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    chosen = Settings(
        store=str(tmp_path / "store"),
        lease_ttl_ms=LEASE_MS,
        overlord_period_ms=100,
        task_stop_grace_ms=500,
        task_runner="process",
    )
    with open_store(create=True, settings=chosen) as store:
        row = {"__time": "2013-01-01T12:00:00Z", "carrier": "AA"}
        segment = write_segment(store.deep_storage, [row], datasource="flights")
        change = Change(datasource="flights", adds=(segment,))
        store._metadata.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    return chosen


@pytest.fixture
def tasks(settings: Settings) -> Iterator[TaskService]:
    with open_tasks(settings=settings) as service:
        yield service


@pytest.fixture
def lockbox(settings: Settings) -> Iterator[Lockbox]:
    """For somebody who holds the chunk, so that attempts wait for it."""
    clock = SystemClock()
    box = make_lockbox(open_records(settings=settings, clock=clock), settings, clock)
    request = wants("somebody", ETERNITY, datasource="flights", priority=90)
    box.acquire(replace(request, lease_ms=3_600_000))
    yield box
    box.close()


@pytest.fixture
def start_overlord(settings: Settings) -> Iterator[Callable[..., Any]]:
    started: list[Any] = []

    def start(**options: Any) -> Any:
        child = SPAWN.Process(target=run_overlord, args=(settings.model_dump(),), kwargs=options)
        child.start()
        started.append(child)
        return child

    yield start
    for child in started:
        child.terminate()
        child.join(PATIENCE_S)
        assert child.exitcode is not None, "an overlord that does not end"


def running(tasks: TaskService, task_id: str, number: int) -> Attempt | None:
    """The attempt, once it has said that it is there and its handle is known."""
    for one in tasks.attempts(task_id):
        if one.number == number and one.state is AttemptState.RUNNING and one.handle is not None:
            return one
    return None


def pid_of(attempt: Attempt) -> int:
    assert attempt.handle is not None
    return int(attempt.handle.split("/")[1])


def check_given_up(attempt: Attempt, how: signal.Signals) -> None:
    """An attempt that was killed is known to be gone; one that was frozen is given up after its lease.

    Frozen in a transaction, it is woken to end when others have waited for a lease, and may say so itself.
    """
    if how == signal.SIGKILL:
        assert (attempt.state, attempt.error) == (AttemptState.LOST, GONE.format(attempt.number))
    elif attempt.state is AttemptState.LOST and attempt.error != GONE.format(attempt.number):
        assert attempt.ended_at_ms is not None
        assert attempt.heartbeat_at_ms + LEASE_MS <= attempt.ended_at_ms
    else:
        assert attempt.state in {AttemptState.LOST, AttemptState.FAILED}


def test_whoever_dies_the_task_is_done_once(
    settings: Settings,
    tasks: TaskService,
    lockbox: Lockbox,
    start_overlord: Callable[[], Any],
) -> None:
    first, second = start_overlord(), start_overlord()
    task_id = tasks.submit(
        {
            "type": "delete",
            "dataSource": "flights",
            "interval": "2013-01-01/2013-01-02",
            "context": {"retries": 9, "retryDelayMs": 10},
        }
    ).task_id

    attempt = until(lambda: running(tasks, task_id, 1), "the first attempt")
    for number, how in ((1, signal.SIGKILL), (2, signal.SIGSTOP)):
        os.kill(pid_of(attempt), how)
        attempt = until(
            lambda number=number: running(tasks, task_id, number + 1), "another, after it is gone"
        )
        check_given_up(tasks.attempts(task_id)[number - 1], how)

    leader = until(tasks.leader, "a leader")
    by_pid = {str(child.pid): child for child in (first, second)}
    died = by_pid[leader.holder.split("process ")[1].split(" on ")[0]]
    died.kill()
    died.join()
    dead = tasks.leader()
    next_id = tasks.submit({"type": "delete", "dataSource": "flights", "where": "TRUE"}).task_id
    heir = until(
        lambda: (now := tasks.leader()) and now.fence > leader.fence and now, "another leader"
    )
    assert heir.leader_id != leader.leader_id
    assert dead is None or dead.heartbeat_at_ms + LEASE_MS <= heir.since_ms
    until(lambda: tasks.attempts(next_id), "the first task that the heir starts")
    tasks.cancel(next_id)
    still = tasks.attempts(task_id)[-1]
    assert (still.number, still.state) == (attempt.number, AttemptState.RUNNING), "it lives on"

    lockbox.release("somebody")
    task = until(lambda: (now := tasks.get(task_id)).state.is_over and now, "the end")
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)
    with open_store(settings=settings) as store:
        assert [str(commit.kind) for commit in store.log()] == ["delete", "append"]
        batch = f"{task_id}#{task.number}"
        assert (store.show().writer, store.show().batch) == ("task", batch)
        assert store.datasources() == ()
    assert lockbox.explain() == ()
    until(lambda: not tasks.live_attempts(), "all processes settled")
    assert tasks.log(task_id) is not None


APPEND: dict[str, Any] = {
    "type": "index_parallel",
    "spec": {
        "datasource": "flights",
        "input": {"type": "inline", "data": "{}"},
        "timestamp": {"column": "__time"},
        "dimensions": ["carrier"],
        "granularity": {"segmentGranularity": "day"},
        "mode": "append",
    },
    "context": {"retries": 9, "retryDelayMs": 10},
}


def files_of(settings: Settings, attempt: Attempt) -> list[str]:
    """What the attempt has in deep storage."""
    is_its = bears_mark(mark_of(attempt.task_id, attempt.number, attempt.created_at_ms))
    folder = Path(settings.store.get_secret_value()) / "deep-storage"
    return [str(path) for path in folder.rglob("*.parquet") if is_its(str(path))]


def test_what_a_dead_attempt_wrote_is_collected(
    settings: Settings,
    tasks: TaskService,
    lockbox: Lockbox,
    start_overlord: Callable[..., Any],
) -> None:
    start_overlord(has_writers=True)
    task_id = tasks.submit(APPEND).task_id
    for number, how in ((1, signal.SIGKILL), (2, signal.SIGSTOP)):
        attempt = until(lambda number=number: running(tasks, task_id, number), "an attempt")
        until(lambda attempt=attempt: files_of(settings, attempt), "a file, not published yet")
        until(lambda: len(lockbox.explain()) == 2, "it waiting for the lock, to publish")
        os.kill(pid_of(attempt), how)
        until(lambda attempt=attempt: not files_of(settings, attempt), "the end of its files")
        check_given_up(tasks.attempts(task_id)[number - 1], how)
        assert attempt.lock_owner not in {one.lock.task_id for one in lockbox.explain()}
    until(lambda: running(tasks, task_id, 3), "the third")
    lockbox.release("somebody")
    task = until(lambda: (now := tasks.get(task_id)).state.is_over and now, "the end")
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)
    assert carriers(settings) == ["AA", "BB"]
    assert len(files_of(settings, tasks.attempts(task_id)[2])) == 1


def test_what_a_dead_attempt_has_published_is_kept(
    settings: Settings, tasks: TaskService, start_overlord: Callable[..., Any]
) -> None:
    start_overlord(has_writers=True)
    tasks.submit({**APPEND, "id": DIES_AFTER_PUBLISHING})
    task = until(lambda: (now := tasks.get(DIES_AFTER_PUBLISHING)).state.is_over and now, "the end")
    first, second = tasks.attempts(DIES_AFTER_PUBLISHING)
    assert (first.state, second.state) == (AttemptState.LOST, AttemptState.SUCCEEDED)
    assert (task.state, tasks.report(DIES_AFTER_PUBLISHING)["isReplay"]) == (  # type: ignore[index]
        TaskState.SUCCEEDED,
        True,
    )
    until(lambda: not tasks.live_attempts(), "all processes settled, and cleared up after")
    assert len(files_of(settings, first)) == 1
    assert carriers(settings) == ["AA", "BB"]


@pytest.mark.spark
@pytest.mark.nightly("starts Spark once more")
def test_of_a_spark_driver_that_is_killed_nothing_is_left(
    settings: Settings,
    tasks: TaskService,
    lockbox: Lockbox,
    start_overlord: Callable[..., Any],
) -> None:
    start_overlord()
    data = '{"__time": "2013-01-01T13:00:00Z", "carrier": "BB"}'
    spec = {**APPEND["spec"], "input": {"type": "inline", "data": data}}
    task_id = tasks.submit({**APPEND, "spec": spec}).task_id
    attempt = until(lambda: running(tasks, task_id, 1), "the attempt")
    until(lambda: files_of(settings, attempt), "a file that Spark wrote")
    until(lambda: len(lockbox.explain()) == 2, "it waiting for the lock, to publish")
    assert len(group_of(pid_of(attempt))) > 1, "its Java is there"
    os.kill(pid_of(attempt), signal.SIGKILL)
    until(lambda: not files_of(settings, attempt), "the end of its files")
    until(lambda: not group_of(pid_of(attempt)), "the end of its Java")
    until(lambda: tasks.attempts(task_id)[1:], "another attempt")
    tasks.cancel(task_id)
    until(lambda: not tasks.live_attempts(), "the end of that one")
    assert [one.lock.task_id for one in lockbox.explain()] == ["somebody"]
    assert carriers(settings) == ["AA"]


def group_of(leader: int) -> list[int]:
    """The processes of a process group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def carriers(settings: Settings) -> list[str]:
    with open_store(settings=settings) as store:
        return [
            row["carrier"] for row in store.sql("SELECT carrier FROM flights ORDER BY 1").rows()
        ]


def test_a_cancelled_attempt_ends_and_frees_its_place_in_the_queue(
    tasks: TaskService, lockbox: Lockbox, start_overlord: Callable[[], Any]
) -> None:
    start_overlord()
    task_id = tasks.submit({"type": "delete", "dataSource": "flights", "where": "TRUE"}).task_id
    attempt = until(lambda: running(tasks, task_id, 1), "the attempt")
    until(lambda: len(lockbox.explain()) == 2, "it waiting for the lock")
    assert tasks.cancel(task_id).state is TaskState.CANCELLED
    assert [one.lock.task_id for one in lockbox.explain()] == ["somebody"]
    until(lambda: not _is_there(pid_of(attempt)), "the end of its process")


def _is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.nightly("waits for leases")
def test_an_attempt_that_is_frozen_inside_a_transaction_is_ended_and_another_one_does_it(
    settings: Settings,
    tasks: TaskService,
    lockbox: Lockbox,
    start_overlord: Callable[..., Any],
) -> None:
    start_overlord()
    start_overlord()
    task_id = tasks.submit(
        {
            "type": "delete",
            "dataSource": "flights",
            "interval": "2013-01-01/2013-01-02",
            "context": {"retries": 9, "retryDelayMs": 10},
        }
    ).task_id
    attempt = until(lambda: running(tasks, task_id, 1), "the first attempt")
    store = Path(settings.store.get_secret_value())
    until(
        lambda: freeze(pid_of(attempt), store, inside=True),
        "it inside a transaction",
        period_s=0.001,
    )
    until(lambda: running(tasks, task_id, 2), "the second attempt")
    check_given_up(tasks.attempts(task_id)[0], signal.SIGSTOP)
    lockbox.release("somebody")
    task = until(lambda: (now := tasks.get(task_id)).state.is_over and now, "the end")
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)
