"""PostgreSQL: an advisory lock orders the writers, statements travel in a pipeline, reads see one snapshot.

Most commits are one statement (`sql.appending`), so that the lock is held for no round trip.

Revisions are dense and in order of commit because a writer takes the lock before it reads the head and the database
releases it after its commit is visible. The lock's queue is first in, first out, and dies with its connection. The
transaction of a process that says nothing more, as a stopped one (SIGSTOP), is ended by a writer that waits for it.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from carnac.core.redaction import hide_secrets, show_url
from carnac.core.texts import first_line
from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, Corrupt, Invalid, ReadOnly, Unavailable
from carnac.metadata.backends.reader_pool import ReaderPool
from carnac.metadata.database import PATIENCE_MS, OnStatement, Opening, unfit_value
from carnac.metadata.session import POSTGRESQL, Session

LOCK_KEY = 0x0CA2_AC00
"""One writer at a time in a database, whatever schema its store is in."""

_LOCK = f"SELECT pg_advisory_xact_lock({LOCK_KEY})"
_END_SILENT = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objid = %s AND wait_event = 'ClientRead'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND state_change < clock_timestamp() - %s * interval '1 millisecond'
"""
"""A backend that waits for its client is not at work, however long its transaction may be."""


_RIGHTS = """
    SELECT current_user, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
      (SELECT min(name) FROM unnest(%s::text[]) AS name
       WHERE NOT has_table_privilege(to_regclass(name), 'INSERT'))
"""
"""The role, what of the server keeps it from writing, and a table that it may not write; null of tables not there."""
_UNREADABLE = """
    SELECT min(name) FROM unnest(%s::text[]) AS name
    WHERE NOT has_table_privilege(to_regclass(name), 'SELECT')
"""
_WRITTEN = ["commits", "leases", "settings"]
"""Tables that tell whether a role is meant to write."""
OBSTACLE_MS = 2_000
"""Time after which a server that could not be written to is asked again: a standby is promoted, a right is granted."""


