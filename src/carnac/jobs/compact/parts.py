"""The first half of a rewrite that several tasks share: inputs become part files, one for each time chunk and range.

Rows are held back until there are enough of them: many small row groups would cost more than the rows.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import Interval
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.cuts import Cuts, range_of
from carnac.jobs.compact.measure import measured
from carnac.jobs.compact.read import ReadPlan, micros, places_by_chunk
from carnac.jobs.compact.shape import ReadUnit
from carnac.jobs.compact.stage import as_parts
from carnac.jobs.compact.task import united
from carnac.rows.output import local_root, room_in
from carnac.rows.segment_writer import one_array, only_used
from carnac.spark.tasks import Attempt

HELD_FRACTION = 8
"""Rows are held back until they take this part of the task's memory."""
MIN_HELD_BYTES = 1 << 20

Key = tuple[Interval, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterTask:
    """Which inputs to cut where. Picklable.

    Attributes:
        unit: With the inputs of this task alone.
        columns: What the inputs of all tasks hold, types united: all tasks hand rows of one schema to Spark's plan.
        staging_url: Folder of the part files.
        keeps_words: Texts stay dictionaries: who puts the rows in order likes them so.
    """

    unit: ReadUnit
    columns: tuple[tuple[str, ColumnType], ...]
    plan: ReadPlan
    cuts: Cuts
    staging_url: str
    name: str
    memory_bytes: int
    keeps_words: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatteredPart:
    """A part file: rows of one time chunk and one range."""

    chunk: Interval
    range_index: int
    path: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """What a scatter task read and wrote."""

    side: Side
    parts: tuple[ScatteredPart, ...]


def scatter(task: ScatterTask, attempt: Attempt) -> Scattered:
    """Read, measure and cut the inputs of one task into part files, streaming."""
    side = Side()
    writers = PartWriters(task, attempt.number)
    with writers:
        for table in measured(task.unit, task.plan, side):
            writers.add(table)
            attempt.count(rows=table.num_rows)
    return Scattered(side=side, parts=writers.parts())


class PartWriters:
    """Part files by chunk and range; open while the task reads."""

    def __init__(self, task: ScatterTask, attempt: int) -> None:
        self._task = task
        self._attempt = attempt
        self._open: dict[Key, tuple[str, Any, Any]] = {}
        self._rows: dict[Key, int] = {}
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._most_bytes = max(MIN_HELD_BYTES, task.memory_bytes // HELD_FRACTION)

    def __enter__(self) -> PartWriters:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        try:
            if kind is None:
                self._flush()
                self._close()  # the last bytes may find no room: nobody must take such a file for whole
        finally:
            for _, writer, stream in self._open.values():
                with contextlib.suppress(OSError):
                    writer.close()
                with contextlib.suppress(OSError):
                    stream.close()

    def add(self, table: pa.Table) -> None:
        """Take rows; they are cut and written when there are enough of them."""
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes >= self._most_bytes:
            self._flush()

    def parts(self) -> tuple[ScatteredPart, ...]:
        """Return what was written, once the files are closed."""
        return tuple(
            ScatteredPart(chunk=chunk, range_index=index, path=path, rows=self._rows[chunk, index])
            for (chunk, index), (path, _, _) in sorted(
                self._open.items(), key=lambda item: item[1][0]
            )
        )

    def _close(self) -> None:
        """Write what is left.

        Raises:
            DiskFull: There is no room for it.
        """
        with room_in(self._task.staging_url):
            for _, writer, stream in self._open.values():
                writer.close()
                stream.close()

    def _flush(self) -> None:
        if not self._held:
            return
        task, chunks = self._task, self._task.plan.chunks
        table = pa.table(united(self._held))
        self._held, self._held_bytes = [], 0
        parts = as_parts(task.unit, table, keeps_words=task.keeps_words)
        ranges = range_of(task.cuts, task.unit.shape, chunks, table, parts)
        for place, inside in places_by_chunk(micros(parts), chunks):
            order = inside[np.argsort(ranges[inside], kind="stable")]
            numbers, starts = np.unique(ranges[order], return_index=True)
            rows = parts.take(pa.array(order))
            ends = [*starts[1:].tolist(), len(order)]
            for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
                self._write((chunks[place], number), rows.slice(start, end - start))

    def _write(self, key: Key, rows: pa.Table) -> None:
        arrays = [_small(one_array(column)) for column in rows.columns]
        small = pa.table(arrays, names=rows.column_names)
        with room_in(self._task.staging_url):
            self._writer(key, small.schema).write_table(small, row_group_size=small.num_rows)
        self._rows[key] = self._rows.get(key, 0) + small.num_rows

    def _writer(self, key: Key, schema: pa.Schema) -> Any:
        if key not in self._open:
            chunk, index = key
            name = f"{self._task.name}-{self._attempt}-{chunk.start_ms}-{index}.parquet"
            path, stream = _create(self._task.staging_url, name)
            writer = pq.ParquetWriter(stream, schema, compression="lz4", store_schema=False)
            self._open[key] = path, writer, stream
        return self._open[key][1]


def _small(array: pa.Array) -> pa.Array:
    return only_used(array) if pa.types.is_dictionary(array.type) else array


def _create(staging_url: str, name: str) -> tuple[str, Any]:
    root = local_root(staging_url)
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
        return str(root / name), (root / name).open("wb")
    import fsspec

    url = f"{staging_url.rstrip('/')}/{name}"
    filesystem, path = fsspec.core.url_to_fs(url)
    return url, filesystem.open(path, "wb")
