"""Predicate deletes as a Spark job: each of its tasks looks at some of the segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import ColumnType, safe_name
from carnac.jobs.bins import into_bins
from carnac.jobs.context import JobContext
from carnac.jobs.delete.delete import DeleteTask, judging, rewrite_segment
from carnac.jobs.delete.predicate import check_predicate
from carnac.jobs.ingest.ingest import SEGMENTS_FOLDER
from carnac.jobs.ingest.write_pass import remove_others
from carnac.ports import SegmentInput, SegmentRewrite
from carnac.spark.progress import OnProgress, Phase
from carnac.spark.tasks import Attempt


def delete_where(
    context: JobContext,
    datasource: str,
    inputs: Sequence[SegmentInput],
    predicate: str,
    *,
    columns: Mapping[str, ColumnType] | None = None,
    searches_hidden: bool = False,
    on_progress: OnProgress | None,
) -> tuple[SegmentRewrite, ...]:
    """Rewrite the segments of `inputs` that hold a visible row for which the predicate is true; see `DeleteTask`.

    Raises:
        Invalid: The predicate is no condition over the datasource's columns, or fails on a value.
        Corrupt: A segment's file is not what its record says, or is gone: then nobody knows which of its rows
            match.
    """
    if columns is None:
        columns = unite_columns(source.segment.columns for source in inputs)
    named = check_predicate(predicate, columns)
    job_id = context.ids.new_id()
    folder = f"{SEGMENTS_FOLDER}/{safe_name(datasource)}/{job_id}"
    tasks = [
        DeleteTask(
            source=source,
            predicate=predicate,
            columns=named,
            output_url=context.output_url,
            path_prefix=folder,
            id_prefix=context.ids.new_id(),
            created_at_ms=context.clock.now_ms(),
            temp_dir=context.scratch(job_id),
            searches_hidden=searches_hidden,
            memory_bytes=context.task_memory_bytes,
        )
        for source in inputs
    ]
    bins = into_bins(tasks, lambda task: task.source.segment.rows, cores=context.cores())
    try:
        found = context.run(
            _rewrite_all,
            bins,
            phase=Phase(name="rewrite segments", total=len(bins)),
            on_progress=on_progress,
        )
    except BaseException:
        remove_others(context.output_url, folder, ())
        raise
    rewrites = tuple(rewrite for some in found for rewrite in some)
    kept = [segment.path for rewrite in rewrites for segment in rewrite.replacements]
    remove_others(context.output_url, folder, kept)
    return rewrites


def _rewrite_all(tasks: Sequence[DeleteTask], attempt: Attempt) -> list[SegmentRewrite]:
    rewrites = []
    with judging(tasks[0], attempt=attempt.number) as judge:
        for task in tasks:
            rewrite = rewrite_segment(task, judge, attempt=attempt.number)
            attempt.count(rows=task.source.segment.rows)
            if rewrite is not None:
                rewrites.append(rewrite)
    return rewrites
