"""Requests for places, and the replies to them, as JSON: what travels over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.locks.model import LockGranularity, LockType
from carnac.core.log.allocation import (
    AllocationLock,
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
_LOCK_INTEGERS = ("priority", "timeout_ms", "lease_ms")


def request_to_json(request: AllocationRequest) -> dict[str, object]:
    """Return a request as a JSON object."""
    lock = request.lock
    return {
        "datasource": request.datasource,
        "at_ms": request.at_ms,
        "segment_granularity": request.segment_granularity,
        "sequence": request.sequence,
        "previous_id": request.previous_id,
        "owner": request.owner,
        "lease_id": request.lease_id,
        "lock": None
        if lock is None
        else {
            "group_id": lock.group_id,
            "type": str(lock.type),
            "granularity": str(lock.granularity),
            "priority": lock.priority,
            "timeout_ms": lock.timeout_ms,
            "lease_ms": lock.lease_ms,
            "holder": lock.holder,
        },
    }


def request_from_json(value: object) -> AllocationRequest:
    """Return the request in a JSON object.

    Raises:
        Invalid: It is none.
    """
    found = _object(value, "a request for a place")
    lock = found.get("lock")
    lease_id = found.get("lease_id")
    return AllocationRequest(
        datasource=_text(found, "datasource"),
        at_ms=_integer(found, "at_ms"),
        segment_granularity=_text(found, "segment_granularity"),
        sequence=_text(found, "sequence"),
        previous_id=str(found.get("previous_id") or ""),
        owner=_text(found, "owner"),
        lease_id=None if lease_id is None else str(lease_id),
        lock=None if lock is None else _lock(_object(lock, "the lock of a request for a place")),
    )


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
    found = _object(value, "a reply about a place")
    status = found.get("status")
    if status == "allocated":
        return _text(found, "pending_id")
    if status == "waiting":
        return None
    if status != "denied":
        raise Invalid(f"a reply about a place has status {status!r}; is this another server?")
    kind = _KINDS.get(str(found.get("kind")), Conflict)
    raise kind(str(found.get("message")))


def pending_id_of(reply: AllocationReply) -> str | None:
    """Return the pending id that a reply gives; None: the lock is not free yet, ask again.

    Raises:
        CarnacError: It was denied.
    """
    if isinstance(reply, Denied):
        raise reply.error
    return reply.pending_id if isinstance(reply, PendingSegment) else None


def _lock(found: Mapping[str, object]) -> AllocationLock:
    try:
        kind, granularity = (
            LockType(str(found.get("type"))),
            LockGranularity(str(found.get("granularity"))),
        )
    except ValueError as error:
        raise Invalid(f"the lock of a request for a place is wrong: {error}") from None
    priority, timeout_ms, lease_ms = (_integer(found, name) for name in _LOCK_INTEGERS)
    return AllocationLock(
        group_id=_text(found, "group_id"),
        type=kind,
        granularity=granularity,
        priority=priority,
        timeout_ms=timeout_ms,
        lease_ms=lease_ms,
        holder=str(found.get("holder") or ""),
    )


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{what} must be a JSON object")
    return value


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise Invalid(f"'{name}' of a request for a place must be a text that is not empty")
    return value


def _integer(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"'{name}' of a request for a place must be a whole number")
    return value
