"""`/druid/v2/sql` and the paths beside it that clients ask: to stop a query, and to list datasources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Path, Request, Response

from carnac.api.bodies import body_shown, client_of, read_body
from carnac.api.gate import FORM_TYPE, TEXT_TYPE
from carnac.api.problems import Refused
from carnac.api.sql.answering import FailedAnswer, SqlAnswer
from carnac.api.sql.facts import ARROW_TYPE, JSON_TYPE, accepted
from carnac.api.sql.requests import (
    SqlRequest,
    Unreadable,
    asked_by,
    parse_asked,
    parse_request,
    read_request,
)
from carnac.errors import CarnacError, NotFound
from carnac.ports.answers import Client, Statement
from carnac.ports.memo import Memo

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.broker import Broker
    from carnac.ports.threads import DaemonThreads

SQL_PATH = "/druid/v2/sql"
LIST_TIMEOUT_MS = 10_000
"""Time limit of a list of names, which waits for its turn like a query; threads for it are few."""
REQUESTS_MAX = 1_000
REQUESTS_BYTES = 4 << 20
"""Bodies that are kept beside what they ask: a dashboard sends the same ones each time."""
_REQUESTS: Memo[bytes, SqlRequest] = Memo(
    values_max=REQUESTS_MAX, weight_max=REQUESTS_BYTES, weigh=lambda body, _: len(body)
)
_EXAMPLE = {"query": "SELECT COUNT(*) AS flights FROM flights", "resultFormat": "object"}
_FIELD = re.compile(rb"\s*\w+=")
"""The beginning of a form with fields, which no statement has."""
_TABLES = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid' ORDER BY 1"
_COLUMNS = (
    "SELECT COLUMN_NAME, JDBC_TYPE = 12 FROM INFORMATION_SCHEMA.COLUMNS "
    "WHERE TABLE_SCHEMA = 'druid' AND TABLE_NAME = ? AND COLUMN_NAME <> '__time' "
    "ORDER BY ORDINAL_POSITION"
)


def _engines() -> dict[str, list[dict[str, str]]]:
    return {"engines": [{"name": "native"}]}


def make_router(service: Broker, *, new_id: Callable[[], str], threads: DaemonThreads) -> APIRouter:
    """Return the routes.

    Args:
        new_id: Makes ids of queries that bring none.
        threads: Threads that wait for the service.
    """
    router = APIRouter(prefix="/druid/v2", tags=["queries"])

    @router.post(
        "/sql", summary="Run a SELECT statement", openapi_extra=body_shown("object", _EXAMPLE)
    )
    async def sql(request: Request) -> Response:
        media_type = accepted(request.headers.get("accept"))
        if media_type is None:
            raise Refused(
                HTTPStatus.NOT_ACCEPTABLE,
                f"answers are {JSON_TYPE} or {ARROW_TYPE}, whatever the resultFormat; accept one of them",
            )
        try:
            asked = await _read(request, new_id)
        except CarnacError as error:
            return FailedAnswer(error)
        return SqlAnswer(
            service,
            asked,
            threads=threads,
            media_type=media_type,
            if_none_match=request.headers.get("if-none-match"),
        )

    router.get("/sql/engines", summary="Return the engines of Druid's that are here")(_engines)

    @router.delete(
        "/sql/{query_id}",
        status_code=HTTPStatus.ACCEPTED,
        summary="Stop a query that runs or waits",
        response_class=Response,
    )
    def cancel(query_id: Annotated[str, Path(description="Its sqlQueryId.")]) -> Response:
        if not service.cancel(query_id):
            raise NotFound(f"no query with the id '{query_id}' runs or waits here", query=query_id)
        return Response(status_code=HTTPStatus.ACCEPTED)

    @router.get("/datasources", summary="Return the names of the datasources")
    def datasources(request: Request) -> list[str]:
        return [str(name) for (name,) in _rows(service, _TABLES, (), new_id(), client_of(request))]

    @router.get("/datasources/{datasource}", summary="Return the columns of a datasource")
    def datasource(
        request: Request,
        datasource: Annotated[str, Path(description="The datasource's name.")],
    ) -> dict[str, list[str]]:
        columns = list(_rows(service, _COLUMNS, (datasource,), new_id(), client_of(request)))
        return {
            "dimensions": [str(name) for name, is_text in columns if is_text],
            "metrics": [str(name) for name, is_text in columns if not is_text],
        }

    return router


async def _read(request: Request, new_id: Callable[[], str]) -> SqlRequest:
    """Return what a request asks; a body of text, or of text encoded as a form is, is the statement itself.

    Raises:
        Invalid: The body is wrong.
        Refused: It is too large, or did not come whole, or is JSON that calls itself text.
    """
    client = client_of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {TEXT_TYPE, FORM_TYPE}:
        data = await read_body(request)
        found = _REQUESTS.find(data)
        if found is None:
            found = read_request(await parse_asked(data))
            _REQUESTS.keep(data, found)
        return asked_by(found, new_id=new_id, client=client)
    data = await read_body(request)
    if data.lstrip()[:1] == b"{":
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body is JSON, and says that it is {kind}; send the header 'Content-Type: {JSON_TYPE}'",
        )
    if kind == FORM_TYPE:
        if _FIELD.match(data):
            raise Unreadable(
                "a form is not read by its fields: its body is one statement, as "
                "curl --data-urlencode 'SELECT 1' sends it; or send JSON"
            )
        data = unquote_to_bytes(data.replace(b"+", b" "))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Unreadable("the body is not UTF-8") from None
    return parse_request({"query": text}, new_id=new_id, client=client)


def _rows(
    service: Broker, sql: str, parameters: Sequence[object], query_id: str, client: Client
) -> Iterable[tuple[object, ...]]:
    statement = Statement(
        sql=sql,
        parameters=parameters,
        query_id=query_id,
        client=client,
        timeout_ms=LIST_TIMEOUT_MS,
    )
    answer = service.run(statement)
    if answer is None:
        return
    try:
        for batch in cast("Iterable[pa.RecordBatch]", answer.batches()):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    finally:
        answer.close()
