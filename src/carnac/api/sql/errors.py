"""Errors of statements, in Druid's form.

`error` is Druid's older word, which Grafana needs to know what not to ask again; the newer `errorCode`, `persona`,
`category` and `errorMessage` are there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from carnac.api.sql.requests import Unreadable
from carnac.core.texts import one_line
from carnac.errors import (
    Busy,
    Cancelled,
    CarnacError,
    Conflict,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
)

PARSE_FAILED = "SQL parse failed"
PLAN_FAILED = "Plan validation failed"
UNKNOWN = "Unknown exception"
_LEGACY = "legacyQueryException"
UNAVAILABLE_AGAIN_S = 5
"""So long a server that stops, or a store that is away for a moment, usually needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure as it is sent.

    Attributes:
        headers: Beside those of every answer.
    """

    status: HTTPStatus
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Kind:
    status: HTTPStatus
    error: str
    category: str
    persona: str = "OPERATOR"


_KINDS: tuple[tuple[type[CarnacError], _Kind], ...] = (
    (Busy, _Kind(HTTPStatus.TOO_MANY_REQUESTS, "Query capacity exceeded", "CAPACITY_EXCEEDED")),
    (TimedOut, _Kind(HTTPStatus.GATEWAY_TIMEOUT, "Query timeout", "TIMEOUT")),
    (Cancelled, _Kind(HTTPStatus.INTERNAL_SERVER_ERROR, "Query cancelled", "CANCELED", "USER")),
    (
        Unavailable,
        _Kind(HTTPStatus.SERVICE_UNAVAILABLE, "Query interrupted", "SERVICE_UNAVAILABLE"),
    ),
    (Conflict, _Kind(HTTPStatus.CONFLICT, UNKNOWN, "CONFLICT", "USER")),
)
_OTHER = _Kind(HTTPStatus.INTERNAL_SERVER_ERROR, UNKNOWN, "RUNTIME_FAILURE")


def failure_of(error: CarnacError) -> Failure:
    """Return how an error of a request is sent."""
    message = one_line(error.message)
    if isinstance(error, Unreadable):
        return Failure(
            status=HTTPStatus.BAD_REQUEST,
            body={
                "error": UNKNOWN,
                "errorMessage": message,
                "errorClass": error.kind,
                "host": None,
            },
        )
    if isinstance(error, Invalid | NotFound):
        return Failure(status=HTTPStatus.BAD_REQUEST, body=_planning(error, message))
    kind = next((kind for of, kind in _KINDS if isinstance(error, of)), _OTHER)
    headers = _when_to_retry(error)
    body = {
        "error": kind.error,
        "errorClass": error.kind,
        "host": None,
        "errorCode": _LEGACY,
        "persona": kind.persona,
        "category": kind.category,
        "errorMessage": message,
        "context": {
            **_texts(error.ids),
            "errorClass": error.kind,
            "legacyErrorCode": kind.error,
        },
    }
    return Failure(status=kind.status, body=body, headers=headers)


def _when_to_retry(error: CarnacError) -> dict[str, str]:
    if isinstance(error, Busy):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, Unavailable) and not isinstance(error, TimedOut | Cancelled):
        return {"Retry-After": str(UNAVAILABLE_AGAIN_S)}
    return {}


def _planning(error: CarnacError, message: str) -> dict[str, object]:
    """Return what is wrong in a statement."""
    return {
        "error": PARSE_FAILED if "line" in error.ids else PLAN_FAILED,
        "errorCode": "invalidInput",
        "persona": "USER",
        "category": "INVALID_INPUT",
        "errorMessage": message,
        "errorClass": error.kind,
        "host": None,
        "context": {"sourceType": "sql", **_texts(error.ids)},
    }


def _texts(ids: Mapping[str, object]) -> dict[str, str]:
    return {name: one_line(str(value)) for name, value in ids.items()}
