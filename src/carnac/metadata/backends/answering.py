"""Connections to PostgreSQL that are given up when the server says nothing more: one that hangs refuses nobody."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from psycopg import Connection, Error, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.generators import execute
from psycopg.pq import ExecStatus

DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""Limits of libpq, in seconds and (the last one) milliseconds, unless the URL has them."""
LOOK_S = 0.1
"""Between two looks whether the server has said something."""


class AnsweringConnection(Connection[Any]):
    """A connection that ends when its server is silent for longer than `tcp_user_timeout`, whoever is at fault.

    The kernel of a server whose processes hang goes on to acknowledge what it is sent, so that libpq waits for ever.

    Attributes:
        silence_max_ms: How long the server may say nothing while it is asked; 0: for ever.
        patience_ms: How much longer it may because it waits itself; None: for ever.
    """

    silence_max_ms = 0
    patience_ms: int | None = 0

    @classmethod
    def open(cls, url: str) -> AnsweringConnection:
        """Return a new connection, which commits each statement."""
        given = conninfo_to_dict(url)
        missing = {name: value for name, value in DEFAULTS.items() if name not in given}
        link = cls.connect(url, autocommit=True, **missing)  # type: ignore[arg-type]
        link.silence_max_ms = int((given | missing)["tcp_user_timeout"] or 0)
        return link

    def wait(self, gen: Any, interval: float = LOOK_S, **more: Any) -> Any:  # type: ignore[override]
        """Wait as psycopg does, and no longer than the server may be silent.

        Raises:
            OperationalError: It was silent for longer.
        """
        if self.patience_ms is None or not self.silence_max_ms:
            return super().wait(gen, interval, **more)
        limit_ms = self.silence_max_ms + self.patience_ms
        return super().wait(self._limited(gen, interval, limit_ms), interval, **more)

    def is_alive(self) -> bool:
        """Whether the server answers."""
        try:
            self.pgconn.send_query(b"")
            (result,) = self.wait(execute(self.pgconn))
        except Error:
            return False
        return bool(result.status == ExecStatus.EMPTY_QUERY)

    def _limited(self, gen: Any, interval: float, limit_ms: int) -> Generator[Any, Any, Any]:
        """Wait for what `gen` waits for. It is told `Ready.NONE` after each interval in which nothing came."""
        silent_ms = 0.0
        try:
            wanted = next(gen)
            while silent_ms <= limit_ms:
                ready = yield wanted
                silent_ms = 0.0 if ready else silent_ms + 1000 * interval
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
        self.pgconn.finish()
        raise OperationalError(f"it has said nothing for {limit_ms / 1000:g} s")
