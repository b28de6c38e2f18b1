"""What differs between the databases: connections, the writers' queue, and what their errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sqlalchemy import Dialect, Engine

from carnac.errors import CarnacError, Unavailable
from carnac.metadata.session import Session

OnStatement = Callable[[str], None]

PATIENCE_MS = 60_000
"""How long a write waits for those of other processes: one that is stopped inside a transaction must not stop all."""


class Database(Protocol):
    """A database that holds a store."""

    @property
    def dialect(self) -> Dialect:
        """Compiles statements."""
        ...

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...

    def read(self) -> AbstractContextManager[Session]:
        """Open a transaction that sees one state of the database."""
        ...

    def write(self) -> AbstractContextManager[Writing]:
        """Open a transaction that nobody else writes during, in a fair order; rolls back unless committed."""
        ...

    def migrate_lock(self) -> AbstractContextManager[Engine]:
        """Keep other processes from writing; yields an engine for Alembic."""
        ...

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means to a caller; None if it is not the driver's."""
        ...


class Writing(Protocol):
    """A write transaction."""

    @property
    def session(self) -> Session:
        """Runs statements."""
        ...

    def commit(self) -> None:
        """Make it durable. If this raises, it may or may not have been."""
        ...


@contextmanager
def translated(database: Database) -> Iterator[None]:
    """Raise what the driver raises inside as errors of the house."""
    try:
        yield
    except CarnacError:
        raise
    except Exception as error:
        meant = database.translate(error)
        if meant is None:
            raise
        raise meant from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, for a message of one sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def driver_connection(engine: Engine) -> Any:
    """Return a connection of the pool; its `driver_connection` is the driver's own.

    Raises:
        Unavailable: The pool has none to give in time.
    """
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    try:
        return engine.raw_connection()
    except PoolTimeout as error:
        raise Unavailable(
            "all connections to the metadata store are in use; retry later"
        ) from error
