"""A run that is interrupted ends: the strand that runs gives way before others are unwound."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from carnac.simulation.cluster.kernel import MAIN, Kernel, Process

SHORT_S, LONG_S = 0.01, 0.3


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Have SIGINT interrupt: who starts tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("ends", [False, True])
def test_ctrl_c_in_the_middle_of_a_step_unwinds_every_strand(ends: bool) -> None:
    kernel, unwound = Kernel(1), []
    process = Process("writer")

    def interrupted() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while not kernel.is_closing:  # the main thread's handler may take its time
            time.sleep(SHORT_S)
        if not ends:
            kernel.sleep(1)
        unwound.append("interrupted")

    def first() -> None:
        kernel.spawn(process, "interrupted", interrupted)
        try:
            kernel.sleep(100)
        finally:
            time.sleep(LONG_S)
            unwound.append("waiting")

    kernel.spawn(process, MAIN, first)
    with pytest.raises(KeyboardInterrupt):
        kernel.run(1000)
    kernel.close()
    assert "waiting" in unwound
    assert ("interrupted" in unwound) == ends
