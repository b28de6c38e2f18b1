"""The part of a metadata store in memory that keeps pending segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from carnac.core.locks.events import LockEvent, LockReply
from carnac.core.log.allocation import (
    AllocationReply,
    AllocationRequest,
    PendingSegment,
    decide_allocations,
)
from carnac.metadata.allocation import in_order
from carnac.metadata.memory_tables import MemoryTables, MemoryView
from carnac.ports import Clock

T = TypeVar("T")


class MemoryAllocationRecords(ABC):
    """Pending segments in dictionaries; guarded by the lock of the store that this is a part of."""

    _clock: Clock
    _tables: MemoryTables
    _lock: AbstractContextManager[object]

    @abstractmethod
    def change_locks(self, event: LockEvent) -> LockReply:
        """Let an event happen to the lockbox; return what it answers."""

    @abstractmethod
    def _view(self) -> MemoryView: ...

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        """Keep places for segments, and get the locks that they need."""
        with self._lock:
            decision = decide_allocations(
                self._view(), requests, self.change_locks, at_ms=self._clock.now_ms()
            )
            self._tables.apply_allocation(decision)
            return decision.replies

    def pending_segments(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> tuple[PendingSegment, ...]:
        """Return the reservations, by datasource, chunk and partition id."""
        with self._lock:
            found = [
                one for one in self._tables.pending.values() if owner is None or one.owner == owner
            ]
            return in_order(found, datasource)

    def release_pending(self, owner: str) -> int:
        """Give up all reservations of an owner; return how many there were."""
        with self._lock:
            return self._tables.forget_pending(lambda one: one.owner == owner)
