"""A statement whose rows are handed over as they come: what is in memory does not grow with the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from carnac.ports.threads import INTERRUPT_S
from carnac.query.intact import Interrupted
from carnac.query.results import explained, rows_of, with_longs
from carnac.query.streams.basis import basis_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.query.planning import Plan


class Running(Protocol):
    """A query of the engine, as far as its rows need it."""

    @property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The connection that DuckDB runs it on."""
        ...

    @property
    def stop(self) -> threading.Event:
        """Set once it is to stop."""
        ...

    def interrupt(self) -> None:
        """Stop it, whatever it does now."""
        ...


Q = TypeVar("Q", bound=Running)


class StreamedQuery:
    """A statement that is planned and, once started, hands over its rows as they come. To be closed.

    Args:
        planning: Gives the query and its plan; lives as long as the query.
        shown: Makes the views of a plan and keeps their files.

    Attributes:
        basis: What its answer rests on.
        kept: Of how many segments partial results were taken; known once it is started.
    """

    def __init__(
        self,
        sql: str,
        planning: AbstractContextManager[tuple[Q, Plan]],
        shown: Callable[[Q, Plan], AbstractContextManager[Plan]],
    ) -> None:
        self._steps = ExitStack()
        self._turn = threading.Lock()
        self._end = threading.Lock()
        self._is_over = threading.Event()
        self._is_left = threading.Event()
        self._rows: Iterator[pa.RecordBatch] = iter(())
        self._source: Generator[pa.RecordBatch, None, None] | None = None
        self._is_read = False
        self.kept = 0
        query, self._plan = self._steps.enter_context(planning)
        self._query: Running = query
        self._shown: AbstractContextManager[Plan] = shown(query, self._plan)
        with self._failing():
            self.basis = basis_of(query.cursor, sql, self._plan)

    def start(self) -> pa.Schema:
        """Run it; return the `pyarrow.Schema` of the rows. Once."""
        with self._computing():
            plan = self._steps.enter_context(self._shown)
            cursor = self._query.cursor
            self._require_going()
            if plan.is_explain:
                table = explained(cursor, plan)
                self._rows = iter(table.to_batches())
                return table.schema
            schema, rows = rows_of(cursor, plan)
            self._steps.callback(rows.close)
            self._source = rows
            schema, self._rows = with_longs(schema, rows)
            self.kept = plan.kept
            return schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as `pyarrow.RecordBatch`es, once, after `start`. Closed at the end, and by an error."""
        while True:
            with self._computing():
                batch = next(self._rows, None)
            if batch is None:
                self._is_read = True
                self.close()
                return
            yield batch

    def cancel(self) -> None:
        """Stop what runs: whoever waits for rows gets Unavailable. Returns at once. Idempotent."""
        if self._query.stop.is_set() or not self._interrupt():
            return

        def insist() -> None:  # DuckDB forgets what comes between two statements
            while not self._is_over.wait(INTERRUPT_S):
                self._interrupt()

        threading.Thread(target=insist, name="carnac-query-cancel", daemon=True).start()

    def close(self) -> None:
        """Stop what runs, and let go of files and memory: at once, or as soon as it heeds that. Idempotent."""
        self._is_left.set()
        if not self._turn.acquire(blocking=False):
            self.cancel()
            return  # whoever computes closes it
        try:
            if self._source is not None and not self._is_read:
                self.cancel()  # what computes ahead ends before its rows can be let go
                self._source.close()
            self._finish()
            self._rows = iter(())
            self._steps.close()
        finally:
            self._turn.release()

    def _interrupt(self) -> bool:
        """Interrupt it unless it is over, and may be closed; return whether it was not."""
        with self._end:
            if self._is_over.is_set():
                return False
            self._query.interrupt()
            return True

    def _finish(self) -> None:
        with self._end:
            self._is_over.set()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Have the turn until the block ends; close it then if that was asked for meanwhile."""
        try:
            with self._turn, self._failing():
                self._require_going()
                yield
        finally:
            if self._is_left.is_set():
                self.close()

    def _require_going(self) -> None:
        if self._query.stop.is_set() or self._is_over.is_set():
            raise Interrupted("the query was interrupted")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let what is raised end the query, and leave as an error of ours."""
        try:
            yield
        except BaseException as error:
            self._finish()
            if not self._steps.__exit__(type(error), error, error.__traceback__):
                raise
