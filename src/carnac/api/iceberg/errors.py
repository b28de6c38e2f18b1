"""Failures as Iceberg's clients read them: `error` is an object with a message, a type and a code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from carnac.api.problems import shown_path, status_of
from carnac.core.texts import one_line
from carnac.errors import CarnacError, NotFound

if TYPE_CHECKING:
    from fastapi import Request, Response

_TYPES = {
    HTTPStatus.BAD_REQUEST: "BadRequestException",
    HTTPStatus.UNAUTHORIZED: "NotAuthorizedException",
    HTTPStatus.FORBIDDEN: "ForbiddenException",
    HTTPStatus.NOT_FOUND: "NoSuchTableException",
    HTTPStatus.NOT_ACCEPTABLE: "UnsupportedOperationException",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableException",
}
_log = logging.getLogger(__name__)


class NoNamespace(NotFound):
    """There is no such namespace."""


def failed(status: HTTPStatus, message: str, kind: str | None = None) -> JSONResponse:
    """Return an answer that says what is wrong."""
    stated = kind or _TYPES.get(status, "InternalServerError")
    body = {"error": {"message": one_line(message), "type": stated, "code": int(status)}}
    return JSONResponse(body, status_code=status)


class IcebergRoute(APIRoute):
    """A route of which every failure has Iceberg's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers."""
        answer = super().get_route_handler()

        async def answer_or_fail(request: Request) -> Response:
            try:
                return await answer(request)
            except CarnacError as error:
                status = status_of(error)
                if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    _log.error(
                        "%s %s: %s", request.method, shown_path(request.scope), error.message
                    )
                kind = "NoSuchNamespaceException" if isinstance(error, NoNamespace) else None
                return failed(status, error.message, kind)
            except RequestValidationError as error:
                first = error.errors()[0]
                where = " ".join(str(part) for part in first["loc"])
                return failed(HTTPStatus.BAD_REQUEST, f"{where} is wrong: {first['msg'].lower()}")

        return answer_or_fail
