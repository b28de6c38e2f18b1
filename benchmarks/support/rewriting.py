"""Rewrites in one process, without Spark, which show the cost of the proof."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa

from benchmarks.support.harness import cpu_seconds
from benchmarks.support.small_segments import DATASOURCE, SmallSegments
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.segment import ColumnType, Metric, MetricKind, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.read import ReadPlan, read_tables
from carnac.jobs.compact.scatter import rewrite_in_task
from carnac.jobs.compact.shape import plan_input_groups
from carnac.jobs.compact.task import GroupTask, Rewritten
from carnac.jobs.delete.delete import DeleteTask, judging, rewrite_segment
from carnac.ports import SegmentInput
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt

FIFTIETH = "d50_8d076785"
"""A fiftieth of the rows have this value."""
Groups = list[tuple[Interval, list[Segment]]]


def rewrite(
    root: Path,
    chunk: Interval,
    segments: list[Segment],
    *,
    target: CompactionTarget | None = None,
    hidden_ms: int = 0,
    to: str = "bench-out",
) -> Rewritten:
    """Rewrite segments of a chunk.

    Args:
        hidden_ms: Length of the part at the start of the chunk whose rows are not to be read.
    """
    target = target or CompactionTarget()
    visible = IntervalSet((Interval(chunk.start_ms + hidden_ms, chunk.end_ms),))
    inputs = [SegmentInput(segment=segment, visible=visible) for segment in segments]
    [input_group] = plan_input_groups(inputs, target)
    with tempfile.TemporaryDirectory() as temporary:
        return rewrite_in_task(
            GroupTask(
                datasource=DATASOURCE,
                input_group=input_group,
                target=target,
                chunks=(chunk,),
                output_url=root.as_uri(),
                path_prefix=to,
                id_prefix="b",
                created_at_ms=0,
                temp_dir=temporary,
                memory_bytes=1 << 30,
                is_whole=True,
            ),
            Attempt(0, Tally(None)),
        )


def _nothing(*_: object, **__: object) -> int:
    """Stand in for what measures rows; unlike a mock it keeps none."""
    return 0


def _unmeasured(
    plan: ReadPlan, inputs: Sequence[SegmentInput], _side: Side
) -> Iterator[tuple[SegmentInput, pa.Table]]:
    """Read as a rewrite without a proof would."""
    for source in inputs:
        for table in read_tables(plan, source):
            yield source, table


ROLLED = tuple(
    Metric(name=name, kind=kind, input=read, type=of)
    for name, kind, read, of in (
        ("count", MetricKind.COUNT, None, ColumnType.LONG),
        ("i1", MetricKind.SUM, "m_i1", ColumnType.LONG),
        ("d1", MetricKind.SUM, "m_d1", ColumnType.DOUBLE),
        ("d2", MetricKind.MAX, "m_d2", ColumnType.DOUBLE),
    )
)
BY_MINUTE = CompactionTarget(
    query_granularity="MINUTE",
    dimensions=("d5", "d50", "d500"),
    metrics=ROLLED,
    target_rows=50_000,
    allow_lossy=True,
)
BY_HOUR = CompactionTarget(query_granularity="HOUR", allow_lossy=True)


def first_days(small: SmallSegments, days: int) -> Groups:
    """Return the segments of some chunks, in order of time."""
    by_chunk: dict[Interval, list[Segment]] = {}
    for segment in small.segments:
        by_chunk.setdefault(segment.chunk, []).append(segment)
    return sorted(by_chunk.items(), key=lambda item: item[0].start_ms)[:days]


def _put(
    root: Path,
    chunk: Interval,
    segments: list[Segment],
    *,
    to: str,
    target: CompactionTarget | None = None,
) -> list[Segment]:
    """Return what a chunk becomes, in a folder of its own."""
    return list(rewrite(root, chunk, segments, target=target, to=f"{to}/{chunk.start_ms}").segments)


@contextlib.contextmanager
def rolled_up(small: SmallSegments, groups: Groups) -> Iterator[Groups]:
    """Give segments of 50,000 rows with the same rows rolled up by minute, for a while."""
    root = small.folder / "deep-storage"
    try:
        yield [
            (chunk, _put(root, chunk, segments, to="by-minute", target=BY_MINUTE))
            for chunk, segments in groups
        ]
    finally:
        shutil.rmtree(root / "by-minute", ignore_errors=True)


def rewrite_days(
    small: SmallSegments,
    groups: Groups,
    *,
    hashes: bool,
    hidden_ms: int = 0,
    target: CompactionTarget | None = None,
) -> float:
    """Return the CPU seconds that it takes to rewrite chunks; without hashes, no proof is taken."""
    root = small.folder / "deep-storage"

    def work() -> None:
        for chunk, segments in groups:
            rewrite(root, chunk, segments, target=target, hidden_ms=hidden_ms)

    return _cpu_seconds(work, root, hashes=hashes)


@contextlib.contextmanager
def compacted(small: SmallSegments, groups: Groups) -> Iterator[Groups]:
    """Give the segments that compaction makes of the groups, for a while."""
    root = small.folder / "deep-storage"
    try:
        yield [(chunk, _put(root, chunk, segments, to="compacted")) for chunk, segments in groups]
    finally:
        shutil.rmtree(root / "compacted", ignore_errors=True)


def delete_from_days(small: SmallSegments, groups: Groups, *, hashes: bool) -> float:
    """Return the CPU seconds that it takes to delete a fiftieth of the rows; without hashes, no proof is taken."""
    root = small.folder / "deep-storage"

    def work() -> None:
        for chunk, segments in groups:
            for segment in segments:
                with tempfile.TemporaryDirectory() as temporary:
                    task = DeleteTask(
                        source=SegmentInput(segment=segment, visible=IntervalSet((chunk,))),
                        predicate=f"d50 = '{FIFTIETH}'",
                        columns=(("d50", ColumnType.STRING),),
                        output_url=root.as_uri(),
                        path_prefix="bench-out",
                        id_prefix="b",
                        created_at_ms=0,
                        temp_dir=temporary,
                    )
                    with judging(task) as judge:
                        rewrite_segment(task, judge)

    return _cpu_seconds(work, root, hashes=hashes)


def _cpu_seconds(work: Callable[[], None], root: Path, *, hashes: bool) -> float:
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root / "bench-out", ignore_errors=True)
        if not hashes:
            for name, stand_in in _WITHOUT_PROOF.items():
                stack.enter_context(mock.patch(f"carnac.{name}", stand_in))
        return cpu_seconds(work)[0]


def _conserves(_proof: object) -> bool:
    return True


_WITHOUT_PROOF = {
    "rows.segment_writer.hash_rows": _nothing,
    "rows.row_hash.hash_rows": _nothing,
    "jobs.compact.read.check_file": _nothing,
    "jobs.compact.measure.as_read": _unmeasured,
    "jobs.compact.task.blame_inputs": _nothing,
    "jobs.compact.conservation.Side.add_states": _nothing,
    "jobs.delete.delete.as_read": _unmeasured,
    "jobs.delete.delete.conserves": _conserves,
}
