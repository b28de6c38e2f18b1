from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from carnac.clock import SystemClock
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import Interval
from carnac.overlord.compactor.local import LocalRunner
from carnac.ports import JobProgress
from carnac.ports.compaction import GroupEnd, RunTerms
from tests.waiting import until

TASK = CompactionTask(
    task_id="t",
    datasource="events",
    datasource_priority=0,
    groups=(),
    chunks=(Interval(0, 1),),
    segments_out=1,
    gain=1,
    cost=1,
)
TERMS = RunTerms(priority=0, context={})


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run_for_ever(
    _groups: Sequence[CompactionGroup], on_progress: Callable[[JobProgress], None]
) -> Sequence[GroupEnd]:
    """Tell of progress again and again, as a Spark job does, until the listener says no."""
    pause = threading.Event()
    while True:
        on_progress(JobProgress(phase="rewrite", done=0, total=1))
        pause.wait(0.01)


def test_a_run_that_is_stopped_ends_with_an_error() -> None:
    told: list[str] = []
    runner = LocalRunner(
        run_for_ever, SystemClock(), tasks_max=1, on_stop=lambda: told.append("stop")
    )
    run_id = runner.start(TASK, TERMS)
    assert [run.run_id for run in runner.live()] == [run_id]
    runner.stop()
    runner.wait()
    [end] = runner.take_ended()
    assert (end.run_id, end.error) == (run_id, "the compaction was interrupted")
    assert told == ["stop"]
    runner.close()


def test_ctrl_c_while_it_closes_cancels_what_runs(ctrl_c: None) -> None:
    def interrupt() -> None:
        until(lambda: is_in(threading.main_thread(), "_wait_for_all"), "the main thread wait")
        os.kill(os.getpid(), signal.SIGINT)

    runner = LocalRunner(run_for_ever, SystemClock(), tasks_max=1)
    runner.start(TASK, TERMS)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        runner.close()
    thread.join()
    [end] = runner.take_ended()
    assert end.error == "the compaction was interrupted"


def is_in(thread: threading.Thread, function: str) -> bool:
    """Whether a thread has been called into a function and not come back."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None
