"""Writing: each task writes segments of its rows, and the driver publishes all of them in one commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from carnac.bootstrap.apart import opened_apart
from carnac.clock import RandomIds, SystemClock
from carnac.errors import Invalid
from carnac.jobs.ingest.apart import PartOfLoad, segments_of
from carnac.jobs.pipeline import default_task_memory_bytes
from carnac.ports import JobResult
from carnac.spark.schemas import arrow_schema
from carnac.spark_format.failures import in_one_sentence
from carnac.specs.load import as_replacement, with_input
from carnac.store.writing.apart import LoadApart
from carnac.store.writing.loading import plan_load
from carnac.store.writing.noticing import lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from carnac.spark_format.options import Options
    from carnac.specs.ingest.spec import IngestSpec

QUERY_ID = "sql.streaming.queryId"
"""Local property of the tasks of a streaming query: the id that its checkpoint keeps."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A load that has begun, and how it ends. Picklable.

    Attributes:
        allowed: As of `Writer.load`.
    """

    store: str | None
    load: LoadApart
    part: PartOfLoad
    message: str
    allowed: tuple[bool, bool]

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[JobResult, ...]:
        """Write the rows of one task."""
        return self.part.write(batches, clock=SystemClock(), ids=RandomIds())

    def publish(self, results: Sequence[JobResult], spec: IngestSpec) -> None:
        """Publish what all tasks have written.

        Raises:
            CarnacError: Nothing was published, and the files are removed.
        """
        with opened_apart(self.store) as opened, opened.loads() as loads:
            try:
                united = self.part.united(results)
            except BaseException:
                loads.abandon(self.load, segments_of(results))
                raise
            outcome = loads.finish(
                self.load, spec, united, message=self.message, allowed=self.allowed
            )
        for line in lines_of(spec.datasource, outcome.report or united.report):
            _log.warning("%s", line)
        left_out = united.report.rows_filtered
        if left_out and spec.intervals:
            _log.warning(
                "%s of %s rows of %s lie outside of what is replaced, or do not pass the filter: they were left out",
                left_out,
                united.report.rows_read,
                spec.datasource,
            )

    def abandon(self, results: Sequence[JobResult] = ()) -> None:
        """End it without a commit; files of tasks that did not report are left to garbage collection."""
        with opened_apart(self.store) as opened, opened.loads() as loads:
            loads.abandon(self.load, segments_of(results))


def begin(store: str | None, options: Options, schema: StructType, *, is_overwrite: bool) -> Begun:
    """Begin a load of rows of a schema.

    Raises:
        Invalid: Spec, options and schema do not go together; or the spec computes what only Spark computes.
        NotFound: There is no such store.
    """
    datasource = options.datasource
    allowed = options.flag("allowTypeChange"), options.flag("allowMissing")
    lease_ms = options.lease_ms
    arrow = arrow_schema(schema)
    with opened_apart(store) as opened, opened.loads() as loads:
        plan = plan_load(
            opened.metadata,
            datasource,
            arrow,
            spec=options.text("spec"),
            time=_time(options),
            writer=options.text("writer") if options.text("batch") else None,
            batch=options.text("batch"),
        )
        spec = _in_mode(plan.spec, options, is_overwrite=is_overwrite)
        load = loads.begin(replace(plan, spec=spec), holder=opened.holder, ttl_ms=lease_ms)
        part = PartOfLoad(
            load_id=RandomIds().new_id(),
            spec=spec,
            layout=load.layout,
            newest_before_ms=load.newest_ms,
            output_url=opened.files_url(),
            task_memory_bytes=default_task_memory_bytes(),
        )
    return Begun(
        store=store,
        load=load,
        part=part,
        message=options.text("message") or "",
        allowed=allowed,
    )


def _time(options: Options) -> dict[str, object] | None:
    column, pattern = options.text("time"), options.text("timeFormat")
    found: dict[str, object] = {}
    if column is not None:
        found["column"] = column
    if pattern is not None:
        found["format"] = pattern
    return found or None


def _in_mode(spec: IngestSpec, options: Options, *, is_overwrite: bool) -> IngestSpec:
    intervals = options.intervals("intervals")
    if is_overwrite:
        return as_replacement(spec, intervals)
    if intervals:
        raise Invalid('option intervals says what mode("overwrite") replaces; an append takes none')
    if spec.mode != "append":
        raise Invalid('the spec replaces what is there; say so by mode("overwrite")')
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """The results of one task.

    Attributes:
        begun: The load of the task; None if the writer that planned it also commits.
        query_id: Id of its streaming query.
    """

    results: tuple[JobResult, ...]
    begun: Begun | None = None
    query_id: str | None = None


def _results_of(messages: Sequence[WriterCommitMessage | None]) -> list[JobResult]:
    return [one for message in messages if isinstance(message, Written) for one in message.results]


def _unpublished(messages: Sequence[WriterCommitMessage | None]) -> list[JobResult]:
    """Return what is safe to remove when Spark gives up: nothing, once all tasks have ended.

    Spark gives up after a commit that failed, too, and that may be there all the same, where the database did not
    answer.
    """
    return _results_of(messages) if None in messages else []


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame in one commit."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""
        return Written(results=self._begun.write(iterator))

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written."""
        self._begun.publish(_results_of(messages), self._begun.part.spec)

    @in_one_sentence
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written, if it cannot have been published."""
        self._begun.abandon(_unpublished(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch in one commit, once.

    Spark makes one where it plans a batch, and another one where it commits.

    Args:
        writer: Name under which batches are published once.
    """

    def __init__(self, begun: Begun, writer: str) -> None:
        self._begun = begun
        self._writer = writer

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        return Written(results=self._begun.write(iterator), begun=self._begun, query_id=query_id)

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish the rows that all tasks have written; a batch that was published before is left alone.

        Raises:
            Invalid: The writer is that of another checkpoint.
        """
        found = [one for one in messages if isinstance(one, Written)]
        begun = next((one.begun for one in found if one.begun is not None), None)
        if begun is None:
            raise TypeError("a batch is committed that no task has written")
        self._begun.abandon()
        results = _results_of(found)
        try:
            self._require_own(next((one.query_id for one in found), None))
            spec = with_input(
                begun.part.spec, begun.part.spec.input, writer=self._writer, batch=str(batchId)
            )
        except BaseException:
            begun.abandon(results)
            raise
        begun.publish(results, spec)

    @in_one_sentence
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what was written, if it cannot have been published."""
        found = [one for one in messages if isinstance(one, Written)]
        self._begun.abandon()
        for begun in [one.begun for one in found if one.begun is not None][:1]:
            begun.abandon(_unpublished(messages))

    def _require_own(self, query_id: str | None) -> None:
        """Take the name of the writer for a query, or refuse that of another: its batches count from 0 again."""
        if query_id is None:
            return
        key = f"spark_query:{self._writer}"
        with opened_apart(self._begun.store) as opened:
            known = opened.metadata.settings().get(key)
            if known is None:
                opened.metadata.put_settings({key: query_id})
            elif known != query_id:
                raise Invalid(
                    f"writer '{self._writer}' is that of the query with id {known}, and this one, from another"
                    f" checkpoint, has id {query_id}: its batches count from 0 again and would be taken for those"
                    " that are there; go on from the old checkpoint, or name another writer",
                    writer=self._writer,
                )
