"""Rewrites in one process, without Spark: what the proof costs, and how much memory a task takes."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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

MEMORY_BYTES = 64 << 20


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
            mock.patch("carnac.pipeline.segment_writer.hash_rows", return_value=0),
            mock.patch("carnac.pipeline.compact_task._blame_inputs"),
        ):
            return cpu_seconds(work)
    finally:
        shutil.rmtree(root / "bench-out", ignore_errors=True)


def rewrite_large(small: SmallSegments) -> Mapping[str, float]:
    """Rewrite all small segments as one chunk, in a process of its own with little memory; return what it took."""
    from carnac.core.records import dump_segment

    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "segments.json"
        records.write_text(json.dumps([dump_segment(segment) for segment in small.segments]))
        argv = [sys.executable, "-m", "benchmarks.rewriting", str(small.folder), str(records)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
    figures: Mapping[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Rewrite, and print how much memory was in use at most, and before."""
    from carnac.core.records import load_segment
    from carnac.pipeline.compact_task import bytes_in_memory

    folder, records = Path(sys.argv[1]), Path(sys.argv[2])
    segments = [load_segment(text) for text in json.loads(records.read_text())]
    spans = [segment.chunk for segment in segments]
    chunk = Interval(min(span.start_ms for span in spans), max(span.end_ms for span in spans))
    inputs = [SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments]
    [family] = plan_families(inputs, CompactionTarget())
    import duckdb  # noqa: F401  # counted as what is there before
    import pyarrow.parquet  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    root = folder / "deep-storage"
    try:
        written = rewrite_segments(root, segments, chunk, memory_bytes=MEMORY_BYTES)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    finally:
        shutil.rmtree(root / "bench-out", ignore_errors=True)
    figures = {
        "rows": written.came_out.rows,
        "segments": len(written.segments),
        "task memory MiB": MEMORY_BYTES / 2**20,
        "group in memory MiB": bytes_in_memory(family) / 2**20,
        "group / task memory": bytes_in_memory(family) / MEMORY_BYTES,
        "process before MiB": before / 2**20,
        "taken MiB": (after - before) / 2**20,
        "CPU s": resource.getrusage(resource.RUSAGE_SELF).ru_utime,
    }
    sys.stdout.write(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
