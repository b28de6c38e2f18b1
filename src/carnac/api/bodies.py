"""Bodies of requests: JSON of bounded depth, size of numbers and number of values; its length the gate bounds."""

from __future__ import annotations

import json
import math
import re
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from carnac.api.problems import Refused
from carnac.core.texts import NESTING_MAX, WHOLE_MAX, short
from carnac.errors import Invalid

VALUES_MAX = 500_000
"""Values in one body: each takes about a hundred bytes once it is read."""
PARSED_AT_ONCE_BYTES = 64 << 10
"""A longer body is read by a thread of its own, while others are answered."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


async def read_json(request: Request) -> object:
    """Return the body's value.

    Raises:
        Invalid: It is not JSON, or nested too deep, or holds a number that nothing keeps.
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
    if len(data) > PARSED_AT_ONCE_BYTES:
        return await run_in_threadpool(parse_json, bytes(data))
    return parse_json(bytes(data))


def parse_json(data: bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        Invalid: It is none, or nested too deep, names a field twice, or holds a number or text that nothing keeps.
        Refused: It holds too many values.
    """
    _check_shape(data)
    try:
        text = data.decode()
        value = json.loads(
            text,
            object_pairs_hook=_once_each,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8: byte {error.start} cannot be decoded") from None
    except json.JSONDecodeError as error:
        raise Invalid(
            f"the body is not JSON: line {error.lineno}, column {error.colno}: "
            f"{error.msg[:1].lower()}{error.msg[1:]}"
        ) from None
    if _ESCAPED_SURROGATE.search(text) is not None:
        _check_texts(value)
    return value


def _check_shape(data: bytes) -> None:
    """Check depth and number of values, before anything is made of them."""
    if _openings(data) <= NESTING_MAX and data.count(b",") <= VALUES_MAX - NESTING_MAX:
        return
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")  # each quote left begins or ends a text
    texts = plain.count(b'"') // 2
    bare = b"" if texts > VALUES_MAX else b"".join(plain.split(b'"')[::2])
    openings = _openings(bare)
    if texts > VALUES_MAX or openings + bare.count(b",") > VALUES_MAX:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body holds more than {VALUES_MAX} values; put rows into files, not into the task",
        )
    if openings <= NESTING_MAX:
        return
    depth = 0
    for bracket in bare.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        if depth > NESTING_MAX:
            raise Invalid(
                f"the body is nested more than {NESTING_MAX} deep (objects and lists in one another)"
            )


def _openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Invalid(f"the body gives {short(name)} more than once; keep one of them")
            seen.add(name)
    return found


def _whole(text: str) -> int:
    if len(text) <= len(str(WHOLE_MAX)) + 1:
        value = int(text)
        if abs(value) <= WHOLE_MAX:
            return value
    raise Invalid(f"the body holds the number {short(text)}; whole numbers are at most {WHOLE_MAX}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Invalid(f"the body holds the number {short(text)}, which is out of range")
    return value


def _no_number(text: str) -> float:
    raise Invalid(f"the body holds {text}, which is not JSON")


def _check_texts(value: object) -> None:
    """Check that no text holds half of a pair of surrogates: it cannot be written down."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_texts(name)
            _check_texts(item)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, str) and _SURROGATE.search(value) is not None:
        raise Invalid(
            f"the body holds the text {short(value)} with half of a surrogate pair, which is no character"
        )


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
