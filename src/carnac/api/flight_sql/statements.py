"""Statements on their way through Flight SQL: described, then fetched by a ticket that says all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import msgspec

from carnac.api.flight_sql.rows import plain_schema, sent
from carnac.api.sql.described import Described
from carnac.api.sql.requests import SqlRequest, asked_by, read_request
from carnac.api.sql.runs import at_most, gives, names_of, plan_for
from carnac.core.words import counted
from carnac.errors import Invalid, NotFound
from carnac.ports.answers import Client, OnMissing, Statement
from carnac.ports.memo import Memo
from carnac.query.schema.outline import outline
from carnac.query.syntax import asks_plan_for, is_explain

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.flight_sql.calls import Call, Calls
    from carnac.broker import Broker

PREPARED_MAX = 1_000
PREPARED_BYTES = 64 << 20
"""Statements that are kept prepared; those that were not used for longest are forgotten."""
PLAN_COLUMNS = ("PLAN", "RESOURCES", "ATTRIBUTES")
_VALUES = (bool, int, float, str, Decimal, date, datetime, list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The client of a call.

    Attributes:
        client: The user, else its address.
        context: Query context from its headers.
        is_jdbc: Whether it is the JDBC driver, which has no object for instants with a zone, and sends no value of a
            type that it was not told.
        is_adbc: Whether it is a driver of ADBC, which knows values of no known type.
    """

    client: Client
    context: Mapping[str, object] = field(default_factory=dict)
    is_jdbc: bool = False
    is_adbc: bool = False


class Ticket(msgspec.Struct, kw_only=True, array_like=True):
    """The bytes by which rows are fetched: any process of the store can read them, and nothing is kept for them.

    Attributes:
        schema: That was promised, as Arrow writes it.
        parameters: A batch of one row, as Arrow writes it; empty: there are none.
        at: The revision that the statement was described at; None: it says its own, or any may be read.
    """

    sql: str
    context: Mapping[str, object]
    query_id: str
    schema: bytes
    parameters: bytes = b""
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A statement that a client prepared.

    Attributes:
        parameters: A batch of one row; empty until values are bound.
        count: How many values it takes.
    """

    sql: str
    context: Mapping[str, object]
    schema: pa.Schema
    count: int
    parameters: bytes = b""


class Statements:
    """Statements of clients. Safe for threads.

    Args:
        new_id: Makes ids of queries and of prepared statements.
    """

    def __init__(self, broker: Broker, calls: Calls, new_id: Callable[[], str]) -> None:
        self._calls = calls
        self._new_id = new_id
        self._prepared: Memo[bytes, Prepared] = Memo(
            values_max=PREPARED_MAX,
            weight_max=PREPARED_BYTES,
            weigh=lambda _, one: 1_000 + len(one.sql) + len(one.parameters),
        )
        self._described = Described(broker, new_id)

    def promise(self, sql: str, asker: Asker, parameters: bytes = b"") -> tuple[pa.Schema, bytes]:
        """Return the columns of a statement, and the ticket for its rows.

        Raises:
            CarnacError: As `Broker.run`.
        """
        context = dict(asker.context)
        request = self._request(sql, context, asker)
        values = values_of(parameters)
        schema, revision = self._describe(request, values, asker)
        ticket = Ticket(
            sql=sql,
            context=context,
            query_id=request.statement.query_id,
            schema=schema.serialize().to_pybytes(),
            parameters=parameters,
            at=_pinned(request.statement, revision),
        )
        return schema, msgspec.msgpack.encode(ticket)

    def rows(
        self, data: bytes, asker: Asker, is_abandoned: Callable[[], bool]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Call]:
        """Run what a ticket says; return its rows, and the call that is to be ended.

        Raises:
            Invalid: It is no ticket.
            CarnacError: As `Broker.run`.
        """
        import pyarrow as pa

        ticket = ticket_of(data)
        request = self._request(
            ticket.sql, {**ticket.context, "sqlQueryId": ticket.query_id}, asker
        )
        try:
            schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(ticket.schema))
        except (pa.ArrowException, OSError):
            raise _no_ticket() from None
        statement = replace(request.statement, parameters=values_of(ticket.parameters))
        if ticket.at is not None:
            statement = replace(statement, at=ticket.at)
        call, batches = self.run(statement, is_abandoned, request.rows_max)
        return schema, sent(schema, batches), call

    def run(
        self,
        statement: Statement,
        is_abandoned: Callable[[], bool],
        rows_max: int | None = None,
    ) -> tuple[Call, Iterator[pa.RecordBatch]]:
        """Run a statement; return the call that is to be ended, and its rows.

        Raises:
            CarnacError: As `Broker.run`.
        """
        call, answer = self._calls.run(statement, is_abandoned)
        batches = at_most(answer, rows_max)
        schema = cast("pa.Schema", answer.schema)
        if asks_plan_for(statement.sql) and (rows := gives(schema)) is not None:
            names = names_of(rows.names, statement.sql, None)
            batches = (plan_for(rows, names, one) for one in [batches])  # once somebody takes it
        return call, batches

    def end(self, call: Call) -> None:
        """Let go of what a call has. Idempotent."""
        self._calls.end(call)

    def prepare(self, sql: str, asker: Asker) -> tuple[bytes, Prepared]:
        """Keep a statement; return its handle.

        Raises:
            CarnacError: As `Broker.run`.
        """
        request = self._request(sql, asker.context, asker)
        shown = outline(request.statement.sql)
        count = 0 if shown is None else shown.parameters
        schema, _ = self._describe(request, [None] * count, asker)
        made = Prepared(sql=sql, context=dict(asker.context), schema=schema, count=count)
        handle = self._new_id().encode()
        self._prepared.keep(handle, made)
        return handle, made

    def find(self, handle: bytes) -> Prepared:
        """Return a statement that was prepared.

        Raises:
            NotFound: There is none of that handle.
        """
        found = self._prepared.find(handle)
        if found is None:
            raise NotFound(
                "there is no such prepared statement any more: it was closed, or prepared at another server, or "
                f"{PREPARED_MAX} others were since; prepare it again"
            )
        return found

    def bind(self, handle: bytes, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep the values of a statement's `?`.

        Raises:
            Invalid: They are not one row of values.
            NotFound: There is no such statement.
        """
        import pyarrow as pa

        found = self.find(handle)
        row = None
        for batch in batches:
            if batch.num_rows > 1 or (batch.num_rows and row is not None):
                raise Invalid(
                    "several rows of parameters were sent; a query takes one: bind and run it once for each"
                )
            row = batch if batch.num_rows else row
        if row is None:
            raise Invalid("no row of parameters was sent; a query takes one")
        if row.num_columns < found.count:
            raise Invalid(
                f"the statement takes {counted(found.count, 'parameter')}, and {row.num_columns} came"
            )
        row = row.select(range(found.count))
        try:
            row.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Invalid(f"a value of a parameter is none of its type: {error}") from None
        data = written(row)
        values_of(data)  # a wrong value fails at once
        self._prepared.keep(handle, replace(found, parameters=data))

    def promise_prepared(self, handle: bytes, asker: Asker) -> tuple[pa.Schema, bytes]:
        """Return what `promise` does, of a statement that was prepared.

        Raises:
            Invalid: Its values were not bound.
            CarnacError: As `Broker.run`.
        """
        found = self.find(handle)
        if found.count and not found.parameters:
            raise Invalid(
                f"the statement takes {counted(found.count, 'parameter')}, and none were bound"
            )
        context = {**found.context, **asker.context}
        return self.promise(found.sql, replace(asker, context=context), found.parameters)

    def close(self, handle: bytes) -> None:
        """Forget a statement. Idempotent."""
        self._prepared.drop(handle)

    def _request(self, sql: str, context: Mapping[str, object], asker: Asker) -> SqlRequest:
        request = read_request({"query": sql, "context": context})
        return asked_by(request, new_id=self._new_id, client=asker.client)

    def _describe(
        self, request: SqlRequest, values: Sequence[object], asker: Asker
    ) -> tuple[pa.Schema, int | None]:
        """Return the columns of a statement, and the revision that says so; nothing of it is run."""
        import pyarrow as pa

        asked = request.statement
        if is_explain(asked.sql):
            said = PLAN_COLUMNS if asks_plan_for(asked.sql) else ("plan",)
            return pa.schema([(name, pa.string()) for name in said]), None
        rows, revision = self._described.find(replace(asked, parameters=values))
        names = names_of(rows.names, asked.sql, outline(asked.sql))
        return plain_schema(rows, names, is_jdbc=asker.is_jdbc), revision


