"""Connections for reading SQLite, kept open between reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from carnac.errors import Unavailable

KEPT = 16
"""Connections kept open for the next read; up to as many more come and go."""
LENT = 32
"""Reads at one time."""
WAIT_S = 30.0


class ReaderPool:
    """Lends connections, the last one returned first: its cache is the warmest. Safe for threads.

    Args:
        connect: Opens a connection.
        check: Raises if a connection that comes back must not be lent again, nor its answer believed.
        wait_s: How long a read waits for one while `LENT` are lent.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        check: Callable[[apsw.Connection], None],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        self._connect = connect
        self._check = check
        self._wait_s = wait_s
        self._idle: deque[apsw.Connection] = deque()
        self._places = threading.BoundedSemaphore(LENT)
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """Lend a connection; what is open on it at the end is rolled back.

        Raises:
            Unavailable: There was none in time.
        """
        if not self._places.acquire(timeout=self._wait_s):
            raise Unavailable("all connections to the metadata store are in use; retry later")
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            self._places.release()

    def close(self) -> None:
        """Close the connections that are here; those that are lent are closed when they come back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _take_back(self, connection: apsw.Connection) -> None:
        is_sound = False
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._check(connection)
            is_sound = True
        finally:
            if is_sound and not self._is_closed and len(self._idle) < KEPT:
                self._idle.append(connection)
            else:
                connection.close()
