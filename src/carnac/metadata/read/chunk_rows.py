"""The row of each interval that is or was a time chunk, and how a commit changes it: pure.

`checks` proves that the sums are right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carnac.core.log.entries import Chunk
from carnac.core.time.intervals import Interval, interval_text

if TYPE_CHECKING:
    from carnac.core.log.allocation import PendingChunk
    from carnac.core.log.commits import DatasourceCommit
    from carnac.core.log.entries import Entry
    from carnac.core.segments.version import SegmentVersion

KEY_FRAME_MIN_CHANGES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSummary:
    """The common properties of a chunk's live entries; there is at least one.

    Attributes:
        shown: The hull of the instants that they show.
    """

    version: SegmentVersion
    shown: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """An interval that is or was a chunk.

    Attributes:
        entries: Number of live entries; 0 when it is no chunk now.
        live: Summary of live entries; None exactly if `entries` is 0.
        top_major_ms: The highest major version ever used in it.
        next_partition_id: Greater than every partition id ever used, or named by an entry, in it.
        revision: Revision of the last commit that changed it.
        changes: Entries added and dropped since its last key frame.
    """

    interval: Interval
    entries: int = 0
    live: LiveSummary | None = None
    top_major_ms: int
    next_partition_id: int = 0
    revision: int = 0
    changes: int = 0

    def chunk(self) -> Chunk:
        """Return it as a live chunk."""
        if self.live is None:
            raise ValueError(f"{interval_text(self.interval)} is not a live chunk")
        return Chunk(
            interval=self.interval,
            version=self.live.version,
            next_partition_id=self.next_partition_id,
            entries=self.entries,
            revision=self.revision,
        )

    def needs_key_frame(self) -> bool:
        """Whether replaying its changes costs more than reading its entries."""
        return self.changes > max(KEY_FRAME_MIN_CHANGES, self.entries)


@dataclass(slots=True)
class ChunkChange:
    """The changes of a commit in one chunk."""

    adds: list[Entry]
    drops: list[Entry]


def changes_by_chunk(change: DatasourceCommit) -> Mapping[Interval, ChunkChange]:
    """Return what the commit does in each chunk that it touches, in order of time."""
    found: dict[Interval, ChunkChange] = defaultdict(lambda: ChunkChange([], []))
    for entry in change.adds:
        found[entry.chunk].adds.append(entry)
    for entry in change.drops:
        found[entry.chunk].drops.append(entry)
    return found if len(found) < 2 else dict(sorted(found.items()))


def summarise(entries: Iterable[Entry]) -> LiveSummary | None:
    """Return what live entries of a chunk have in common; None if there are none."""
    summary: LiveSummary | None = None
    for entry in entries:
        summary = _merge(summary, entry)
    return summary


def next_row(
    before: ChunkRow | None,
    interval: Interval,
    change: ChunkChange,
    revision: int,
    read_live: Callable[[], LiveSummary | None],
) -> ChunkRow:
    """Return the row after a commit.

    Args:
        before: Row before the commit; None if the interval never was a chunk.
        read_live: Sums up the live entries after the commit; called only if the commit drops some and leaves some.
    """
    adds = change.adds
    highest_add, next_id = -(2**62), 0
    for entry in adds:
        highest_add = max(highest_add, entry.version.major_ms)
        next_id = max(next_id, entry.next_partition_id)
    row = before or ChunkRow(interval=interval, top_major_ms=highest_add)
    entries = row.entries + len(adds) - len(change.drops)
    live = row.live
    if entries == 0:
        live = None
    elif change.drops:
        live = read_live()
    else:
        for entry in adds:
            live = _merge(live, entry)
    return ChunkRow(
        interval=interval,
        entries=entries,
        live=live,
        top_major_ms=max(row.top_major_ms, highest_add),
        next_partition_id=max(row.next_partition_id, next_id),
        revision=revision,
        changes=row.changes + len(adds) + len(change.drops),
    )


def keep_reserved(row: ChunkRow, founded: PendingChunk) -> ChunkRow | None:
    """Return the row of a chunk that was reserved before it was made; None if it is not that chunk.

    The ids that others have reserved in it are used up.
    """
    if row.live is None or row.live.version.major_ms != founded.major_ms:
        return None
    return replace(row, next_partition_id=max(row.next_partition_id, founded.next_partition_id))


def _merge(summary: LiveSummary | None, entry: Entry) -> LiveSummary:
    if entry.clip is None:
        start, end = entry.span.start_ms, entry.span.end_ms
    else:
        shown = entry.clip.intervals
        start, end = shown[0].start_ms, shown[-1].end_ms
    version = entry.version
    if summary is not None:
        before = summary.shown
        if before.start_ms <= start and end <= before.end_ms and version == summary.version:
            return summary
        start = min(start, summary.shown.start_ms)
        end = max(end, summary.shown.end_ms)
        version = max(version, summary.version)
    return LiveSummary(version=version, shown=Interval(start, end))
