"""SQLite: write-ahead log, every commit synced to disk, writers in a fair queue.

SQLite's own waiting is a poll with growing pauses: under load one writer waits for seconds while others pass it
(measured in `benchmarks/bench_publish.py`). So writers first stand in a queue (`writer_queue`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import apsw

from carnac.durable import make_folders
from carnac.errors import CarnacError, Unavailable
from carnac.metadata.backends.reader_pool import ReaderPool
from carnac.metadata.backends.sqlite_driver import (
    CACHE_KIB,
    READER_PRAGMAS,
    connect,
    is_full,
    prepare_file,
    require_checksums,
    require_whole_log,
    reset,
    translate,
)
from carnac.metadata.backends.sqlite_reading import ReadOnlySqliteDatabase
from carnac.metadata.backends.writer_queue import WriterQueue
from carnac.metadata.database import (
    PATIENCE_MS,
    Database,
    OnStatement,
    Opening,
)
from carnac.metadata.session import SQLITE, Session

WRITER_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    f"PRAGMA cache_size=-{CACHE_KIB}",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_spill=OFF",  # pages written to the log before their commit have no right checksum
    "PRAGMA wal_autocheckpoint=2000",
    "PRAGMA journal_size_limit=67108864",
)
EMPTYING_MS = 1_000
"""Time that writers wait while a reader keeps the log from being emptied: less than any lease."""


class SqliteDatabase:
    """A store in one file.

    Args:
        path: Path of the database; the queue's lock file lies beside it. Its folder is made if it is not there.
        now_ms: Tells the time.
        patience_ms: Time that a write waits for those of other processes.
        on_statement: Called with each statement before it runs; tests inject faults with it.
    """

    is_far = False

    def __init__(
        self,
        path: Path,
        *,
        now_ms: Callable[[], int],
        patience_ms: int = PATIENCE_MS,
        on_statement: OnStatement | None = None,
    ) -> None:
        self._path = path
        self._on_statement = on_statement
        try:
            make_folders(path.parent)
            lock = Path(f"{path}.lock")
            self._queue = WriterQueue(lock, patience_ms=patience_ms, now_ms=now_ms)
        except OSError as error:
            raise Unavailable(
                f"the metadata store {path} cannot be opened: {error.strerror}"
            ) from error
        self._readers = ReaderPool(lambda: self._connect(READER_PRAGMAS), partial(reset, path=path))
        self._roomless: Database | None = None
        self._writer: apsw.Connection | None = None
        self._syncs = True  # `_writer` waits for the disk when it commits
        # Values that our last transaction left, and SQLite's mark at that time; it changes when others write.
        self._known: dict[object, object] = {}
        self._known_at: int | None = None
        self._mutex = threading.RLock()
        self._opening = Opening(path)

    def close(self) -> None:
        """Release connections and the lock file. Idempotent; in a forked child they are its parent's, and stay."""
        if self._opening.is_forked:
            return
        with self._mutex:
            if self._opening.is_closed:
                return
            self._opening.is_closed = True
            if self._writer is not None:
                self._writer.close()
            self._readers.close()
            if self._roomless is not None:
                self._roomless.close()
            self._queue.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a transaction that sees one state; on a full disk, where SQLite needs room even to read, without any."""
        self._opening.check()
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._readers.lend())
            except apsw.Error as error:
                if not is_full(error, self._path):
                    raise
                session = stack.enter_context(self._without_room().read())
            else:
                session = Session(connection, SQLITE)
                session.control("BEGIN")
            yield session

    @contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[Session]:
        """Wait in the queue, then open a write transaction; rolls back unless committed.

        Args:
            is_durable: Else the disk is not waited for: a power cut may take the transaction back, but no earlier one.
        """
        with (
            self._turn(),
            self._begun(is_durable=is_durable, told=self._on_statement) as (session, connection),
        ):
            if connection.data_version() == self._known_at:
                session.memo = self._known
            self._known_at = None
            yield session
            if session.is_committed:
                self._known_at, self._known = connection.data_version(), session.lasting()

    @contextmanager
    def _begun(
        self, *, is_durable: bool, told: OnStatement | None = None
    ) -> Iterator[tuple[Session, apsw.Connection]]:
        """Open a write transaction; changes that are not committed at its end are rolled back."""
        connection = self._writer_connection(is_durable=is_durable)
        check = partial(require_checksums, connection, self._path)
        session = Session(connection, SQLITE, told, check)
        session.control("BEGIN IMMEDIATE")
        try:
            yield session, connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the writers' lock."""
        with self._mutex:
            self.check_writable()
            try:
                self._queue.enter()
                require_whole_log(self._path)
                yield
            finally:
                self._queue.leave()

    @contextmanager
    def migrate_lock(self) -> Iterator[Session]:
        """Keep other processes from writing, in a transaction that is committed unless something is raised."""
        with self._turn():
            prepare_file(self._path)
            with self._begun(is_durable=True) as (session, _):
                yield session
                session.commit()

    def purge(self) -> bool:
        """Write the file anew, without what was deleted from it, and empty the log, unless a reader is at an old state.

        It holds twice the file in memory, and writers wait meanwhile, for readers no longer than `EMPTYING_MS`.
        """
        with self._turn():
            connection = self._writer_connection(is_durable=True)
            connection.execute("VACUUM")
            require_checksums(connection, self._path)
            self._known_at = None
            with closing(self._connect(WRITER_PRAGMAS)) as apart:
                apart.set_busy_timeout(EMPTYING_MS)
                is_busy = next(apart.execute("PRAGMA wal_checkpoint(TRUNCATE)"))[0]
            return not is_busy

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means."""
        return translate(error, self._path)

    def _connect(self, pragmas: Sequence[str]) -> apsw.Connection:
        return connect(self._path, pragmas)

    def _without_room(self) -> Database:
        with self._mutex:
            if self._roomless is None:
                self._roomless = ReadOnlySqliteDatabase(self._path, "its disk is full")
            return self._roomless

    def check_writable(self) -> None:
        """Refuse what is closed, and a child's writes."""
        self._opening.check_writable()

    def _writer_connection(self, *, is_durable: bool) -> apsw.Connection:
        if self._writer is None:
            self._writer = self._connect(WRITER_PRAGMAS)
            self._syncs = True
        if self._syncs != is_durable:
            self._writer.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            self._syncs = is_durable
        return self._writer
