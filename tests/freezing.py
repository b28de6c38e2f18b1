"""Freezing other processes: where they stand in a transaction on SQLite, or between two."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from tests.waiting import until

QUEUE = "metadata.db.lock"
"""The file below a store's folder whose lock a process holds inside a transaction."""


def state_of(pid: int) -> str:
    """Return the letter by which the kernel says what a process does: T if it is stopped."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0]


def freeze(pid: int, store: Path, *, inside: bool) -> bool:
    """Stop a process; let it go on if it does not stand inside of a transaction, or outside of all, as it should.

    Any thread of a process may write, and one that is stopped with the lock keeps everybody waiting.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "a process that is stopped", period_s=0.001)
    if is_inside(pid, store) == inside:
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def is_inside(pid: int, store: Path) -> bool:
    """Whether a process that is stopped holds the writers' lock."""
    with (store / QUEUE).open("rb") as queue:
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return queue.read().strip().endswith(f"/{pid}".encode())
    return False
