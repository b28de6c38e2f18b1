"""The processor of a simulation: of its threads one runs at a time, and to wake the next one elsewhere takes longer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TASKS = Path("/proc/self/task")
"""Where Linux lists the threads of this process."""
PROCESSOR_PLACE = 36
"""In a thread's `stat`, counted behind its name: the processor that it runs on."""


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread, and those that it starts, on the processor that it runs on; only Linux can.

    Threads of libraries that begin inside and stay may run everywhere again afterwards.
    """
    if sys.platform != "linux":
        yield
        return
    allowed = os.sched_getaffinity(0)
    here = {_processor()}
    if len(allowed) == 1 or not here <= allowed:
        yield
        return
    os.sched_setaffinity(0, here)
    try:
        yield
    finally:
        for task in TASKS.iterdir():
            with suppress(OSError):  # it has just ended
                if os.sched_getaffinity(int(task.name)) == here:
                    os.sched_setaffinity(int(task.name), allowed)


def _processor() -> int:
    told = Path("/proc/thread-self/stat").read_text(encoding="utf-8", errors="replace")
    return int(told.rpartition(")")[2].split()[PROCESSOR_PLACE])
