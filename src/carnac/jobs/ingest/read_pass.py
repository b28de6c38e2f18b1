"""Pass 1: some input files become part files, one for each time chunk that they have rows for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carnac.core.segments.lateness import NONE_LATE, LateCounts, add_counts
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Invalid
from carnac.rows.duck import connect
from carnac.rows.merge_task import Part
from carnac.rows.normalise.coerce import SeveralValues
from carnac.rows.normalise.shape import RowShape
from carnac.rows.parts import ChunkPartitioner
from carnac.rows.read.reading import ReadCounts, ReadTask, load_rows, load_rows_from_arrow
from carnac.rows.read.rejections import Rejections, keep_rejected
from carnac.spark.tasks import Attempt
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

T = TypeVar("T")
Load = Callable[["duckdb.DuckDBPyConnection", RowShape], ReadCounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOne:
    """The common part of all tasks of pass 1. Picklable.

    Attributes:
        job_id: Id of the job; names its scratch folders.
        output_url: Root of deep storage.
        quarantine_folder: Folder below it for rejected rows.
        examples: Rejected rows that a task brings back for the report.
        is_logged: Whether each rejected row is logged.
    """

    job_id: str
    shape: RowShape
    cut: ChunkPartitioner
    output_url: str
    quarantine_folder: str
    examples: int
    is_logged: bool
    memory_bytes: int
    threads: int

    def scratch_dir(self) -> str:
        """Return a folder of this process, on the machine that runs the task."""
        return str(Path(tempfile.gettempdir()) / f"carnac-{self.job_id}-{os.getpid()}")

    def connect(
        self, *, threads: int | None = None
    ) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Open the engine for one task, with the threads that a task may have unless fewer are asked for."""
        return connect(
            temp_dir=self.scratch_dir(),
            memory_bytes=self.memory_bytes,
            threads=self.threads if threads is None else threads,
        )

    def run(
        self, name: str, load: Load, attempt: Attempt, *, shape: RowShape | None = None
    ) -> SplitResult:
        """Load rows with `load`, cut them, and keep the rejected ones.

        Args:
            name: Name of this attempt at this task, unique in the job.
            shape: Shape to load by, if the inputs of metrics have other names than in the job's shape.
        """
        with self.connect() as con:
            shape, counts = widening(shape or self.shape, lambda wide: (wide, load(con, wide)))
            attempt.count(rows=counts.rows_read, rejected=counts.rows_rejected)
            cut = self.cut.rows(con, "rows", shape, name=name, count=counts.rows_parsed)
            rejections = self.keep_rejected(con, counts, name)
        return SplitResult(
            shape=shape, counts=counts, parts=cut.parts, late=cut.late, rejections=rejections
        )

    def run_arrow(
        self,
        name: str,
        data: pa.Table | pa.RecordBatchReader,
        attempt: Attempt,
        *,
        timestamp: TimestampSpec,
        within: IntervalSet | None,
        origin: str = "rows in memory",
        first_row: int = 1,
        shape: RowShape | None = None,
    ) -> SplitResult:
        """Do what `run` does with rows of Arrow; the other arguments are those of `load_rows_from_arrow`."""
        load = partial(
            load_rows_from_arrow,
            origin=origin,
            timestamp=timestamp,
            within=within,
            first_row=first_row,
        )
        return self.run(name, lambda con, one: load(con, data, one), attempt, shape=shape)

    def run_direct(
        self,
        rows: pa.RecordBatch,
        name: str,
        attempt: Attempt,
        *,
        count: int,
        changed: Mapping[str, int],
    ) -> SplitResult:
        """Cut the rows of `direct_rows`; none was rejected.

        Args:
            name: As of `run`.
            count: Number of rows from which these were taken.
            changed: As of `ReadCounts`.
        """
        attempt.count(rows=count)
        cut = self.cut.few(rows, name=name)
        counts = ReadCounts(
            rows_read=count,
            rows_parsed=rows.num_rows,
            rows_thrown_away=count - rows.num_rows,
            changed=changed,
        )
        return SplitResult(
            shape=self.shape, counts=counts, parts=cut.parts, late=cut.late, rejections=Rejections()
        )

    def keep_rejected(
        self, con: duckdb.DuckDBPyConnection, counts: ReadCounts, name: str
    ) -> Rejections:
        """Put the rejected rows of a task into quarantine; `name` as of `run`."""
        return keep_rejected(
            con,
            counts,
            root_url=self.output_url,
            path=f"{self.quarantine_folder}/{name}.parquet",
            temp_dir=self.scratch_dir(),
            examples=self.examples,
            is_logged=self.is_logged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """The work of one task of pass 1 on files. Picklable."""

    common: PassOne
    read: ReadTask
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """The report of one task of pass 1.

    Attributes:
        shape: Shape of its parts; string dimensions that showed several values are arrays.
        late: Late rows by time chunk.
        filtered: Rows that the spec's filter took out; those outside of its intervals are in `counts`.
    """

    shape: RowShape
    counts: ReadCounts
    parts: tuple[Part, ...]
    late: Mapping[Interval, LateCounts]
    rejections: Rejections
    filtered: int = 0


def read_split(task: SplitTask, attempt: Attempt) -> SplitResult:
    """Read the files of a task and cut their rows."""
    common = task.common
    read = replace(task.read, scratch_dir=common.scratch_dir())
    name = f"{task.index}-{attempt.number}"
    return common.run(name, lambda con, shape: load_rows(con, read, shape), attempt)


def widening(shape: RowShape, read: Callable[[RowShape], T]) -> T:
    """Return what is read; where a string dimension shows several values, it is made an array, and all is read again.

    Args:
        shape: Shape of the rows, to begin with.
    """
    for _ in range(len(shape.dimensions) + 1):
        try:
            return read(shape)
        except SeveralValues as error:
            shape = widen(shape, error.columns)
    raise Invalid("a dimension has several values although it is an array")


def widen(shape: RowShape, names: Collection[str]) -> RowShape:
    """Return the shape with these string dimensions as arrays of strings."""
    dimensions = tuple(
        replace(dimension, type=ColumnType.STRING_ARRAY)
        if dimension.name in names and dimension.type is ColumnType.STRING
        else dimension
        for dimension in shape.dimensions
    )
    return replace(shape, dimensions=dimensions)


def united_late(results: Iterable[SplitResult]) -> dict[Interval, LateCounts]:
    """Return the late rows of all tasks, by time chunk."""
    found: dict[Interval, LateCounts] = {}
    for result in results:
        for chunk, counts in result.late.items():
            found[chunk] = add_counts((found.get(chunk, NONE_LATE), counts))
    return found


def united_shape(shape: RowShape, shapes: Iterable[RowShape]) -> RowShape:
    """Return the job's shape with every dimension as wide as some task needed it."""
    several = {
        dimension.name
        for other in shapes
        for dimension in other.dimensions
        if dimension.type is ColumnType.STRING_ARRAY
    }
    return widen(shape, several)
