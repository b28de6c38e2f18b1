"""A statement whose rows are handed over as they come: the memory in use does not grow with the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from carnac.query.binding import bind, show_empty
from carnac.query.results import explained, gives_of, rows_of, with_longs
from carnac.query.streams.basis import basis_of

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.query.planning import Plan
    from carnac.query.running.query import RunningQuery


class StreamedQuery:
    """A statement that is planned and, once started, hands over its rows as they come. To be closed.

    Args:
        planning: Gives the query and its plan; lives as long as the query.
        shown: Makes the views of a plan and keeps their files.

    Attributes:
        basis: Basis of its answer: statement, revision, segments and lookups.
        kept: Of how many segments partial results were taken; known once it is started.
    """

    def __init__(
        self,
        sql: str,
        planning: AbstractContextManager[tuple[RunningQuery, Plan]],
        shown: Callable[[RunningQuery, Plan], AbstractContextManager[Plan]],
    ) -> None:
        self._steps = ExitStack()
        self._turn = threading.Lock()
        self._is_left = threading.Event()
        self._rows: Iterator[pa.RecordBatch] = iter(())
        self._source: Generator[pa.RecordBatch, None, None] | None = None
        self._is_read = False
        self.kept = 0
        self._query, self._plan = self._steps.enter_context(planning)
        self._shown = shown(self._query, self._plan)
        with self._failing():
            self.basis = basis_of(self._query.cursor, sql, self._plan)

    def start(self) -> pa.Schema:
        """Run it; return the `pyarrow.Schema` of the rows. Once."""
        with self._computing():
            plan = self._steps.enter_context(self._shown)
            cursor = self._query.cursor
            self._query.require_wanted()
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

    def describe(self) -> pa.Schema:
        """Return the schema of the rows, and run nothing; not of EXPLAIN. In the place of `start`."""
        with self._computing():
            cursor, plan = self._query.cursor, self._plan
            show_empty(cursor, plan.scans, plan.tables)
            found = bind(cursor, plan.sql, plan.parameters)
            columns = zip(found.names, found.types, strict=True)
            return gives_of(columns, (one.datasource for one in plan.scans))

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
        """Stop the statement: a thread that waits for rows gets Unavailable. Returns at once. Idempotent."""
        if not self._query.stop.is_set():
            self._query.insist()

    def close(self) -> None:
        """Stop the statement, and let go of files and memory, at once or as soon as it has stopped. Idempotent."""
        self._is_left.set()
        if not self._turn.acquire(blocking=False):
            self.cancel()
            return  # the thread that computes closes it
        try:
            if self._source is not None and not self._is_read:
                self.cancel()  # threads that compute ahead end before its rows can be let go
                self._source.close()
            self._query.end()
            self._rows = iter(())
            self._steps.close()
        finally:
            self._turn.release()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Have the turn until the block ends; close it then if that was asked for meanwhile."""
        try:
            with self._turn, self._failing():
                self._query.require_wanted()
                yield
        finally:
            if self._is_left.is_set():
                self.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let what is raised end the query, and leave as an error of ours."""
        try:
            yield
        except BaseException as error:
            self._query.end()
            if not self._steps.__exit__(type(error), error, error.__traceback__):
                raise
