"""Reads the visible rows of segments as Arrow tables of one schema, for rewrites.

A file is read only after its bytes have been found to be those that were recorded, so damaged rows are never written.
Texts come as dictionaries. Types are widened by DuckDB where they differ, so that a value reads after a rewrite as it
read before it; times are truncated here, in integers, and not by the engine that rolls up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from carnac.core.quoting import quote
from carnac.core.segments.segment import TEXT_TYPES, TIME_COLUMN, ColumnType, Segment
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.texts import first_line
from carnac.core.time.granularity import NONE, parse_granularity
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, NotFound, Unavailable
from carnac.ports import SegmentInput
from carnac.ports.far_files import is_far, open_far
from carnac.ports.segment_files import (
    NOT_THERE,
    blocks_of,
    check_file,
    damaged,
    require_file,
    require_storage,
)
from carnac.ports.storage import OWNER_FILE, away
from carnac.rows.output import NO_SPACE, NO_TEMPORARY_ROOM, local_root
from carnac.rows.read.direct import are_within
from carnac.rows.segment_writer import ARROW_TYPE, TIME_TYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKET_LIMIT = 10_000_000
"""Most buckets of the query granularity that one segment may span."""
READ_AT_ONCE_BYTES = 32 << 20
"""A file that is no larger is read once, to be checked and to be decoded."""
HELD_ROWS = 16_384
"""Hidden rows of a file that is no larger may keep all of it in memory, until they are measured."""
EXACT_COLUMN = "__exact"
Columns = tuple[tuple[str, ColumnType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """How inputs are read. Picklable.

    Attributes:
        columns: Columns of the tables, after `__time`; null where a segment lacks one.
        truncate_to: Canonical text of the granularity that times are truncated to; None: times stay.
        chunks: Time chunks of the outputs; truncation puts no row before its own.
        keeps_exact: Whether tables end with a column `EXACT_COLUMN`: microseconds before truncation.
        is_survey: Whether files are read without being verified first: the rows are not written, or the files were
            verified.
    """

    output_url: str
    columns: Columns
    truncate_to: str | None
    chunks: tuple[Interval, ...]
    keeps_exact: bool = False
    is_survey: bool = False


def is_clipped(source: SegmentInput) -> bool:
    """Whether some instant of the segment's span is not to be read."""
    return not source.visible.contains(source.segment.span)


def read_tables(
    plan: ReadPlan,
    source: SegmentInput,
    *,
    most_groups: int | None = None,
    on_hidden: Callable[[pa.Table], None] | None = None,
) -> Iterator[pa.Table]:
    """Yield the visible rows of a segment, one table for each row group that has some.

    Args:
        most_groups: Read so many row groups at most, spread over the file; None: all.
        on_hidden: Called with the rows that are not visible, as they would be read if they were; None: row groups
            whose times say that nothing in them is visible are not read.

    Raises:
        Corrupt: The segment's file is gone, cannot be read, or does not hold what the segment's record says.
    """
    segment = source.segment
    own = {column.name: column.type for column in segment.columns}
    present = [name for name, _ in plan.columns if name in own]
    words = [name for name in present if own[name] in TEXT_TYPES]
    clipped = is_clipped(source)
    is_far = plan.is_survey and local_root(plan.output_url) is None
    with segment_file(plan.output_url, segment, is_survey=plan.is_survey) as opened:
        # reading ahead takes threads, which cost more than a small file
        file = pq.ParquetFile(opened, read_dictionary=words, pre_buffer=is_far)
        for index in _spread(file.num_row_groups, most_groups):
            if clipped and on_hidden is None and _is_hidden(file, index, source):
                continue
            table = file.read_row_group(index, columns=[TIME_COLUMN, *present], use_threads=False)
            if not clipped:
                if table.num_rows:
                    yield conformed(plan, table, own)
                continue
            shown = are_within(micros(table), source.visible)
            if on_hidden is None:  # hidden rows take time to conform, and may fail to
                if shown.any():
                    yield conformed(plan, _where(table, shown), own)
                continue
            table = conformed(plan, table, own)
            if not shown.all():
                on_hidden(_where(table, ~shown, held=HELD_ROWS))
            if shown.any():
                yield _where(table, shown)


def _where(table: pa.Table, mask: Any, *, held: int = 0) -> pa.Table:
    """Return some of the rows, without a copy if they are neighbours, as in a file that is sorted by time.

    Args:
        held: Number of rows. A slice keeps its whole table in memory. So rows of a table with more rows than this are
            sliced only if they are at least half of it.
    """
    count = int(np.count_nonzero(mask))
    if count == len(mask):
        return table
    first = int(mask.argmax())
    if len(mask) <= max(2 * count, held) and mask[first : first + count].all():
        return table.slice(first, count)
    return table.filter(pa.array(mask))


