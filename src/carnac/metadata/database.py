"""Differences between the databases: connections, the writers' queue, and what their errors mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from carnac.core.texts import first_line
from carnac.errors import CarnacError, Invalid, Unavailable
from carnac.metadata.session import Session

OnStatement = Callable[[str], None]

PATIENCE_MS = 60_000
"""How long a write waits for those of other processes: one that is stopped inside a transaction must not stop all."""


class Database(Protocol):
    """A database that holds a store.

    Attributes:
        is_far: Whether each statement travels to it, so that a commit takes as few of them as it can.
    """

    is_far: bool

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...

    def check_writable(self) -> None:
        """Refuse what is closed, and what was opened before this process was forked.

        Raises:
            Unavailable: The store is closed, or was opened before the fork; says what to do.
        """
        ...

    def read(self) -> AbstractContextManager[Session]:
        """Open a transaction that sees one state of the database."""
        ...

    def write(self, *, is_durable: bool = True) -> AbstractContextManager[Session]:
        """Open a transaction that nobody else writes during, in a fair order; rolls back unless committed.

        Args:
            is_durable: Whether a power cut may not take it back after its commit, and all that came before it.
        """
        ...

    def migrate_lock(self) -> AbstractContextManager[Session]:
        """Keep other processes from writing, in a transaction that is committed unless something is raised."""
        ...

    def purge(self) -> bool:
        """Write the files anew without what was deleted from them; return whether nothing of that is left."""
        ...

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means to a caller; None if it is not the driver's."""
        ...


class Opening:
    """A store that is open in a process. Its connections and locks are for one side of a fork.

    Args:
        shown: Name of the store for messages.

    Attributes:
        is_closed: Whether it was closed since.
    """

    def __init__(self, shown: object) -> None:
        self._shown = shown
        self._process = os.getpid()
        self.is_closed = False

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that opened it."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse a closed store; raises Unavailable."""
        if self.is_closed:
            raise Unavailable(f"the metadata store {self._shown} is closed; open it again")

    def check_writable(self) -> None:
        """Refuse a closed store, and writes of a child process; raises Unavailable."""
        self.check()
        if self.is_forked:
            raise Unavailable(
                f"the metadata store {self._shown} was opened before this process was forked; "
                "open it again in the child"
            )


@contextmanager
def translated(database: Database) -> Iterator[None]:
    """Raise what the driver raises inside as errors of the house."""
    try:
        yield
    except Exception as error:
        meant = meaning_of(database, error)
        if meant is error:
            raise
        raise meant from error


def meaning_of(database: Database, error: Exception) -> Exception:
    """Return the error of the house that a driver's error causes; others are what they are."""
    if isinstance(error, CarnacError):
        return error
    meant = (
        unfit_value(error)
        if isinstance(error, UnicodeEncodeError | OverflowError)
        else database.translate(error)
    )
    if meant is None:
        return error
    meant.__cause__ = error
    return meant


def is_refusal(error: BaseException) -> bool:
    """Whether a server has refused a statement and lives on: the transaction is not committed, whatever it was sent."""
    return getattr(getattr(error, "diag", None), "severity_nonlocalized", None) == "ERROR"


def unfit_value(error: Exception) -> Invalid:
    """Return what it means that a driver has no place for a value: half a character, or a number of too many digits."""
    return Invalid(f"something here holds what no database keeps: {first_line(error).rstrip('.')}")
