"""Deletion by predicate: rewrites one segment without the rows that match, if there are any.

A row goes if the predicate is true for it; rows for which it is false or null stay (SQL's three-valued logic). Rows
that a clip hides are neither counted nor kept: the new segment holds visible rows only.

Rows are read, measured and written as in every rewrite: the bytes of the file are those that were recorded, and the
rows that were read are those that were written and those that were left out. The predicate sees rows that have been
read, so what it fails on is a value and no file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.log.commits import ConservationProof
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import ROW_HASH_VERSION, ColumnType, MetricKind, Segment
from carnac.errors import Corrupt, Invalid
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.measure import as_read, blame_inputs
from carnac.jobs.compact.read import ReadPlan, read_tables
from carnac.ports import SegmentInput, SegmentRewrite
from carnac.rows.output import local_root, remove_file
from carnac.rows.row_hash import RowMeter
from carnac.rows.segment_writer import SegmentWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from carnac.rows.segment_writer import WrittenFile

    Hits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTask:
    """The rows to take out of a segment. Picklable.

    Attributes:
        columns: Columns that the predicate names, without `__time`, with the types that the datasource gives them.
            Columns that the segment lacks are null.
        predicate: Condition in SQL, checked by `check_predicate` before.
        output_url: Root of deep storage; the segment is read from there and its replacement written there.
        path_prefix: Folder of the new file below that root.
        id_prefix: See `carnac.rows.merge.MergeTask`.
        searches_hidden: Whether the segment is rewritten as well if a row that its clip hides matches.
        temp_dir: Local folder, made if missing, left empty.
    """

    source: SegmentInput
    predicate: str
    columns: tuple[tuple[str, ColumnType], ...]
    output_url: str
    path_prefix: str
    id_prefix: str
    created_at_ms: int
    temp_dir: str
    searches_hidden: bool = False
    memory_bytes: int = 1 << 30

    def plan(self, columns: tuple[tuple[str, ColumnType], ...]) -> ReadPlan:
        """Return how these columns of the segment are read."""
        return ReadPlan(output_url=self.output_url, columns=columns, truncate_to=None, chunks=())


@contextmanager
def judging(task: DeleteTask, *, attempt: int = 0) -> Iterator[Any]:
    """Yield a connection of DuckDB that judges the rows of this task and of others of its job, and can do no more.

    To open one takes longer than to judge some thousand rows.
    """
    from carnac.rows.duck import connect

    folder = Path(task.temp_dir) / f"{task.id_prefix}a{attempt}"
    try:
        with connect(temp_dir=str(folder), memory_bytes=task.memory_bytes) as judge:
            for setting in (
                "enable_external_access = false",
                "preserve_insertion_order = true",
                "lock_configuration = true",
            ):
                judge.execute(f"SET {setting}").complete()
            yield judge
    finally:
        with suppress(OSError):
            folder.parent.rmdir()


def rewrite_segment(task: DeleteTask, judge: Any, *, attempt: int = 0) -> SegmentRewrite | None:
    """Rewrite the segment without the visible rows that match; None if no row that is searched matches.

    The new segment keeps order, partition, rollup and time chunk. Of rolled-up rows, `input_rows` is the sum of a
    `count` metric if there is one, else the same share of the old number as of rows, rounded.

    Args:
        judge: Connection from `judging`.

    Raises:
        Invalid: The predicate fails on a value, for example a cast.
        Unavailable: Deep storage is full or does not answer.
        Corrupt: The file is gone, or not what its record says.
    """
    new_id = f"{task.id_prefix}a{attempt}s0"
    temp_dir = Path(task.temp_dir) / new_id
    try:
        hits = _find_hits(task, judge)
        if hits.any() or (task.searches_hidden and _hides_hits(task, judge)):
            return _without(task, hits, new_id, temp_dir)
        return None
    finally:
        shutil.rmtree(temp_dir, ignore_errors=True)


def _find_hits(task: DeleteTask, judge: Any) -> Hits:
    """Return for each visible row whether it matches."""
    found = [np.empty(0, np.bool_)]
    for table in read_tables(task.plan(task.columns), task.source):
        judge.register("rows", table)
        found.append(_judged(judge, task))
    return np.concatenate(found)


def _hides_hits(task: DeleteTask, judge: Any) -> bool:
    whole = SegmentInput.whole(task.source.segment)
    if whole.visible == task.source.visible:
        return False
    return bool(_find_hits(replace(task, source=whole), judge).any())


def _judged(judge: Any, task: DeleteTask) -> Hits:
    from carnac.rows.duck import translated

    segment_id = task.source.segment.segment_id
    try:
        with translated(f"finding rows of segment {segment_id}"):
            sql = f"SELECT coalesce((\n{task.predicate}\n), FALSE) AS hit FROM rows"
            hits: Hits = judge.sql(sql).to_arrow_table().column("hit").to_numpy()
            return hits
    except Corrupt as error:
        reason = str(error.__cause__).splitlines()[0]
        raise Invalid(
            f"the predicate '{task.predicate}' fails on a row of segment {segment_id}: {reason};"
            " guard it with TRY_CAST or CASE",
            segment_id=segment_id,
        ) from error


def _without(task: DeleteTask, hits: Hits, new_id: str, temp_dir: Path) -> SegmentRewrite:
    """Write the rows that stay, and prove that they and those that go are the rows of the segment."""
    old, path = task.source.segment, f"{task.path_prefix}/{new_id}.parquet"
    plan = replace(
        task.plan(tuple((column.name, column.type) for column in old.columns)),
        is_survey=local_root(task.output_url) is not None,  # it was checked when it was judged
    )
    before, gone, counted = Side(), RowMeter(), _CountedRows(old)
    written: WrittenFile | None = None
    kept = _kept(plan, task.source, hits, before, gone)
    if hits.all():
        for _ in kept:
            pass
    else:
        with SegmentWriter(
            task.output_url,
            path,
            plan.columns,
            temp_dir=str(temp_dir),
            sort_columns=old.sort_columns,
        ) as writer:
            for table in kept:
                counted.add(table)
                writer.write(table)
            written = writer.finish()
    proof = ConservationProof(
        rows_in=before.rows,
        rows_out=0 if written is None else written.rows,
        rows_deleted=gone.rows,
        row_hash_in=before.row_hash,
        row_hash_out=0 if written is None else written.row_hash,
        row_hash_deleted=gone.row_hash,
    )
    if not conserves(proof):
        remove_file(task.output_url, path)
        blame_inputs(plan, [task.source])
        raise Corrupt(
            f"segment {old.segment_id} of {old.datasource} would not keep its rows ({proof.rows_in} in,"
            f" {proof.rows_out} kept, {proof.rows_deleted} deleted); report this as a bug",
            segment_id=old.segment_id,
        )
    replacements = () if written is None else (_record(task, new_id, path, written, counted),)
    return SegmentRewrite(source=task.source, replacements=replacements, proof=proof)


def _kept(
    plan: ReadPlan, source: SegmentInput, hits: Hits, before: Side, gone: RowMeter
) -> Iterator[pa.Table]:
    """Yield the visible rows that stay; measure the rows that were read and those that go."""
    at = 0
    for _, table in as_read(plan, [source], before):
        goes = pa.array(hits[at : at + table.num_rows])
        at += table.num_rows
        gone.add(table.filter(goes))
        kept = table.filter(pc.invert(goes))
        if kept.num_rows:
            yield kept


class _CountedRows:
    """Counts the input rows behind the rows that are kept."""

    def __init__(self, old: Segment) -> None:
        metrics = old.rollup.metrics if old.rollup is not None else ()
        self._old = old
        self._count = next((m.name for m in metrics if m.kind is MetricKind.COUNT), None)
        self._total = 0

    def add(self, rows: pa.Table) -> None:
        if self._count is not None:
            self._total += pc.sum(rows.column(self._count)).as_py() or 0

    def input_rows(self, rows: int) -> int:
        if self._old.rollup is None:
            return rows
        if self._count is not None:
            return max(self._total, rows)
        return max(rows, round(self._old.input_rows * rows / self._old.rows))


def _record(
    task: DeleteTask, new_id: str, path: str, written: WrittenFile, counted: _CountedRows
) -> Segment:
    return replace(
        task.source.segment,
        segment_id=new_id,
        path=path,
        input_rows=counted.input_rows(written.rows),
        row_hash_version=ROW_HASH_VERSION,
        created_at_ms=task.created_at_ms,
        **written.facts(),
    )
