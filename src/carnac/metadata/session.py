"""Running statements on a connection with little between the store and the driver.

A statement (`sql`) is a text for each database, and goes to the driver's cursor as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

from carnac.errors import Invalid
from carnac.metadata.sql.dialects import SqlText, Statement

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object]

ABSENT: Row = ()
"""Known not to be there."""
MEMO_CHUNKS_MAX = 10_000
"""Maximum number of chunks that a transaction leaves to the next one."""
SQLITE = "sqlite"
POSTGRESQL = "postgresql"


class Session:
    """A connection inside a transaction.

    Args:
        kind: Kind of the database: `SQLITE` or `POSTGRESQL`.
        check: Called before a commit; raises what keeps it from being one.

    Attributes:
        writes: Number of writing calls. A job that failed without one has left nothing behind.
        memo: Values that this transaction has read, for it and for the next one, if nobody writes in between: the
            newest revision, the last number of a lock, datasources, chunks.
        looked_up: Rows of batches and leases that this transaction has looked up; `ABSENT`: there is none.
        memo_writes: Value of `writes` when `memo` was last in step with the database.
    """

    def __init__(
        self,
        connection: Any,
        kind: str,
        on_statement: Callable[[str], None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._check = check
        self.is_committed = False
        self._connection = connection
        self._by_name = kind == POSTGRESQL
        self._on_statement = on_statement
        self.writes = 0
        self.memo: dict[object, Any] = {}
        self.looked_up: dict[object, Row] = {}
        self.memo_writes = 0
        self._deferred: dict[int, tuple[Statement, list[Row]]] = {}
        self._merged: dict[int, tuple[Statement, dict[object, Row]]] = {}

    def recall(self) -> dict[object, Any]:
        """Return `memo`; it is emptied, as is `looked_up`, if a writer has written that does not keep it in step."""
        if self.memo_writes != self.writes:
            self.memo.clear()
            self.looked_up.clear()
            self.memo_writes = self.writes
        return self.memo

    def rows(self, stated: Statement, /, **params: object) -> list[Row]:
        """Return all rows of a query."""
        rows: list[Row] = self._execute(stated, params).fetchall()
        return rows

    def row(self, stated: Statement, /, **params: object) -> Row | None:
        """Return the first row of a query; None if it has none."""
        row: Row | None = self._execute(stated, params).fetchone()
        return row

    def peek(self, stated: Statement, /, **params: object) -> Row | None:
        """Return the first row of a query as if nothing were deferred; the caller knows what that would change."""
        row: Row | None = self._send(stated, params).fetchone()
        return row

    def peek_all(self, stated: Statement, /, **params: object) -> list[Row]:
        """Return all rows of a query as `peek` does the first."""
        rows: list[Row] = self._send(stated, params).fetchall()
        return rows

    def ask(self, text: SqlText, params: Params) -> Any:
        """Send a statement that writes; the cursor that is returned has its rows when the transaction has ended."""
        self.writes += 1
        self._notify(text.text)
        return self._connection.execute(text.text, params, prepare=True)

    def stream(self, stated: Statement, /, **params: object) -> Iterator[Row]:
        """Yield the rows of a query without holding all of them."""
        yield from self._execute(stated, params)

    def run(self, stated: Statement, /, **params: object) -> None:
        """Write."""
        self.writes += 1
        self._execute(stated, params)

    def run_many(self, stated: Statement, rows: Sequence[Params]) -> None:
        """Write many rows; none is fine."""
        if rows:
            self.writes += 1
            self.flush()
            self._send_many(stated, rows)

    def defer(self, stated: Statement, rows: Sequence[Row]) -> None:
        """Write rows before the next statement that is not deferred, together with those of the same statement.

        A group of commits writes each of its tables once in this way, which halves the time that others wait for it.
        Rows of one statement keep their order; those of different ones must not depend on each other.

        Args:
            rows: Values in the order of the statement's parameters.
        """
        if rows:
            self.writes += 1
            waiting = self._deferred.get(id(stated))
            if waiting is None:
                waiting = self._deferred[id(stated)] = (stated, [])
            waiting[1].extend(rows)

    def defer_merged(
        self,
        stated: Statement,
        key: object,
        row: Row,
        merge: Callable[[Row, Row], Row] | None = None,
    ) -> None:
        """Write a row as `defer` does, after what waits there, once for all commits of a group that write it.

        Args:
            key: Key of the row in its table.
            merge: Makes one row of the row that waits and this one; None: this one replaces the other. The rows keep
                the order in which they were last written.
        """
        self.writes += 1
        waiting = self._merged.get(id(stated))
        if waiting is None:
            waiting = self._merged[id(stated)] = (stated, {})
        before = waiting[1].pop(key, None)
        waiting[1][key] = row if before is None or merge is None else merge(before, row)

    def flush(self) -> None:
        """Write what was deferred."""
        if self._deferred or self._merged:
            deferred, self._deferred = self._deferred, {}
            merged, self._merged = self._merged, {}
            for stated, rows in deferred.values():
                self._send_rows(stated, rows)
            for stated, by_key in merged.values():
                self._send_rows(stated, [*by_key.values()])

    def _send_rows(self, stated: Statement, rows: Sequence[Row]) -> None:
        text, names = stated.sqlite
        if self._by_name:
            self._send_many(stated, [dict(zip(names, row, strict=True)) for row in rows])
            return
        self._notify(text)
        if len(rows) == 1:
            self._connection.execute(text, rows[0])
        else:
            self._connection.executemany(text, rows)

    def _send_many(self, stated: Statement, rows: Sequence[Params]) -> None:
        if len(rows) == 1:
            self._send(stated, rows[0])
            return
        text, names = stated.postgresql if self._by_name else stated.sqlite
        self._notify(text)
        cursor = self._connection.cursor()
        if self._by_name:
            cursor.executemany(text, rows)
        else:
            cursor.executemany(text, map(_values_of(names), rows))

    def lasting(self) -> dict[object, Any]:
        """Return the memo of the next transaction."""
        memo = self.recall()
        if len(memo.get("chunks", ())) > MEMO_CHUNKS_MAX:
            del memo["chunks"]
        return memo

    def array(self, values: Iterable[object]) -> object:
        """Return values as the parameter of an `IsIn`; raises Invalid for what the database would read as another."""
        listed = list(values)
        if self._by_name:
            return listed
        text = json.dumps(listed)
        if "\\u0000" in text and any(isinstance(one, str) and "\0" in one for one in listed):
            raise Invalid(
                "a name holds a NUL, at which SQLite would end it; there is nothing of that name"
            )
        return text

    @property
    def kind(self) -> str:
        """The kind of database: `SQLITE` or `POSTGRESQL`."""
        return POSTGRESQL if self._by_name else SQLITE

    def control(self, text: str) -> None:
        """Run statements that are no queries and have no parameters (BEGIN, COMMIT, a lock, a migration)."""
        self._notify(text)
        done = self._connection.execute(text)
        if not self._by_name:
            done.fetchall()  # APSW goes on to the next statement when the one before has no more rows

    def commit(self) -> None:
        """Make it durable. If this raises, it may or may not have been."""
        if self._check is not None:
            self._check()
        self.control("COMMIT")
        self.is_committed = True

    def pipelined(self) -> AbstractContextManager[object]:
        """Let statements travel together where the driver can; a fetch waits for those before it."""
        pipeline = getattr(self._connection, "pipeline", None)
        return nullcontext() if pipeline is None else pipeline()

    def _execute(self, stated: Statement, params: Params) -> Any:
        if self._deferred or self._merged:
            self.flush()
        return self._send(stated, params)

    def _send(self, stated: Statement, params: Params) -> Any:
        text, names = stated.postgresql if self._by_name else stated.sqlite
        if self._on_statement is not None:
            self._on_statement(text)
        if self._by_name:
            return self._connection.execute(text, params)
        return self._connection.execute(text, _values_of(names)(params) if names else ())

    def _notify(self, text: str) -> None:
        if self._on_statement is not None:
            self._on_statement(text)


@lru_cache(maxsize=512)  # each statement has its own
def _values_of(names: tuple[str, ...]) -> Callable[[Params], tuple[object, ...]]:
    """Return what takes parameters in the order of their places in a text."""
    if len(names) == 1:
        (name,) = names
        return lambda params: (params[name],)
    return itemgetter(*names)
