"""Deletion by predicate: rewrites one segment without the rows that match, if there are any.

A row goes if the predicate is true for it; rows for which it is false or null stay (SQL's three-valued logic). Rows
that a clip hides are neither counted nor kept: the new segment holds visible rows only.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import TIME_COLUMN, ColumnType, MetricKind, Segment
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Corrupt, Invalid, NotFound
from carnac.ports import SegmentInput, SegmentRewrite
from carnac.rows.normalise.shape import quote
from carnac.rows.output import local_root, remove_file

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.rows.segment_writer import WrittenFile

OWN_PREFIX = "__own_"
"""Columns of the file whose type was widened since it was written: the predicate sees them under their name as wide as
they are now, the new file gets them as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTask:
    """Which rows to take out of which segment. Picklable.

    Attributes:
        columns: United columns of the datasource, without `__time`: what the predicate may name. Those that the
            segment lacks are null.
        predicate: Checked by `check_predicate` before.
        output_url: Root of deep storage; the segment is read from there and its replacement written there.
        path_prefix: Folder of the new file below that root.
        id_prefix: See `carnac.rows.merge.MergeTask`.
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
    memory_bytes: int = 1 << 30
    threads: int = 1


def rewrite_segment(task: DeleteTask, *, attempt: int = 0) -> SegmentRewrite | None:
    """Rewrite the segment without the visible rows that match; None if no visible row matches.

    The new segment keeps order, partition, rollup and time chunk. Of rolled-up rows, `input_rows` is the sum of a
    `count` metric if there is one, else the same share of the old number as of rows, rounded.

    Raises:
        Invalid: The predicate fails on a value, for example a cast.
        NotFound: The segment's file is gone.
        Unavailable: Deep storage is full or does not answer.
        Corrupt: The file cannot be read.
    """
    from carnac.rows.duck import connect

    segment = task.source.segment
    new_id = f"{task.id_prefix}a{attempt}s0"
    temp_dir = Path(task.temp_dir) / new_id
    try:
        with (
            connect(
                temp_dir=str(temp_dir), memory_bytes=task.memory_bytes, threads=task.threads
            ) as con,
            _translated(task),
        ):
            file = _fetch(task, temp_dir)
            _lock(con, file)
            visible, matching = _count(con, task, file)
            if not matching:
                return None
            kept = visible - matching
            replacements = () if not kept else (_write(con, task, file, new_id, str(temp_dir)),)
            if sum(replacement.rows for replacement in replacements) != kept:
                remove_file(task.output_url, f"{task.path_prefix}/{new_id}.parquet")
                raise Corrupt(f"segment {segment.segment_id} changed while it was read")
    finally:
        shutil.rmtree(temp_dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            temp_dir.parent.rmdir()
    return SegmentRewrite(
        source=task.source, replacements=replacements, rows_before=visible, rows_deleted=matching
    )


@contextlib.contextmanager
def _translated(task: DeleteTask) -> Iterator[None]:
    import duckdb

    from carnac.rows.duck import translated

    segment_id = task.source.segment.segment_id
    try:
        with translated(f"rewriting segment {segment_id}"):
            yield
    except Corrupt as error:
        if isinstance(
            error.__cause__,
            duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException,
        ):
            reason = str(error.__cause__).splitlines()[0]
            raise Invalid(
                f"the predicate '{task.predicate}' fails on a row of segment {segment_id}: {reason};"
                " guard it with TRY_CAST or CASE",
                segment_id=segment_id,
            ) from error
        raise


def _fetch(task: DeleteTask, temp_dir: Path) -> Path:
    """Return the segment's file on this machine."""
    segment = task.source.segment
    root = local_root(task.output_url)
    try:
        if root is not None:
            (root / segment.path).stat()
            return root / segment.path
        import fsspec

        filesystem, base = fsspec.core.url_to_fs(task.output_url)
        copy = temp_dir / "source.parquet"
        filesystem.get_file(f"{base.rstrip('/')}/{segment.path}", str(copy))
    except FileNotFoundError:
        raise NotFound(
            f"file {segment.path} of segment {segment.segment_id} is gone; run 'verify'",
            segment_id=segment.segment_id,
        ) from None
    return copy


def _lock(con: Any, file: Path) -> None:
    """Let the connection reach this one file and nothing else."""
    path = str(file).replace("'", "''")
    for setting in (
        f"allowed_paths = ['{path}']",
        "enable_external_access = false",
        "preserve_insertion_order = true",
        "lock_configuration = true",
    ):
        con.execute(f"SET {setting}").complete()


