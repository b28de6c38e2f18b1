"""Rewrites in one process, without Spark: what the proof costs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import mock

from benchmarks.harness import cpu_seconds
from benchmarks.small_segments import DATASOURCE, SmallSegments
from carnac.core.compaction.groups import CompactionTarget
from carnac.core.intervals import Interval, IntervalSet
from carnac.core.segments import Segment
from carnac.pipeline.compact_shape import plan_families
from carnac.pipeline.compact_task import FamilyTask, Rewritten, rewrite_family
from carnac.ports import SegmentInput


def rewrite_segments(
    root: Path,
    segments: list[Segment],
    chunk: Interval,
    *,
    memory_bytes: int = 1 << 30,
    target: CompactionTarget | None = None,
) -> Rewritten:
    """Rewrite segments of a chunk into one."""
    target = target or CompactionTarget()
    inputs = [
        SegmentInput(segment=segment, visible=IntervalSet((segment.span,))) for segment in segments
    ]
    [family] = plan_families(inputs, target)
    with tempfile.TemporaryDirectory() as temporary:
        return rewrite_family(
            FamilyTask(
                datasource=DATASOURCE,
                family=family,
                target=target,
                chunks=(chunk,),
                output_url=root.as_uri(),
                path_prefix="bench-out",
                id_prefix="b",
                created_at_ms=0,
                temp_dir=temporary,
                memory_bytes=memory_bytes,
                is_whole=True,
            )
        )


def _no_hash(_rows: object) -> int:
    """Stand in for a hash; unlike a mock it keeps no rows."""
    return 0


def rewrite_days(small: SmallSegments, *, days: int, hashes: bool) -> tuple[float, int]:
    """Return CPU seconds and rows of some chunks; without hashes, no proof is taken."""
    by_chunk: dict[Interval, list[Segment]] = {}
    for segment in small.segments:
        by_chunk.setdefault(segment.chunk, []).append(segment)
    root = small.folder / "deep-storage"

    def work() -> int:
        return sum(
            rewrite_segments(root, segments, chunk).went_in.rows
            for chunk, segments in sorted(by_chunk.items())[:days]
        )

    try:
        if hashes:
            return cpu_seconds(work)
        with (  # what a writer without a proof would not do
            mock.patch("carnac.pipeline.segment_writer.hash_rows", new=_no_hash),
            mock.patch("carnac.pipeline.compact_task._blame_inputs", new=_no_hash),
        ):
            return cpu_seconds(work)
    finally:
        shutil.rmtree(root / "bench-out", ignore_errors=True)
