"""Bodies of native queries: the query, and the part of its context that the broker gets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from carnac.api.sql.requests import SqlRequest, Unreadable, as_unreadable, asked_by, read_request
from carnac.ports.answers import Client
from carnac.specs.druid.blocks import Block, block_of

_PASSED = frozenset({"sqlOuterLimit", "sqlTimeZone", "sqlQueryId"})
"""Parts of the context that are for SQL alone."""
_DIGITS = 8


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
