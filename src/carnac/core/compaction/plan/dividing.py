"""Coarse time chunks in parts that one group each can do.

A year of events that is to become hours is one chunk to look at, and thousands to write. So it is divided where rows
may be: by segments, not by the calendar, in halves until each part costs no more than a task may. Time without segments
is in no part. Instants that a caller gives, such as the one from which on chunks are too new, are borders of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from carnac.core.compaction.plan.chunks import TimeChunk, share_of
from carnac.core.compaction.plan.groups import CHUNKS_MAX
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set


def divide_coarse(
    chunks: Iterable[TimeChunk],
    settings: CompactionSettings,
    *,
    starts: Iterable[int] = (),
    ends: Iterable[int] = (),
) -> list[TimeChunk]:
    """Return the chunks in order of time, each coarse one in parts, which are a function of its segments.

    Args:
        starts: Instants before which parts end, with the bucket that holds such an instant inside.
        ends: Instants at which parts end, without the bucket that holds such an instant inside.
    """
    found: list[TimeChunk] = []
    starts, ends = tuple(starts), tuple(ends)
    for chunk in chunks:
        if chunk.extent is Extent.COARSE:
            found += _Divider(chunk, settings).parts(starts, ends)
        else:
            found.append(chunk)
    return found


class _Divider:
    """Divides one coarse chunk."""

    def __init__(self, chunk: TimeChunk, settings: CompactionSettings) -> None:
        text = chunk.target.segment_granularity
        if text is None:
            raise AssertionError("without a granularity no chunk is coarse")
        self._chunk, self._settings = chunk, settings
        self._granularity = parse_granularity(text)
        self._size_max = min(settings.input_bytes_max, settings.task_cost_max)

    def parts(self, starts: Sequence[int], ends: Sequence[int]) -> Iterator[TimeChunk]:
        """Yield the parts in order of time."""
        chunk, granularity = self._chunk, self._granularity
        cuts = sorted(
            {*_edges(granularity, chunk.interval, ends)}
            | {*_edges(granularity, chunk.interval, starts, is_after=True)}
        )
        for region in self._regions():
            inside = [one for one in cuts if region.start_ms < one < region.end_ms]
            for start_ms, end_ms in pairwise((region.start_ms, *inside, region.end_ms)):
                yield from self._halves(Interval(start_ms, end_ms), chunk.segments)

    def _regions(self) -> IntervalSet:
        """Return the buckets in which rows may be."""
        chunk = self._chunk
        return interval_set(
            self._granularity.buckets_over(piece)
            for one in chunk.segments
            for shown in one.shown()
            if (piece := shown.intersect(chunk.interval)) is not None
        )

    def _halves(self, region: Interval, among: Sequence[PlanSegment]) -> Iterator[TimeChunk]:
        """Yield a region whole if it costs no more than a task may, else each half."""
        mine = [one for one in among if any(piece.overlaps(region) for piece in one.shown())]
        if not mine:
            return
        middle_ms = self._granularity.bucket((region.start_ms + region.end_ms) // 2).start_ms
        if middle_ms == region.start_ms:
            middle_ms = self._granularity.bucket(middle_ms).end_ms
        part = self._part(region, mine)
        if middle_ms >= region.end_ms or self._is_small(part):
            yield part
            return
        yield from self._halves(Interval(region.start_ms, middle_ms), mine)
        yield from self._halves(Interval(middle_ms, region.end_ms), mine)

    def _is_small(self, part: TimeChunk) -> bool:
        opened = max(len(part.segments), part.buckets)
        cost = self._settings.cost.cost(opened, part.size_bytes)
        return (
            cost <= self._settings.task_cost_max
            and part.size_bytes <= self._size_max
            and part.buckets <= CHUNKS_MAX
        )

    def _part(self, region: Interval, mine: Sequence[PlanSegment]) -> TimeChunk:
        shares = sorted([self._share(one, region) for one in mine], key=lambda one: one.segment_id)
        rows = sum([one.rows for one in shares])
        filled = sum([min(one.rows, self._count(one, region)) for one in shares])
        return TimeChunk(
            interval=region,
            target=self._chunk.target,
            segments=shares,
            size_bytes=sum([one.size_bytes for one in shares]),
            rows=rows,
            overlaps_prior=any(one.start_ms < region.start_ms for one in shares),
            overlaps_later=any(one.end_ms > region.end_ms for one in shares),
            extent=Extent.COARSE,
            buckets=max(min(filled, _about(self._granularity, region)), 1),
        )

    def _share(self, one: PlanSegment, region: Interval) -> PlanSegment:
        """Return what a segment has in the region; its sizes are those that it has in the chunk."""
        whole = Interval(one.start_ms, one.end_ms).intersect(self._chunk.interval)
        if whole is None or region.contains(whole):
            return one
        return share_of(one, whole, region)

    def _count(self, one: PlanSegment, region: Interval) -> int:
        """Return about how many buckets of the region the segment may have rows in."""
        piece = Interval(one.start_ms, one.end_ms).intersect(region)
        return 0 if piece is None else _about(self._granularity, piece)


def _about(granularity: Granularity, interval: Interval) -> int:
    """Return about how many buckets overlap the interval."""
    return max(round(granularity.buckets_over(interval).duration_ms / granularity.nominal_ms), 1)


def _edges(
    granularity: Granularity, inside: Interval, borders: Iterable[int], *, is_after: bool = False
) -> Iterator[int]:
    """Yield where the buckets begin, or end, that hold a border inside; a border between buckets is as it is."""
    for at_ms in borders:
        if inside.start_ms < at_ms < inside.end_ms:
            bucket = granularity.bucket(at_ms)
            yield bucket.end_ms if is_after and bucket.start_ms < at_ms else bucket.start_ms
