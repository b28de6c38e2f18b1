"""A commit in the making: which entries go, which come, and how the chunks change meanwhile.

`ChunkDrafts` is the layout as the commit will leave it, read from the view as far as it is needed; `Draft` collects
the entries and gives them versions, partition ids and update groups at the end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.log.commits import Change, Numbered
from carnac.core.log.entries import ENTRY_BITS, MAX_ADDS_PER_COMMIT, Entry
from carnac.core.log.layout import fill_free
from carnac.core.segments.segment import Segment
from carnac.core.segments.version import IdRanges, SegmentVersion, id_ranges
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.core.log.allocation import PendingChunk, PendingSegment
    from carnac.core.log.publish_view import PublishView


@dataclass(slots=True)
class ChunkDraft:
    """A chunk as the commit will leave it."""

    interval: Interval
    major_ms: int
    next_partition_id: int


class ChunkDrafts:
    """The layout of one datasource during one publish: existing chunks, less those taken over, plus new ones."""

    def __init__(self, view: PublishView, change: Change, at_ms: int) -> None:
        self._view = view
        self._change = change
        self._at_ms = at_ms
        self._drafts: dict[Interval, ChunkDraft] = {}
        self._starts: list[Interval] = []
        self._read = IntervalSet()

    def __getitem__(self, interval: Interval) -> ChunkDraft:
        return self._drafts[interval]

    def take_over(self, interval: Interval) -> None:
        """Make `interval` a chunk under a new major version. Chunks that overlap it are gone as chunks."""
        self._add(ChunkDraft(interval, self._new_major(interval), 0))

    def place(self, hint: Interval, pieces: IntervalSet) -> Iterator[tuple[Interval, IntervalSet]]:
        """Yield the chunks into which these instants of a segment go, each with its part of them.

        Args:
            hint: The chunk for which the segment was written; it becomes a chunk where none is in its way.
            pieces: Not empty.
        """
        span = pieces.span()
        if span is None:
            return
        found = self._overlapping(hint)
        if not found and hint.contains(span):
            self._add(ChunkDraft(hint, self._new_major(hint), 0))
            found = (hint,)
        for chunk in found:
            if chunk.contains(span):  # as nearly always: no set algebra is needed then
                yield chunk, pieces
                return
        for chunk in self._overlapping(span):
            part = pieces.inside(chunk)
            if part:
                yield chunk, part
        homeless = pieces.minus(interval_set(self._overlapping(span)))
        while homeless:
            granularity = parse_granularity(self._change.segment_granularity)
            bucket = granularity.bucket(homeless.intervals[0].start_ms)
            free = IntervalSet((bucket,)).minus(interval_set(self._overlapping(bucket)))
            is_free = free == IntervalSet((bucket,))
            for cell in (bucket,) if is_free else fill_free(free, granularity):
                part = homeless.inside(cell)
                if part:
                    self._add(ChunkDraft(cell, self._new_major(cell), 0))
                    yield cell, part
            homeless = homeless.minus(IntervalSet((bucket,)))

    def takes_reserved(self, pending: PendingSegment, span: Interval) -> bool:
        """Whether a reservation stands for a segment of this span; makes its chunk if it founds it.

        It lapses when the chunk got another major version, or another chunk came to lie there.
        """
        chunk = pending.chunk
        if pending.datasource != self._change.datasource or not chunk.contains(span):
            return False
        if self._overlapping(chunk):
            draft = self._drafts.get(chunk)
            return draft is not None and draft.major_ms == pending.major_ms
        founding = next((one for one in self._reserved(chunk) if one.interval == chunk), None)
        highest_ms = self._view.highest_major_ms(self._change.datasource, chunk)
        if founding is None or founding.major_ms != pending.major_ms:
            return False
        if highest_ms is not None and highest_ms >= pending.major_ms:
            return False
        self._add(ChunkDraft(chunk, pending.major_ms, founding.next_partition_id))
        return True

    def takes_number(self, place: Numbered, span: Interval) -> bool:
        """Whether a writer's own number stands for a segment of this span; makes its chunk if there is none."""
        if not place.chunk.contains(span):
            return False
        if self._overlapping(place.chunk):
            draft = self._drafts.get(place.chunk)
            return draft is not None and place.partition_id >= draft.next_partition_id
        self._add(ChunkDraft(place.chunk, self._new_major(place.chunk), 0))
        return True

    def _overlapping(self, interval: Interval) -> Sequence[Interval]:
        unread = IntervalSet((interval,))
        for piece in unread.minus(self._read) if self._read else unread:
            for live in self._view.chunks(self._change.datasource, piece):
                if live.interval not in self._drafts:
                    self._add(
                        ChunkDraft(live.interval, live.version.major_ms, live.next_partition_id)
                    )
            self._read = self._read.union(IntervalSet((piece,))) if self._read else unread
        first = max(
            0, bisect_left(self._starts, Interval(interval.start_ms, interval.start_ms + 1)) - 1
        )
        found = []
        for chunk in self._starts[first:]:
            if chunk.start_ms >= interval.end_ms:
                break
            if chunk.overlaps(interval):
                found.append(chunk)
        return found

    def _add(self, draft: ChunkDraft) -> None:
        self._drafts[draft.interval] = draft
        insort(self._starts, draft.interval)

    def _new_major(self, interval: Interval) -> int:
        """A major version above all that were ever there, so that no old copy of a segment can win.

        Above the reserved ones too: their holders number their segments by themselves.
        """
        majors = [one.major_ms for one in self._reserved(interval)]
        highest_ms = self._view.highest_major_ms(self._change.datasource, interval)
        if highest_ms is not None:
            majors.append(highest_ms)
        return max([self._at_ms, *(major_ms + 1 for major_ms in majors)])

    def _reserved(self, interval: Interval) -> Sequence[PendingChunk]:
        return self._view.pending_chunks(self._change.datasource, interval)


