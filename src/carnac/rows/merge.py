"""Pass 2: the part files of one time chunk become sorted segment files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.segments.partitioning import HASH_FUNCTION
from carnac.core.segments.segment import (
    HashedPartition,
    Partition,
    RangePartition,
    Scalar,
    Segment,
)
from carnac.core.time.intervals import interval_text
from carnac.errors import Corrupt
from carnac.rows.cutting import Piece
from carnac.rows.merge_task import MergeTask, segment_id

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.rows.segment_writer import SegmentWriter, WrittenFile
    from carnac.rows.sorting import OpenRows


def merge_parts(
    task: MergeTask,
    *,
    attempt: int = 0,
    on_rows: Callable[[int], None] | None = None,
    watch: SinkWatch | None = None,
) -> tuple[Segment, ...]:
    """Merge, roll up, sort and cut the rows of the parts, and write one file per segment.

    The parts are left as they are. If it fails, it removes the files that this attempt wrote.

    Args:
        attempt: Number of this attempt at the task; another one for every attempt, also speculative ones.
        on_rows: Called with the number of rows written since its last call.
        watch: Sees the rows that are written; None: nobody does.

    Returns:
        The records of the segments, in the order of their partitions; empty if the parts hold no row.

    Raises:
        Invalid: A sum of longs does not fit into 64 bits; names the metric.
        Unavailable: Deep storage or the temporary folder is full, or does not answer.
        Corrupt: A part file is not readable.
    """
    from carnac.rows.duck import translated
    from carnac.rows.sorting import open_rows

    if not task.parts:
        return ()
    with (
        _sink(task, attempt, on_rows, watch) as sink,
        contextlib.ExitStack() as resources,
        translated(f"merging time chunk {interval_text(task.chunk)} of {task.datasource}"),
    ):
        return sink.write_all(open_rows(task, resources, temp_dir=sink.temp_dir))


def write_rows(
    task: MergeTask,
    rows: pa.RecordBatch,
    *,
    attempt: int = 0,
    on_rows: Callable[[int], None] | None = None,
    watch: SinkWatch | None = None,
) -> tuple[Segment, ...]:
    """Put rows in order that are in memory and need no merging, and write them as `merge_parts` does.

    Args:
        task: Without parts.
    """
    from carnac.rows.sorting import order_rows

    with _sink(task, attempt, on_rows, watch) as sink:
        return sink.write_all(order_rows(task, rows))


@contextlib.contextmanager
def _sink(
    task: MergeTask,
    attempt: int,
    on_rows: Callable[[int], None] | None,
    watch: SinkWatch | None,
) -> Iterator[SegmentSink]:
    """Yield a sink; if the block fails, what was written is removed."""
    temp_dir = f"{task.temp_dir}/{segment_id(task.id_prefix, attempt, 0)}"
    sink = SegmentSink(task, attempt=attempt, temp_dir=temp_dir, on_rows=on_rows, watch=watch)
    try:
        yield sink
    except BaseException:
        sink.remove_all()
        raise
    finally:
        remove_folder(temp_dir)


def remove_folder(folder: str) -> None:
    """Remove a folder of temporary files, and the one above it if it is empty."""
    above = folder.rpartition("/")[0]
    if not os.path.exists(above):  # noqa: PTH110 - rows in memory need none
        return
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        Path(above).rmdir()


class SinkWatch:
    """Sees the rows of a merge on their way to the writer; a rewrite takes its proof from that."""

    def make_writer(self, *args: Any, **options: Any) -> SegmentWriter:
        """Return the writer of one segment."""
        from carnac.rows.segment_writer import SegmentWriter

        return SegmentWriter(*args, **options)

    def see(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Look at rows that are about to be written, and return them; texts may become dictionaries."""
        return rows


