"""The questions that a publish may ask about the state it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.locks.model import Lock
    from carnac.core.log.allocation import PendingChunk, PendingSegment
    from carnac.core.log.entries import Chunk, Entry, EntryLife
    from carnac.core.segments.segment import Column
    from carnac.core.time.intervals import Interval


class ChunkView(Protocol):
    """The part of it that a plain append reads."""

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the live chunks that overlap `interval`, in order of time."""
        ...


class PublishView(ChunkView, Protocol):
    """The part of the newest revision that a publish may read; the answers hold until the transaction ends."""

    def entries(self, datasource: str, interval: Interval) -> Sequence[Entry]:
        """Return the live entries of the live chunks that overlap `interval`, in any order."""
        ...

    def entries_of(self, datasource: str, segment_ids: Sequence[str]) -> Sequence[Entry]:
        """Return the live entries of these segments, in any order."""
        ...

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        """Return the highest major version on record, live or dropped, of chunks that overlap `interval`."""
        ...

    def dropped_by(self, datasource: str, segment_id: str, after_revision: int) -> int | None:
        """Return the last commit after `after_revision` that dropped an entry of the segment."""
        ...

    def lives_after(
        self,
        datasource: str,
        segment_ids: Sequence[str],
        after_revision: int,
        leaving: Sequence[str],
    ) -> Sequence[EntryLife]:
        """Return the entries of these segments that were live at `after_revision` or later, in any order.

        Args:
            leaving: Segments that are about to go out of sight: rows in them are in no one's way.
        """
        ...

    def covering_after(
        self, datasource: str, interval: Interval, after_revision: int
    ) -> int | None:
        """Return the last commit after `after_revision` whose `covers` overlaps `interval`."""
        ...

    def lookup_set_by(self, name: str) -> int | None:
        """Return the commit that set the lookup to what it is; None if there is no such lookup."""
        ...

    def schemas(self, datasource: str) -> Sequence[Sequence[Column]]:
        """Return the schemas of the live entries, each once."""
        ...

    def locks(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        """Return those of the locks that there are."""
        ...

    def pending(self, pending_ids: Sequence[str]) -> Sequence[PendingSegment]:
        """Return those of the reservations that there are."""
        ...

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        """Return the reserved chunks that overlap `interval`, in any order."""
        ...