def _is_hidden(file: pq.ParquetFile, index: int, source: SegmentInput) -> bool:
    """Whether the least and the greatest time of a row group say that no row in it is visible."""
    position = file.schema_arrow.get_field_index(TIME_COLUMN)
    if file.schema_arrow.types[position] != TIME_TYPE:
        return False
    group = file.metadata.row_group(index)
    columns = (group.column(number) for number in range(group.num_columns))
    known = next((one.statistics for one in columns if one.path_in_schema == TIME_COLUMN), None)
    if known is None or not known.has_min_max:
        return False
    return not any(
        known.min_raw < piece.end_ms * 1000 and known.max_raw >= piece.start_ms * 1000
        for piece in source.visible
    )


def _spread(count: int, most: int | None) -> Sequence[int]:
    """Return the numbers of some of `count` things, first and last among them; all if `most` is None."""
    if most is None or most >= count:
        return range(count)
    return [int(place) for place in np.linspace(0, count - 1, most).round()]


def uncompressed_bytes(output_url: str, source: SegmentInput) -> int:
    """Return the bytes of a segment's columns before compression, from the file's footer.

    Raises:
        Corrupt: As `read_tables`.
    """
    with segment_file(output_url, source.segment, is_survey=True) as opened:
        footer = pq.read_metadata(opened)
        return sum(
            footer.row_group(index).total_byte_size for index in range(footer.num_row_groups)
        )


@contextlib.contextmanager
def segment_file(output_url: str, segment: Segment, *, is_survey: bool = False) -> Iterator[Any]:
    """Yield a segment's file, open for reading, once its bytes have been found to be those that were recorded.

    An error of Arrow in the block is reported as damage of this file.

    Args:
        is_survey: Whether the bytes are verified only if they cannot be read.

    Raises:
        Corrupt: The file is gone or damaged.
        Unavailable: The file cannot be reached, or copied from far away to the folder of temporary files.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = _opened(output_url, segment, stack, is_checked=not is_survey)
        except (OSError, NotFound) as error:
            raise _failure(output_url, segment, error) from error
        try:
            yield file
        except (pa.ArrowException, OSError, MemoryError, KeyError) as error:
            if is_survey:
                with segment_file(output_url, segment):
                    pass
            if isinstance(error, MemoryError):
                raise
            raise _failure(output_url, segment, error) from error


def _opened(
    output_url: str, segment: Segment, stack: contextlib.ExitStack, *, is_checked: bool
) -> Any:
    root = local_root(output_url)
    if root is not None:
        path = root / segment.path
        if is_checked:
            with require_file(path).open("rb", buffering=0) as raw:
                if os.fstat(raw.fileno()).st_size <= READ_AT_ONCE_BYTES:
                    content = raw.read()
                    check_file(segment, [content])
                    return pa.BufferReader(content)
                check_file(segment, blocks_of(raw))
        return stack.enter_context(pa.OSFile(str(path), "rb"))
    far = stack.enter_context(open_far(output_url, segment.path))
    if not is_checked:
        return far
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    check_file(segment, _written(blocks_of(far), copy))
    copy.seek(0)
    return copy


def _written(blocks: Iterator[bytes], file: Any) -> Iterator[bytes]:
    for block in blocks:
        file.write(block)
        yield block


def _failure(output_url: str, segment: Segment, error: Exception) -> CarnacError:
    """Return what it means that a segment's file cannot be read: Arrow's own errors have no number of the system's."""
    if isinstance(error, FileNotFoundError | NotFound):
        root = local_root(output_url)
        if root is not None:
            require_storage(segment, root / segment.path)
        elif not is_far(output_url, OWNER_FILE):
            return away(output_url)
        return damaged(segment, NOT_THERE)
    name = f"file {segment.path} of segment {segment.segment_id} of {segment.datasource}"
    reason = first_line(error)
    number = error.errno if isinstance(error, OSError) else None
    if number is None or number == errno.EIO:
        return damaged(segment, f"cannot be read: {reason}")
    if number in NO_SPACE:
        return Unavailable(NO_TEMPORARY_ROOM.format(tempfile.gettempdir()))
    return Unavailable(f"{name} cannot be read: {reason}", segment_id=segment.segment_id)


