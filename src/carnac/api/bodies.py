"""Bodies of requests: JSON of a bounded size, whatever a client calls it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from carnac.api.problems import Refused
from carnac.errors import Invalid

BODY_MAX_BYTES = 64 << 20
"""Specs hold inline rows at most; larger data is not put into a task."""
_JSON_TYPES = ("application/json", "application/x-json", "text/json")


async def read_json(request: Request) -> object:
    """Return the body's value.

    Raises:
        Invalid: It is not JSON.
        Refused: It is too large, or says that it is something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES:
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body must be application/json, and is {kind or 'of no type'}",
        )
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_MAX_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is larger than {BODY_MAX_BYTES} bytes",
            )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body is not JSON: {error}") from None


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


JsonObject = Annotated[dict[str, object], Depends(read_object)]
JsonList = Annotated[list[object], Depends(read_list)]


def body_shown(kind: str, example: object) -> dict[str, object]:
    """Return what OpenAPI is to say of a body that is read here."""
    content = {"application/json": {"schema": {"type": kind}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}
