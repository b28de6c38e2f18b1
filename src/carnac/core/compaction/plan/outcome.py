"""The segments after planned groups are done, as far as a planner can foresee it.

Simulations use it: outputs are of equal size and layout, and hold exactly what the inputs showed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget, GroupKind
from carnac.core.compaction.plan.input_groups import Blend, Kin, rewritten
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.likeness import TargetView, wanted_order
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet


def chunks_of(
    task: CompactionTask, group: CompactionGroup, segments: Iterable[PlanSegment]
) -> list[Interval]:
    """Return the time chunks that a group of a task writes, in order of time.

    Args:
        segments: As they are before it.
    """
    mine = [chunk for chunk in task.chunks if group.interval.contains(chunk)]
    text = group.target.segment_granularity
    if text is None or group.kind is GroupKind.MINOR:
        return mine
    granularity, chosen = parse_granularity(text), set(group.segment_ids)
    read = [Interval(one.start_ms, one.end_ms) for one in segments if one.segment_id in chosen]
    found: set[Interval] = set()
    for chunk in mine:
        if granularity.is_bucket(chunk):
            found.add(chunk)
            continue
        pieces = [piece for one in read if (piece := one.intersect(chunk)) is not None]
        found.update(bucket for piece in pieces for bucket in granularity.buckets(piece))
    return sorted(found)


def apply_group(
    segments: Sequence[PlanSegment],
    group: CompactionGroup,
    chunks: Sequence[Interval],
    *,
    revision: int,
) -> list[PlanSegment]:
    """Return the segments after a group that writes the chunks."""
    chosen = set(group.segment_ids)
    kept: list[PlanSegment] = []
    read: list[PlanSegment] = []
    for segment in segments:
        inside, outside = _cut(segment, chunks)
        if not inside:
            kept.append(_carved(segment, chunks, revision))
        elif segment.segment_id in chosen:
            read.extend(inside)
            kept.extend(outside)
        elif group.kind is GroupKind.MAJOR:
            kept.extend(replace(part, revision=revision) for part in inside)
            kept.extend(replace(part, revision=revision) for part in outside)
        else:
            kept.append(segment)
    for chunk in chunks:
        parts = [part for part in read if chunk.holds(part.start_ms)]
        kept.extend(_written(parts, chunk, group, revision))
    return kept


def _written(
    parts: Sequence[PlanSegment], chunk: Interval, group: CompactionGroup, revision: int
) -> list[PlanSegment]:
    view = TargetView(group.target)
    mixture = view.mixture(parts)
    input_groups: dict[int, list[PlanSegment]] = {}
    for part in parts:
        number = 0 if mixture is None else mixture[id(part.layout)]
        input_groups.setdefault(number, []).append(part)
    name = f"{group.datasource}-{revision}-{chunk.start_ms}"
    return [
        replace(one, segment_id=f"{name}-{number}", chunk=chunk, revision=revision)
        for number, one in enumerate(
            one for input_group in input_groups.values() for one in _united(input_group, view)
        )
    ]


def _united(parts: Sequence[PlanSegment], view: TargetView) -> list[PlanSegment]:
    """Return what segments of one input group become; they have no names yet."""
    size_bytes = sum(part.size_bytes for part in parts)
    rows = sum(part.rows for part in parts)
    count = min(view.ideal(size_bytes, rows), rows, size_bytes)
    return [
        PlanSegment(
            segment_id="",
            start_ms=min(part.start_ms for part in parts),
            end_ms=max(part.end_ms for part in parts),
            size_bytes=size_bytes * (number + 1) // count - size_bytes * number // count,
            rows=rows * (number + 1) // count - rows * number // count,
            layout=layout_of(view.target, [part.layout.kin for part in parts]),
        )
        for number in range(count)
    ]


def layout_of(target: CompactionTarget, kins: Sequence[Kin]) -> SegmentLayout:
    """Return the layout of segments that are as the target asks for.

    Args:
        kins: Of what was put together, at least one, all of one input group.
    """
    by, kin = target.partitioning, _blended(kins, target)
    return SegmentLayout(
        kin=kin,
        partition_kind=by.kind,
        partition_dimensions=by.dimensions,
        sort_columns=wanted_order(target, kin),
        filtered_by=target.filter,
    )


def _blended(kins: Sequence[Kin], target: CompactionTarget) -> Kin:
    first, *others = [rewritten(kin, target) for kin in kins]
    blend = Blend(first)
    for kin in others:
        blend.add(kin)
    return blend.kin()


def _cut(
    segment: PlanSegment, chunks: Sequence[Interval]
) -> tuple[list[PlanSegment], list[PlanSegment]]:
    """Return the parts of a segment inside of the chunks, by chunk, and those outside."""
    whole = Interval(segment.start_ms, segment.end_ms)
    inside = [
        _part(segment, piece, chunk)
        for chunk in chunks
        if (piece := whole.intersect(chunk)) is not None
    ]
    outside = [
        _part(segment, piece, _rest_of(segment.chunk, chunks, piece))
        for piece in IntervalSet((whole,)).minus(IntervalSet(tuple(chunks)))
    ]
    return inside, outside


def _carved(segment: PlanSegment, chunks: Sequence[Interval], revision: int) -> PlanSegment:
    """Return a segment of which nothing is written anew; its live chunk gives way to those that are."""
    chunk = segment.chunk
    if chunk is None or not any(chunk.overlaps(one) for one in chunks):
        return segment
    rest = _rest_of(chunk, chunks, Interval(segment.start_ms, segment.end_ms))
    return replace(segment, chunk=rest, revision=revision)


def _rest_of(
    chunk: Interval | None, written: Sequence[Interval], piece: Interval
) -> Interval | None:
    """Return the rest of a live chunk around a piece when others have been written into it."""
    if chunk is None:
        return None
    left = IntervalSet((chunk,)).minus(IntervalSet(tuple(written)))
    return next(one for one in left if one.contains(piece))


def _part(segment: PlanSegment, piece: Interval, chunk: Interval | None) -> PlanSegment:
    length_ms = segment.end_ms - segment.start_ms
    return replace(
        segment,
        start_ms=piece.start_ms,
        end_ms=piece.end_ms,
        size_bytes=-(-segment.size_bytes * piece.duration_ms // length_ms),
        rows=-(-segment.rows * piece.duration_ms // length_ms),
        chunk=chunk,
        is_part=segment.is_part or piece.duration_ms < length_ms,
        pieces=(),
    )
