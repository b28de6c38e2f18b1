"""Which time chunks wait for locks: an attempt at compacting them is kept out by other tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from carnac.core.locks.model import Lock, LockState, is_due
from carnac.core.locks.waits import picture
from carnac.core.time.intervals import Interval, time_text

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

TASK_TYPE = "compact"
BLOCKERS_SHOWN_MAX = 3


def find_waits(
    metadata: MetadataStore, datasource: str, chunks: Iterable[Interval], *, now_ms: int
) -> Mapping[Interval, str]:
    """Return what tasks of compaction wait for, by the chunks that their requests overlap, as phrases."""
    waits = [
        one
        for one in picture(metadata.locks(datasource))
        if one.waits_for
        and one.lock.state is LockState.WAITING
        and _is_compaction(metadata, one.lock)
    ]
    return {
        chunk: "; ".join(
            f"task {_task_of(one.lock)} has waited since {_at(one.lock.requested_at_ms)} for "
            f"{_blockers(one.waits_for, now_ms)}, and gives up at {_at(one.lock.waits_until_ms)}"
            for one in waits
            if one.lock.interval.overlaps(chunk)
        )
        for chunk in chunks
        if any(one.lock.interval.overlaps(chunk) for one in waits)
    }


def _is_compaction(metadata: MetadataStore, lock: Lock) -> bool:
    task = metadata.find_task(_task_of(lock))
    return task is not None and task.type == TASK_TYPE


def _task_of(lock: Lock) -> str:
    """Return the task of the attempt that has, or wants, a lock."""
    return lock.task_id.rpartition("/")[0] or lock.task_id


def _blockers(locks: tuple[Lock, ...], now_ms: int) -> str:
    shown = " and ".join(_blocker(one, now_ms) for one in locks[:BLOCKERS_SHOWN_MAX])
    rest = len(locks) - BLOCKERS_SHOWN_MAX
    return shown if rest <= 0 else f"{shown} and {rest} more (carnac locks lists them)"


def _blocker(lock: Lock, now_ms: int) -> str:
    named = f"lock {lock.lock_id} of task {_task_of(lock)}"
    if lock.state is LockState.WAITING:
        return f"{named}, which waits before it"
    since = _at(lock.requested_at_ms if lock.granted_at_ms is None else lock.granted_at_ms)
    end_ms = lock.heartbeat_at_ms + lock.lease_ms
    lease = "its lease ended at" if is_due(lock, now_ms) else "without a sign of life it ends at"
    return f"{named}, held since {since} ({lease} {_at(end_ms)})"


def _at(at_ms: int) -> str:
    """Return a time to the second."""
    return time_text(at_ms // 1000 * 1000)