def _pinned(statement: Statement, revision: int | None) -> int | None:
    """Return the revision to read, if the statement leaves it to us."""
    is_free = statement.at is None and statement.on_missing is not OnMissing.PREVIOUS
    return revision if is_free else None


def ticket_of(data: bytes) -> Ticket:
    """Return what a ticket says.

    Raises:
        Invalid: It is none.
    """
    try:
        return msgspec.msgpack.decode(data, type=Ticket)
    except msgspec.MsgspecError:
        raise _no_ticket() from None


def _no_ticket() -> Invalid:
    return Invalid("it is no ticket of this server: ask for the statement's info first")


def written(row: pa.RecordBatch) -> bytes:
    """Return the bytes of a batch, as Arrow writes it."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def values_of(data: bytes) -> list[object]:
    """Return the values of one row, instants with their zone: UTC if they name none.

    Raises:
        Invalid: They do not read, or one is of a type that no statement takes.
    """
    import pyarrow as pa

    if not data:
        return []
    try:
        row = pa.ipc.open_stream(data).read_next_batch()
        row.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration):
        raise _no_ticket() from None
    if row.num_rows != 1:
        raise _no_ticket()
    return [_value(place, column) for place, column in enumerate(row.columns, start=1)]


def _value(place: int, column: pa.Array) -> object:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):  # of nanoseconds pandas would make what it has
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    try:
        value = column[0].as_py()
    except (ValueError, OverflowError):
        raise Invalid(f"parameter {place} is beyond all times that there are") from None
    if value is not None and not isinstance(value, _VALUES):
        raise Invalid(
            f"parameter {place} is of a type that no statement takes: {column.type}; send a text, a number, a boolean, "
            "a date, a timestamp or a list"
        )
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
