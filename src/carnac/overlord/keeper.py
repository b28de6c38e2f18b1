"""Signs of life: keeps the locks of running tasks, and tells at once when one is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from carnac.core.locks.model import Lock, LockState
from carnac.errors import CarnacError
from carnac.overlord.lockbox import Lockbox

Wait = Callable[[float], bool]
"""Waits for so many seconds; True: the keeper is closing."""
RENEWALS_IN_LEASE = 3


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
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._renewer: threading.Thread | None = None

    @contextmanager
    def keeping(self, task_id: str, *, on_lost: Callable[[Lock], None]) -> Iterator[None]:
        """Keep all locks of a task until the block ends, then give them back.

        Args:
            on_lost: Called once for each lock that was revoked, from the keeper's thread: the task should stop.
        """
        with self._mutex:
            self._tasks[task_id] = on_lost
            if self._renewer is None:
                self._renewer = threading.Thread(
                    target=self.run_renewals, name="carnac-locks", daemon=True
                )
                self._renewer.start()
        try:
            yield
        finally:
            with self._mutex:
                self._tasks.pop(task_id, None)
            self._lockbox.release(task_id)

    def run_renewals(self) -> None:
        """Renew what is kept, three times in a lease, until the keeper is closed."""
        while not self._wait(self._lockbox.lease_ms / 1000 / RENEWALS_IN_LEASE):
            self.renew_once()

    def renew_once(self) -> None:
        """Give a sign of life of every task."""
        with self._mutex:
            tasks = dict(self._tasks)
        for task_id, on_lost in tasks.items():
            try:
                locks = self._lockbox.renew(task_id)
            except CarnacError:
                continue  # the database does not answer now: the locks may live until the next try
            for lock in locks:
                if lock.state is LockState.REVOKED and lock.lock_id not in self._told:
                    self._told.add(lock.lock_id)
                    on_lost(lock)

    def close(self) -> None:
        """Stop the thread. What is held is given up when its lease ends. Idempotent."""
        self._stop.set()
        if self._renewer is not None and self._renewer is not threading.current_thread():
            self._renewer.join()
