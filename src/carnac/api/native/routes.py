"""`/druid/v2`: native queries, and how to stop one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Request, Response

from carnac.api.bodies import body_shown, client_of, read_body
from carnac.api.native.runs import NativeRun, OpenCatalog
from carnac.api.problems import Refused
from carnac.api.sql.answering import FailedAnswer, SqlAnswer
from carnac.api.sql.facts import JSON_TYPE, accepted
from carnac.api.sql.requests import (
    SqlRequest,
    Unreadable,
    as_unreadable,
    asked_by,
    parse_asked,
    read_request,
)
from carnac.errors import CarnacError
from carnac.ports.answers import Client
from carnac.specs.druid.blocks import Block, block_of

if TYPE_CHECKING:
    from carnac.broker import Broker
    from carnac.ports.threads import DaemonThreads

NATIVE_PATH = "/druid/v2"
_PASSED = frozenset({"sqlOuterLimit", "sqlTimeZone", "sqlQueryId"})
"""Parts of the context that are for SQL alone."""
_DIGITS = 8
_EXAMPLE = {
    "queryType": "timeseries",
    "dataSource": "flights",
    "intervals": ["2013-01-01/2013-02-01"],
    "granularity": "day",
    "aggregations": [{"type": "count", "name": "flights"}],
}


def make_router(
    service: Broker,
    open_catalog: OpenCatalog,
    *,
    new_id: Callable[[], str],
    threads: DaemonThreads,
) -> APIRouter:
    """Return the routes.

    Args:
        open_catalog: Opens the revision that a query is planned on.
        new_id: Makes ids of queries that bring none.
        threads: Threads that wait for the service.
    """
    router = APIRouter(prefix="/druid", tags=["queries"])

    @router.post("/v2", summary="Run a native query", openapi_extra=body_shown("object", _EXAMPLE))
    async def native(request: Request) -> Response:
        if accepted(request.headers.get("accept")) is None:
            raise Refused(
                HTTPStatus.NOT_ACCEPTABLE, f"answers to native queries are {JSON_TYPE}; accept that"
            )
        data, client = await read_body(request), client_of(request)
        try:
            block, asked = read_native(await parse_asked(data), new_id=new_id, client=client)
        except CarnacError as error:
            return FailedAnswer(error)
        return SqlAnswer(
            service,
            asked,
            threads=threads,
            media_type=JSON_TYPE,
            if_none_match=request.headers.get("if-none-match"),
            run=NativeRun(service, asked, block, open_catalog),
            mark=mark_of_body(data),
        )

    @router.delete(
        "/v2/{query_id}",
        status_code=HTTPStatus.ACCEPTED,
        summary="Stop a native query, if it runs or waits",
        response_class=Response,
    )
    def cancel(query_id: Annotated[str, Path(description="Its queryId.")]) -> Response:
        service.cancel(query_id)
        return Response(status_code=HTTPStatus.ACCEPTED)

    return router


def read_native(
    body: object, *, new_id: Callable[[], str], client: Client
) -> tuple[Block, SqlRequest]:
    """Return the query, and a request with its context and without a statement.

    Raises:
        Unreadable: It is no query.
        Invalid: A part of the context is wrong.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("queryType"), str):
        raise Unreadable('the body must be a JSON object with a queryType, such as "timeseries"')
    given = body.get("context")
    with as_unreadable():
        context = {} if given is None else block_of(given, "context")
    known = {key: value for key, value in context.items() if key not in _PASSED}
    request = read_request({"query": "SELECT 1", "context": known})
    named = replace(request.statement, query_id=request.native_id)
    return body, asked_by(replace(request, statement=named), new_id=new_id, client=client)


def mark_of_body(data: bytes) -> str:
    """Return what tells answers in the shapes of several queries apart in their ETags."""
    return "-" + hashlib.sha256(data).hexdigest()[:_DIGITS]
