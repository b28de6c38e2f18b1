"""The part of the metadata store that keeps reservations of places for segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.log.allocation import AllocationReply, AllocationRequest, PendingSegment


class AllocationRecords(Protocol):
    """Pending segments. What ends with a task is released by the end of its attempt, what ends with a lease by that."""

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        """Keep places for segments, and get the locks that they need, all in one transaction.

        Returns:
            One for each request, in order. One that is denied, or waits for a lock, does not keep the others from
            getting theirs.

        Raises:
            Invalid: A request contradicts itself (an unknown granularity); none of them got anything.
        """
        ...

    def pending_segments(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> tuple[PendingSegment, ...]:
        """Return the reservations, by datasource, chunk and partition id."""
        ...

    def release_pending(self, owner: str) -> int:
        """Give up all reservations of an owner; return how many there were. Idempotent."""
        ...
