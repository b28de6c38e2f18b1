"""The log and the locks of one datasource with one hour, in memory, for simulations to publish into."""

from __future__ import annotations

from collections.abc import Sequence

from carnac.core.locks.model import Lock
from carnac.core.log.allocation import PendingChunk, PendingSegment
from carnac.core.log.commits import Commit
from carnac.core.log.entries import Chunk, Entry, EntryLife
from carnac.core.segments.segment import Column
from carnac.core.time.intervals import Interval
from tests.support.lock_table import LockTable

HOUR = Interval(0, 3_600_000)
DATASOURCE = "events"


class Hour:
    """The log of one datasource with one hour: the view that `plan_commit` reads, and the commits applied."""

    def __init__(self) -> None:
        self.locks_table = LockTable()
        self.live: dict[int, Entry] = {}
        self.contents: dict[str, tuple[int, ...]] = {}
        self.batches: set[str] = set()
        self.revision = 0
        self._next_partition_id: dict[int, int] = {}
        self._dropped: dict[str, int] = {}
        self._top_major_ms: int | None = None

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the hour, if anything is in it."""
        del datasource, interval
        if not self.live:
            return ()
        version = max(entry.version for entry in self.live.values())
        return (
            Chunk(
                interval=HOUR,
                version=version,
                next_partition_id=self._next_partition_id[version.major_ms],
                entries=len(self.live),
                revision=self.revision,
            ),
        )

    def entries(self, datasource: str, interval: Interval) -> Sequence[Entry]:
        """Return the live entries."""
        del datasource, interval
        return list(self.live.values())

    def entries_of(self, datasource: str, segment_ids: Sequence[str]) -> Sequence[Entry]:
        """Return the live entries of these segments."""
        del datasource
        wanted = set(segment_ids)
        return [entry for entry in self.live.values() if entry.segment_id in wanted]

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        """Return the highest major version that ever was."""
        del datasource, interval
        return self._top_major_ms

    def dropped_by(self, datasource: str, segment_id: str, after_revision: int) -> int | None:
        """Return the last commit that dropped an entry of the segment."""
        del datasource, after_revision
        return self._dropped.get(segment_id)

    def lives_after(
        self,
        datasource: str,
        segment_ids: Sequence[str],
        after_revision: int,
        leaving: Sequence[str],
    ) -> Sequence[EntryLife]:
        """Nothing comes back here."""
        del datasource, segment_ids, after_revision, leaving
        return ()

    def covering_after(
        self, datasource: str, interval: Interval, after_revision: int
    ) -> int | None:
        """Nobody covers anything here."""
        del datasource, interval, after_revision
        return None

    def lookup_set_by(self, name: str) -> int | None:
        """There are no lookups here."""
        del name
        return None

    def schemas(self, datasource: str) -> Sequence[Sequence[Column]]:
        """Return none: the segments have no columns."""
        assert datasource == DATASOURCE
        return ()

    def pending(self, pending_ids: Sequence[str]) -> Sequence[PendingSegment]:
        """Nobody reserves anything here."""
        del pending_ids
        return ()

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        """Nobody reserves anything here."""
        del datasource, interval
        return ()

    def locks(self, lock_ids: Sequence[int]) -> Sequence[Lock]:
        """Return those of the locks that there are."""
        return list(self.locks_table.find(lock_ids))

    def apply(self, commit: Commit) -> None:
        """Take a commit in."""
        self.revision = commit.revision
        for change in commit.changes:
            for entry in change.drops:
                del self.live[entry.entry_id]
                self._dropped[entry.segment_id] = commit.revision
            for entry in change.adds:
                self.live[entry.entry_id] = entry
                major_ms = entry.version.major_ms
                used = self._next_partition_id.get(major_ms, 0)
                self._next_partition_id[major_ms] = max(used, entry.partition_id + 1)
                self._top_major_ms = max(major_ms, self._top_major_ms or major_ms)
