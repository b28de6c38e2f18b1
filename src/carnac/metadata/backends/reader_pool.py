"""Connections for reading, kept open between reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from carnac.errors import Unavailable

KEPT = 16
"""Connections kept open for the next read; up to as many more come and go."""
LENT = 32
"""Reads at one time."""
WAIT_S = 30.0


class _Closable(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Closable)


class ReaderPool(Generic[Connection]):
    """Lends connections, the last one returned first: its cache is the warmest. Safe for threads.

    Args:
        connect: Opens a connection.
        reset: Rolls back the open transaction of a connection that comes back. It raises if the connection must not be
            lent again, nor its answer believed.
        is_alive: Whether an idle connection can still be lent.
        wait_s: Time that a read waits for a connection while `LENT` are lent.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        reset: Callable[[Connection], None],
        *,
        is_alive: Callable[[Connection], bool] = lambda _: True,
        wait_s: float = WAIT_S,
    ) -> None:
        self._connect = connect
        self._reset = reset
        self._is_alive = is_alive
        self._wait_s = wait_s
        self._idle: deque[Connection] = deque()
        self._places = threading.BoundedSemaphore(LENT)
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection; a transaction that is open on it at the end is rolled back.

        Raises:
            Unavailable: No connection was free in time.
        """
        if not self._places.acquire(timeout=self._wait_s):
            raise Unavailable("all connections to the metadata store are in use; retry later")
        try:
            connection = self._take()
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

    def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if self._is_alive(connection):
                return connection
            connection.close()
        return self._connect()

    def _take_back(self, connection: Connection) -> None:
        is_sound = False
        try:
            self._reset(connection)
            is_sound = True
        finally:
            if is_sound and not self._is_closed and len(self._idle) < KEPT:
                self._idle.append(connection)
            else:
                connection.close()
