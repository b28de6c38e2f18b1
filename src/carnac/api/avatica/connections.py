"""Connections that are open, with their statements: as many as a limit allows, no longer than somebody uses them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from carnac.api.avatica.problems import NoConnection, NoStatement
from carnac.errors import Cancelled, Conflict, Invalid
from carnac.ports.loops import Loop
from carnac.ports.threads import GRACE_MS

if TYPE_CHECKING:
    from carnac.api.avatica.held import HeldRows
    from carnac.api.sql.requests import SqlRequest
    from carnac.core.access import Credentials, DatasourcePatterns
    from carnac.ports import Clock

SWEEP_MS = 1_000
"""Time between two searches for connections and rows that nobody uses."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvaticaLimits:
    """Limits of JDBC.

    Attributes:
        connections: Open at once.
        statements: Of each of them.
        idle_ms: Time after which what nobody uses is closed.
    """

    connections: int = 25
    statements: int = 4
    idle_ms: int = 300_000


@dataclass(slots=True, eq=False)
class OpenStatement:
    """A statement of a connection: prepared or not, with rows of its last run or without.

    Attributes:
        prepared: Request that `execute` runs; None: nothing was prepared.
        held: Rows of its last run, if any are left.
        until_ms: When the time of that run is over; None: it has no limit.
        why_none: Why there are no rows, if some were let go.
        is_closed: Whether it takes no rows any more.
    """

    id: int
    used_at_ms: int
    prepared: SqlRequest | None = None
    held: HeldRows | None = None
    until_ms: int | None = None
    why_none: str = ""
    is_closed: bool = False
    _busy: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Keep others out.

        Raises:
            Conflict: Another request has it.
        """
        if not self._busy.acquire(blocking=False):
            raise Conflict(
                f"statement {self.id} runs already; wait for it, or take another statement"
            )
        try:
            yield
        finally:
            self._busy.release()

    @property
    def is_busy(self) -> bool:
        """Whether a request has it now."""
        return self._busy.locked()

    def hold(self, held: HeldRows, limit_ms: int) -> None:
        """Have rows in place of those of the run before.

        Args:
            limit_ms: How long the run may take, fetches included; 0: as long as it does.

        Raises:
            Cancelled: It was closed meanwhile.
        """
        self.leave()
        self.held, self.why_none = held, ""
        self.until_ms = self.used_at_ms + limit_ms if limit_ms else None
        if self.is_closed:
            self.leave()
            raise Cancelled(f"statement {self.id} was closed before it ran")

    def close(self) -> None:
        """Let go of what it has, and of what it is about to have."""
        self.is_closed = True
        self.leave()

    def leave(self) -> None:
        """Stop what runs, and let go of its rows."""
        held, self.held = self.held, None
        if held is not None:
            held.leave()


@dataclass(slots=True, eq=False)
class OpenConnection:
    """A connection.

    Attributes:
        context: Of its statements, by names of the context of a query.
        credentials: Of its user, if its properties named one; None: each request says who sends it.
    """

    context: Mapping[str, object]
    used_at_ms: int
    credentials: Credentials | None = None
    statements: dict[int, OpenStatement] = field(default_factory=dict)

    def close(self) -> None:
        """Close its statements."""
        for one in list(self.statements.values()):
            one.close()


class ConnectionKey(NamedTuple):
    """The key of a connection.

    Attributes:
        id: As the driver makes it.
        datasources: Those that exist for the client: one for which others exist has another connection.
    """

    id: str
    datasources: DatasourcePatterns


class Connections:
    """The connections of a process. Safe for threads.

    Args:
        first_id: Of statements: another one in each process, so that no driver takes one of this process for one of
            a process before it.
    """

    def __init__(self, limits: AvaticaLimits, clock: Clock, first_id: Callable[[], int]) -> None:
        self._limits = limits
        self._clock = clock
        self._first_id = first_id
        self._next_id: int | None = None
        self._mutex = threading.Lock()
        self._open: dict[ConnectionKey, OpenConnection] = {}
        self._loop = Loop("avatica", self.sweep, log=_log, period_ms=SWEEP_MS)

    def open(
        self,
        key: ConnectionKey,
        context: Mapping[str, object],
        credentials: Credentials | None = None,
    ) -> None:
        """Open a connection.

        Args:
            credentials: Of the user whom its properties name.

        Raises:
            Conflict: It is open.
            Invalid: There are too many.
        """
        with self._mutex:
            is_taken = credentials is not None and self._credentials(key.id) is not None
            if key in self._open or is_taken:
                raise Conflict(f"Connection[{key.id}] already open.", connection=key.id)
            if len(self._open) >= self._limits.connections:
                self._make_room()
            self._open[key] = OpenConnection(context, self._clock.now_ms(), credentials)
        self._loop.start()

    def _make_room(self) -> None:
        """Close the connection without statements that was used longest ago."""
        unused = [one for one, found in self._open.items() if not found.statements]
        if not unused:
            raise Invalid(
                f"Too many connections, limit is [{self._limits.connections}]: close one, or raise "
                "avatica_connections_max"
            )
        del self._open[min(unused, key=lambda one: self._open[one].used_at_ms)]

    def credentials(self, connection_id: str) -> Credentials:
        """Return the credentials with which a connection was opened.

        Raises:
            NoConnection: None is open that was opened with any.
        """
        with self._mutex:
            found = self._credentials(connection_id)
        if found is None:
            raise _not_open(connection_id)
        return found

    def _credentials(self, connection_id: str) -> Credentials | None:
        found = (one.credentials for key, one in self._open.items() if key.id == connection_id)
        return next((one for one in found if one is not None), None)

    def find(self, key: ConnectionKey) -> OpenConnection:
        """Return a connection, which counts as used.

        Raises:
            NoConnection: It is not open.
        """
        with self._mutex:
            return self._find(key)

    def _find(self, key: ConnectionKey) -> OpenConnection:
        found = self._open.get(key)
        if found is None:
            raise _not_open(key.id)
        found.used_at_ms = self._clock.now_ms()
        return found

    def add_statement(self, key: ConnectionKey, statement_id: int | None = None) -> OpenStatement:
        """Return a new statement.

        Args:
            statement_id: Of one that its driver believes to be open; None: any.

        Raises:
            NoConnection: There is no such connection.
            Invalid: It has too many.
        """
        with self._mutex:
            connection = self._find(key)
            if len(connection.statements) >= self._limits.statements:
                raise Invalid(
                    f"Too many open statements, limit is [{self._limits.statements}]: close one, or raise "
                    "avatica_statements_max"
                )
            if statement_id is None:
                statement_id = self._new_id(connection)
            made = OpenStatement(statement_id, self._clock.now_ms())
            connection.statements[statement_id] = made
            return made

    def _new_id(self, connection: OpenConnection) -> int:
        found = self._first_id() if self._next_id is None else self._next_id
        while found in connection.statements:
            found += 1
        self._next_id = found + 1
        return found

    def find_statement(self, key: ConnectionKey, statement_id: int) -> OpenStatement:
        """Return a statement, which counts as used.

        Raises:
            NoConnection: There is no such connection.
            NoStatement: It has no such statement.
        """
        with self._mutex:
            connection = self._find(key)
            found = connection.statements.get(statement_id)
            if found is None:
                raise NoStatement(
                    f"connection {key.id} has no statement {statement_id}",
                    connection=key.id,
                )
            found.used_at_ms = connection.used_at_ms
            return found

    def is_late(self, key: ConnectionKey, statement_id: int) -> bool:
        """Whether a request has a statement though its time was over `GRACE_MS` ago; raises as `find_statement`."""
        found = self.find_statement(key, statement_id)
        late_ms = None if found.until_ms is None else found.until_ms + GRACE_MS
        return found.is_busy and late_ms is not None and self._clock.now_ms() > late_ms

    def close_statement(self, key: ConnectionKey, statement_id: int) -> None:
        """Close a statement, if it is open."""
        with self._mutex:
            connection = self._open.get(key)
            found = None if connection is None else connection.statements.pop(statement_id, None)
        if found is not None:
            found.close()

    def close_connection(self, key: ConnectionKey) -> None:
        """Close a connection, if it is open."""
        with self._mutex:
            found = self._open.pop(key, None)
        if found is not None:
            found.close()

    def sweep(self) -> None:
        """Close connections that nobody uses, and let go of rows that nobody fetches. A running statement is in use."""
        now_ms = self._clock.now_ms()
        unused: list[OpenConnection] = []
        unfetched: list[HeldRows] = []
        with self._mutex:
            for name, connection in list(self._open.items()):
                statements = list(connection.statements.values())
                if any(one.is_busy for one in statements):
                    connection.used_at_ms = now_ms
                if now_ms - connection.used_at_ms >= self._limits.idle_ms:
                    unused.append(self._open.pop(name))
                    continue
                for one in statements:
                    if one.is_busy:
                        one.used_at_ms = now_ms
                    elif one.held and (why := self._why_to_let_go(one, now_ms)):
                        unfetched.append(one.held)  # not what is run meanwhile
                        one.held, one.why_none = None, why
        for connection in unused:
            connection.close()
        for held in unfetched:
            held.leave()

    def _why_to_let_go(self, statement: OpenStatement, now_ms: int) -> str:
        if statement.until_ms is not None and now_ms >= statement.until_ms:
            return "the time limit of the statement was over before they were fetched"
        if now_ms - statement.used_at_ms >= self._limits.idle_ms:
            return "nobody fetched them for long"
        return ""

    def close(self) -> None:
        """Close all. Idempotent."""
        self._loop.stop()
        with self._mutex:
            connections = list(self._open.values())
            self._open.clear()
        for one in connections:
            one.close()


def _not_open(connection_id: str) -> NoConnection:
    return NoConnection(
        f"connection {connection_id} is not open here: open it again, or add transparent_reconnection=true to the url",
        connection=connection_id,
    )
