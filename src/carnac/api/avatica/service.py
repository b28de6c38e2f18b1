"""Requests that a driver may send, answered by the statements of a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.api.avatica import listings
from carnac.api.avatica.asked import Asked
from carnac.api.avatica.clients import CREDENTIALS, credentials_of
from carnac.api.avatica.columns import signature
from carnac.api.avatica.held import Frame, HeldRows, check_offset
from carnac.api.avatica.parameters import parse_typed
from carnac.api.avatica.problems import NoStatement
from carnac.api.sql.described import Described
from carnac.api.sql.facts import JSON_TYPE
from carnac.api.sql.requests import SqlRequest, asked_by, read_request
from carnac.api.sql.runs import Run, names_of
from carnac.core.texts import short
from carnac.errors import CarnacError, Invalid
from carnac.query.schema.outline import outline

if TYPE_CHECKING:
    from carnac.api.avatica.connections import Connections, OpenStatement
    from carnac.broker import Broker
    from carnac.ports.answers import Client

FRAME_ROWS_MIN = 1_000
"""A driver that is not told asks for 100 rows at a time, and its fetches would take longer than their rows."""
FRAME_ROWS_MAX = 5_000
LIST_TIMEOUT_MS = 10_000
"""Time limit of what lists tables and columns, and of looking at a statement that is prepared."""
PROPERTIES_MAX = 64 << 10
"""Characters of the properties of a connection."""
_OF_ONE_STATEMENT = frozenset({"sqlQueryId", "queryId"})
"""Keys of the context that no two statements share."""
Body = Mapping[str, object]


class Avatica:
    """Answers requests. Safe for threads.

    Args:
        new_id: Makes ids of queries.
    """

    def __init__(self, broker: Broker, connections: Connections, new_id: Callable[[], str]) -> None:
        self._broker = broker
        self._connections = connections
        self._new_id = new_id
        self._described = Described(broker, new_id)
        self._answers: Mapping[str, Callable[[Asked], dict[str, object]]] = {
            "openConnection": self._open_connection,
            "closeConnection": self._close_connection,
            "connectionSync": self._connection_sync,
            "databaseProperties": self._database_properties,
            "createStatement": self._create_statement,
            "closeStatement": self._close_statement,
            "prepare": self._prepare,
            "prepareAndExecute": self._prepare_and_execute,
            "execute": self._execute,
            "fetch": self._fetch,
            "syncResults": self._sync_results,
            "commit": lambda asked: self._nothing(asked, "commit"),
            "rollback": lambda asked: self._nothing(asked, "rollback"),
            "prepareAndExecuteBatch": _no_batches,
            "executeBatch": _no_batches,
            "getCatalogs": lambda asked: self._list(asked, listings.CATALOGS),
            "getTableTypes": lambda asked: self._list(asked, listings.TABLE_TYPES),
            "getTypeInfo": lambda asked: self._list(asked, listings.type_info()),
            "getSchemas": lambda asked: self._list(asked, *listings.schemas(asked)),
            "getTables": lambda asked: self._list(asked, *listings.tables(asked)),
            "getColumns": lambda asked: self._list(asked, *listings.columns(asked)),
        }

    def answer(self, body: Body, client: Client) -> dict[str, object]:
        """Return the answer to a request.

        Args:
            client: The client that sends it.

        Raises:
            CarnacError: The request is wrong, or its statement failed.
        """
        name = body.get("request")
        answer = self._answers.get(name) if isinstance(name, str) else None
        if answer is None:
            raise Invalid(
                f"there is no request {short(name)} of Avatica here; there are {', '.join(self._answers)}"
            )
        return answer(Asked(body, client))

    def leave(self, body: Body, client: Client) -> None:
        """Stop the statement of a request whose client has gone."""
        asked = Asked(body, client)
        self._connections.find_statement(asked.connection, asked.statement_id).leave()

    def is_late(self, body: Body, client: Client) -> bool:
        """Whether the statement of a request goes on though its time is over, and stopping it has had its time."""
        asked = Asked(body, client)
        try:
            return self._connections.is_late(asked.connection, asked.statement_id)
        except CarnacError:  # it is of no statement
            return False

    def _open_connection(self, asked: Asked) -> dict[str, object]:
        info = asked.body.get("info")
        if info is not None and not isinstance(info, Mapping):
            raise Invalid(f"info must be an object of texts, not {short(info)}")
        context = {
            str(name): value
            for name, value in (info or {}).items()
            if name not in _OF_ONE_STATEMENT | {*CREDENTIALS}
        }
        if sum(len(name) + len(str(value)) for name, value in context.items()) > PROPERTIES_MAX:
            raise Invalid(
                f"the properties of a connection are longer than {PROPERTIES_MAX} characters"
            )
        read_request({"query": "SELECT 1", "context": context})  # a wrong property fails at once
        self._connections.open(asked.connection, context, credentials_of(asked.body))
        return _response("openConnection")

    def _close_connection(self, asked: Asked) -> dict[str, object]:
        self._connections.close_connection(asked.connection)
        return _response("closeConnection")

    def _connection_sync(self, asked: Asked) -> dict[str, object]:
        self._connections.find(asked.connection)
        given = asked.body.get("connProps")
        if given is not None and not isinstance(given, Mapping):
            raise Invalid(f"connProps must be an object, not {short(given)}")
        properties = {"connProps": "connPropsImpl", **(given or {}), "dirty": False}
        return _response("connectionSync", connProps=properties)

    def _database_properties(self, asked: Asked) -> dict[str, object]:
        self._connections.find(asked.connection)
        return _response("databaseProperties", map={})

    def _nothing(self, asked: Asked, name: str) -> dict[str, object]:
        """Return the answer to an order that changes nothing: nothing is written here."""
        self._connections.find(asked.connection)
        return {"response": name}

    def _create_statement(self, asked: Asked) -> dict[str, object]:
        made = self._connections.add_statement(asked.connection)
        return _response("createStatement", connectionId=asked.connection_id, statementId=made.id)

    def _close_statement(self, asked: Asked) -> dict[str, object]:
        self._connections.close_statement(asked.connection, asked.statement_id)
        return _response("closeStatement")

    def _prepare(self, asked: Asked) -> dict[str, object]:
        request = self._request(asked)
        made = self._connections.add_statement(asked.connection)
        try:
            said = self._describe(request)
        except BaseException:
            self._connections.close_statement(asked.connection, made.id)
            raise
        made.prepared = request
        handle = {"connectionId": asked.connection_id, "id": made.id, "signature": said}
        return _response("prepare", statement=handle)

    def _describe(self, request: SqlRequest) -> dict[str, object]:
        """Return what the driver is told of a statement that has no values yet."""
        statement = request.statement
        shown = outline(statement.sql)
        if shown is None:  # EXPLAIN, or no statement: its run says it
            return signature([], None, statement.sql)
        rows, _ = self._described.find(replace(statement, parameters=[None] * shown.parameters))
        names = names_of(rows.names, statement.sql, shown)
        return signature(names, rows, statement.sql, parameters=shown.parameters)

    def _prepare_and_execute(self, asked: Asked) -> dict[str, object]:
        request = self._request(asked)
        return self._run(asked, request, asked.number("maxRowsInFirstFrame", -1))

    def _execute(self, asked: Asked) -> dict[str, object]:
        try:
            prepared = self._statement(asked).prepared
        except NoStatement:
            prepared = self._prepare_again(asked)
            if prepared is None:
                return _response("executeResults", results=[], missingStatement=True)
        if prepared is None:
            raise Invalid(f"statement {asked.statement_id} was not prepared: prepare one first")
        values = parse_typed(asked.body.get("parameterValues"), prepared.shape.zone)
        request = asked_by(
            replace(
                prepared, statement=replace(prepared.statement, parameters=values, query_id="")
            ),
            new_id=self._new_id,
            client=asked.client,
        )
        return self._run(asked, request, asked.number("maxRowCount", -1))

    def _run(self, asked: Asked, request: SqlRequest, frame_rows: int) -> dict[str, object]:
        try:
            statement = self._statement(asked)
        except NoStatement:
            return _response("executeResults", results=[], missingStatement=True)
        with statement.one_at_a_time():
            held = self._hold(request)
            statement.hold(held, self._broker.limit_ms(request.statement))
            try:
                held.open()
                frame = held.take(_frame_rows(frame_rows))
            except BaseException:
                statement.leave()
                raise
            if held.is_done:
                statement.held = None
            result = _result(asked.connection_id, statement.id, held.signature, frame)
        return _response("executeResults", results=[result], missingStatement=False)

    def _hold(self, request: SqlRequest) -> HeldRows:
        return HeldRows(Run(self._broker, request, media_type=JSON_TYPE), request)

    def _fetch(self, asked: Asked) -> dict[str, object]:
        try:
            statement = self._statement(asked)
        except NoStatement:
            return _response("fetch", frame=None, missingStatement=True, missingResults=False)
        with statement.one_at_a_time():
            held = _held(statement)
            check_offset(held, asked.number("offset"))
            try:
                frame = held.take(_frame_rows(asked.number("fetchMaxRowCount", -1)))
            except BaseException:
                statement.leave()
                raise
            if held.is_done:
                statement.held = None
        return _response("fetch", frame=frame, missingStatement=False, missingResults=False)

    def _sync_results(self, asked: Asked) -> dict[str, object]:
        try:
            statement = self._statement(asked)
        except NoStatement:
            return _response("syncResults", moreResults=False, missingStatement=True)
        held = _held(statement)
        check_offset(held, asked.number("offset"))
        return _response("syncResults", moreResults=not held.is_done, missingStatement=False)

    def _list(self, asked: Asked, sql: str, values: Sequence[object] = ()) -> dict[str, object]:
        """Return all rows of a statement of ours, which its connection need not close."""
        self._connections.find(asked.connection)
        request = asked_by(read_request({"query": sql}), new_id=self._new_id, client=asked.client)
        statement = replace(request.statement, parameters=values, timeout_ms=LIST_TIMEOUT_MS)
        held = self._hold(replace(request, statement=statement))
        held.open()
        rows: list[Sequence[object]] = []
        while not held.is_done:
            rows.extend(held.take(FRAME_ROWS_MAX)["rows"])
        frame = Frame(offset=0, done=True, rows=rows)
        return _result(asked.connection_id, 0, held.signature, frame)

    def _prepare_again(self, asked: Asked) -> SqlRequest | None:
        """Prepare what went with an older connection or process, of which the driver keeps the text; None: no text."""
        sql = asked.prepared_sql
        if sql is None:
            return None
        request = self._request(Asked({**asked.body, "sql": sql, "maxRowCount": -1}, asked.client))
        made = self._connections.add_statement(asked.connection, asked.statement_id)
        made.prepared = request
        return request

    def _request(self, asked: Asked) -> SqlRequest:
        """Return the statement of a request, with the context of its connection.

        Raises:
            Invalid: It is wrong.
        """
        context = self._connections.find(asked.connection).context
        request = asked_by(
            read_request({"query": asked.text("sql"), "context": context}),
            new_id=self._new_id,
            client=asked.client,
        )
        limits = [one for one in (request.rows_max, asked.rows_max()) if one is not None]
        return replace(request, rows_max=min(limits, default=None))

    def _statement(self, asked: Asked) -> OpenStatement:
        return self._connections.find_statement(asked.connection, asked.statement_id)


def _held(statement: OpenStatement) -> HeldRows:
    if statement.held is None:
        gone = f"its rows were let go, because {statement.why_none}"
        why = gone if statement.why_none else "it has no rows to be fetched"
        raise Invalid(f"statement {statement.id}: {why}; run it again")
    return statement.held


def _frame_rows(wanted: int) -> int:
    return FRAME_ROWS_MAX if wanted < 0 else min(max(wanted, FRAME_ROWS_MIN), FRAME_ROWS_MAX)


def _no_batches(_asked: Asked) -> dict[str, object]:
    raise Invalid("Batch statements not supported: run SELECT statements one by one")


def _result(connection_id: str, statement_id: int, said: Body, frame: Frame) -> dict[str, object]:
    return _response(
        "resultSet",
        connectionId=connection_id,
        statementId=statement_id,
        ownStatement=False,
        signature=said,
        firstFrame=frame,
        updateCount=-1,
    )


def _response(name: str, **parts: object) -> dict[str, object]:
    return {"response": name, **parts, "rpcMetadata": None}
