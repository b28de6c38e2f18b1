"""A query that runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.query.intact import Interrupted

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, eq=False)
class RunningQuery:
    """A query that runs: what DuckDB does for it, and what is done for it before."""

    cursor: duckdb.DuckDBPyConnection
    stop: threading.Event = field(default_factory=threading.Event)
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def interrupt(self) -> None:
        """Stop it, whatever it does now."""
        self.stop.set()
        self.cursor.interrupt()

    def cancel(self) -> None:
        """Stop it, because nobody wants its answer."""
        self.is_cancelled.set()
        self.interrupt()

    def require_wanted(self) -> None:
        """Raise Interrupted once it is to stop."""
        if self.stop.is_set():
            raise Interrupted("the query was interrupted")
