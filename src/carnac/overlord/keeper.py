"""Signs of life: keeps the locks of running tasks, and tells at once when one is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from carnac.core.locks.model import Lock, LockState
from carnac.overlord.lockbox import Lockbox
from carnac.ports.loops import Loop, Wait, safely

RENEWALS_IN_LEASE = 3

_log = logging.getLogger(__name__)


class LockKeeper:
    """Renews the locks of this process's tasks from one daemon thread, which ends with the process.

    Args:
        wait: In place of waiting on the machine's clock, for tests; None: real time.
    """

    def __init__(self, lockbox: Lockbox, *, wait: Wait | None = None) -> None:
        self._lockbox = lockbox
        self._mutex = threading.Lock()
        self._tasks: dict[str, Callable[[Lock], None]] = {}
        self._told: set[int] = set()
        self._loop = Loop(
            "locks",
            self.renew_once,
            log=_log,
            period_ms=lockbox.lease_ms / RENEWALS_IN_LEASE,
            wait=wait,
        )

    @contextmanager
    def keeping(self, task_id: str, *, on_lost: Callable[[Lock], None]) -> Iterator[None]:
        """Keep all locks of a task until the block ends, then give them back.

        Args:
            on_lost: Called once for each lock that was revoked, from the keeper's thread: the task should stop.
        """
        with self._mutex:
            self._tasks[task_id] = on_lost
        self._loop.start()
        try:
            yield
        finally:
            with self._mutex:
                self._tasks.pop(task_id, None)
            self._lockbox.release(task_id)

    def renew_once(self) -> None:
        """Give a sign of life of every task."""
        with self._mutex:
            tasks = dict(self._tasks)
        for task_id, on_lost in tasks.items():
            # where the database does not answer now, the locks may live until the next try
            safely(
                _log, f"to keep the locks of {task_id!r}", partial(self._renew, task_id, on_lost)
            )

    def _renew(self, task_id: str, on_lost: Callable[[Lock], None]) -> None:
        for lock in self._lockbox.renew(task_id):
            if lock.state is LockState.REVOKED and lock.lock_id not in self._told:
                self._told.add(lock.lock_id)
                on_lost(lock)

    def close(self) -> None:
        """Stop the thread. What is held is given up when its lease ends. Idempotent."""
        self._loop.stop()
