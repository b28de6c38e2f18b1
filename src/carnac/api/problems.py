"""Failures as answers: one sentence, in the object that Druid's clients read; never a page of HTML."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from carnac.core.texts import one_line
from carnac.errors import CarnacError, Conflict, Invalid, NotFound, Revoked, Unavailable
from carnac.specs.druid.elsewhere import HERE, find_order, what_instead

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

PATH_SHOWN_MAX = 200
CHALLENGE = 'Basic realm="carnac", charset="UTF-8"'
"""What a refusal says of how clients tell who they are."""
_log = logging.getLogger(__name__)

_KINDS: tuple[tuple[type[CarnacError], HTTPStatus], ...] = (
    (Invalid, HTTPStatus.BAD_REQUEST),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (Revoked, HTTPStatus.CONFLICT),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)
_CATEGORIES = {
    HTTPStatus.BAD_REQUEST: "INVALID_INPUT",
    HTTPStatus.NOT_FOUND: "NOT_FOUND",
    HTTPStatus.CONFLICT: "CONFLICT",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "CAPACITY_EXCEEDED",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "INVALID_INPUT",
    HTTPStatus.METHOD_NOT_ALLOWED: "UNSUPPORTED",
    HTTPStatus.UNAUTHORIZED: "UNAUTHORIZED",
    HTTPStatus.FORBIDDEN: "FORBIDDEN",
    HTTPStatus.REQUEST_TIMEOUT: "TIMEOUT",
    HTTPStatus.SERVICE_UNAVAILABLE: "SERVICE_UNAVAILABLE",
}


_TEXTS = ("error", "errorMessage", "errorCode", "errorClass", "persona", "category")
PROBLEM = {
    "title": "Problem",
    "description": "What is wrong.",
    "type": "object",
    "required": [*_TEXTS, "host", "context"],
    "properties": {
        **{name: {"type": "string"} for name in _TEXTS},
        "host": {"type": "null"},
        "context": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
"""The body of every failure, for the description of the API."""


class Refused(Exception):
    """A request that HTTP has a status for and our errors have no kind."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def status_of(error: CarnacError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    found = (status for kind, status in _KINDS if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(
    status: int, message: str, *, kind: str, ids: dict[str, object] | None = None
) -> JSONResponse:
    """Return the answer that says what is wrong."""
    return JSONResponse(body_of_problem(status, message, kind=kind, ids=ids), status_code=status)


def body_of_problem(
    status: int, message: str, *, kind: str, ids: dict[str, object] | None = None
) -> dict[str, object]:
    """Return an error as the object that Druid's clients read. Its texts are short lines, whatever a request held."""
    message = one_line(message)
    is_theirs = status < HTTPStatus.INTERNAL_SERVER_ERROR
    category = _CATEGORIES.get(HTTPStatus(status), "INVALID_INPUT" if is_theirs else "DEFENSIVE")
    return {
        "error": message,
        "errorMessage": message,
        "errorCode": kind,
        "errorClass": kind,
        "persona": "USER" if is_theirs else "OPERATOR",
        "category": category,
        "host": None,
        "context": {key: one_line(_as_text(value)) for key, value in (ids or {}).items()},
    }


def _as_text(value: object) -> str:
    """Return a value as Druid's clients take it, which know texts only: lists and objects as JSON."""
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def shown_path(scope: Mapping[str, Any]) -> str:
    """Return the path of a request for a line in a log: as it was sent, without its query."""
    return str(scope["raw_path"].decode("ascii", "replace"))[:PATH_SHOWN_MAX]


def add_handlers(app: FastAPI) -> None:
    """Let every failure of the app be a `problem`, for which no thread is needed: there may be no memory for one."""
    app.add_exception_handler(CarnacError, _ours)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(Exception, _bug)


async def problem_of(request: Request, error: CarnacError | Refused) -> JSONResponse:
    """Return the `problem` of a request that the app's handlers do not see."""
    return await (_refused if isinstance(error, Refused) else _ours)(request, error)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CarnacError)  # noqa: S101 - as registered
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("%s %s: %s", request.method, shown_path(request.scope), error.message)
    return problem(status, error.message, kind=error.kind, ids=error.ids)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)  # noqa: S101 - as registered
    _log.warning("%s %s: %s", request.method, shown_path(request.scope), error.message)
    answer = problem(error.status, error.message, kind="refused")
    if error.status is HTTPStatus.UNAUTHORIZED:
        answer.headers["www-authenticate"] = CHALLENGE
    return answer


async def _not_valid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    return problem(
        HTTPStatus.BAD_REQUEST, f"{where} is wrong: {first['msg'].lower()}", kind=Invalid.kind
    )


async def _of_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    method, path = request.method, request.url.path
    instead = find_order(method, path)
    if error.status_code == HTTPStatus.NOT_FOUND:
        message = f"there is no path {path}: {instead or what_instead(path)}"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"{path} takes no {method}: {instead or HERE}"
    else:
        message = str(error.detail)
    answer = problem(error.status_code, message, kind="refused")
    answer.headers.update(error.headers or {})
    return answer


async def _bug(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s", request.method, shown_path(request.scope), exc_info=error)
    text = f"internal error: {type(error).__name__}; the server's log says where, please report it"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, text, kind="internal")
