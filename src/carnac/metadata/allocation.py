"""Allocation on SQL: a decision and its writing, inside one write transaction; and in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from carnac.core.allocation import (
    AllocationReply,
    AllocationRequest,
    PendingSegment,
    decide_allocations,
)
from carnac.core.locks.events import LockEvent, LockReply
from carnac.metadata import pending_rows as rows
from carnac.metadata.locks import SqlLockView, change_locks
from carnac.metadata.memory_tables import MemoryTables, MemoryView
from carnac.metadata.session import Session
from carnac.metadata.texts import pending_rows as sql
from carnac.metadata.view import SqlPublishView
from carnac.ports import Clock

T = TypeVar("T")


def allocate(
    session: Session, requests: Sequence[AllocationRequest], at_ms: int
) -> tuple[AllocationReply, ...]:
    """Decide requests and write the decision down, inside a write transaction."""
    view, locks = SqlPublishView(session), SqlLockView(session)
    owners = sorted({request.owner for request in requests if request.lock is not None})
    if len(owners) > 1:
        locks.read_tasks(owners)
    decision = decide_allocations(
        view,
        requests,
        lambda event: change_locks(session, event, at_ms, view=locks),
        at_ms=at_ms,
    )
    session.run_many(sql.PUT, [rows.pending_row(one) for one in decision.puts])
    session.run_many(
        sql.USE_UP,
        [
            {
                "k_datasource_id": view.find_datasource(chunk.datasource),
                "k_start_ms": chunk.interval.start_ms,
                "k_end_ms": chunk.interval.end_ms,
                "next_partition_id": chunk.next_partition_id,
            }
            for chunk in decision.live
        ],
    )
    session.run_many(
        sql.PUT_CHUNK,
        [
            {
                "datasource": chunk.datasource,
                "start_ms": chunk.interval.start_ms,
                "end_ms": chunk.interval.end_ms,
                "major_ms": chunk.major_ms,
                "next_partition_id": chunk.next_partition_id,
            }
            for chunk in decision.founded
        ],
    )
    return decision.replies


def release_pending(session: Session, owner: str) -> int:
    """Give up all reservations of an owner, inside a write transaction; return how many there were."""
    count = len(session.rows(sql.OF_OWNER, owner=owner))
    if count:
        rows.forget(session, sql.REMOVE_OF_OWNER, owner=owner)
    return count


class SqlAllocationRecords(ABC):
    """Pending segments in a database; its transactions are those of the store that this is a part of."""

    _clock: Clock

    @abstractmethod
    def _read(self) -> AbstractContextManager[Session]: ...

    @abstractmethod
    def _write(self, work: Callable[[Session], T]) -> T: ...

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        """Keep places for segments, and get the locks that they need, all in one transaction."""
        return self._write(lambda session: allocate(session, requests, self._clock.now_ms()))

    def pending_segments(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> tuple[PendingSegment, ...]:
        """Return the reservations, by datasource, chunk and partition id."""
        with self._read() as session:
            found = (
                session.rows(sql.ALL) if owner is None else session.rows(sql.OF_OWNER, owner=owner)
            )
            return in_order(map(rows.pending_of, found), datasource)

    def release_pending(self, owner: str) -> int:
        """Give up all reservations of an owner; return how many there were."""
        return self._write(lambda session: release_pending(session, owner))


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


def in_order(found: Iterable[PendingSegment], datasource: str | None) -> tuple[PendingSegment, ...]:
    """Return the reservations of a datasource (None: of all), by datasource, chunk and partition id."""
    wanted = (one for one in found if datasource in {None, one.datasource})
    return tuple(
        sorted(wanted, key=lambda one: (one.datasource, one.chunk, one.major_ms, one.partition_id))
    )
