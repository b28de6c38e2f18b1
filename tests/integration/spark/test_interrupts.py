"""Ctrl-C while Python talks to the JVM: wherever it falls, the job ends, the caller hears of it, and Spark goes on."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import py4j.clientserver
import py4j.java_gateway
import pytest

from carnac.clock import SystemClock
from carnac.spark.progress import Phase
from carnac.spark.session import SparkHolder
from carnac.spark.tasks import Attempt, run_tasks
from tests.waiting import until

CALLS = {
    call.__code__
    for call in (
        py4j.java_gateway.GatewayClient.send_command,
        py4j.java_gateway.GatewayClient._give_back_connection,
        py4j.clientserver.ClientServerConnection.send_command,
        py4j.clientserver.JavaClient._get_connection,
    )
}
"""What each call of the JVM goes through."""
MOMENTS = 10
PHASE, CLOCK = Phase(name="test", total=1), SystemClock()


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """As in a program that somebody started in a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Lines:
    """Counts the lines of `CALLS` that the main thread runs, and sends SIGINT to this process before one of them.

    Args:
        at: Before which; None: before none.
    """

    def __init__(self, at: int | None = None) -> None:
        self.count = 0
        self._at = at

    @property
    def is_sent(self) -> bool:
        return self._at is not None and self.count > self._at

    def __enter__(self) -> Lines:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        return self._look if frame.f_code in CALLS else None

    def _look(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self.count += 1
            if self.count - 1 == self._at:
                signal.raise_signal(signal.SIGINT)
        return self._look


def double(number: int, attempt: Attempt) -> int:
    del attempt
    return 2 * number


def run_until_killed(path: str, attempt: Attempt) -> int:
    """Say that the task runs, and never end."""
    del attempt
    Path(path).touch()
    threading.Event().wait()
    return 0


def test_wherever_ctrl_c_falls_it_is_what_the_caller_hears(spark_holder: SparkHolder) -> None:
    def run(lines: Lines) -> None:
        with lines:
            run_tasks(spark_holder, double, [1], phase=PHASE, clock=CLOCK)

    run(Lines())  # the first one is another
    run(whole := Lines())
    for at in range(0, whole.count, whole.count // MOMENTS):
        lines = Lines(at)
        try:
            run(lines)
        except KeyboardInterrupt:
            assert lines.is_sent
        else:
            assert not lines.is_sent, f"at line {at} of {whole.count} it was lost"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run_tasks(spark_holder, double, [1, 2], phase=PHASE, clock=CLOCK) == [2, 4]


def test_a_job_that_runs_is_cancelled(spark_holder: SparkHolder, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    def interrupt() -> None:
        until(runs.exists, "the task")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(spark_holder, run_until_killed, [str(runs)], phase=PHASE, clock=CLOCK)
    thread.join()
    tracker = spark_holder.session().sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), "the end of the job")
