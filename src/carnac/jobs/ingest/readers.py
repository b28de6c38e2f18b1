"""Pass 1 without Spark's own plan: from files, or from a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from carnac.errors import Invalid
from carnac.jobs.bins import share_out
from carnac.jobs.ingest.ingest import IngestJob
from carnac.jobs.ingest.parsing import parse_shape
from carnac.jobs.ingest.read_pass import PassOne, SplitResult, SplitTask, read_split, united_shape
from carnac.ports.jobs import APPEND_BYTES_MAX
from carnac.rows.normalise.changes import Change, mark
from carnac.rows.normalise.shape import RowShape
from carnac.rows.parts import open_staged
from carnac.rows.read.direct import direct_rows
from carnac.rows.read.discover import (
    SeenFields,
    discover_fields,
    discover_in_arrow,
    unite_seen,
)
from carnac.rows.read.inputs import InputFile, ResolvedInput, resolve_input
from carnac.rows.read.reading import ReadTask
from carnac.spark.tasks import Attempt
from carnac.specs.ingest.transforms import declared_types, read_transforms

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.time.intervals import IntervalSet
    from carnac.specs.ingest.schema import TimestampSpec
    from carnac.specs.ingest.spec import IngestSpec

MAX_SLICE_ROWS = 1_000_000
MIN_SLICE_ROWS = 50_000
"""Tables in memory are given to tasks in slices between these."""


def read_files(job: IngestJob) -> Sequence[SplitResult]:
    """Run pass 1 over the files that the spec names."""
    reads = plan_reads(job)
    job.look = partial(discover, job, reads)
    job.look_if_needed()
    job.timer.lap("plan")
    results: dict[int, SplitResult] = {}
    todo = list(range(len(reads)))
    while todo:
        common = job.common(tasks=len(todo))
        tasks = [SplitTask(common=common, read=reads[index], index=index) for index in todo]
        found = job.run_tasks("read", read_split, tasks)
        results.update(zip(todo, found, strict=True))
        job.shape = united_shape(job.shape, (result.shape for result in found))
        # A dimension that had several values elsewhere only: read again, as arrays. Rare, so no look ahead.
        todo = [i for i, one in results.items() if one.shape.dimensions != job.shape.dimensions]
    return [results[index] for index in range(len(reads))]


def plan_reads(job: IngestJob) -> list[ReadTask]:
    """Find the files and share them out among tasks.

    Raises:
        NotFound: There are none.
    """
    found = job.messages or resolve_input(job.spec.input)
    reads = reads_of(found, job.spec.timestamp, job.within, cores=job.context.cores())
    size_bytes = sum(file.size_bytes for read in reads for file in read.files)
    job.is_for_append = size_bytes <= APPEND_BYTES_MAX and job.spec.mode == "append"
    return reads


def reads_of(
    found: ResolvedInput, timestamp: TimestampSpec, within: IntervalSet | None, *, cores: int
) -> list[ReadTask]:
    """Share the files of an input out among tasks."""
    return [
        ReadTask(
            files=files, format=found.format, timestamp=timestamp, scratch_dir="", within=within
        )
        for files in share_out(found.files, found.format, cores=cores)
    ]


def split_tasks(job: IngestJob, reads: Sequence[ReadTask]) -> list[SplitTask]:
    """Return the tasks that read the input, each a part of it."""
    common = job.common(tasks=len(reads))
    return [SplitTask(common=common, read=read, index=index) for index, read in enumerate(reads)]


def plan_parsing(job: IngestJob) -> tuple[list[ReadTask], SeenFields, RowShape]:
    """Look at all files; return what each task reads, which fields there are, and what transforms are given of a row.

    Raises:
        NotFound: There are none.
    """
    reads = plan_reads(job)
    seen = discover(job, reads)
    job.look = lambda: seen
    job.settle(seen)
    shape = parse_shape(job.shape, read_transforms(job.spec), seen, declared_types(job.spec))
    job.timer.lap("plan")
    return reads, seen, shape


def discover(job: IngestJob, reads: Sequence[ReadTask]) -> SeenFields:
    """Return the fields that the input has, of all its rows."""
    seen = job.run_tasks("discover fields", _discover, split_tasks(job, reads))
    # Tasks come largest first; fields come as the files do, sorted by name.
    order = sorted(range(len(reads)), key=lambda index: _first(reads[index].files))
    return unite_seen(seen[index] for index in order)


def _first(files: Sequence[InputFile]) -> tuple[str, int]:
    return min((file.url, file.start_byte) for file in files)


def _discover(task: SplitTask, _attempt: Attempt) -> SeenFields:
    common = task.common
    read = replace(task.read, scratch_dir=common.scratch_dir())
    with common.connect() as con:
        return discover_fields(con, read)


def check_input(spec: IngestSpec, rows: object | None) -> None:
    """Refuse rows beside a spec that names another input, and a spec without input beside which there are none.

    Raises:
        Invalid: Rows and spec do not fit together.
    """
    is_frame = spec.input.type in {
        "frame",
        "query",
    }  # the rows of a statement are planned by the caller
    if is_frame and rows is None:
        raise Invalid("the spec's input is rows in memory; hand them over as rows")
    if not is_frame and rows is not None:
        raise Invalid("rows were handed over and the spec names another input; use one of them")


# ------------------------------------------------------------------------------- tables in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTask:
    """The work of one task of pass 1 on rows of a table in memory. Picklable.

    Attributes:
        path: Arrow file in the staging folder.
        first_row: Number of its first row in the table, from 1.
    """

    common: PassOne
    path: str
    first_row: int
    timestamp: TimestampSpec
    within: IntervalSet | None


def read_table(job: IngestJob, table: pa.Table) -> Sequence[SplitResult]:
    """Run pass 1 over a table in memory."""
    job.look = partial(discover_in_table, job, table.schema)
    job.look_if_needed()
    size = -(-table.num_rows // job.context.cores())
    size = max(MIN_SLICE_ROWS, min(MAX_SLICE_ROWS, size))
    starts = range(0, table.num_rows, size)
    common = job.common(tasks=len(starts))
    tasks = []
    for start in starts:
        path = f"{job.staging_url}/input/{start}.arrow"
        stage_rows(table.slice(start, size), path)
        tasks.append(
            SliceTask(
                common=common,
                path=path,
                first_row=start + 1,
                timestamp=job.spec.timestamp,
                within=job.within,
            )
        )
    job.timer.lap("plan")
    return job.run_tasks("read", _read_slice, tasks)


def discover_in_table(job: IngestJob, schema: pa.Schema) -> SeenFields:
    """Return the fields of Arrow data, from its schema alone."""
    with job.common(tasks=1).connect() as con:
        return discover_in_arrow(con, schema)


def stage_rows(table: pa.Table, path: str) -> None:
    """Write rows to an Arrow file; its pieces may have dictionaries of their own."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
    with open_staged(path) as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)


def _read_slice(task: SliceTask, attempt: Attempt) -> SplitResult:
    import fsspec
    import pyarrow as pa

    with fsspec.open(task.path, "rb") as file:
        table = pa.ipc.open_file(file).read_all()
    return read_rows(task, table, attempt)


def read_rows(task: SliceTask, table: pa.Table, attempt: Attempt) -> SplitResult:
    """Run one task of pass 1 over rows in memory."""
    name = f"{task.first_row}-{attempt.number}"
    direct = direct_rows(table, task.common.shape, task.timestamp, task.within)
    if direct is not None:
        marks = {mark(Change.TIME, task.timestamp.column): direct.finer} if direct.finer else {}
        return task.common.run_direct(
            direct.rows, name, attempt, count=table.num_rows, changed=marks
        )
    return task.common.run_arrow(
        name,
        table,
        attempt,
        timestamp=task.timestamp,
        within=task.within,
        first_row=task.first_row,
    )
