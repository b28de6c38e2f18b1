"""Bodies of requests: JSON of bounded depth, size of numbers and number of values; its length the gate bounds."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from carnac.api.access import asking
from carnac.api.problems import Refused
from carnac.core.json_text import TooManyValues, check_count, parse_json
from carnac.errors import Invalid
from carnac.ports.answers import Client

PARSED_AT_ONCE_BYTES = 64 << 10
"""A longer body is read by a thread of its own, while others are answered."""


async def read_body(request: Request) -> bytes:
    """Return the body.

    Raises:
        Refused: It is too large, or did not come whole.
    """
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
    except ClientDisconnect:
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"the client left after {len(data)} bytes of the body"
        ) from None
    return bytes(data)


async def read_json(request: Request) -> object:
    """Return the body's value.

    Raises:
        Invalid: It is not JSON, or nested too deep, or holds a number that nothing keeps.
        Refused: It is too large, or did not come whole.
    """
    data = await read_body(request)
    request.state.body = data
    return await parse_body(data)


async def parse_body(data: bytes) -> object:
    """Return the value of a body; raises as `read_json`."""
    try:
        if len(data) > PARSED_AT_ONCE_BYTES:
            return await run_in_threadpool(_parse, data)
        return _parse(data)
    except TooManyValues as error:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"{error.message}; put rows into files, not into the task",
        ) from None


def _parse(data: bytes) -> object:
    check_count(data, "body")
    return parse_json(data, "body")


async def read_object(request: Request) -> dict[str, object]:
    """Return the body, which must be a JSON object.

    Raises:
        Invalid, Refused: As `read_json`, or it is another value.
    """
    value = await read_json(request)
    if not isinstance(value, dict):
        raise Invalid("the body must be a JSON object")
    return value


async def read_list(request: Request) -> list[object]:
    """Return the body, which must be a list that holds something.

    Raises:
        Invalid, Refused: As `read_json`, or it is another value.
    """
    value = await read_json(request)
    if not isinstance(value, list) or not value:
        raise Invalid("the body must be a JSON list that is not empty")
    return value


def text_of(request: Request) -> str:
    """Return the text of a body that was read as JSON, to name lines of it."""
    data: bytes = request.state.body
    return data.decode("utf-8", "replace")


JsonObject = Annotated[dict[str, object], Depends(read_object)]
JsonList = Annotated[list[object], Depends(read_list)]


def body_shown(kind: str, example: object) -> dict[str, object]:
    """Return what OpenAPI is to say of a body that is read here."""
    content = {"application/json": {"schema": {"type": kind}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def client_of(request: Request) -> Client:
    """Return who asks."""
    return asking(request.client.host if request.client is not None else "")
