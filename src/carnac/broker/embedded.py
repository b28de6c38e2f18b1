"""Statements in the engine of this process, over the files of one revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from carnac.errors import Corrupt, NotFound
from carnac.ports.answers import Engine, Reach, Statement

if TYPE_CHECKING:
    from carnac.core.access import DatasourcePatterns
    from carnac.ports import Catalog
    from carnac.ports.queries import QueryBasis
    from carnac.query.engine import QueryEngine
    from carnac.query.streams.streaming import StreamedQuery
    from carnac.store.leases import Reading

ATTEMPTS_MAX = 3
"""How often a statement is planned and started when its lease runs out meanwhile, as it does when a machine sleeps."""


class EmbeddedExecutor:
    """Runs statements in the engine of this process (`Executor`).

    Args:
        reading: Keeps the revision that `at` means readable until the block ends.
        catalog: Returns what a client may see of a revision.
        why: One sentence: why this engine.
    """

    def __init__(
        self,
        engine: Callable[[], QueryEngine],
        reading: Callable[[int | str | None], AbstractContextManager[Reading]],
        catalog: Callable[[int, DatasourcePatterns], Catalog],
        *,
        why: str,
    ) -> None:
        self._engine = engine
        self._reading = reading
        self._catalog = catalog
        self._why = why

    def open(self, statement: Statement, *, timeout_ms: int) -> EmbeddedExecution:
        """Plan a statement on the revision that it means."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            with ExitStack() as steps:
                reading = steps.enter_context(self._reading(statement.at))
                try:
                    query = self._engine().open_query(
                        statement.sql,
                        self._catalog(reading.head.revision, statement.client.datasources),
                        parameters=statement.parameters,
                        timeout_ms=timeout_ms,
                        keeping=statement.keeping,
                    )
                except (Corrupt, NotFound):
                    # without a gap in the lease this is what it says; with one, gc may have been faster
                    if reading.is_held() or attempt == ATTEMPTS_MAX:
                        raise
                    continue
                steps.callback(query.close)
                return EmbeddedExecution(query, reading.head.revision, self._why, steps.pop_all())
        raise AssertionError("unreachable")


class EmbeddedExecution:
    """A statement that the engine of this process has planned (`Execution`)."""

    engine = Engine.EMBEDDED

    def __init__(self, query: StreamedQuery, revision: int, why: str, steps: ExitStack) -> None:
        self.revision = revision
        self.why = why
        self._query = query
        self._steps = steps
        # the engine opens every file that it needs, or fails
        self.reach = Reach(segments_read=query.basis.segments_read, is_complete=True)

    @property
    def basis(self) -> QueryBasis:
        """The basis of its answer."""
        return self._query.basis

    def start(self) -> object:
        """Run it; return the schema of its rows."""
        schema = self._query.start()
        self.reach.segments_kept = self._query.kept
        return schema

    def describe(self) -> object:
        """Return the schema of its rows; nothing is run."""
        return self._query.describe()

    def batches(self) -> Iterator[object]:
        """Yield its rows."""
        return self._query.batches()

    def cancel(self) -> None:
        """Stop what runs; returns at once."""
        self._query.cancel()

    def close(self) -> None:
        """Stop what runs and let go of the revision. Idempotent."""
        self._steps.close()
