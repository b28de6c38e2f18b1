"""A segment as the planner sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from carnac.core.compaction.plan.input_groups import Kin, kin_of
from carnac.core.compaction.plan.notes import cut_of, filter_of
from carnac.core.log.entries import VisibleSegment
from carnac.core.segments.segment import HashedPartition, Partition, RangePartition
from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLayout:
    """How the rows of a segment are kept, as far as a target may ask for something else.

    Attributes:
        kin: Columns, rollup and granularity: with which others it can be put together.
        partition_kind: `dynamic`, `hashed` or `range`.
        filtered_by: The condition that all rows have passed.
        cut_for: Sizes and partitions that a rewrite cut it for, if it is too large for them nevertheless.
    """

    kin: Kin
    partition_kind: str = "dynamic"
    partition_dimensions: tuple[str, ...] = ()
    sort_columns: tuple[str, ...] = ()
    filtered_by: str | None = None
    cut_for: str | None = None


PLAIN = SegmentLayout(kin=Kin(False, "none"))
"""The layout of raw rows in no order, of no named columns; they can be put together with any raw rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSegment:
    """A segment that is visible in a time chunk, as the planner sees it.

    Attributes:
        start_ms: Where what is visible of it begins.
        end_ms: Where that ends, exclusive; after `start_ms`.
        size_bytes: Of its file, by the share of its time that is visible; > 0.
        rows: Likewise.
        chunk: The live time chunk that it is visible in; None where the timeline is a mere list of segments.
        revision: Of the commit that made it visible here.
        is_part: Other time chunks may show other parts of the segment.
        pieces: What is visible of it, where something between its ends is not; empty: all between them is.
    """

    segment_id: str
    start_ms: int
    end_ms: int
    size_bytes: int
    rows: int
    chunk: Interval | None = None
    revision: int = 0
    layout: SegmentLayout = PLAIN
    is_part: bool = False
    pieces: tuple[Interval, ...] = ()

    def shown(self) -> tuple[Interval, ...]:
        """Return the time in which something of it is visible, in order."""
        return self.pieces or (Interval(self.start_ms, self.end_ms),)


def plan_segments(
    visible: Iterable[VisibleSegment], kept_apart: frozenset[str] = frozenset()
) -> list[PlanSegment]:
    """Return what the planner must know of visible segments, in their order.

    Args:
        kept_apart: Columns of the datasource whose numbers keep their types: see `find_kept_apart`.
    """
    layouts: dict[SegmentLayout, SegmentLayout] = {}
    found: list[PlanSegment] = []
    for item in visible:
        segment, entry = item.segment, item.entry
        size_bytes, rows = segment.size_bytes, segment.rows
        start_ms, end_ms = entry.span.start_ms, entry.span.end_ms
        pieces: tuple[Interval, ...] = ()
        if entry.clip is not None:
            pieces = entry.clip.intervals
            start_ms, end_ms = pieces[0].start_ms, pieces[-1].end_ms
            shown_ms = sum(piece.duration_ms for piece in pieces)
            size_bytes = -(-size_bytes * shown_ms // entry.span.duration_ms)
            rows = -(-rows * shown_ms // entry.span.duration_ms)
        layout = _layout_of(item, kept_apart)
        found.append(
            PlanSegment(
                segment_id=entry.segment_id,
                start_ms=start_ms,
                end_ms=end_ms,
                size_bytes=max(size_bytes, 1),
                rows=max(rows, 1),
                chunk=entry.chunk,
                revision=entry.added_revision,
                layout=layouts.setdefault(layout, layout),
                is_part=entry.clip is not None,
                pieces=pieces if len(pieces) > 1 else (),
            )
        )
    return found


def _layout_of(item: VisibleSegment, kept_apart: frozenset[str]) -> SegmentLayout:
    segment = item.segment
    return SegmentLayout(
        kin=kin_of(segment, kept_apart),
        partition_kind=_kind_of(segment.partition),
        partition_dimensions=() if segment.partition is None else segment.partition.dimensions,
        sort_columns=segment.sort_columns,
        filtered_by=filter_of(segment) if segment.attributes else None,
        cut_for=cut_of(segment) if segment.attributes else None,
    )


def _kind_of(partition: Partition | None) -> str:
    if isinstance(partition, HashedPartition):
        return "hashed"
    return "range" if isinstance(partition, RangePartition) else "dynamic"
