"""Entries and time chunks: where segments are visible.

Commits add and drop entries: (segment, time chunk, clip). The overshadow attributes belong to the entry, are derived
once, at publish, and never change. At every revision the time chunks of a datasource are disjoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from carnac.core.segments.segment import Segment
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.showing import Shown
from carnac.core.time.intervals import EMPTY, Interval, IntervalSet, interval_set, interval_text
from carnac.core.words import number_text

ENTRY_BITS = 20
"""Entry ids are `revision << ENTRY_BITS | ordinal`: unique without a counter of their own."""
MAX_ADDS_PER_COMMIT = 1 << ENTRY_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A segment's place in a time chunk.

    Attributes:
        entry_id: Unique in the store; says the revision that added it (`added_revision`).
        segment_id: Of the file; one segment may have entries in several chunks.
        chunk: The time chunk that it stands in.
        span: The smallest interval that holds all rows of the segment, copied from its record.
        clip: The instants of the segment that are visible here; None means all of its span.
        version: Major and minor; derived at publish.
        partition_id: Unique among the live entries of one (datasource, chunk, version): SG-1.
        overshadowed_ids: Partition ids in the same chunk and major version that this one replaced: one hop. Empty
            unless the minor version is > 0.
        update_group: Partition ids of the entries that became visible together with it in this chunk.
    """

    entry_id: int
    segment_id: str
    chunk: Interval
    span: Interval
    clip: IntervalSet | None
    version: SegmentVersion
    partition_id: int
    overshadowed_ids: IdRanges
    update_group: IdRanges

    @property
    def visible(self) -> IntervalSet:
        """The instants of the segment that this entry shows."""
        return IntervalSet((self.span,)) if self.clip is None else self.clip

    @property
    def added_revision(self) -> int:
        """The revision of the commit that added it."""
        return self.entry_id >> ENTRY_BITS

    @property
    def next_partition_id(self) -> int:
        """Greater than every partition id that it names.

        That can be more than its own and those of the live entries beside it: where a chunk was carved, some members of
        its update group may have stayed outside, and their ids are not free for others.
        """
        named = (self.update_group.ranges, self.overshadowed_ids.ranges)
        return 1 + max([self.partition_id, *(ranges[-1][1] for ranges in named if ranges)])


def visible_of(entries: Iterable[Entry]) -> IntervalSet:
    """Return the instants that the entries of one segment show together."""
    return interval_set(piece for entry in entries for piece in entry.visible)


def shown_by(entries: Iterable[Entry]) -> dict[str, IntervalSet]:
    """Return by segment the instants that its entries show together."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.segment_id].append(entry)
    return {segment_id: visible_of(some) for segment_id, some in found.items()}


def come_and_gone(
    before: Mapping[str, IntervalSet], after: Mapping[str, IntervalSet]
) -> tuple[dict[str, IntervalSet], dict[str, IntervalSet]]:
    """Return by segment the instants that came into sight, and those that went out of it."""
    return _more(after, before), _more(before, after)


def _more(
    shown: Mapping[str, IntervalSet], other: Mapping[str, IntervalSet]
) -> dict[str, IntervalSet]:
    found = {name: pieces.minus(other.get(name, EMPTY)) for name, pieces in shown.items()}
    return {name: pieces for name, pieces in found.items() if pieces}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLife:
    """An entry that is live or was.

    Attributes:
        dropped_by: Revision of the commit that dropped it; None: it is live.
        is_moved: Whether its rows may be in other segments since: that was a rewrite, a deletion or the revert of one's
            revert, or it is forgotten and may have been.
    """

    entry: Entry
    dropped_by: int | None
    is_moved: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Chunk(Shown):
    """A live time chunk of a datasource, as an append needs to know it.

    Attributes:
        interval: Overlaps no other live chunk of the datasource.
        version: Highest version among its live entries: major is equal or lower for all of them.
        next_partition_id: Greater than every partition id ever used, or named by an entry, in it under any version.
        entries: Number of live entries, > 0.
        revision: Of the last commit that changed it.
    """

    interval: Interval
    version: SegmentVersion
    next_partition_id: int
    entries: int
    revision: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "chunk": interval_text(self.interval),
            "version": f"{self.version}",
            "segments": number_text(self.entries),
            "revision": f"{self.revision}",
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VisibleSegment(Shown):
    """A segment with one of its entries, as a reader gets it.

    Attributes:
        segment: The record of the file.
        entry: Where it is visible, and which of its rows are.
    """

    segment: Segment
    entry: Entry

    def _facts(self) -> Mapping[str, str]:
        return {
            **self.segment._facts(),  # noqa: SLF001 - a kind of its own
            "chunk": interval_text(self.entry.chunk),
            "version": f"{self.entry.version}",
            "partition": f"{self.entry.partition_id}",
            "added by": f"{self.entry.added_revision}",
        }
