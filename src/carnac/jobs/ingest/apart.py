"""A part of a load, in a process that knows nothing of the load but its spec: both passes over the rows that come.

Each slice of the rows is written as an append of so many rows is, by the same functions. Rows that were rejected are
judged when all parts are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from carnac.core.segments.segment import Segment, safe_name
from carnac.jobs.context import LocalJobContext
from carnac.jobs.ingest.here import reader_here
from carnac.jobs.ingest.ingest import QUARANTINE_FOLDER, IngestJob
from carnac.jobs.ingest.verdict import judge
from carnac.jobs.ingest.write_pass import remove_segments
from carnac.ports import ChunkLayout, Clock, IdSource, JobReport, JobResult, RejectedRows
from carnac.ports.jobs import APPEND_BYTES_MAX, APPEND_ROWS_MAX
from carnac.rows.read.rejections import gather

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.specs.ingest.spec import IngestSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfLoad:
    """How the parts of a load are written. Picklable.

    Attributes:
        load_id: Names the folder of its rejected rows.
        output_url: Root of deep storage.
        newest_before_ms: As of `IngestJob`.
        task_memory_bytes: Memory that a part may use before it spills.
    """

    load_id: str
    spec: IngestSpec
    layout: ChunkLayout
    newest_before_ms: int | None
    output_url: str
    task_memory_bytes: int

    @property
    def quarantine_folder(self) -> str:
        """Where the rejected rows of all parts are."""
        return f"{QUARANTINE_FOLDER}/{safe_name(self.spec.datasource)}/{self.load_id}"

    def write(
        self, batches: Iterable[pa.RecordBatch], *, clock: Clock, ids: IdSource
    ) -> tuple[JobResult, ...]:
        """Write the rows of one part, and return what was written of each slice.

        Raises:
            CarnacError: Nothing is left behind but rejected rows.
        """
        context = LocalJobContext(
            clock=clock,
            ids=ids,
            output_url=self.output_url,
            task_memory_bytes=self.task_memory_bytes,
        )
        results: list[JobResult] = []
        try:
            with context.together():
                for table in slices(batches):
                    job = _Slice(context, self)
                    results.append(job.run(reader_here(self.spec, table)))
        except BaseException:
            remove_segments(segments_of(results), self.output_url)
            raise
        return tuple(results)

    def united(self, results: Sequence[JobResult]) -> JobResult:
        """Return the result of all parts.

        Raises:
            Invalid: Too many rows were rejected.
            AllRejected: All of them were.
        """
        reports = [one.report for one in results]
        rejected = gather(
            [one.rejected for one in reports],
            folder=self.quarantine_folder,
            examples=self.spec.tuning.max_saved_parse_exceptions,
        )
        read = sum(one.rows_read for one in reports)
        judge(self.spec, rejected, read, self.quarantine_folder)
        filled = [one for one in results if one.segments]
        segments = segments_of(results)
        absent = {name for one in filled for name in one.missing}
        for one in filled:
            absent &= set(one.missing)
        seconds: Counter[str] = Counter()
        for report in reports:
            seconds.update(report.seconds_by_phase)
        return JobResult(
            segments=segments,
            report=JobReport(
                rows_read=read,
                rows_filtered=sum(one.rows_filtered for one in reports),
                rows_written=sum(one.rows_written for one in reports),
                rows_late=sum(one.rows_late for one in reports),
                rejected=rejected,
                segments=len(segments),
                size_bytes=sum(one.size_bytes for one in reports),
                seconds_by_phase=dict(seconds),
                notes=tuple(dict.fromkeys(chain.from_iterable(one.notes for one in reports))),
            ),
            missing=tuple(name for name in filled[0].missing if name in absent) if filled else (),
            fields=filled[0].fields if filled else (),
        )


class _Slice(IngestJob):
    """One slice of a part; whether its rejected rows are too many is not known yet."""

    def __init__(self, context: LocalJobContext, part: PartOfLoad) -> None:
        super().__init__(
            context,
            part.spec,
            part.layout,
            newest_before_ms=part.newest_before_ms,
            on_progress=None,
        )
        self.quarantine_folder = f"{part.quarantine_folder}/{self.job_id}"

    def _judge(self, rejected: RejectedRows, read: int) -> None:
        """Leave it to the end of the load."""


def segments_of(results: Iterable[JobResult]) -> tuple[Segment, ...]:
    """Return the segments of several results."""
    return tuple(segment for one in results for segment in one.segments)


def slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables that an append takes; none of them is empty."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in chain.from_iterable(map(_small, batches)):
        if held and (
            rows + batch.num_rows > APPEND_ROWS_MAX or size_bytes + batch.nbytes > APPEND_BYTES_MAX
        ):
            yield pa.Table.from_batches(held)
            held, rows, size_bytes = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _small(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces that an append takes, none of them empty."""
    is_small = batch.num_rows <= APPEND_ROWS_MAX and batch.nbytes <= APPEND_BYTES_MAX
    if is_small or batch.num_rows == 1:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _small(batch.slice(0, half))
    yield from _small(batch.slice(half))
