"""Signs of life: keeps the locks of an attempt that runs, and tells at once when one is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from carnac.core.locks.model import Lock, LockState
from carnac.overlord.lockbox import Lockbox
from carnac.ports.loops import Loop, Wait

RENEWALS_IN_LEASE = 3

_log = logging.getLogger(__name__)


class LockKeeper:
    """Renews all locks of one owner from a daemon thread, which ends with the process.

    Where the database does not answer, the locks may live until the next try.

    Args:
        on_lost: Called once for each lock that was revoked, from the keeper's thread: the attempt should stop.
        wait: In place of waiting on the machine's clock, for tests; None: real time.
    """

    def __init__(
        self,
        lockbox: Lockbox,
        owner: str,
        *,
        on_lost: Callable[[Lock], None],
        wait: Wait | None = None,
    ) -> None:
        self._lockbox = lockbox
        self._owner = owner
        self._on_lost = on_lost
        self._told: set[int] = set()
        self._loop = Loop(
            "locks",
            self.renew_once,
            log=_log,
            period_ms=lockbox.lease_ms / RENEWALS_IN_LEASE,
            wait=wait,
        )

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the locks until the block ends, then give them back."""
        self._loop.start()
        try:
            yield
        finally:
            try:
                self._lockbox.release(self._owner)
            finally:
                self._loop.stop()

    def renew_once(self) -> None:
        """Give a sign of life."""
        for lock in self._lockbox.renew(self._owner):
            if lock.state is LockState.REVOKED and lock.lock_id not in self._told:
                self._told.add(lock.lock_id)
                self._on_lost(lock)