class SegmentSink:
    """Writes pieces into files, and keeps their records."""

    def __init__(
        self,
        task: MergeTask,
        *,
        attempt: int,
        temp_dir: str,
        on_rows: Callable[[int], None] | None,
        watch: SinkWatch | None = None,
    ) -> None:
        self._task, self._attempt, self.temp_dir = task, attempt, temp_dir
        self._on_rows = on_rows
        self._watch = watch or SinkWatch()
        self._segments: list[Segment] = []
        self._sort: tuple[str, ...] = ()
        self._writer: SegmentWriter | None = None
        self._input_rows = 0

    def write_all(self, opened: OpenRows) -> tuple[Segment, ...]:
        """Write all pieces and return the records of the segments."""
        self._sort = opened.sort_columns
        partitions: list[tuple[int | None, tuple[Scalar, ...] | None]] = []
        for piece in opened.pieces:
            if piece.is_new or self._is_full():
                self._finish()
                self._begin()
                partitions.append((piece.bucket, piece.start))
            self._write(piece)
        self._finish()
        return tuple(
            segment if partition is None else replace(segment, partition=partition)
            for segment, partition in zip(
                self._segments, self._partitions(partitions, opened.buckets), strict=True
            )
        )

    def remove_all(self) -> None:
        """Remove what was written; the error that is being handled says how much it was."""
        from carnac.rows.output import note_waste, remove_file

        if self._writer is not None:
            note_waste(self._writer.discard())
        for segment in self._segments:
            with contextlib.suppress(OSError):
                remove_file(self._task.output_url, segment.path)
                note_waste(segment.size_bytes)

    def _is_full(self) -> bool:
        if self._writer is None or self._task.target_bytes is None:
            return False
        is_free = self._task.partitions.type == "dynamic"
        return is_free and self._writer.size_bytes >= self._task.target_bytes

    def _begin(self) -> None:
        self._input_rows = 0
        self._writer = self._watch.make_writer(
            self._task.output_url,
            self._path(),
            self._task.shape.segment_columns,
            temp_dir=self.temp_dir,
            sort_columns=self._sort,
        )

    def _id(self) -> str:
        return segment_id(self._task.id_prefix, self._attempt, len(self._segments))

    def _path(self) -> str:
        return f"{self._task.path_prefix}/{self._id()}.parquet"

    def _write(self, piece: Piece) -> None:
        import pyarrow.compute as pc

        from carnac.rows.normalise.shape import ROWS_COLUMN
        from carnac.rows.rollup import build_sketches

        if self._writer is None:
            raise Corrupt(f"rows of {self._task.datasource} came before the segment they belong to")
        rows = piece.rows
        if self._task.shape.is_rollup:
            self._input_rows += pc.sum(rows.column(ROWS_COLUMN)).as_py()
        else:
            self._input_rows += rows.num_rows
        rows = build_sketches(self._task.shape, rows)
        rows = self._watch.see(rows)
        self._writer.write(rows)
        if self._on_rows is not None:
            self._on_rows(rows.num_rows)

    def _finish(self) -> None:
        if self._writer is None:
            return
        written = self._writer.finish()
        self._segments.append(self._segment(written))
        self._writer = None

    def _segment(self, written: WrittenFile) -> Segment:
        task = self._task
        return Segment(
            segment_id=self._id(),
            datasource=task.datasource,
            chunk=task.chunk,
            path=self._path(),
            input_rows=self._input_rows,
            sort_columns=self._sort,
            query_granularity=task.shape.query_granularity,
            rollup=task.shape.rollup_spec(is_perfect=task.is_perfect),
            created_at_ms=task.created_at_ms,
            **written.facts(),
        )

    def _partitions(
        self,
        starts: list[tuple[int | None, tuple[Scalar, ...] | None]],
        buckets: int | None,
    ) -> Iterator[Partition | None]:
        spec = self._task.partitions
        for index, (bucket, start) in enumerate(starts):
            if spec.type == "hashed" and bucket is not None and buckets is not None:
                yield HashedPartition(
                    dimensions=spec.dimensions or self._task.shape.dimension_names,
                    bucket=bucket,
                    buckets=buckets,
                    function=HASH_FUNCTION,
                )
            elif spec.type == "range":
                following = starts[index + 1][1] if index + 1 < len(starts) else None
                yield RangePartition(
                    dimensions=spec.dimensions,
                    start=start if index else None,
                    end=following,
                )
            else:
                yield None
