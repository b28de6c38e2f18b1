"""Executions of a statement, as the service of a broker sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from carnac.ports.answers import Engine, Reach, Statement
from carnac.ports.queries import QueryBasis


class Execution(Protocol):
    """A statement that is planned on one revision. To be closed; `cancel` and `close` by any thread."""

    @property
    def revision(self) -> int:
        """The one revision that is read; `start` may go back to an older one, if the statement allows it."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        ...

    @property
    def why(self) -> str:
        """One sentence: why that engine."""
        ...

    @property
    def basis(self) -> QueryBasis:
        """The basis of its answer."""
        ...

    @property
    def reach(self) -> Reach:
        """The part that it has reached; final once its batches are exhausted."""
        ...

    def start(self) -> object:
        """Run it; return the `pyarrow.Schema` of its rows. Once."""
        ...

    def describe(self) -> object:
        """Return the `pyarrow.Schema` of its rows, in the place of `start`: nothing is run. Not of EXPLAIN."""
        ...

    def batches(self) -> Iterator[object]:
        """Yield its rows as `pyarrow.RecordBatch`es, once, after `start`."""
        ...

    def cancel(self) -> None:
        """Stop what runs; returns at once."""
        ...

    def close(self) -> None:
        """Stop what runs and let go of the revision. Idempotent."""
        ...


class Either:
    """Plans statements with one of two executors (`Executor`).

    Args:
        is_first: Whether the first one is to plan, asked for each statement.
    """

    def __init__(self, first: Executor, second: Executor, is_first: Callable[[], bool]) -> None:
        self._first = first
        self._second = second
        self._is_first = is_first

    def open(self, statement: Statement, *, timeout_ms: int) -> Execution:
        """Plan a statement on the revision that it means."""
        chosen = self._first if self._is_first() else self._second
        return chosen.open(statement, timeout_ms=timeout_ms)


class Executor(Protocol):
    """Plans statements."""

    def open(self, statement: Statement, *, timeout_ms: int) -> Execution:
        """Plan a statement on the revision that it means.

        Args:
            timeout_ms: Time from now on after which it is stopped; 0: no limit.

        Raises:
            Invalid, NotFound, Unavailable, Corrupt: As `Broker.run`.
        """
        ...