def micros(table: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
    """Return the times of rows in microseconds."""
    column = table.column(TIME_COLUMN).cast(pa.int64())
    times: NDArray[np.int64] = column.to_numpy()
    return times


def chunk_numbers(times_us: NDArray[np.int64], chunks: Sequence[Interval]) -> NDArray[np.int64]:
    """Return the number of the chunk that holds each time; -1 for none.

    Args:
        chunks: Disjoint, in order of time.
    """
    starts = np.array([chunk.start_ms for chunk in chunks], np.int64) * 1000
    ends = np.array([chunk.end_ms for chunk in chunks], np.int64) * 1000
    numbers: NDArray[np.int64] = np.searchsorted(starts, times_us, side="right") - 1
    numbers[(numbers >= 0) & (times_us >= ends[numbers])] = -1
    return numbers


def conformed(plan: ReadPlan, table: pa.Table, own: Mapping[str, ColumnType]) -> pa.Table:
    """Return the table, whose columns have the types of `own`, with exactly the columns of the plan."""
    widened = _widened(
        table,
        [(name, own[name], kind) for name, kind in plan.columns if own.get(name, kind) is not kind],
    )
    arrays: list[Any] = [_truncated(plan, table)]
    for name, kind in plan.columns:
        if name not in own:
            arrays.append(_nulls(table.num_rows, kind))
        elif name in widened:
            arrays.append(widened[name])
        else:
            arrays.append(_as_arrow(table.column(name), kind))
    names = [TIME_COLUMN, *(name for name, _ in plan.columns)]
    if plan.keeps_exact:
        arrays.append(pa.array(micros(table)))
        names.append(EXACT_COLUMN)
    return pa.table(arrays, names=names)


def _as_arrow(column: pa.ChunkedArray, kind: ColumnType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column
    if kind in TEXT_TYPES:
        return column.cast(pa.string()).dictionary_encode()
    return column if column.type == ARROW_TYPE[kind] else column.cast(ARROW_TYPE[kind])


def _nulls(count: int, kind: ColumnType) -> pa.Array:
    if kind in TEXT_TYPES:
        return pa.nulls(count, pa.string()).dictionary_encode()
    return pa.nulls(count, ARROW_TYPE[kind])


def _widened(
    table: pa.Table, casts: Sequence[tuple[str, ColumnType, ColumnType]]
) -> dict[str, pa.ChunkedArray]:
    """Return columns whose type has been widened since the segment was written, as queries show them."""
    if not casts:
        return {}
    columns = []
    for name, own, kind in casts:
        column, sql_type = quote(name), SQL_TYPE[kind]
        value = f"CAST({column} AS {sql_type})"
        if sql_type.endswith("[]") and not own.value.startswith("array"):
            value = (
                f"CASE WHEN {column} IS NULL THEN NULL ELSE [CAST({column} AS {sql_type[:-2]})] END"
            )
        columns.append(f"{value} AS {column}")
    chosen = table.select([name for name, _, _ in casts])
    with _caster(os.getpid()).cursor() as con:
        con.register("chosen", chosen)
        found = con.sql(f"SELECT {', '.join(columns)} FROM chosen").to_arrow_table()
    return {name: _as_arrow(found.column(name), kind) for name, _, kind in casts}


@cache
def _caster(_pid: int) -> Any:
    """Return the engine that casts in this process: opening one takes ten times as long as casting a small file."""
    import duckdb

    return duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})


def _truncated(plan: ReadPlan, table: pa.Table) -> Any:
    """Return the times, truncated if the plan says so; not before the time chunk that holds them."""
    if plan.truncate_to is None:
        return table.column(TIME_COLUMN).cast(TIME_TYPE)
    times = micros(table)
    starts = np.array([chunk.start_ms for chunk in plan.chunks], np.int64) * 1000
    own_chunk = starts[np.searchsorted(starts, times, side="right") - 1]
    return pa.array(np.maximum(_floors(times, plan.truncate_to), own_chunk)).cast(TIME_TYPE)


def _floors(times_us: NDArray[np.int64], text: str) -> NDArray[np.int64]:
    granularity = parse_granularity(text)
    if granularity == NONE:
        return times_us
    if granularity.mode == "all":
        return np.full(len(times_us), granularity.bucket(0).start_ms * 1000, np.int64)
    length_ms = granularity.fixed_ms
    if length_ms is not None:
        origin_us = granularity.origin_ms * 1000
        floors: NDArray[np.int64] = times_us - (times_us - origin_us) % (length_ms * 1000)
        return floors
    span = Interval(int(times_us.min()) // 1000, int(times_us.max()) // 1000 + 1)
    edges = np.array(
        [bucket.start_ms for bucket in granularity.buckets(span, limit=BUCKET_LIMIT)], np.int64
    )
    edges *= 1000
    found: NDArray[np.int64] = edges[np.searchsorted(edges, times_us, side="right") - 1]
    return found
