"""Connections to PostgreSQL that are given up when the server says nothing more: one that hangs refuses nobody."""

from __future__ import annotations

import select
from collections.abc import Generator
from typing import Any

from psycopg import Connection, Error, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ConnectionTimeout
from psycopg.generators import execute
from psycopg.pq import ExecStatus

from carnac.ports.loops import LEAVING, LEAVING_S

DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""Limits of libpq, in seconds and (the last one) milliseconds, unless the URL has them."""
LEAVING_CONNECT_S = 2
"""Limit for a new connection while the process ends; libpq takes no less."""
LOOK_S = 0.1
"""Between two looks whether the server has said something."""


class AnsweringConnection(Connection[Any]):
    """A connection that ends when its server is silent for longer than `tcp_user_timeout`, whoever is at fault.

    The kernel of a server whose processes hang goes on to acknowledge what it is sent, so that libpq waits for ever. A
    process that ends waits for no more than `LEAVING_S`, and once.

    Attributes:
        was_silent: Whether a server was given up while the process ends, so that none is asked any more.
        silence_max_ms: How long the server may say nothing while it is asked; 0: for ever.
        patience_ms: How much longer it may because it waits itself; None: for ever.
    """

    was_silent = False
    silence_max_ms = 0
    patience_ms: int | None = 0

    @classmethod
    def open(cls, url: str) -> AnsweringConnection:
        """Return a new connection, which commits each statement."""
        given = conninfo_to_dict(url)
        more = {name: value for name, value in DEFAULTS.items() if name not in given}
        if LEAVING.is_set():
            more["connect_timeout"] = LEAVING_CONNECT_S
        if AnsweringConnection.was_silent:
            raise OperationalError("it said nothing before, and this process ends")
        try:
            link = cls.connect(url, autocommit=True, **more)  # type: ignore[arg-type]
        except ConnectionTimeout:
            cls._note_silence()
            raise
        link.silence_max_ms = int((given | more)["tcp_user_timeout"] or 0)
        return link

    def wait(self, gen: Any, interval: float = LOOK_S, **more: Any) -> Any:  # type: ignore[override]
        """Wait as psycopg does, and no longer than the server may be silent.

        Raises:
            OperationalError: It was silent for longer.
        """
        if self.patience_ms is None or not self.silence_max_ms:
            return super().wait(gen, interval, **more)
        return super().wait(self._limited(gen, interval, self.patience_ms), interval, **more)

    def is_alive(self) -> bool:
        """Whether the server answers."""
        try:
            self.pgconn.send_query(b"")
            (result,) = self.wait(execute(self.pgconn))
        except Error:
            return False
        return bool(result.status == ExecStatus.EMPTY_QUERY)

    def is_left(self) -> bool:
        """Whether the server has said something unasked, as one does that ends. It costs no question."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _limited(self, gen: Any, interval: float, patience_ms: int) -> Generator[Any, Any, Any]:
        """Wait for what `gen` waits for. It is told `Ready.NONE` after each interval in which nothing came."""
        silent_ms = 0.0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                wanted = gen.send(ready)
                if ready:  # nearly always, many times in a commit
                    silent_ms = 0.0
                    continue
                silent_ms += 1000 * interval
                if silent_ms > self._limit_ms(patience_ms):
                    break
        except StopIteration as end:
            return end.value
        self.pgconn.finish()
        self._note_silence()
        raise OperationalError(f"it has said nothing for {silent_ms / 1000:g} s")

    def _limit_ms(self, patience_ms: int) -> float:
        usual_ms = self.silence_max_ms + patience_ms
        return min(1000 * LEAVING_S, usual_ms) if LEAVING.is_set() else usual_ms

    @staticmethod
    def _note_silence() -> None:
        AnsweringConnection.was_silent = LEAVING.is_set()
