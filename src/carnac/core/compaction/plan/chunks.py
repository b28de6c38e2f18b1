"""Time chunks of the target granularity, with the segments that have rows in them; spans of segments without a gap.

Source: "Compaction Notes", the second step: each chunk has segments that it holds whole, and such as overlap an
adjacent chunk, earlier or later. An overlapping segment is in each chunk that it touches, with its share of bytes and
rows there, by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.target_periods import Extent, TargetPeriod, find_target_period
from carnac.core.time.intervals import Interval, IntervalSet, interval_set

_name_of = attrgetter("segment_id")
_COARSE = Extent.COARSE  # looking up a member of an enumeration takes longer than using it


class TimeChunk(NamedTuple):
    """A time chunk of the target granularity that has segments.

    Attributes:
        segments: Those with rows in it, by name. Of one that overlaps, `size_bytes` and `rows` are the share of this
            chunk, while `start_ms` and `end_ms` are those of the whole.
        overlaps_prior: A segment of it begins before it.
        overlaps_later: A segment of it ends after it.
        extent: How it came about.
        is_plain: It is a live time chunk, all of its segments are of it, and no other chunk has a part of one.
        buckets: Of the target's granularity that may have rows in them; more than 1 only of one that is coarse.
    """

    interval: Interval
    target: CompactionTarget
    segments: Sequence[PlanSegment]
    size_bytes: int
    rows: int
    overlaps_prior: bool = False
    overlaps_later: bool = False
    extent: Extent = Extent.WHOLE
    is_plain: bool = False
    buckets: int = 1


_new_chunk = partial(tuple.__new__, TimeChunk)  # half of what `TimeChunk(...)` takes


def cut_chunks(
    segments: Sequence[PlanSegment], target_periods: Sequence[TargetPeriod]
) -> list[TimeChunk]:
    """Return the time chunks that have segments, in order of time."""
    whole: dict[int, _FillingChunk] = {}
    place = _FillingChunk(Interval(0, 1), target_periods[-1], Extent.WHOLE)
    inside, interval = place.segments, place.interval
    start_ms = end_ms = 0  # of `place`; no segment fits into it yet
    for segment in segments:  # those of one chunk mostly come one after another
        if not (start_ms <= segment.start_ms and segment.end_ms <= end_ms):
            place = _place_at(segment.start_ms, segment.chunk, target_periods, whole)
            inside, interval = place.segments, place.interval
            start_ms, end_ms = interval.start_ms, interval.end_ms
            if segment.end_ms > end_ms:
                for one in _places_of(segment, target_periods, whole):
                    one.add_part(segment)
                end_ms = start_ms  # the next one fits nowhere, and looks for its place
                continue
        inside.append(segment)
        if segment.chunk is not interval or segment.is_part:
            place.is_plain = False
    return [whole[key].chunk() for key in sorted(whole)]


def share_of(segment: PlanSegment, whole: Interval, interval: Interval) -> PlanSegment:
    """Return a segment with the bytes and rows that it has in an interval, by time; its ends stay.

    Args:
        whole: The time in which it has what its sizes say.
    """
    piece = whole.intersect(interval)
    if piece is None:
        raise AssertionError("a segment is visible in its chunk")
    length_ms, part_ms = whole.duration_ms, piece.duration_ms
    return replace(
        segment,
        size_bytes=-(-segment.size_bytes * part_ms // length_ms),
        rows=-(-segment.rows * part_ms // length_ms),
    )


class _FillingChunk:
    """A time chunk while it is filled."""

    __slots__ = ("extent", "interval", "is_plain", "later", "prior", "segments", "target_period")

    def __init__(self, interval: Interval, target_period: TargetPeriod, extent: Extent) -> None:
        self.interval = interval
        self.target_period = target_period
        self.extent = extent
        self.is_plain = extent is not _COARSE
        self.segments: list[PlanSegment] = []
        self.prior = self.later = False

    def add_part(self, segment: PlanSegment) -> None:
        """Add what a segment that may reach over the borders has here."""
        interval = self.interval
        self.is_plain = False
        self.prior |= segment.start_ms < interval.start_ms
        self.later |= segment.end_ms > interval.end_ms
        whole = Interval(segment.start_ms, segment.end_ms)
        self.segments.append(share_of(segment, whole, interval))

    def chunk(self) -> TimeChunk:
        """Return it as a value."""
        segments = self.segments
        segments.sort(key=_name_of)
        size_bytes = rows = 0
        for one in segments:
            size_bytes, rows = size_bytes + one.size_bytes, rows + one.rows
        target, sides = self.target_period.target, (self.prior, self.later)
        return _new_chunk(
            (
                self.interval,
                target,
                segments,
                size_bytes,
                rows,
                *sides,
                self.extent,
                self.is_plain,
                1,
            )
        )


def _places_of(
    segment: PlanSegment, target_periods: Sequence[TargetPeriod], whole: dict[int, _FillingChunk]
) -> Iterator[_FillingChunk]:
    at_ms = segment.start_ms
    while at_ms < segment.end_ms:
        place = _place_at(at_ms, segment.chunk, target_periods, whole)
        yield place
        at_ms = place.interval.end_ms


def _place_at(
    at_ms: int,
    live: Interval | None,
    target_periods: Sequence[TargetPeriod],
    whole: dict[int, _FillingChunk],
) -> _FillingChunk:
    target_period = find_target_period(target_periods, at_ms)
    interval, extent = target_period.chunk_at(at_ms, live)
    place = whole.get(interval.start_ms)
    if place is None:
        place = whole[interval.start_ms] = _FillingChunk(interval, target_period, extent)
    return place


def find_spans(segments: Iterable[PlanSegment]) -> IntervalSet:
    """Return the time that segments hold without a gap.

    A segment stands for its time chunk where it has one: chunks that touch are one span, whatever instants their rows
    happen to have.
    """
    return interval_set({one.chunk or Interval(one.start_ms, one.end_ms) for one in segments})


def find_gaps(spans: IntervalSet) -> IntervalSet:
    """Return the time between spans."""
    hull = spans.span()
    return spans if hull is None else IntervalSet((hull,)).minus(spans)
