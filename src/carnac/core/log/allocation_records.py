"""Requests for places, and the replies to them, as JSON for HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Literal, cast

from msgspec import Struct, ValidationError, convert, to_builtins

from carnac.core.log.allocation import (
    AllocationReply,
    AllocationRequest,
    Denied,
    LockWaits,
    PendingSegment,
)
from carnac.errors import CarnacError, Conflict, Invalid, NotFound, Revoked, Unavailable

_KINDS: Mapping[str, type[CarnacError]] = {
    kind.kind: kind for kind in (Conflict, Unavailable, Invalid, NotFound, Revoked)
}


_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a fraction",
    "int": "a whole number",
    "object": "an object",
    "str": "a text",
}
"""What the types of msgspec are called here."""
_WRONG_TYPE = re.compile(r"Expected `([\w |]+)`, got `(\w+)`(?: - at `\$\.(.+)`)?")
_MISSING = re.compile(r"Object missing required field `(\w+)`(?: - at `\$\.(.+)`)?")
_NO_CHOICE = re.compile(r"Invalid enum value (.+) - at `\$\.(.+)`")


class _Reply(Struct):
    status: Literal["allocated", "waiting", "denied"]
    pending_id: str | None = None
    kind: str = ""
    message: str = ""


def request_to_json(request: AllocationRequest) -> dict[str, object]:
    """Return a request as a JSON object."""
    return cast("dict[str, object]", to_builtins(request))


_FIELDS = frozenset(field.name for field in fields(AllocationRequest))


def _sentence(error: str) -> str:
    """Return what msgspec says of a request, in our words."""
    if found := _WRONG_TYPE.match(error):
        wanted, got, where = found.groups()
        named = " or ".join(_TYPES.get(one, one) for one in wanted.split(" | "))
        what = f"'{where}' of a request for a place" if where else "a request for a place"
        return f"{what} must be {named}, not {_TYPES.get(got, got)}"
    if found := _MISSING.match(error):
        what = f"'{found[2]}' of a request for a place" if found[2] else "a request for a place"
        return f"{what} needs '{found[1]}'"
    if found := _NO_CHOICE.match(error):
        return f"'{found[2]}' of a request for a place cannot be {found[1]}"
    return f"a request for a place is wrong: {error}"


def request_from_json(value: object) -> AllocationRequest:
    """Return the request in a JSON object.

    Raises:
        Invalid: It is none.
    """
    try:
        request = convert(value, AllocationRequest)
    except ValidationError as error:
        raise Invalid(_sentence(str(error))) from None
    if unknown := sorted(cast("Mapping[str, object]", value).keys() - _FIELDS):
        known = ", ".join(sorted(_FIELDS))
        raise Invalid(f"a request for a place has no '{unknown[0]}'; it has {known}")
    for name in ("datasource", "segment_granularity", "sequence", "owner"):
        if not getattr(request, name):
            raise Invalid(f"'{name}' of a request for a place must be a text that is not empty")
    return request


def reply_to_json(reply: AllocationReply) -> dict[str, object]:
    """Return what is answered to a request: `status` is `allocated`, `waiting` or `denied`."""
    if isinstance(reply, PendingSegment):
        return {
            "status": "allocated",
            "pending_id": reply.pending_id,
            "datasource": reply.datasource,
            "interval": str(reply.chunk),
            "major_ms": reply.major_ms,
            "partition_id": reply.partition_id,
            "sequence": reply.sequence,
            "previous_id": reply.previous_id,
            "owner": reply.owner,
        }
    if isinstance(reply, LockWaits):
        return {"status": "waiting", "waits_for": [lock.task_id for lock in reply.blockers]}
    return {"status": "denied", "kind": reply.error.kind, "message": reply.error.message}


def read_reply(value: object) -> str | None:
    """Return the pending id that a reply in JSON gives; None: the lock is not free yet, ask again.

    Raises:
        CarnacError: It was denied.
        Invalid: It is no reply.
    """
    try:
        found = convert(value, _Reply)
    except ValidationError as error:
        raise Invalid(f"a reply about a place is wrong: {error}; is this another server?") from None
    if found.status == "denied":
        raise _KINDS.get(found.kind, Conflict)(found.message)
    if found.status == "allocated" and not found.pending_id:
        raise Invalid("a reply about a place gives none; is this another server?")
    return found.pending_id


def pending_id_of(reply: AllocationReply) -> str | None:
    """Return the pending id that a reply gives; None: the lock is not free yet, ask again.

    Raises:
        CarnacError: It was denied.
    """
    if isinstance(reply, Denied):
        raise reply.error
    return reply.pending_id if isinstance(reply, PendingSegment) else None
