"""The commands of Flight SQL, and the functions that answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from carnac.api.flight_sql.listings import LISTS, Lists
from carnac.api.flight_sql.messages import pack, read, unpack, write
from carnac.api.flight_sql.statements import Asker, Statements, ticket_of
from carnac.core.texts import short
from carnac.errors import Invalid

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.api.flight_sql.calls import Calls
    from carnac.broker import Broker

ACTIONS: Mapping[str, str] = {
    "CreatePreparedStatement": "Keep a statement, which may have parameters.",
    "ClosePreparedStatement": "Forget one.",
    "CancelFlightInfo": "Stop a statement by its FlightInfo.",
    "CancelQuery": "Stop a statement by its FlightInfo.",
    "SetSessionOptions": "Name the catalog, which is the one that there is.",
    "CloseSession": "Say goodbye; nothing is kept.",
}
_CANCELLED, _NOT_CANCELLABLE = 1, 3
_CLOSED = 1
_OF_ONE_CATALOG = frozenset({"catalog", "schema"})
"""Session options that change nothing, since there is one catalog."""
_WRITING = (
    "rows are not written by Flight SQL: load them with carnac ingest, or send INSERT or REPLACE to "
    "POST /druid/v2/sql/task"
)
Rows = tuple["pa.Schema", Iterator["pa.RecordBatch"], Callable[[], object]]


class Door:
    """Answers commands. Safe for threads.

    Args:
        new_id: Makes ids of queries.
    """

    def __init__(self, broker: Broker, calls: Calls, new_id: Callable[[], str]) -> None:
        self._broker = broker
        self._statements = Statements(broker, calls, new_id)
        self._lists = Lists(self._statements, new_id)

    def info(self, data: bytes, asker: Asker) -> tuple[pa.Schema, bytes]:
        """Return the columns of what a command asks for, and the ticket for its rows.

        Raises:
            Invalid: It is no command.
            CarnacError: As `Broker.run`.
        """
        name, command = unpack(data)
        match name:
            case "CommandStatementQuery":
                _check_no_transaction(command)
                schema, handle = self._statements.promise(command.query, asker)
            case "CommandPreparedStatementQuery":
                schema, handle = self._statements.promise_prepared(
                    command.prepared_statement_handle, asker
                )
            case _ if name in LISTS:
                return LISTS[name](self._lists, command, asker).schema, data
            case _:
                raise _refused(name)
        return schema, pack("TicketStatementQuery", statement_handle=handle)

    def rows(self, data: bytes, asker: Asker, is_abandoned: Callable[[], bool]) -> Rows:
        """Return the rows of a ticket, and a function to call at their end.

        Raises:
            Invalid: It is no ticket.
            CarnacError: As `Broker.run`.
        """
        name, command = unpack(data)
        if name in LISTS:
            table = LISTS[name](self._lists, command, asker)
            return table.schema, iter(table.to_batches()), lambda: None
        if name != "TicketStatementQuery":
            raise _refused(name)
        schema, batches, call = self._statements.rows(command.statement_handle, asker, is_abandoned)
        return schema, batches, partial(self._statements.end, call)

    def put(self, data: bytes, reader: Any) -> None:
        """Bind values to the `?` of a prepared statement, whose handle stays what it is, so that nothing is to be said.

        Raises:
            Invalid: It is another command, or they do not fit.
            NotFound: There is no such statement.
        """
        name, command = unpack(data)
        if name != "CommandPreparedStatementQuery":
            raise _refused(name)
        rows = (chunk.data for chunk in reader)
        self._statements.bind(command.prepared_statement_handle, rows)

    def act(self, name: str, body: bytes, asker: Asker) -> list[bytes]:
        """Do what an action asks for; return its results.

        Raises:
            Invalid: There is no such action, or it does not read.
            CarnacError: As `Broker.run`.
        """
        match name:
            case "CreatePreparedStatement":
                return [self._prepare(body, asker)]
            case "ClosePreparedStatement":
                self._statements.close(_message(name, body).prepared_statement_handle)
                return []
            case "CancelFlightInfo":
                status = self._cancel(read("CancelFlightInfoRequest", body).info)
                return [write("CancelFlightInfoResult", status=status)]
            case "CancelQuery":
                status = self._cancel(_message(name, body).info)
                return [pack("ActionCancelQueryResult", result=status)]
            case "SetSessionOptions":
                _check_options(body)
                return [b""]
            case "CloseSession":
                return [write("CancelFlightInfoResult", status=_CLOSED)]
            case "BeginTransaction" | "BeginSavepoint" | "EndTransaction" | "EndSavepoint":
                raise Invalid("there are no transactions: each statement reads one revision")
        raise Invalid(f"there is no action {short(name)}; there are {', '.join(ACTIONS)}")

    def _prepare(self, body: bytes, asker: Asker) -> bytes:
        import pyarrow as pa

        asked = _message("CreatePreparedStatement", body)
        _check_no_transaction(asked)
        handle, made = self._statements.prepare(asked.query, asker)
        # the driver of JDBC sends values of these types; that of Go sends what it has only if it is told none
        kinds = [pa.null()] * made.count
        if made.count and asker.is_jdbc:
            kinds = self._lists.parameter_kinds(made.sql, made.count, asker)
        values = pa.schema([(f"parameter_{place}", kind) for place, kind in enumerate(kinds, 1)])
        are_told = asker.is_jdbc or asker.is_adbc or not kinds
        return pack(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=made.schema.serialize().to_pybytes(),
            parameter_schema=values.serialize().to_pybytes() if are_told else b"",
        )

    def _cancel(self, info: bytes) -> int:
        """Stop the statement of a FlightInfo; return how that went, as Flight says it."""
        import pyarrow as pa
        import pyarrow.flight as fl

        try:
            tickets = [one.ticket.ticket for one in fl.FlightInfo.deserialize(info).endpoints]
        except (pa.ArrowException, ValueError):
            raise Invalid("it does not read as a FlightInfo") from None
        for ticket in tickets:
            name, command = unpack(ticket)
            if name == "TicketStatementQuery":
                query_id = ticket_of(command.statement_handle).query_id
                if self._broker.cancel(query_id):
                    return _CANCELLED
        return _NOT_CANCELLABLE


def _message(action: str, body: bytes) -> Any:
    name, message = unpack(body)
    if name != f"Action{action}Request":
        raise Invalid(f"{action} takes Action{action}Request, not {name}")
    return message


def _check_options(body: bytes) -> None:
    for option in read("SessionOptions", body).options:
        name = read("SessionOption", option).key
        if name not in _OF_ONE_CATALOG:
            raise Invalid(
                f"there is no session option {short(name)}: send keys of the context as headers, or SET key = value; "
                "before the statement"
            )


def _check_no_transaction(command: Any) -> None:
    if command.transaction_id:
        raise Invalid("there are no transactions: leave the transaction's id out")


def _refused(name: str) -> Invalid:
    if name in {
        "CommandStatementUpdate",
        "CommandPreparedStatementUpdate",
        "CommandStatementIngest",
    }:
        return Invalid(_WRITING)
    if name == "CommandStatementSubstraitPlan":
        return Invalid("Substrait is not read: send a statement of SQL")
    return Invalid(f"{name} is not for this call of Flight")
