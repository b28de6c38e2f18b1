"""An overlord that keeps a store compacted on Spark: its task, the Spark driver and it itself are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.compaction import open_compaction
from carnac.bootstrap.store import make_lockbox, open_records, open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.clock import SystemClock
from carnac.config import NICENESS, Settings
from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.tasks.model import Attempt, AttemptState
from carnac.overlord import TaskService
from carnac.overlord.runners.identity import parse_handle
from carnac.ports.tasks import TaskFilter
from tests import waiting
from tests.e2e.cli import append_rows
from tests.e2e.test_overlord import RunningOverlord
from tests.support.segments import Row

pytestmark = [pytest.mark.spark, pytest.mark.http, pytest.mark.slow, pytest.mark.timeout(600)]

DAYS, SEGMENTS = 3, 3
LEASE_MS = 4_000
until = partial(waiting.until, patience_s=240)
NAME = "flights"
SPEC = {
    "dataSource": NAME,
    "granularitySpec": {"segmentGranularity": "day"},
    "taskContext": {"retries": 9, "retryDelayMs": 10},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        store=str(tmp_path / "store"),
        lease_ttl_ms=LEASE_MS,
        retention_age_ms=0,
        retention_count=1,
        retention_daily=0,
        trash_period_ms=0,
        safety_period_ms=0,
    )


@pytest.fixture
def rows(settings: Settings) -> Counter[tuple[str, int]]:
    """Rows of three days, three segments each; the store is to keep itself compacted."""
    sent: Counter[tuple[str, int]] = Counter()
    for day in range(1, DAYS + 1):
        for number in range(SEGMENTS):
            some: list[Row] = [
                {"__time": f"2013-01-0{day}T{hour:02d}:00:00Z", "number": number * 100 + hour}
                for hour in range(4)
            ]
            sent.update((str(row["__time"]), int(str(row["number"]))) for row in some)
            append_rows(Path(settings.store.get_secret_value()), some, datasource=NAME)
    with open_compaction(settings=settings) as service:
        service.put_spec(SPEC)
    return sent


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[], RunningOverlord]]:
    """Start overlords; all are ended at the end, with what they have started."""
    started: list[RunningOverlord] = []

    def begin() -> RunningOverlord:
        started.append(
            RunningOverlord(
                Path(settings.store.get_secret_value()),
                CARNAC_COMPACTION_PERIOD_MS="100",
                CARNAC_SPARK_MASTER="local[1]",
            )
        )
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)
    with open_tasks(settings=settings) as tasks:
        for attempt in tasks.live_attempts():
            handle = parse_handle(attempt.handle or "")
            if handle is not None and Path(f"/proc/{handle.pid}").exists():
                os.killpg(handle.pid, signal.SIGKILL)


def running(tasks: TaskService, number: int) -> Attempt | None:
    """The n-th attempt at the compaction, once it is at work."""
    for task in tasks.list(TaskFilter(type="compact"), limit=10):
        for one in tasks.attempts(task.task_id):
            if (one.number, one.state) == (number, AttemptState.RUNNING) and one.handle:
                return one
    return None


def pid_of(attempt: Attempt) -> int:
    handle = parse_handle(attempt.handle or "")
    assert handle is not None
    return handle.pid


def driver_of(pid: int) -> int | None:
    """The process of the Spark driver that a process has started, once it is there."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid and re.search(rb"java\0", command):
                return int(entry.name)
    return None


def gives_way(pid: int | None) -> bool:
    """Whether a process gives way to others by as much as Spark does where nobody waits."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return pid is not None and os.getpriority(os.PRIO_PROCESS, pid) == min(own + NICENESS, 19)


def rewriting(tasks: TaskService, number: int) -> Attempt | None:
    """The n-th attempt, once Spark has begun to rewrite."""
    found = running(tasks, number)
    return found if found is not None and "rewrite" in (found.progress or "") else None


@pytest.mark.nightly("starts Spark for each attempt")
def test_task_driver_and_overlord_are_killed_and_the_chunks_become_stable(
    settings: Settings,
    rows: Counter[tuple[str, int]],
    start: Callable[[], RunningOverlord],
) -> None:
    overlord = start()
    with open_tasks(settings=settings) as tasks:
        attempt = until(lambda: running(tasks, 1), "the first attempt")
        os.kill(pid_of(attempt), signal.SIGKILL)
        attempt = until(lambda: rewriting(tasks, 2), "the second, after the first was killed")
        driver = until(lambda: driver_of(pid_of(attempt)), "its Spark driver")
        assert gives_way(driver)
        os.kill(driver, signal.SIGKILL)
        until(lambda: running(tasks, 3), "the third, after the driver of the second was killed")
        overlord.end(signal.SIGKILL)
        start()
        with open_compaction(settings=settings) as service:
            until(lambda: is_stable(service.status(NAME).states[NAME]), "stable chunks")
        until(lambda: not tasks.live_attempts(), "the end of all processes")
        assert all(task.state.is_over for task in tasks.list())
    check_nothing_is_left(settings, rows)


@pytest.mark.nightly("starts Spark twice more")
def test_compact_auto_is_killed_between_its_commits_and_started_again(
    settings: Settings, rows: Counter[tuple[str, int]]
) -> None:
    with open_compaction(settings=settings) as service:
        service.put_spec({**SPEC, "maxTaskBytes": 1, "smallTaskBytes": 0})
    metadata = open_records(settings=settings, clock=SystemClock())
    before = metadata.head().revision
    environ = {
        **os.environ,
        "CARNAC_LEASE_TTL_MS": str(LEASE_MS),
        "CARNAC_SPARK_MASTER": "local[1]",
    }
    auto = [
        sys.executable,
        "-m",
        "carnac",
        "compact",
        "--auto",
        "--store",
        settings.store.get_secret_value(),
    ]
    with subprocess.Popen(auto, env=environ, stderr=subprocess.DEVNULL) as process:
        until(lambda: metadata.head().revision > before, "the first commit")
        assert gives_way(driver_of(process.pid))
        process.kill()
    assert metadata.head().revision <= before + DAYS
    done = subprocess.run(
        [*auto, "--until-stable"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert metadata.head().revision == before + DAYS, "each chunk was compacted once"
    assert is_stable(metadata.compaction_states(NAME))
    metadata.close()
    check_nothing_is_left(settings, rows)


def is_stable(states: Any) -> bool:
    return len(states) == DAYS and all(
        (state.status, state.segments, state.failures) == (ChunkStatus.STABLE, 1, 0)
        for state in states
    )


def check_nothing_is_left(settings: Settings, rows: Counter[tuple[str, int]]) -> None:
    with open_store(settings=settings) as store:
        found = store.sql(
            f"SELECT strftime(__time, '%Y-%m-%dT%H:%M:%SZ') AS t, number FROM {NAME}"
        ).rows()
        assert Counter((row["t"], row["number"]) for row in found) == rows

        def is_clean() -> bool:
            store.gc()
            return list(store.verify()) == []

        until(is_clean, "a store without files of the killed, once their leases are over")
    clock = SystemClock()
    metadata = open_records(settings=settings, clock=clock)
    with make_lockbox(metadata, settings, clock) as lockbox:
        until(lambda: lockbox.explain() == (), "no locks, once their leases are over")
