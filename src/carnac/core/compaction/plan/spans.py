"""Spans: runs of adjacent or overlapping segments, with nothing between two of them.

Source: "Compaction Notes", the first step. A gap begins where all segments before it have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of segments without a gap.

    Attributes:
        segments: How many.
    """

    interval: Interval
    segments: int


def find_spans(segments: Iterable[PlanSegment]) -> tuple[Span, ...]:
    """Return the spans of segments, in order of time.

    A segment stands for its time chunk where it has one: chunks that touch are one span, whatever instants their rows
    happen to have.
    """
    ranges = sorted(
        (segment.start_ms, segment.end_ms)
        if segment.chunk is None
        else (segment.chunk.start_ms, segment.chunk.end_ms)
        for segment in segments
    )
    spans: list[Span] = []
    start_ms = end_ms = count = 0
    for first_ms, last_ms in ranges:
        if count and first_ms > end_ms:
            spans.append(Span(interval=Interval(start_ms, end_ms), segments=count))
            count = 0
        if not count:
            start_ms, end_ms = first_ms, last_ms
        end_ms = max(end_ms, last_ms)
        count += 1
    if count:
        spans.append(Span(interval=Interval(start_ms, end_ms), segments=count))
    return tuple(spans)


def find_gaps(spans: Sequence[Span]) -> tuple[Interval, ...]:
    """Return the time between spans, in order."""
    return tuple(
        Interval(before.interval.end_ms, after.interval.start_ms)
        for before, after in pairwise(spans)
    )
