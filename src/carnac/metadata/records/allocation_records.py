"""The part of a metadata store on SQL that keeps pending segments; `allocation` does the work when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from carnac.metadata.sql import pending_rows as sql
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.core.log.allocation import (
        AllocationReply,
        AllocationRequest,
        PendingSegment,
    )
    from carnac.metadata.session import Session


class AllocationRecords(SqlTransactions):
    """Pending segments. Those of a task are released when its attempt ends, those of a lease when the lease ends."""

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        """Keep places for segments, and get the locks that they need, all in one transaction.

        Returns:
            One for each request, in order. One that is denied, or waits for a lock, does not keep the others from
            getting theirs.

        Raises:
            Invalid: A request contradicts itself (an unknown granularity); none of them got anything.
        """
        return self._write_together(self._allocate_all, tuple(requests))

    def _allocate_all(
        self, session: Session, asked: Sequence[Sequence[AllocationRequest]]
    ) -> list[tuple[AllocationReply, ...]]:
        """Decide the requests of several callers in the order in which they came."""
        from carnac.metadata.records.allocation import allocate

        replies = iter(allocate(session, [*chain(*asked)], self._clock.now_ms()))
        return [tuple(islice(replies, len(requests))) for requests in asked]

    def pending_segments(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> tuple[PendingSegment, ...]:
        """Return the reservations, by datasource, chunk and partition id."""
        from carnac.metadata.locking import pending_rows as rows
        from carnac.metadata.records.allocation import in_order

        with self._read() as session:
            found = (
                session.rows(sql.ALL) if owner is None else session.rows(sql.OF_OWNER, owner=owner)
            )
            return in_order(map(rows.PENDING.value, found), datasource)

    def release_pending(self, owner: str) -> int:
        """Give up all reservations of an owner; return how many there were. Idempotent."""
        from carnac.metadata.records.allocation import release_pending

        return self._write(lambda session: release_pending(session, owner))
