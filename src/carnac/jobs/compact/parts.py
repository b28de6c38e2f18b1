"""The first half of a rewrite by ranges: inputs become part files, one for each time chunk and range.

Rows are held back until there are enough of them: many small batches would cost more than the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from carnac.core.segments.segment import ColumnType
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.cuts import Cuts, range_of
from carnac.jobs.compact.measure import measured
from carnac.jobs.compact.read import ReadPlan, chunk_numbers, micros
from carnac.jobs.compact.shape import ReadUnit
from carnac.jobs.compact.stage import as_parts
from carnac.jobs.compact.task import united
from carnac.rows.merge_task import Part
from carnac.rows.parts import CHUNK_COLUMN, PartFiles, split_by_chunk
from carnac.spark.tasks import Attempt

if TYPE_CHECKING:
    from types import TracebackType

HELD_FRACTION = 8
"""Rows are held back until they take this part of the task's memory."""
MIN_HELD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterTask:
    """Inputs to cut, and the places of the cuts. Picklable.

    Attributes:
        unit: Read unit with the inputs of this task alone.
        columns: Columns of the inputs of all tasks, types united, since all tasks hand rows of one schema to Spark's
            plan.
        staging_url: Folder of the part files.
    """

    unit: ReadUnit
    columns: tuple[tuple[str, ColumnType], ...]
    plan: ReadPlan
    cuts: Cuts
    staging_url: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """The report of a scatter task: rows read and parts written."""

    side: Side
    parts: tuple[Part, ...]


def scatter(task: ScatterTask, attempt: Attempt) -> Scattered:
    """Read, measure and cut the inputs of one task into part files, streaming."""
    side = Side()
    cutter = PartCutter(task, attempt.number)
    with cutter:
        for table in measured(task.unit, task.plan, side):
            cutter.add(table)
            attempt.count(rows=table.num_rows)
    return Scattered(side=side, parts=cutter.files.parts)


class PartCutter:
    """Cuts the rows of a task into part files."""

    def __init__(self, task: ScatterTask, attempt: int) -> None:
        self._task = task
        self._ranges = task.cuts.count
        name = f"{task.name}-{attempt}"
        self.files = PartFiles(task.staging_url, task.plan.chunks, name=name, ranges=self._ranges)
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._most_bytes = max(MIN_HELD_BYTES, task.memory_bytes // HELD_FRACTION)

    def __enter__(self) -> PartCutter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self.files:
            if kind is None:
                self._flush()

    def add(self, table: pa.Table) -> None:
        """Take rows as they were read; they are cut and written when there are enough of them."""
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes >= self._most_bytes:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        task, chunks = self._task, self._task.plan.chunks
        rows = united(self._held)  # texts are cut as numbers, and written in full
        self._held, self._held_bytes = [], 0
        numbers = chunk_numbers(micros(rows), chunks) * self._ranges
        numbers += range_of(task.cuts, task.unit.shape, chunks, rows)
        for number, some in split_by_chunk(rows.append_column(CHUNK_COLUMN, pa.array(numbers))):
            if number >= 0:
                for part in as_parts(task.unit, pa.table(some)).to_batches():
                    self.files.write(number, part)