class PostgresqlDatabase:
    """A store in a PostgreSQL database.

    Args:
        url: `postgresql://user@host/database`; parameters after `?` go to libpq. A server that says nothing for
            `tcp_user_timeout`, by default 30 s, is given up.
        now_ms: Tells the time.
        patience_ms: Time that a write waits for those of other processes.
        on_statement: Called with each statement before it is sent; tests inject faults with it.

    Raises:
        Invalid: The driver is not installed.
    """

    is_far = True

    def __init__(
        self,
        url: str,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        patience_ms: int = PATIENCE_MS,
        on_statement: OnStatement | None = None,
    ) -> None:
        self._shown = show_url(url)
        self._url = url.replace("postgresql+psycopg://", "postgresql://", 1)
        _check_url(self._url, self._shown)
        self._patience_ms = patience_ms
        self._on_statement = on_statement
        self._readers: ReaderPool[Any] = ReaderPool(
            self._connect_reader, _reset, is_alive=lambda one: one.is_alive()
        )
        self._writer: Any = None
        self._now_ms = now_ms
        self._obstacle: str | None = None
        self._looked_at_ms = 0
        self._mutex = threading.RLock()
        self._opening = Opening(self._shown)

    def close(self) -> None:
        """Release connections. Idempotent; in a forked child they are its parent's, and stay."""
        if self._opening.is_forked:
            return
        with self._mutex:
            if self._opening.is_closed:
                return
            self._opening.is_closed = True
            self._forget_writer()
            self._readers.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a transaction that sees one snapshot."""
        self._opening.check()
        with self._readers.lend() as connection:
            yield Session(connection, POSTGRESQL)

    @contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[Session]:  # noqa: ARG002 - the protocol's
        """Wait for the lock in a new transaction; rolls back unless committed.

        Args:
            is_durable: Ignored, since writers live on when the server's machine loses power.
        """
        with self._mutex:
            self.check_writable()
            connection = self._writer_connection()
            session = Session(connection, POSTGRESQL, self._on_statement)
            try:
                with session.pipelined():
                    session.control("BEGIN")
                    session.control(_LOCK)
                    yield session
            except CarnacError:
                self._roll_back(connection)
                raise
            except BaseException as error:
                self._forget_writer()  # a broken pipeline leaves statements prepared on one side only
                if _waited_in_vain(error):
                    self._end_who_is_silent()
                raise
            self._roll_back(connection)

    @contextmanager
    def migrate_lock(self) -> Iterator[Session]:
        """Keep other processes from writing, in a transaction that is committed unless something is raised.

        Raises:
            ReadOnly: This role may not write. Invalid: This role may not even read.
        """
        with contextlib.closing(self._connect()) as connection:
            table = connection.execute(_UNREADABLE, [_WRITTEN]).fetchone()[0]
            if table is not None:
                raise self._lacks_rights(f"it may not read table {table}")
            obstacle = _obstacle_of(connection)
        if obstacle is not None:
            raise ReadOnly(
                f"the metadata store {self._shown} is of another format than this Carnac's, and it cannot be brought "
                f"up to date because {obstacle}; open it once with a role that may"
            )
        with (
            self._mutex,
            contextlib.closing(self._connect()) as connection,
            connection.transaction(),
        ):
            connection.patience_ms = None
            connection.execute(_LOCK)
            yield Session(connection, POSTGRESQL)

    def purge(self) -> bool:
        """Do nothing: the server overwrites deleted rows when it needs their room."""
        return False

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what a driver's error means."""
        import psycopg

        if not isinstance(error, psycopg.Error):
            return None
        text = hide_secrets(first_line(error).rstrip("."), self._url)
        if _waited_in_vain(error):
            return Unavailable(
                f"other writers have kept the metadata store {self._shown} busy for "
                f"{self._patience_ms / 1000:g} s; retry"
            )
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return self._lacks_rights(text)
        if isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted):
            return Corrupt(
                f"the metadata store {self._shown} is damaged: {text}; stop its writers and restore it from a backup "
                "(docs/concepts/operating.md, Backup)"
            )
        if isinstance(error, psycopg.DataError):  # a NUL in a text
            return unfit_value(error)
        if isinstance(error, psycopg.errors.UniqueViolation):
            return Invalid(f"the publication names something that the store has already: {text}")
        return Unavailable(
            f"the metadata store {self._shown} does not answer: {text}{_advice(text)}"
        )

    def _lacks_rights(self, text: str) -> Invalid:
        return Invalid(
            f"the role that opened the metadata store {self._shown} has not all rights that it needs: {text}; "
            "grant SELECT on all tables to read, and INSERT, UPDATE and DELETE to write"
        )

    def check_writable(self) -> None:
        """Refuse what is closed, a child's writes, and those of a role that may only read."""
        self._opening.check_writable()
        if self._obstacle is not None and not is_over(
            self._looked_at_ms, OBSTACLE_MS, self._now_ms()
        ):
            raise ReadOnly(f"the store can only be read here, because {self._obstacle}")

    def find_obstacle(self) -> str | None:
        """Return why this role cannot write to a store that is there; None if it can, or there is none."""
        with self._mutex, contextlib.closing(self._connect()) as connection:
            return _obstacle_of(connection)

    def _writer_connection(self) -> Any:
        if self._writer is not None and (self._writer.closed or self._writer.is_left()):
            self._forget_writer()  # the server was started anew since, say
        if self._writer is None:
            connection = self._connect()
            self._looked_at_ms, self._obstacle = self._now_ms(), _obstacle_of(connection)
            if self._obstacle is not None:
                connection.close()
                raise ReadOnly(f"the store can only be read here, because {self._obstacle}")
            connection.patience_ms = int(self._patience_ms)
            connection.execute(f"SET lock_timeout = {int(self._patience_ms)}")
            self._writer = connection
        return self._writer

    def _connect(self) -> Any:
        from carnac.metadata.backends.answering import AnsweringConnection

        connection = AnsweringConnection.open(self._url)
        _adapt(connection)
        return connection

    def _connect_reader(self) -> Any:
        from psycopg import IsolationLevel

        connection = self._connect()
        connection.autocommit = False
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return connection

    def _end_who_is_silent(self) -> None:
        """End the transaction of a writer that has sent nothing for as long as this process waited for it.

        Such a writer was stopped (SIGSTOP), or its host is gone without a word. Its changes are rolled back.
        """
        import psycopg

        with (
            contextlib.suppress(psycopg.Error),  # the writer that waits is told so in any case
            self._connect() as link,
        ):
            link.execute(_END_SILENT, [LOCK_KEY, self._patience_ms])

    def _roll_back(self, connection: Any) -> None:
        """End a transaction that was not committed; give the connection up if that is not possible."""
        from psycopg import Error
        from psycopg.pq import TransactionStatus

        status = connection.info.transaction_status
        if status == TransactionStatus.IDLE:
            return
        try:
            connection.execute("ROLLBACK")
        except Error:
            self._forget_writer()

    def _forget_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _check_url(url: str, shown: str) -> None:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise Invalid(
            "the PostgreSQL driver is not installed; install it with pip install 'carnac[postgresql]'"
        ) from error
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        raise Invalid(
            f"metadata store {shown} is no URL; write it like postgresql://user@host:5432/database"
        ) from None


def _reset(connection: Any) -> None:
    """Roll back; a connection on which that fails is found out before it is lent again."""
    from psycopg import Error

    with contextlib.suppress(Error):
        connection.rollback()


def _adapt(connection: Any) -> None:
    """Send numbers as BIGINT and texts as TEXT, as the columns are, so that no statement has to say it."""
    from psycopg.types.numeric import Int8Dumper
    from psycopg.types.string import StrDumper

    connection.adapters.register_dumper(int, Int8Dumper)
    connection.adapters.register_dumper(str, StrDumper)


def _obstacle_of(connection: Any) -> str | None:
    """Return why the role of a connection cannot write to a store; None if it can, or there is none."""
    role, is_standby, is_read_only, table = connection.execute(_RIGHTS, [_WRITTEN]).fetchone()
    if is_standby:
        return "the PostgreSQL server is a standby"
    if is_read_only:
        return f"transactions of role {role} are read-only"
    return None if table is None else f"role {role} may not write to table {table}"


def _advice(text: str) -> str:
    """Return what to do about a connection that will be refused again; libpq gives it no code, only words."""
    if re.search(r'database ".*" does not exist', text):
        return "; make it with createdb, then run carnac init, or correct the name in the URL"
    if re.search(r'role ".*" does not exist|authentication failed', text):
        return (
            "; correct the role and the password in the URL (the password may come from PGPASSFILE)"
        )
    return ""


def _waited_in_vain(error: BaseException) -> bool:
    from psycopg.errors import LockNotAvailable

    return isinstance(error, LockNotAvailable)
