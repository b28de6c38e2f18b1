"""A store for the compaction of a simulation, which holds nothing but the sizes and places of segments.

What a group writes is as a planner can foresee it: outputs are of equal size and layout, and hold exactly what the
inputs showed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import replace

from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget, GroupKind
from carnac.core.compaction.plan.input_groups import Blend, Kin, rewritten
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.likeness import TargetView, wanted_order
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.entries import Chunk
from carnac.core.log.layout import overlapping, plan_chunks
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import ETERNITY, Interval, IntervalSet

VERSION = SegmentVersion(0)


class FoldingWorld:
    """The live segments of one datasource, by time chunk."""

    def __init__(self, granularity: Granularity) -> None:
        self._granularity = granularity
        self._segments: dict[Interval, list[PlanSegment]] = {}
        self._revisions: dict[Interval, int] = {}
        self._order: list[Interval] = []
        self._changed: set[Interval] = set()
        self.revision = 0
        self.newest_ms: int | None = None

    def append(self, time_ms: int, *, size_bytes: int, rows: int) -> PlanSegment:
        """Commit a segment with rows at a time, in the chunk that is there or in a bucket of the granularity."""
        chunk = self._chunk_of(time_ms)
        self.revision += 1
        segment = PlanSegment(
            segment_id=f"a{self.revision}",
            start_ms=chunk.start_ms,
            end_ms=chunk.end_ms,
            size_bytes=size_bytes,
            rows=rows,
            chunk=chunk,
            revision=self.revision,
        )
        self._put(segment)
        self.newest_ms = max(self.newest_ms or segment.end_ms, segment.end_ms)
        return segment

    def commit(self, task: CompactionTask, group: CompactionGroup) -> bool:
        """Commit what a group writes; False if one of its inputs is gone, and then nothing is changed."""
        touched = [one for one in self._live(group.interval) if one in self._segments]
        before = [segment for chunk in touched for segment in self._segments[chunk]]
        if not {one.segment_id for one in before}.issuperset(group.segment_ids):
            return False
        self.revision += 1
        chunks = chunks_of(task, group, before)
        after = apply_group(before, group, chunks, revision=self.revision)
        for chunk in touched:
            del self._segments[chunk], self._revisions[chunk]
            del self._order[bisect_left(self._order, chunk)]
            self._changed.add(chunk)
        for segment in after:
            self._put(segment)
        return True

    def take_changed(self) -> list[Interval]:
        """Return the chunks that were changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def chunks(self, reached: IntervalSet) -> list[Chunk]:
        """Return the live chunks that overlap the intervals."""
        return [
            Chunk(
                interval=chunk,
                version=VERSION,
                next_partition_id=0,
                entries=len(self._segments[chunk]),
                revision=self._revisions[chunk],
            )
            for chunk in self._live_in(reached)
        ]

    def segments(self, reached: Iterable[Interval] = (ETERNITY,)) -> list[PlanSegment]:
        """Return the segments of the live chunks that overlap the intervals."""
        live = self._live_in(IntervalSet(tuple(reached)))
        return [segment for chunk in live for segment in self._segments[chunk]]

    def counts(self) -> list[tuple[int, int, int]]:
        """Return segments, bytes and rows of each live chunk."""
        return [
            (len(one), sum([s.size_bytes for s in one]), sum([s.rows for s in one]))
            for one in self._segments.values()
        ]

    def _live_in(self, reached: IntervalSet) -> list[Interval]:
        return list(dict.fromkeys(chunk for one in reached for chunk in self._live(one)))

    def _live(self, interval: Interval) -> list[Interval]:
        return list(overlapping(self._order, interval))

    def _chunk_of(self, time_ms: int) -> Interval:
        bucket = self._granularity.bucket(time_ms)
        near = self._live(bucket)
        if bucket in near or not near:
            return bucket
        instant = Interval(time_ms, time_ms + 1)
        return plan_chunks(self._granularity, near, None, instant)[0]

    def _put(self, segment: PlanSegment) -> None:
        chunk = segment.chunk
        if chunk is None:
            raise AssertionError("segments of a store have a time chunk")
        if chunk not in self._segments:
            self._segments[chunk] = []
            insort(self._order, chunk)
        self._segments[chunk].append(segment)
        self._revisions[chunk] = self.revision
        self._changed.add(chunk)


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
