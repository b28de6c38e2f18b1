"""A compaction that is stopped (SIGSTOP) past its leases, with its files written: what it publishes then is refused.

Meanwhile another attempt, another controller or a replacement takes its place, or nobody, and garbage collection
comes by. Real processes, real files, leases in real time; no Spark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.compaction import open_compaction
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.clock import RandomIds, SystemClock
from carnac.core.tasks.model import AttemptState, TaskState
from carnac.ports import LeaseKind
from carnac.store import Store
from tests.freezing import freeze
from tests.integration.compaction_sleepers import ASLEEP, settings_of
from tests.support.pipeline import LocalPipeline
from tests.support.stores import open_local_store
from tests.support.tasks import FakeRunner
from tests.unit.store.events import Rows, append, fast_folder, files_of, read
from tests.unit.store.test_gc import replace
from tests.waiting import until

pytestmark = pytest.mark.slow
LONG = pytest.mark.nightly("sleeps until its lease is over")

LEASE_MS = 2_000
SEGMENTS = 5


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        yield Path(name) / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    """One time chunk of too many segments, that is to be compacted by itself."""
    clock, settings = SystemClock(), settings_of(folder, lease_ms=LEASE_MS)
    with open_local_store(folder, clock=clock, ids=RandomIds(), settings=settings) as store:
        for number in range(SEGMENTS):
            append(store, (number, number), (number + 10, number))
        with open_compaction(settings=settings) as service:
            service.put_spec(
                {"dataSource": "events", "granularitySpec": {"segmentGranularity": "day"}}
            )
        yield store


class Sleeping:
    """A child that sleeps with its files written."""

    def __init__(self, folder: Path, way: str, *args: str) -> None:
        module = "tests.integration.compaction_sleepers"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, way, str(folder), str(LEASE_MS), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().decode().strip() == ASLEEP
        until(lambda: freeze(self.process.pid, folder, inside=False), "a child that sleeps")

    def wake(self) -> dict[str, Any]:
        """Let it go on; return what it says when it has ended."""
        os.kill(self.process.pid, signal.SIGCONT)
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return dict(json.loads(out))


@pytest.fixture
def sleep(folder: Path) -> Iterator[Callable[..., Sleeping]]:
    started: list[Sleeping] = []

    def begin(way: str, *args: str) -> Sleeping:
        started.append(Sleeping(folder, way, *args))
        return started[-1]

    yield begin
    for one in started:
        with one.process:
            one.process.kill()


def check(store: Store, rows: Rows) -> None:
    """Every row is there once, in one segment, whose file is there."""
    assert read(store) == rows
    assert [chunk.entries for chunk in store.chunks("events")] == [1]
    assert list(store.verify()) == []


def collect(store: Store) -> None:
    """Have garbage collected: what is found is doomed, then deleted."""
    store.gc()
    store.gc()


def until_writers_are_forgotten(store: Store) -> None:
    """Wait until no writer's lease lives: those of the child that sleeps."""

    def are_forgotten() -> bool:
        return all(one.kind is not LeaseKind.WRITER for one in store.leases())

    until(are_forgotten, "the end of its leases")


@pytest.mark.parametrize(
    "meanwhile", ["another attempt", pytest.param("a replacement", marks=LONG)]
)
def test_an_attempt_that_slept_past_its_lease_publishes_nothing(
    store: Store, folder: Path, sleep: Callable[..., Sleeping], meanwhile: str
) -> None:
    settings, runners = settings_of(folder, lease_ms=LEASE_MS), {"in_process": FakeRunner()}
    tasks = open_tasks(settings=settings, runners=runners)
    loop = open_loop(settings=settings, runners=runners)
    context = {"retries": 3, "retryDelayMs": 0}
    rows, before = read(store), files_of(folder)
    task_id = tasks.submit({"type": "compact", "dataSource": "events", "context": context}).task_id
    loop.run_round()
    child = sleep("attempt", task_id, "1")
    (path,) = files_of(folder) - before
    written = (folder / "deep-storage" / path).stat().st_size

    def second() -> bool:
        loop.run_round()
        return [one.number for one in tasks.live_attempts()] == [2]

    until(second, "a second attempt, once the lease of the first was over")
    if meanwhile == "a replacement":
        replace(store, 3)
        rows = read(store)
    else:
        run_task_attempt(
            task_id,
            2,
            settings=settings,
            pipeline=lambda root, ids: LocalPipeline(root, clock=SystemClock(), ids=ids),
        )
    head = store.head().revision
    told = child.wake()
    assert store.head().revision == head, "who slept publishes nothing"
    assert told["kind"] == "revoked"
    assert told["errors"] == [f"attempt 1 of task {task_id} has no right to publish any more; stop"]
    first, *_ = tasks.attempts(task_id)
    assert first.state is AttemptState.LOST
    report: Any = tasks.report(task_id, 1)
    assert report["bytesWasted"] == written
    assert path not in files_of(folder)
    if meanwhile == "another attempt":
        loop.run_round()
        assert tasks.get(task_id).state is TaskState.SUCCEEDED
    check(store, rows)
    loop.close()
    tasks.close()


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param("another controller", marks=LONG),
        "a replacement",
        pytest.param("nobody", marks=LONG),
    ],
)
def test_a_controller_alone_that_slept_past_its_lease_publishes_nothing_of_then(
    store: Store, folder: Path, sleep: Callable[..., Sleeping], meanwhile: str
) -> None:
    rows, before = read(store), files_of(folder)
    child = sleep("alone")
    (path,) = files_of(folder) - before
    written = (folder / "deep-storage" / path).stat().st_size
    until_writers_are_forgotten(store)
    if meanwhile == "another controller":
        store.compact_interval("events")
    elif meanwhile == "a replacement":
        replace(store, 3)
        rows = read(store)
    collect(store)
    assert path not in files_of(folder), "its lease was over: what it wrote is garbage"
    told = child.wake()
    (error,) = told["errors"]
    assert error.startswith(("lease ", "writer lease ")), "whether it asks first or publishes"
    assert error.endswith(("; start anew", "; nothing was published: run the job again"))
    assert told["bytes_wasted"] == written
    if meanwhile == "nobody":
        assert (told["resting"], len(store.segments("events"))) == (1, SEGMENTS)
        store.compact_interval("events")
    check(store, rows)
