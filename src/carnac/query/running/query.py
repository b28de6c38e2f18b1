"""A query that runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.ports.threads import GRACE_MS, INTERRUPT_S
from carnac.query.intact import Interrupted

if TYPE_CHECKING:
    import duckdb


_TOLD_MAX = int(GRACE_MS / 1000 / INTERRUPT_S)


@dataclass(slots=True, eq=False)
class RunningQuery:
    """A query that runs: what DuckDB does for it, and what is done for it before.

    Attributes:
        connection: Whose cursor it has.
        limit_ms: After which it is stopped; None: never.
        thread: The thread that has begun it.
        told: How often it was told to stop, `INTERRUPT_S` apart.
    """

    cursor: duckdb.DuckDBPyConnection
    connection: duckdb.DuckDBPyConnection
    limit_ms: int | None
    thread: int = field(default_factory=threading.get_ident)
    told: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def interrupt(self) -> None:
        """Stop it, whatever it does now."""
        self.stop.set()
        self.told += 1
        self.cursor.interrupt()

    @property
    def is_stuck(self) -> bool:
        """Whether it does not heed that it is stopped: one function computes over one huge value."""
        return self.told > _TOLD_MAX

    def cancel(self) -> None:
        """Stop it, because nobody wants its answer."""
        self.is_cancelled.set()
        self.interrupt()

    def require_wanted(self) -> None:
        """Raise Interrupted once it is to stop."""
        if self.stop.is_set():
            raise Interrupted("the query was interrupted")