def _count(con: Any, task: DeleteTask, file: Path) -> tuple[int, int]:
    """Return (visible rows, those that match)."""
    row = con.sql(
        f"SELECT count(*), count(*) FILTER (WHERE (\n{task.predicate}\n)) FROM {_rows(task, file)}"
    ).fetchall()[0]
    return int(row[0]), int(row[1])


def _rows(task: DeleteTask, file: Path) -> str:
    """Return a FROM item named `rows`: visible rows with the united columns, and the file's own where they differ."""
    own = {column.name: column.type for column in task.source.segment.columns}
    united = {**own, **dict(task.columns)}
    columns = [quote(TIME_COLUMN)]
    for name, kind in united.items():
        column, sql_type = quote(name), SQL_TYPE[kind]
        if name not in own:
            columns.append(f"CAST(NULL AS {sql_type}) AS {column}")
        elif own[name] is kind:
            columns.append(column)
        else:
            columns.append(f"{column} AS {quote(OWN_PREFIX + name)}")
            columns.append(f"{_widened(column, own[name], sql_type)} AS {column}")
    path = str(file).replace("'", "''")
    item = f"read_parquet('{path}')"
    return f"(SELECT {', '.join(columns)} FROM {item} WHERE {_visible(task.source)}) AS rows"


def _widened(column: str, own: ColumnType, sql_type: str) -> str:
    if sql_type.endswith("[]") and not own.value.startswith("array"):
        element = f"CAST({column} AS {sql_type[:-2]})"
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE [{element}] END"
    return f"CAST({column} AS {sql_type})"


def _visible(source: SegmentInput) -> str:
    span = source.segment.span
    if source.visible.intersect(IntervalSet((span,))) == IntervalSet((span,)):
        return "TRUE"
    return " OR ".join(_within(interval) for interval in source.visible) or "FALSE"


def _within(interval: Interval) -> str:
    time = quote(TIME_COLUMN)
    start, end = interval.start_ms * 1000, interval.end_ms * 1000
    return f"({time} >= make_timestamptz({start}) AND {time} < make_timestamptz({end}))"


def _write(con: Any, task: DeleteTask, file: Path, new_id: str, temp_dir: str) -> Segment:
    from carnac.rows.segment_writer import ROW_GROUP_ROWS, SegmentWriter

    old = task.source.segment
    columns = tuple((column.name, column.type) for column in old.columns)
    united = dict(task.columns)
    own = ", ".join(
        quote(name)
        if united.get(name, kind) is kind
        else f"{quote(OWN_PREFIX + name)} AS {quote(name)}"
        for name, kind in columns
    )
    reader = con.sql(
        f"SELECT {', '.join(filter(None, [quote(TIME_COLUMN), own]))} FROM {_rows(task, file)}"
        f" WHERE (\n{task.predicate}\n) IS NOT TRUE"
    ).to_arrow_reader(ROW_GROUP_ROWS)
    path = f"{task.path_prefix}/{new_id}.parquet"
    counted = _CountedRows(old)
    with SegmentWriter(
        task.output_url, path, columns, temp_dir=temp_dir, sort_columns=old.sort_columns
    ) as writer:
        for batch in reader:
            counted.add(batch)
            writer.write(batch)
        written = writer.finish()
    return _record(task, new_id, path, written, counted.input_rows(written.rows))


class _CountedRows:
    """Counts the input rows behind the rows that are kept."""

    def __init__(self, old: Segment) -> None:
        metrics = old.rollup.metrics if old.rollup is not None else ()
        self._old = old
        self._count = next((m.name for m in metrics if m.kind is MetricKind.COUNT), None)
        self._total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        if self._count is not None and batch.num_rows:
            self._total += pc.sum(batch.column(self._count)).as_py() or 0

    def input_rows(self, rows: int) -> int:
        if self._old.rollup is None:
            return rows
        if self._count is not None:
            return max(self._total, rows)
        return max(rows, round(self._old.input_rows * rows / self._old.rows))


def _record(
    task: DeleteTask, new_id: str, path: str, written: WrittenFile, input_rows: int
) -> Segment:
    return replace(
        task.source.segment,
        segment_id=new_id,
        path=path,
        size_bytes=written.size_bytes,
        rows=written.rows,
        input_rows=input_rows,
        min_time_ms=written.min_time_ms,
        max_time_ms=written.max_time_ms,
        columns=written.columns,
        checksum=written.checksum,
        row_hash=written.row_hash,
        created_at_ms=task.created_at_ms,
    )