@dataclass(slots=True)
class _Placement:
    segment_id: str
    span: Interval
    chunk: Interval
    visible: IntervalSet
    partition_id: int | None


class Draft:
    """The entries that one commit drops and adds in one datasource.

    Args:
        first_ordinal: Number of entries that the commit adds in the datasources before this one.
    """

    def __init__(self, chunks: ChunkDrafts, revision: int, first_ordinal: int) -> None:
        self.chunks = chunks
        self._revision = revision
        self._first_ordinal = first_ordinal
        self._dropped: dict[int, Entry] = {}
        self._remaining: dict[int, IntervalSet] = {}
        self._kept: list[tuple[Entry, Interval, IntervalSet]] = []
        self._placed: list[_Placement] = []

    def drop(self, entry: Entry, remaining: IntervalSet) -> None:
        """Drop an entry; unless `remaining` is empty it comes back in its place, clipped to that."""
        self._dropped[entry.entry_id] = entry
        self._remaining[entry.entry_id] = remaining

    def remaining(self, entry: Entry) -> IntervalSet:
        """Return what the entry shows at this point of the draft."""
        return self._remaining.get(entry.entry_id, entry.visible)

    def keep(self, entry: Entry, chunk: Interval, visible: IntervalSet) -> None:
        """Let a dropped entry come back in a part of its chunk, with its version and partition id."""
        self._kept.append((entry, chunk, visible))

    def place(
        self,
        segment: Segment | Entry,
        chunk: Interval,
        visible: IntervalSet,
        *,
        partition_id: int | None = None,
    ) -> None:
        """Enter a segment into a chunk, as the partition that is kept for it, or as the next one there."""
        self._placed.append(
            _Placement(segment.segment_id, segment.span, chunk, visible, partition_id)
        )

    def finish(self) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
        """Return the entries added and dropped, each by entry id.

        An entry that would come back unchanged is neither.
        """
        kept = list(self._kept)
        for entry in list(self._dropped.values()):
            remaining = self._remaining[entry.entry_id]
            if remaining == entry.visible:
                del self._dropped[entry.entry_id]
            elif remaining:
                kept.append((entry, entry.chunk, remaining))
        adds = self._kept_entries(kept) + self._placed_entries(len(kept))
        return tuple(adds), tuple(entry for _, entry in sorted(self._dropped.items()))

    def _kept_entries(self, kept: list[tuple[Entry, Interval, IntervalSet]]) -> list[Entry]:
        return [
            Entry(
                entry_id=self._entry_id(ordinal),
                segment_id=entry.segment_id,
                chunk=chunk,
                span=entry.span,
                clip=_clip(visible, entry.span),
                version=entry.version,
                partition_id=entry.partition_id,
                overshadowed_ids=entry.overshadowed_ids,
                update_group=entry.update_group,
            )
            for ordinal, (entry, chunk, visible) in enumerate(kept)
        ]

    def _placed_entries(self, first_ordinal: int) -> list[Entry]:
        overshadowed: dict[Interval, list[Entry]] = defaultdict(list)
        for entry in self._dropped.values():
            if not self._remaining[entry.entry_id]:
                overshadowed[entry.chunk].append(entry)
        ids = self._number()
        groups = {chunk: id_ranges(members) for chunk, members in ids.items()}
        versions, hidden = self._versions(overshadowed)
        numbers = {chunk: iter(members) for chunk, members in ids.items()}
        return [
            Entry(
                entry_id=self._entry_id(first_ordinal + ordinal),
                segment_id=placement.segment_id,
                chunk=placement.chunk,
                span=placement.span,
                clip=_clip(placement.visible, placement.span),
                version=versions[placement.chunk],
                partition_id=next(numbers[placement.chunk]),
                overshadowed_ids=hidden[placement.chunk],
                update_group=groups[placement.chunk],
            )
            for ordinal, placement in enumerate(self._placed)
        ]

    def _number(self) -> dict[Interval, list[int]]:
        """Return the partition ids of what is placed, by chunk, in the order of placing."""
        for placement in self._placed:
            if placement.partition_id is not None:
                chunk = self.chunks[placement.chunk]
                chunk.next_partition_id = max(chunk.next_partition_id, placement.partition_id + 1)
        ids: dict[Interval, list[int]] = defaultdict(list)
        for placement in self._placed:
            number = placement.partition_id
            if number is None:
                chunk = self.chunks[placement.chunk]
                number = chunk.next_partition_id
                chunk.next_partition_id += 1
            ids[placement.chunk].append(number)
        return ids

    def _versions(
        self, overshadowed: dict[Interval, list[Entry]]
    ) -> tuple[dict[Interval, SegmentVersion], dict[Interval, IdRanges]]:
        versions: dict[Interval, SegmentVersion] = {}
        hidden: dict[Interval, IdRanges] = {}
        for chunk in {placement.chunk for placement in self._placed}:
            major_ms = self.chunks[chunk].major_ms
            inputs = [entry for entry in overshadowed[chunk] if entry.version.major_ms == major_ms]
            minor = 1 + max((entry.version.minor for entry in inputs), default=-1)
            versions[chunk] = SegmentVersion(major_ms, minor)
            hidden[chunk] = id_ranges(entry.partition_id for entry in inputs)
        return versions, hidden

    def _entry_id(self, ordinal: int) -> int:
        ordinal += self._first_ordinal
        if ordinal >= MAX_ADDS_PER_COMMIT:
            raise Invalid(
                f"one commit adds at most {MAX_ADDS_PER_COMMIT} entries; split it into several"
            )
        return self._revision << ENTRY_BITS | ordinal


def _clip(visible: IntervalSet, span: Interval) -> IntervalSet | None:
    return None if visible == IntervalSet((span,)) else visible
