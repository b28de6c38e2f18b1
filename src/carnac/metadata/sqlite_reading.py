"""SQLite where nothing may be written: a read-only file system, or files of somebody else.

Beside the file of a store that is at work lie its write-ahead log and the index of that, and SQLite reads all three: so
it sees what others commit. Without an index nobody is at work, and SQLite could not make one here. So it is told that
nothing changes, and locks nothing; and what it is told is watched: if somebody has written by the end of a read, the
read is no answer.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import quote

from carnac.errors import CarnacError, ReadOnly, Unavailable
from carnac.metadata.reader_pool import ReaderPool
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sqlite import READER_PRAGMAS, translate

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from carnac.metadata.database import Writing


def find_obstacle(path: Path) -> str | None:
    """Return why a database that is there cannot be written by this process; None if it can, or is not there."""
    if not path.exists():
        return None
    lock = Path(f"{path}.lock")
    places = [path, path.parent, *([lock] if lock.exists() else [])]
    for place in places:
        if not os.access(place, os.W_OK):
            return f"{place} is not writable"
    return None


_Stamp = tuple[int, int, int]
"""Inode, bytes and time of the last change of a file."""


class _State(NamedTuple):
    """What changes when somebody writes.

    Attributes:
        log: None: there is none.
        has_index: Others may be at work.
    """

    database: _Stamp | None
    log: _Stamp | None
    has_index: bool

    @property
    def is_shared(self) -> bool:
        """Whether SQLite itself sees what others do."""
        return self.log is not None and self.has_index

    @property
    def mode(self) -> str:
        """How SQLite is to open the file: parameters of the URI."""
        if self.log is None:
            return "mode=ro&immutable=1"
        return "mode=ro" if self.has_index else "mode=ro&vfs=unix-none"

    @property
    def pragmas(self) -> tuple[str, ...]:
        """What comes before the first read: one that is alone keeps the index of the log in its memory."""
        is_alone = self.log is not None and not self.has_index
        return (*(("PRAGMA locking_mode=EXCLUSIVE",) if is_alone else ()), *READER_PRAGMAS)


class ReadOnlySqliteDatabase:
    """A store in one file that this process can only read; see `Database` for what its methods promise.

    Args:
        path: Of the database.
        obstacle: Why it cannot be written.
    """

    mailboxes = None

    def __init__(self, path: Path, obstacle: str) -> None:
        self._path = path
        self._obstacle = obstacle
        self._mutex = threading.Lock()
        self._state = self._look()
        self._readers = self._pool(self._state)
        self._is_closed = False

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._is_closed = True
        self._readers.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a transaction that sees one state.

        Raises:
            Unavailable: Somebody who can write has changed the file meanwhile.
        """
        readers, state = self._current()
        try:
            with readers.lend() as connection:
                session = Session(connection, SQLITE)
                session.control("BEGIN")
                yield session
        except sqlite3.Error as error:
            self._require_unchanged(state, error)
            raise
        self._require_unchanged(state)

    def try_enter(self) -> bool:
        """Refuse."""
        self._refuse()

    def leave(self) -> None:
        """Do nothing: no lock is ever held."""

    def turn(self) -> AbstractContextManager[None]:
        """Refuse."""
        self._refuse()

    def write(self, *, is_durable: bool = True) -> AbstractContextManager[Writing]:
        """Refuse, durable or not."""
        del is_durable
        self._refuse()

    def migrate_lock(self) -> AbstractContextManager[Engine]:
        """Refuse."""
        raise ReadOnly(
            f"the metadata store {self._path} is damaged or of another format than this Carnac's, and it cannot be "
            f"brought up to date because {self._obstacle}; open it once where it can be written"
        )

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means."""
        return translate(error, self._path)

    def _refuse(self) -> NoReturn:
        raise ReadOnly(f"the store can only be read here, because {self._obstacle}")

    def _look(self) -> _State:
        log = _stamp(Path(f"{self._path}-wal"))
        index = Path(f"{self._path}-shm")
        return _State(_stamp(self._path), log, has_index=index.exists())

    def _current(self) -> tuple[ReaderPool, _State]:
        """Return connections that know the files as they are now."""
        with self._mutex:
            if self._is_closed:
                raise Unavailable(f"the metadata store {self._path} is closed; open it again")
            state = self._look()
            if state != self._state and not (state.is_shared and self._state.is_shared):
                self._readers.close()
                self._state, self._readers = state, self._pool(state)
            return self._readers, self._state

    def _require_unchanged(self, state: _State, cause: Exception | None = None) -> None:
        if not state.is_shared and self._look() != state:
            raise Unavailable(
                f"the metadata store {self._path} was written to while it was read; try again"
            ) from cause

    def _pool(self, state: _State) -> ReaderPool:
        place = f"file:{quote(str(self._path))}?{state.mode}"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                place, uri=True, check_same_thread=False, isolation_level=None
            )
            for pragma in state.pragmas:
                connection.execute(pragma)
            return connection

        return ReaderPool(connect)


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes when a file is written; None if there is none that we may see."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
