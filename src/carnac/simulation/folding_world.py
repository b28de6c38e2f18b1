"""A store for the compaction of a simulation, which holds nothing but the sizes and places of segments."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.outcome import apply_group, chunks_of
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.log.entries import Chunk
from carnac.core.log.layout import overlapping, plan_chunks
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.granularity import Granularity
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
