"""`memory://`: a store that nobody keeps, SQLite in a folder of its own, removed when the store is closed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import apsw

from carnac.metadata.backends.sqlite import SqliteDatabase
from carnac.metadata.backends.sqlite_driver import connect
from carnac.metadata.database import OnStatement
from carnac.metadata.schema.migrate import migrate_if_needed
from carnac.metadata.session import Session
from carnac.metadata.sql import statements as s

_NAME = "metadata.db"


class TemporarySqliteDatabase(SqliteDatabase):
    """An empty store in a folder of its own; nothing of it waits for a disk.

    Args:
        created_at_ms: Time when the store was made.
        store_id: Id of the store.
    """

    def __init__(
        self, *, created_at_ms: int, store_id: str, on_statement: OnStatement | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="carnac-")
        path = Path(self._folder.name) / _NAME
        path.write_bytes(empty_file())
        super().__init__(path, now_ms=lambda: created_at_ms, on_statement=on_statement)
        with self.write() as session:
            session.run(s.SET_ORIGIN, at_ms=created_at_ms, store_id=store_id)
            session.commit()

    @contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[Session]:
        """Open a write transaction; a power cut takes the store with it, so none is durable."""
        del is_durable
        with super().write(is_durable=False) as session:
            yield session

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the writers' lock, which only this process has, and whose log is not watched."""
        with self._mutex:
            self.check_writable()
            yield

    def _connect(self, pragmas: Sequence[str]) -> apsw.Connection:
        """Return a connection that does not verify the log, nor moves it into the file in the end: both go with it."""
        connection = connect(self._path, pragmas, watches=False)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return connection

    def close(self) -> None:
        """Release connections and remove the folder. Idempotent."""
        super().close()
        if not self._opening.is_forked:
            self._folder.cleanup()


@cache
def empty_file() -> bytes:
    """Return the file of an empty store; making one takes a tenth of a second, copying it next to nothing."""
    with tempfile.TemporaryDirectory(prefix="carnac-") as folder:
        path = Path(folder) / _NAME
        database = SqliteDatabase(path, now_ms=lambda: 0)
        try:
            migrate_if_needed(database, now_ms=lambda: 0, new_id=str, create=True)
        finally:
            database.close()
        return path.read_bytes()
