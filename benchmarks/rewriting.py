"""Rewrites in one process, without Spark: what the proof costs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa

from benchmarks.harness import cpu_seconds
from benchmarks.small_segments import DATASOURCE, SmallSegments
from carnac.core.compaction.groups import CompactionTarget
from carnac.core.intervals import Interval, IntervalSet
from carnac.core.segments import Segment
from carnac.pipeline.compact_read import ReadPlan, read_tables
from carnac.pipeline.compact_shape import plan_families
from carnac.pipeline.compact_task import FamilyTask, Rewritten, rewrite_family
from carnac.pipeline.conservation import Side
from carnac.ports import SegmentInput


def rewrite_segments(
    root: Path,
    segments: list[Segment],
    chunk: Interval,
    *,
    memory_bytes: int = 1 << 30,
    target: CompactionTarget | None = None,
    hidden_ms: int = 0,
) -> Rewritten:
    """Rewrite segments of a chunk into one.

    Args:
        hidden_ms: From the start of the chunk; what is in it is not to be read.
    """
    target = target or CompactionTarget()
    visible = IntervalSet((Interval(chunk.start_ms + hidden_ms, chunk.end_ms),))
    inputs = [SegmentInput(segment=segment, visible=visible) for segment in segments]
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


def _nothing(*_: object) -> int:
    """Stand in for what measures rows; unlike a mock it keeps none."""
    return 0


def _unmeasured(
    plan: ReadPlan, inputs: Sequence[SegmentInput], _side: Side
) -> Iterator[tuple[SegmentInput, pa.Table]]:
    """Read as a rewrite without a proof would."""
    for source in inputs:
        for table in read_tables(plan, source):
            yield source, table


def rewrite_days(
    small: SmallSegments, *, days: int, hashes: bool, hidden_ms: int = 0
) -> tuple[float, int]:
    """Return CPU seconds and rows of some chunks; without hashes, no proof is taken."""
    by_chunk: dict[Interval, list[Segment]] = {}
    for segment in small.segments:
        by_chunk.setdefault(segment.chunk, []).append(segment)
    root = small.folder / "deep-storage"

    def work() -> int:
        return sum(
            rewrite_segments(root, segments, chunk, hidden_ms=hidden_ms).went_in.rows
            for chunk, segments in sorted(by_chunk.items())[:days]
        )

    try:
        if hashes:
            return cpu_seconds(work)
        with (
            mock.patch("carnac.pipeline.segment_writer.hash_rows", new=_nothing),
            mock.patch("carnac.pipeline.compact_measure.as_read", new=_unmeasured),
            mock.patch("carnac.pipeline.compact_task.blame_inputs", new=_nothing),
        ):
            return cpu_seconds(work)
    finally:
        shutil.rmtree(root / "bench-out", ignore_errors=True)
