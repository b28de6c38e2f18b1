"""Locks between real processes that die, stop and wake up late, on both databases."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from carnac.clock import SystemClock
from carnac.core.locks.model import LockState
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord.lockbox import LONGEST_PAUSE_MS
from tests.forking import FORK
from tests.integration import lock_children as children
from tests.integration.metadata_children import KILLED_NOWHERE
from tests.locks import hours, wants
from tests.support.clock import FakeClock, SequentialIds

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    return cast("str", request.getfixturevalue("postgresql_url"))


def start_holder(url: str, step: str) -> tuple[Any, int, Any]:
    tell, go_on = FORK.Queue(), FORK.Queue()
    child = FORK.Process(target=children.hold_and_publish, args=(url, tell, go_on, step))
    child.start()
    return child, tell.get(timeout=60), go_on


@pytest.mark.parametrize("step", ["waiting", "held", "publishing", "published"])
def test_whoever_is_killed_blocks_for_one_lease(database_url: str, step: str) -> None:
    clock = FakeClock()
    store, box = children.lockbox_of(database_url, clock)
    child, pid, _ = start_holder(database_url, step)
    os.kill(pid, signal.SIGKILL)
    child.join()
    if step == "waiting":  # it died in the queue, before the next one, who must not wait for it
        box.release("first")
    lock = children.acquire(box, "next")
    lease_ms = children.SHORT_LEASE_MS
    assert lease_ms <= sum(clock.slept_ms) < lease_ms + LONGEST_PAUSE_MS
    assert lock.state is LockState.HELD
    assert store.head().revision == (step == "published"), "what is published stays so"
    assert store.check() == ()
    box.close()


@pytest.mark.parametrize("step", ["waiting", "held", "publishing"])
def test_whoever_is_stopped_and_wakes_late_does_not_publish(database_url: str, step: str) -> None:
    store, box = children.lockbox_of(database_url, FakeClock())
    child, pid, go_on = start_holder(database_url, step)
    children.stop_child(pid)
    if step == "waiting":
        box.release("first")
    lock = children.acquire(box, "next")
    go_on.put("go")
    children.wake_child(pid)
    child.join(60)
    assert child.exitcode == children.REFUSED
    assert store.head().revision == 0
    assert [one.lock.lock_id for one in box.explain() if one.lock.state is LockState.HELD] == [
        lock.lock_id
    ]
    box.close()


def test_processes_take_turns_and_never_hold_together(database_url: str) -> None:
    store, _ = children.lockbox_of(database_url, SystemClock())
    tell = FORK.SimpleQueue()
    count, tasks = 6, ["a", "b", "c"]
    processes = [
        FORK.Process(target=children.take_turns, args=(database_url, task, count, tell))
        for task in tasks
    ]
    for process in processes:
        process.start()
    told = [tell.get() for _ in range(2 * count * len(tasks))]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert told[::2] == told[1::2], "somebody was between"
    fences = [fence for fence, _ in told[::2]]
    assert fences == sorted(fences), "a lock granted later has a higher fence"
    assert len(set(fences)) == count * len(tasks)
    assert store.locks() == ()
    store.close()


@pytest.mark.timeout(300)
def test_killed_at_any_statement_an_event_happened_wholly_or_not(
    database_url: str, memory_store: MetadataStore
) -> None:
    store = open_metadata(database_url, clock=FakeClock(), ids=SequentialIds())
    store.change_locks(wants("low", hours(0, 24), priority=25))
    store.change_locks(wants("waits", hours(30), priority=25))
    before = store.locks()
    for request in (
        wants("low", hours(0, 24), priority=25),
        wants("waits", hours(30), priority=25),
    ):
        memory_store.change_locks(request)
    memory_store.change_locks(wants("high", hours(0, 24), priority=90))
    for statement in itertools.count(1):
        tell = FORK.SimpleQueue()
        child = FORK.Process(target=children.change_and_die, args=(database_url, statement, tell))
        child.start()
        child.join(60)
        verbs = [tell.get() for _ in range(statement) if not tell.empty()]
        if child.exitcode == KILLED_NOWHERE:
            break
        assert child.exitcode == -signal.SIGKILL
        assert store.locks() == before, f"killed before the last of {verbs}"
        assert store.check() == ()
    assert verbs[-1] == "COMMIT", "one child was killed with all but the commit done"
    assert {"INSERT", "UPDATE", "DELETE"} & set(verbs), "and others around a write"
    after = store.locks()
    assert len(set(after) - set(before)) >= 2, "half of the event would be seen"
    assert after == memory_store.locks(), "what the last child did, whole"
    store.close()
