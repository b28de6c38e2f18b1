"""The state that a write reads before it hides anything: which segments show what, and whether rows are cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from carnac.core.log.commits import Drop
from carnac.core.log.entries import VisibleSegment, shown_by
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import (
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    interval_set,
    interval_text,
)
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

Shown: TypeAlias = Mapping[str, tuple[Segment, IntervalSet]]
"""Segments by id, and what their entries show."""


def shown_within(
    metadata: MetadataStore, datasource: str, revision: int, intervals: IntervalSet | None
) -> Shown:
    """Return the segments with an entry that shows something within `intervals`, and what those entries show."""
    return unite(metadata.visible(datasource, revision=revision, intervals=intervals))


def unite(entries: Iterable[VisibleSegment]) -> Shown:
    """Return the segments of entries, each with all that its entries show."""
    items = list(entries)
    segments = {item.segment.segment_id: item.segment for item in items}
    shown = shown_by(item.entry for item in items)
    return {segment_id: (segment, shown[segment_id]) for segment_id, segment in segments.items()}


def shown_whole(
    metadata: MetadataStore, datasource: str, revision: int, interval: Interval | None
) -> Shown:
    """Return the segments that show something within `interval`, with all that they show anywhere."""
    if interval is None:
        return shown_within(metadata, datasource, revision, None)
    inside = shown_within(metadata, datasource, revision, IntervalSet((interval,)))
    spans = interval_set(segment.span for segment, _ in inside.values())
    around = shown_within(metadata, datasource, revision, spans) if spans else {}
    return {segment_id: around[segment_id] for segment_id in inside}


def drops_of(shown: Shown, covers: IntervalSet) -> tuple[Drop, ...]:
    """Return what takes out of sight all that the segments show within `covers`."""
    return tuple(
        Drop(segment_id=segment_id, expected=pieces.intersect(covers), within=covers)
        for segment_id, (_, pieces) in shown.items()
    )


def require_aligned(
    metadata: MetadataStore, datasource: str, covers: IntervalSet, revision: int
) -> None:
    """Refuse an interval that cuts a bucket of rolled-up rows, which stand for all of it.

    Raises:
        Invalid: The interval cuts a bucket; names an interval that does not.
    """
    for interval in covers:
        for edge_ms in (interval.start_ms, interval.end_ms):
            if edge_ms in {MIN_MS, MAX_MS}:
                continue
            around = IntervalSet((Interval(edge_ms - 1, edge_ms + 1),))
            for found in metadata.visible(datasource, revision=revision, intervals=around):
                _check_edge(found, edge_ms, interval)


def _check_edge(found: VisibleSegment, edge_ms: int, interval: Interval) -> None:
    text = found.segment.query_granularity
    granularity = parse_granularity(text)
    if granularity.bucket(edge_ms).start_ms == edge_ms:
        return
    aligned = granularity.buckets_over(interval)
    raise Invalid(
        f"interval {interval_text(interval)} cuts rows of {found.segment.datasource}, whose query "
        f"granularity is {text}; "
        f"align it, for example to {interval_text(aligned)}",
        interval=str(interval),
    )
