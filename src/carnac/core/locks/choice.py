"""The lock that a task asks for, and its priority.

Source: "Task Locking & Priority"; the names of the context are Druid's (`forceTimeChunkLock`, `taskLockType`,
`priority`, `taskLockTimeout`). Without a setting, Druid always locks time chunks. We depart from that: appends take an
APPEND lock, all other tasks lock the segments that they replace, and nobody waits for other people's work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carnac.core.locks.model import LockGranularity, LockType
from carnac.errors import Invalid

PRIORITIES: Mapping[str, int] = {
    "index_kafka": 75,
    "index_kinesis": 75,
    "index_realtime": 75,
    "stream": 75,
    "index": 50,
    "index_parallel": 50,
    "query_controller": 50,
    "replace": 50,
    "delete": 50,
    "compact": 25,
    "merge": 25,
    "append": 25,
}
"""Druid's: 75 for realtime, 50 for batch, 25 for merge, append and compaction tasks."""
OTHER_PRIORITY = 0
DEFAULT_TIMEOUT_MS = 300_000
PRIORITY_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LockContext:
    """The settings of a task's context for locks; None: not given.

    Attributes:
        force_time_chunk_lock: True: always the time chunk. Wins over the service's own setting.
        timeout_ms: How long the task waits for a lock.
    """

    force_time_chunk_lock: bool | None = None
    lock_type: LockType | None = None
    priority: int | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChoice:
    """The lock that a task requests."""

    granularity: LockGranularity
    type: LockType
    timeout_ms: int


def default_priority(task_type: str) -> int:
    """Return the priority of a task whose context says nothing."""
    return PRIORITIES.get(task_type, OTHER_PRIORITY)


def choose_lock(
    context: LockContext,
    *,
    is_append: bool,
    changes_granularity: bool = False,
    force_time_chunk_lock: bool | None = None,
) -> LockChoice:
    """Return the lock that a task asks for.

    Args:
        is_append: Whether it adds rows and takes none away.
        changes_granularity: Whether it makes time chunks of another size than those that it replaces.
        force_time_chunk_lock: Setting of the service, for a task without one.

    Raises:
        Invalid: The lock type does not fit what the task does.
    """
    kind = context.lock_type
    if kind is LockType.REPLACE and is_append:
        raise Invalid(
            "a task that appends cannot take a REPLACE lock; use APPEND, SHARED or EXCLUSIVE"
        )
    if kind in {LockType.APPEND, LockType.SHARED} and not is_append:
        raise Invalid(
            f"a task that replaces rows cannot take a lock of type {kind.name}; use REPLACE or EXCLUSIVE"
        )
    said = context.force_time_chunk_lock
    is_forced = bool(force_time_chunk_lock if said is None else said)
    if kind is None and is_forced:
        kind = LockType.EXCLUSIVE
    elif kind is None:
        kind = LockType.APPEND if is_append else LockType.REPLACE
    is_wide = is_forced or changes_granularity or kind in {LockType.APPEND, LockType.SHARED}
    return LockChoice(
        granularity=LockGranularity.TIME_CHUNK if is_wide else LockGranularity.SEGMENT,
        type=kind,
        timeout_ms=context.timeout_ms,
    )


def parse_lock_context(context: Mapping[str, object]) -> LockContext:
    """Return the settings for locks of a task's context, as Druid writes it; other keys do not matter.

    Raises:
        Invalid: A value is of the wrong kind.
    """
    force = context.get("forceTimeChunkLock")
    if force is not None and not isinstance(force, bool):
        raise _wrong("forceTimeChunkLock", force, "true or false")
    named = context.get("taskLockType")
    names = {kind.name: kind for kind in LockType}
    if named is not None and str(named).upper() not in names:
        raise _wrong("taskLockType", named, "one of " + ", ".join(sorted(names)))
    timeout_ms = _integer(context, "taskLockTimeout", 0)
    return LockContext(
        force_time_chunk_lock=force,
        lock_type=None if named is None else names[str(named).upper()],
        priority=_integer(context, "priority", -PRIORITY_LIMIT),
        timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
    )


def _integer(context: Mapping[str, object], name: str, lowest: int) -> int | None:
    value = context.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise _wrong(name, value, f"a whole number from {lowest}")
    return value


def _wrong(name: str, value: object, wanted: str) -> Invalid:
    return Invalid(f"'{name}' of a task's context is {value!r}; it must be {wanted}", setting=name)
