"""`/druid/indexer/v1/lockedIntervals/v2` and `/activeLocks`: the locks, for clients that plan around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter

from carnac.api.bodies import JsonList, body_shown
from carnac.api.tasks import PREFIX
from carnac.core.locks.model import Lock, LockGranularity, LockState, LockType
from carnac.core.time.intervals import Interval, format_ms, parse_interval
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.overlord import Lockbox

_GRANULARITIES = {LockGranularity.TIME_CHUNK: "timeChunk", LockGranularity.SEGMENT: "segment"}
_EXAMPLE = [{"datasource": "wikipedia", "priority": 25, "context": {"taskLockType": "REPLACE"}}]

Heeds = Callable[[Lock], bool]


def make_router(locks: Lockbox) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["locks"])

    @router.post(
        "/lockedIntervals/v2",
        summary="Return the intervals that a task would have to wait for, by datasource",
        openapi_extra=body_shown("array", _EXAMPLE),
    )
    def locked_intervals(body: JsonList) -> dict[str, list[str]]:
        found: dict[str, set[Interval]] = {}
        for policy in body:
            datasource, heeds = _policy(policy, _ignored_when_planning)
            held = _held(locks, datasource, heeds)
            if held:
                found.setdefault(datasource, set()).update(lock.interval for lock in held)
        return {
            datasource: [str(interval) for interval in sorted(intervals)]
            for datasource, intervals in sorted(found.items())
        }

    @router.post(
        "/activeLocks",
        summary="Return the locks that a task would have to wait for, by datasource",
        openapi_extra=body_shown("array", _EXAMPLE),
    )
    def active_locks(body: JsonList) -> dict[str, dict[str, list[dict[str, object]]]]:
        found: dict[str, list[dict[str, object]]] = {}
        for policy in body:
            datasource, heeds = _policy(policy, _ignored_when_locking)
            held = _held(locks, datasource, heeds)
            if held:
                found.setdefault(datasource, []).extend(_as_druid(lock) for lock in held)
        return {"datasourceToLocks": found}

    return router


def _held(locks: Lockbox, datasource: str, heeds: Heeds) -> list[Lock]:
    pictures = locks.explain(datasource)
    held = (one.lock for one in pictures if one.lock.state is LockState.HELD)
    return [lock for lock in held if heeds(lock)]


def _policy(value: object, ignored: Callable[[Mapping[str, object]], bool]) -> tuple[str, Heeds]:
    """Return the datasource of a filter, and which of its locks are meant.

    Args:
        ignored: By a task's context: whether appends do not matter to it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("datasource"), str):
        raise Invalid("each filter must be an object with a 'datasource'")
    priority, context = (
        default if value.get(name) is None else value[name]
        for name, default in (("priority", 0), ("context", {}))
    )
    texts = value.get("intervals")
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if not isinstance(priority, int) or not isinstance(context, dict):
        raise Invalid("in a filter 'priority' must be a whole number, and 'context' an object")
    if texts is not None and not is_list:
        raise Invalid("in a filter 'intervals' must be a list of intervals")
    intervals = None if texts is None else [parse_interval(text) for text in texts]
    leaves_out_appends = ignored(context)

    def heeds(lock: Lock) -> bool:
        if lock.priority < priority or (leaves_out_appends and lock.type is LockType.APPEND):
            return False
        return intervals is None or any(lock.interval.overlaps(one) for one in intervals)

    return value["datasource"], heeds


def _ignored_when_planning(context: Mapping[str, object]) -> bool:
    """Source: Druid, `TaskLockbox.getLockedIntervals`."""
    return _lock_type(context) == "REPLACE" or _is_concurrent(context) is True


def _ignored_when_locking(context: Mapping[str, object]) -> bool:
    """Source: Druid, `TaskLockbox.getActiveLocks`."""
    is_concurrent = _is_concurrent(context)
    if is_concurrent is None:
        return _lock_type(context) in {"APPEND", "REPLACE"}
    return is_concurrent


def _lock_type(context: Mapping[str, object]) -> str:
    return str(context.get("taskLockType", "")).upper()


def _is_concurrent(context: Mapping[str, object]) -> bool | None:
    value = context.get("useConcurrentLocks")
    return None if value is None else str(value).lower() == "true"


def _as_druid(lock: Lock) -> dict[str, object]:
    return {
        "type": lock.type.name,
        "groupId": lock.group_id,
        "dataSource": lock.datasource,
        "interval": str(lock.interval),
        "version": format_ms(lock.granted_at_ms or lock.requested_at_ms),
        "priority": lock.priority,
        "revoked": False,
        "granularity": _GRANULARITIES[lock.granularity],
    }
