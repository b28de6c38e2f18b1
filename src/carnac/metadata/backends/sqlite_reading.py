"""SQLite where nothing may be written: a read-only file system, or files of somebody else.

Beside the file of a store that is at work lie its write-ahead log and the index of the log. SQLite reads all three, so
it sees the commits of others. Without an index no process is at work, and SQLite cannot make one: the folder is not
writable, or has no room. So the file is opened as one that never changes, and SQLite locks nothing. The files are
watched: if another process has written by the end of a read, the read is no answer.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, NoReturn

import apsw

from carnac.errors import CarnacError, Invalid, ReadOnly, Unavailable
from carnac.metadata.backends import sqlite_driver
from carnac.metadata.backends.reader_pool import ReaderPool
from carnac.metadata.backends.sqlite_driver import (
    READER_PRAGMAS,
    connect,
    reset,
    translate,
)
from carnac.metadata.session import SQLITE, Session

INDEX_BYTES_MIN = 32_768
"""Smallest size of a log's index; a shorter one was left by a process without room to make it."""


def find_obstacle(path: Path) -> str | None:
    """Return why a database that is there cannot be written by this process; None if it can, or is not there.

    Raises:
        Invalid: It cannot even be read.
    """
    if not path.exists():
        return None
    for place in (path, Path(f"{path}-wal")):
        if place.exists() and not os.access(place, os.R_OK):
            raise Invalid(
                f"the metadata store cannot be opened, because this user may not read {place}; run as its owner, or "
                "have the right granted"
            )
    lock = Path(f"{path}.lock")
    places = [path, path.parent, *([lock] if lock.exists() else [])]
    for place in places:
        if not os.access(place, os.W_OK):
            return f"{place} is not writable"
    return None


def back_up(path: Path, target: Path) -> None:
    """Write what a database holds at one moment into an empty file: see `metadata.back_up`.

    SQLite copies only what it may lock; a copy of the files, which is removed, is what it reads where it may not.
    """
    state = _look(path)
    if state.has_index:
        sqlite_driver.back_up(path, target)
        return
    with TemporaryDirectory(prefix=".carnac-", dir=target.parent) as folder:
        image = Path(folder) / path.name
        for end in ("", "-wal") if state.log else ("",):
            shutil.copyfile(f"{path}{end}", f"{image}{end}")
        if _look(path) != state:
            raise _written_meanwhile(path)
        sqlite_driver.back_up(path, target, image=image)


class _Way(NamedTuple):
    """How SQLite is to open the file.

    Attributes:
        parameters: Parameters of the URI.
        vfs: The layer of SQLite that reads the files; None: the one that verifies them.
        is_watched: Whether SQLite does not see writes of others.
    """

    parameters: str
    vfs: str | None = None
    is_watched: bool = True


_BESIDE_OTHERS = _Way("mode=ro", is_watched=False)
_ALONE = _Way("mode=ro", "unix-none")
_UNCHANGING = _Way("mode=ro&immutable=1")


class _Stamp(NamedTuple):
    inode: int
    size_bytes: int
    modified_at_ns: int


class _State(NamedTuple):
    """The state of the files; it changes when somebody writes.

    Attributes:
        log: Stamp of the log; None: there is none, or it is empty.
        index_bytes: Size of the log's index; 0 if there is no log.
    """

    database: _Stamp | None
    log: _Stamp | None
    index_bytes: int

    @property
    def has_index(self) -> bool:
        """Whether others may be at work."""
        return self.index_bytes >= INDEX_BYTES_MIN


class ReadOnlySqliteDatabase:
    """A store in one file that this process can only read; see `Database` for what its methods promise.

    Args:
        path: Path of the database. obstacle: Reason why it cannot be written.
    """

    is_far = False

    def __init__(self, path: Path, obstacle: str) -> None:
        self._path = path
        self._obstacle = obstacle
        self._mutex = threading.Lock()
        self._state = _look(self._path)
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
            Unavailable: A process that can write has changed the file meanwhile.
        """
        readers, state = self._current()
        try:
            with readers.lend() as connection:
                session = Session(connection, SQLITE)
                session.control("BEGIN")
                yield session
        except apsw.Error as error:
            self._require_unchanged(state, error)
            raise
        self._require_unchanged(state)

    def check_writable(self) -> None:
        """Refuse."""
        self._refuse()

    def write(self, *, is_durable: bool = True) -> AbstractContextManager[Session]:
        """Refuse, durable or not."""
        del is_durable
        self._refuse()

    def migrate_lock(self) -> AbstractContextManager[Session]:
        """Refuse."""
        raise ReadOnly(
            f"the metadata store {self._path} is damaged or of another format than this Carnac's, and it cannot be "
            f"brought up to date because {self._obstacle}; open it once where it can be written"
        )

    def purge(self) -> bool:
        """Refuse."""
        self._refuse()

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means."""
        return translate(error, self._path)

    def _refuse(self) -> NoReturn:
        raise ReadOnly(f"the store can only be read here, because {self._obstacle}")

    def _how_to_open(self, state: _State) -> _Way:
        if state.has_index:
            return _BESIDE_OTHERS
        if state.log is None:
            return _UNCHANGING
        # A reader with the index in its memory may remove an empty log at its end: not where others could begin one.
        return _BESIDE_OTHERS if os.access(self._path.parent, os.W_OK) else _ALONE

    def _current(self) -> tuple[ReaderPool[apsw.Connection], _State]:
        """Return connections that know the files as they are now."""
        with self._mutex:
            if self._is_closed:
                raise Unavailable(f"the metadata store {self._path} is closed; open it again")
            state = _look(self._path)
            if state != self._state and not (state.has_index and self._state.has_index):
                self._readers.close()
                self._state, self._readers = state, self._pool(state)
            return self._readers, self._state

    def _require_unchanged(self, state: _State, cause: Exception | None = None) -> None:
        if self._how_to_open(state).is_watched and _look(self._path) != state:
            raise _written_meanwhile(self._path) from cause

    def _pool(self, state: _State) -> ReaderPool[apsw.Connection]:
        way = self._how_to_open(state)
        return ReaderPool(
            lambda: connect(
                self._path,
                READER_PRAGMAS,
                parameters=way.parameters,
                vfs=way.vfs,
                is_alone=way is _ALONE,
            ),
            partial(reset, path=self._path),
        )


def _written_meanwhile(path: Path) -> Unavailable:
    return Unavailable(f"the metadata store {path} was written to while it was read; try again")


def _look(path: Path) -> _State:
    log, index = (_stamp(Path(f"{path}{end}")) for end in ("-wal", "-shm"))
    return _State(
        _stamp(path),
        None if log is None or log.size_bytes == 0 else log,
        0 if log is None or index is None else index.size_bytes,
    )


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes when a file is written; None if there is none that we may see."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
