"""`/druid/v2/sql/avatica`: the path of JDBC."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request, Response

from carnac.api.avatica.problems import NoConnection, error_response
from carnac.api.bodies import body_shown, client_of, read_object
from carnac.api.sql.answering import UNWATCHED_S
from carnac.api.sql.errors import failure_of
from carnac.api.sql.facts import JSON_TYPE
from carnac.core.texts import short
from carnac.errors import Cancelled, CarnacError
from carnac.ports.threads import outlived

if TYPE_CHECKING:
    from carnac.api.avatica.clients import Clients
    from carnac.api.avatica.service import Avatica
    from carnac.ports.threads import DaemonThreads

LOOK_S = 1.0
"""Between two looks whether a statement goes on that was stopped."""
AVATICA_PATH = "/druid/v2/sql/avatica"
_EXAMPLE = {"request": "openConnection", "connectionId": "c1", "info": {"sqlTimeZone": "Etc/UTC"}}
_log = logging.getLogger(__name__)


def make_router(avatica: Avatica, *, threads: DaemonThreads, clients: Clients | None) -> APIRouter:
    """Return the route.

    Args:
        threads: Threads that wait for the service.
        clients: Tells who sends a request without a header, which the gate lets in; None: there are no users.
    """
    router = APIRouter(tags=["queries"])

    @router.post(
        AVATICA_PATH,
        summary="Answer a JDBC driver: Avatica's protocol in JSON",
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    async def answer(request: Request) -> Response:
        body, client = await read_object(request), client_of(request)

        def leave() -> None:
            with suppress(CarnacError):  # it runs no more, or is of no statement
                avatica.leave(body, client)

        try:
            if clients is not None and "authorization" not in request.headers:
                asking = threads.submit(partial(clients.client, body, client.name))
                client = await asyncio.wrap_future(asking)
            asked = asyncio.wrap_future(
                threads.submit(lambda: _encoded(avatica.answer(body, client)))
            )
            await _watch(
                request, asked, lambda: threads.submit(leave), lambda: avatica.is_late(body, client)
            )
            content = await asked
        except CarnacError as error:
            _note(body, error)
            # Druid's status, too; the driver takes none but 200 and 500
            return _response(_encoded(error_response(error)), HTTPStatus.INTERNAL_SERVER_ERROR)
        return _response(content, HTTPStatus.OK)

    return router


async def _watch(
    request: Request,
    asked: asyncio.Future[Any],
    leave: Callable[[], object],
    is_late: Callable[[], bool],
) -> None:
    """Wait until a request is answered; if its client goes meanwhile, have its statement stopped.

    Raises:
        TimedOut: It was stopped long ago, and does not end.
    """
    await asyncio.wait({asked}, timeout=UNWATCHED_S)
    if asked.done():
        return
    gone: asyncio.Future[Any] = asyncio.create_task(_until_gone(request))
    waited: set[asyncio.Future[Any]] = {asked, gone}
    try:
        while not asked.done():
            await asyncio.wait(waited, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and gone in waited:
                waited.discard(gone)
                leave()
            if not asked.done() and is_late():
                asked.add_done_callback(asyncio.Future.exception)  # nobody asks for it any more
                raise outlived(None)
    finally:
        gone.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _note(body: Mapping[str, object], error: CarnacError) -> None:
    is_news = failure_of(error).status >= HTTPStatus.INTERNAL_SERVER_ERROR
    level = logging.ERROR if is_news and not isinstance(error, Cancelled) else logging.INFO
    if not isinstance(error, NoConnection):
        _log.log(level, "JDBC, %s: %s", short(body.get("request")), error.message)


def _encoded(answer: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(answer)


def _response(content: bytes, status: HTTPStatus) -> Response:
    return Response(content, status_code=status, media_type=JSON_TYPE)
