"""Time chunks of the target granularity, with the segments that have rows in them.

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

from carnac.core.compaction.groups import CompactionTarget
from carnac.core.compaction.inputs import PlanSegment
from carnac.core.compaction.stretches import Stretch, find_stretch
from carnac.core.intervals import Interval

_name_of = attrgetter("segment_id")


class TimeChunk(NamedTuple):
    """A time chunk of the target granularity that has segments.

    Attributes:
        segments: Those with rows in it, by name. Of one that overlaps, `size_bytes` and `rows` are the share of this
            chunk, while `start_ms` and `end_ms` are those of the whole.
        overlaps_prior: A segment of it begins before it.
        overlaps_later: A segment of it ends after it.
        is_cut: It is what the border of two age rules leaves of a bucket.
        is_plain: It is a live time chunk, all of its segments are of it, and no other chunk has a part of one.
    """

    interval: Interval
    target: CompactionTarget
    segments: Sequence[PlanSegment]
    size_bytes: int
    rows: int
    overlaps_prior: bool = False
    overlaps_later: bool = False
    is_cut: bool = False
    is_plain: bool = False


_new_chunk = partial(tuple.__new__, TimeChunk)  # half of what `TimeChunk(...)` takes


def segments_of_holders(
    holders: Iterable[tuple[Interval, Sequence[PlanSegment]]],
) -> list[PlanSegment]:
    """Return the segments of a timeline that is given as time chunks, each once.

    A segment that has rows in several time chunks of the list is in each of them; the list may have them anywhere.
    """
    seen: dict[tuple[str, int, int], PlanSegment] = {}
    for _, segments in holders:
        for segment in segments:
            seen.setdefault((segment.segment_id, segment.start_ms, segment.end_ms), segment)
    return list(seen.values())


def cut_chunks(segments: Sequence[PlanSegment], stretches: Sequence[Stretch]) -> list[TimeChunk]:
    """Return the time chunks that have segments, in order of time."""
    whole: dict[int, _Place] = {}
    place = _Place(Interval(0, 1), stretches[-1], False)
    inside, interval = place.segments, place.interval
    start_ms = end_ms = 0  # of `place`; no segment fits into it yet
    for segment in segments:  # those of one chunk mostly come one after another
        if not (start_ms <= segment.start_ms and segment.end_ms <= end_ms):
            place = _place_at(segment.start_ms, segment.chunk, stretches, whole)
            inside, interval = place.segments, place.interval
            start_ms, end_ms = interval.start_ms, interval.end_ms
            if segment.end_ms > end_ms:
                for one in _places_of(segment, stretches, whole):
                    one.add_part(segment)
                end_ms = start_ms  # the next one fits nowhere, and looks for its place
                continue
        inside.append(segment)
        if segment.chunk is not interval or segment.is_part:
            place.is_plain = False
    return [whole[key].chunk() for key in sorted(whole)]


class _Place:
    """A time chunk while it is filled."""

    __slots__ = ("interval", "is_cut", "is_plain", "later", "prior", "segments", "stretch")

    def __init__(self, interval: Interval, stretch: Stretch, is_cut: bool) -> None:
        self.interval = interval
        self.stretch = stretch
        self.is_cut = is_cut
        self.is_plain = True
        self.segments: list[PlanSegment] = []
        self.prior = self.later = False

    def add_part(self, segment: PlanSegment) -> None:
        """Add what a segment that may reach over the borders has here."""
        start_ms = max(segment.start_ms, self.interval.start_ms)
        end_ms = min(segment.end_ms, self.interval.end_ms)
        self.is_plain = False
        self.prior |= segment.start_ms < start_ms
        self.later |= segment.end_ms > end_ms
        length_ms, part_ms = segment.end_ms - segment.start_ms, end_ms - start_ms
        self.segments.append(
            replace(
                segment,
                size_bytes=-(-segment.size_bytes * part_ms // length_ms),
                rows=-(-segment.rows * part_ms // length_ms),
            )
        )

    def chunk(self) -> TimeChunk:
        """Return it as a value."""
        segments = self.segments
        segments.sort(key=_name_of)
        size_bytes = rows = 0
        for one in segments:
            size_bytes, rows = size_bytes + one.size_bytes, rows + one.rows
        target, sides = self.stretch.target, (self.prior, self.later)
        return _new_chunk(
            (self.interval, target, segments, size_bytes, rows, *sides, self.is_cut, self.is_plain)
        )


def _places_of(
    segment: PlanSegment, stretches: Sequence[Stretch], whole: dict[int, _Place]
) -> Iterator[_Place]:
    at_ms = segment.start_ms
    while at_ms < segment.end_ms:
        place = _place_at(at_ms, segment.chunk, stretches, whole)
        yield place
        at_ms = place.interval.end_ms


def _place_at(
    at_ms: int, live: Interval | None, stretches: Sequence[Stretch], whole: dict[int, _Place]
) -> _Place:
    stretch = find_stretch(stretches, at_ms)
    interval, is_cut = stretch.chunk_at(at_ms, live)
    place = whole.get(interval.start_ms)
    if place is None:
        place = whole[interval.start_ms] = _Place(interval, stretch, is_cut)
    return place
