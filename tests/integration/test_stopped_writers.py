"""A process that is stopped (SIGSTOP) inside a transaction does not stop the others for good."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.core.tasks.model import Attempt, AttemptState, Task
from carnac.errors import Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.session import Session
from carnac.metadata.sql.dialects import statement
from carnac.metadata.sql.statements import PUT_SETTING
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.overlord.runners.process import ProcessRunner
from tests.freezing import state_of
from tests.integration.stopping_children import UNAVAILABLE
from tests.logs import append_of, day, segment
from tests.tasks import wants
from tests.waiting import until

pytestmark = pytest.mark.slow

SHORT_MS, LONG_MS = 300, 60_000
SOMETHING = 20_130_101
"""A lock of PostgreSQL that nobody but a test takes."""
WAITING = "SELECT count(*) FROM pg_locks WHERE objid = %s AND NOT granted"
CHILD = [sys.executable, "-m", "tests.integration.stopping_children"]


def open_writer(url: str, patience_ms: int) -> Any:
    return open_metadata(url, clock=SystemClock(), ids=RandomIds(), patience_ms=patience_ms)


@pytest.fixture
def start_child() -> Iterator[Any]:
    started: list[subprocess.Popen[bytes]] = []

    def start(url: str, patience_ms: int) -> subprocess.Popen[bytes]:
        open_writer(url, LONG_MS).close()  # so that the child finds tables
        child = subprocess.Popen([*CHILD, url, str(patience_ms)])
        started.append(child)
        until(lambda: state_of(child.pid) == "T", "a child that is stopped")
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


def wake(child: subprocess.Popen[bytes]) -> int:
    os.kill(child.pid, signal.SIGCONT)
    return child.wait(60)


def test_on_sqlite_others_are_told_whom_they_wait_for(tmp_path: Path, start_child: Any) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    child = start_child(url, LONG_MS)
    hasty, patient = open_writer(url, SHORT_MS), open_writer(url, LONG_MS)
    for _ in range(2):  # the second time somebody stands in the queue already
        with pytest.raises(Unavailable, match=rf"process {child.pid} on .* 0\.3 s") as caught:
            hasty.publish(append_of(segment("hasty", day(1))))
        assert str(caught.value.ids["writer"]).endswith(f"/{child.pid}")
    assert hasty.head().revision == 0, "reading goes on"
    assert wake(child) == 0
    patient.publish(append_of(segment("patient", day(1))))  # the one that gave up does not block
    until(lambda: has_published(hasty, "hasty"), "it soon enough for who is hasty")
    visible = {one.segment.segment_id for one in patient.visible("events")}
    assert visible == {"stopped", "patient", "hasty"}
    hasty.close()
    patient.close()


def has_published(store: Any, name: str) -> bool:
    """Publish a segment, if others let it; whether they did."""
    with contextlib.suppress(Unavailable):
        store.publish(append_of(segment(name, day(1))))
        return True
    return False


def test_a_writer_that_gave_up_can_be_closed_while_it_still_stands_in_the_queue(
    tmp_path: Path, start_child: Any
) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    child = start_child(url, LONG_MS)
    hasty, patient = open_writer(url, SHORT_MS), open_writer(url, LONG_MS)
    with pytest.raises(Unavailable):
        hasty.publish(append_of(segment("hasty", day(1))))
    hasty.close()
    waiting = threading.Thread(target=patient.publish, args=[append_of(segment("patient", day(1)))])
    waiting.start()
    assert wake(child) == 0
    waiting.join(60)
    assert patient.head().revision == 2
    patient.close()


@pytest.mark.sql
def test_on_postgresql_who_waits_in_vain_ends_who_is_stopped(
    postgresql_url: str, start_child: Any
) -> None:
    child = start_child(postgresql_url, LONG_MS)
    other = open_writer(postgresql_url, SHORT_MS)
    with pytest.raises(Unavailable, match=r"other writers have kept .* busy for 0\.3 s; retry"):
        other.publish(append_of(segment("hasty", day(1))))
    patient = open_writer(postgresql_url, LONG_MS)
    patient.publish(append_of(segment("other", day(1))))
    assert wake(child) == UNAVAILABLE
    assert {one.segment.segment_id for one in other.visible("events")} == {"other"}
    other.close()
    patient.close()


@pytest.mark.sql
def test_on_postgresql_a_writer_at_work_is_not_ended(postgresql_url: str) -> None:
    slow, hasty = open_writer(postgresql_url, LONG_MS), open_writer(postgresql_url, SHORT_MS)
    busy = statement(f"SELECT pg_advisory_xact_lock({SOMETHING})")

    def work(session: Session) -> None:
        session.rows(busy)
        session.run(PUT_SETTING, name="slow", value="done")

    working = threading.Thread(target=slow._write, args=[work])
    with psycopg.connect(postgresql_url) as blocker:
        blocker.execute("SELECT pg_advisory_xact_lock(%s)", [SOMETHING])
        working.start()
        until(lambda: blocker.execute(WAITING, [SOMETHING]).fetchone() != (0,), "a writer at work")
        with pytest.raises(Unavailable):
            hasty.publish(append_of(segment("hasty", day(1))))
    working.join(60)
    assert slow.settings()["slow"] == "done"
    slow.close()
    hasty.close()


class StoppingRunner(ProcessRunner):
    """Starts children that stop inside a transaction, in place of attempts."""

    def __init__(self, url: str, logs: Path) -> None:
        super().__init__(
            lambda *_: [url, str(LONG_MS)],
            environ=os.environ,
            spark_conf={},
            logs=logs,
            host=os.uname().nodename,
            grace_ms=100,
        )
        self.handles: list[str] = []

    def _program(self, *_: object) -> list[str]:
        return CHILD

    def start(self, task: Task, attempt: Attempt) -> str:
        self.handles.append(super().start(task, attempt))
        return self.handles[-1]

    def close(self) -> None:
        for handle in self.handles:
            self.stop(handle)
        super().close()


def test_an_overlord_ends_its_attempt_that_keeps_everybody_from_writing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.db"
    metadata, runner = open_writer(url, SHORT_MS), StoppingRunner(url, tmp_path)
    metadata.change_tasks(wants("t", retries=1))
    loop = OverlordLoop(
        metadata,
        SystemClock(),
        leader_id="leader",
        holder="test",
        runners={"process": runner},
        settings=LoopSettings(
            runner="process",
            capacity=1,
            lease_ms=LONG_MS,
            start_lease_ms=SHORT_MS,
            period_ms=50,
            upkeep_period_ms=10**9,
        ),
    )
    loop.start()
    try:
        until(lambda: len(runner.handles) > 1, "a second attempt, after the first was ended")
        assert not runner.is_alive(runner.handles[0])
        (first, *_) = metadata.attempts("t")
        assert first.state is AttemptState.LOST
    finally:
        loop.stop()
        runner.close()
        loop.close()
