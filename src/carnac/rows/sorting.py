"""Opens the part files of a chunk as one stream of merged, sorted rows, cut into pieces.

Two ways, one result: rows that need no merging are put in order by packed words, range by range, where memory holds
the rows of any range; everything else by DuckDB, which rolls up, and spills to disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from carnac.core.quoting import quote
from carnac.core.segments.segment import ELEMENT_TYPES, TIME_COLUMN, ColumnType
from carnac.core.texts import first_line
from carnac.errors import Corrupt, Invalid
from carnac.rows.cutting import (
    BUCKET_COLUMN,
    Piece,
    bucket_sql,
    cut_buckets,
    cut_evenly,
    cut_ranges,
    even_rows,
)
from carnac.rows.duck import MIN_MEMORY_BYTES, connect
from carnac.rows.normalise.shape import RowShape, part_columns
from carnac.rows.output import local_root
from carnac.rows.packed_sort import SORTABLE, is_in_order, sorted_order
from carnac.rows.parts import FEW_BYTES
from carnac.rows.rollup import may_leave_chunk, merge_sql
from carnac.rows.segment_writer import DICTIONARY_FRACTION, ROW_GROUP_ROWS
from carnac.rows.value_codes import one_array

if TYPE_CHECKING:
    import duckdb

    from carnac.rows.merge_task import MergeTask, Part

SORTED_COPIES = 2
"""DuckDB is trusted to sort in one go what takes this part of its memory in Arrow."""
SLICES_AGAIN, MAX_DEPTH = 4, 3
"""Into how many ranges, and how often, a range is divided that proves too large."""
SAMPLE_ROWS = 10_000
"""Rows by which the ranges of a larger sort are chosen."""
STREAM_ROWS = 16_384
"""Rows that DuckDB hands over at a time: few, because they count against its memory."""
HELD_SHARE = 4
"""The rows of one value that are waiting for its end take at most this part of a task's memory."""
MERGED = "__carnac_merged"
"""The table of rows that were rolled up, where they are many."""
MEMORY_COPIES = 3
"""How often rows are in memory while they are put in order: as read, with dictionaries, in order or in the writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRows:
    """Rows on their way into segments.

    Attributes:
        sort_columns: By which they are sorted inside of every piece.
        buckets: Number of hash buckets, if rows are hashed.
    """

    pieces: Iterator[Piece]
    sort_columns: tuple[str, ...]
    buckets: int | None = None


def open_rows(task: MergeTask, resources: ExitStack, *, temp_dir: str) -> OpenRows:
    """Return the rows of the parts, merged, sorted and cut.

    Args:
        resources: Takes what must stay open until the rows are read.
        temp_dir: Local folder to spill into.

    Raises:
        Corrupt: A part file is not readable.
        Invalid: A range dimension may hold several values.
    """
    spec, shape = task.partitions, task.shape
    sort = sort_order(shape, spec.dimensions if spec.type == "range" else ())
    limit = spec.rows_per_segment
    ranges = _ranges(task, sort)
    if ranges is not None:
        total = sum(part.rows for part in task.parts)
        batches = _range_by_range(ranges, shape, sort)
        return OpenRows(pieces=_cut(batches, task, even_rows(total, limit)), sort_columns=sort)
    parts = _Parts(task.parts)
    con = resources.enter_context(connect(temp_dir=temp_dir, memory_bytes=task.memory_bytes))
    held = max(task.memory_bytes, MIN_MEMORY_BYTES)
    slices = max(1, math.ceil(SORTED_COPIES * parts.memory_bytes / held))
    source = merge_sql(shape, parts.attach(con, shape), not_before_ms=task.chunk.start_ms)
    total = parts.rows
    if shape.is_rollup and (total > limit or slices > 1):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {MERGED} AS {source}").complete()
        total = _count(con, MERGED)
        source = f"SELECT * FROM {MERGED}"
    if spec.type == "hashed":
        buckets = spec.num_shards or max(1, -(-total // limit))
        bucket = bucket_sql(shape, spec.dimensions, buckets)
        source = f"SELECT *, {bucket} AS {quote(BUCKET_COLUMN)} FROM ({source})"
        pieces = cut_buckets(_stream(con, source, (BUCKET_COLUMN, *sort), slices))
        return OpenRows(pieces=pieces, sort_columns=sort, buckets=buckets)
    batches = _stream(con, source, sort, slices)
    return OpenRows(pieces=_cut(batches, task, even_rows(total, limit)), sort_columns=sort)


def order_rows(task: MergeTask, rows: pa.RecordBatch) -> OpenRows:
    """Return rows that are in memory and need no merging, sorted and cut; texts come as dictionaries or plain."""
    spec = task.partitions
    sort = sort_order(task.shape, spec.dimensions if spec.type == "range" else ())
    limit = even_rows(rows.num_rows, spec.rows_per_segment)
    return OpenRows(pieces=_cut(in_order(rows, sort), task, limit), sort_columns=sort)


def sort_order(shape: RowShape, first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return by which columns rows of segments are sorted: `first` without what is absent, then as the shape says.

    Raises:
        Invalid: A column of `first` is no dimension of the shape, or may hold several values.
    """
    types = {dimension.name: dimension.type for dimension in shape.dimensions}
    first = tuple(name for name in first if name not in shape.absent)
    for name in first:
        if name not in types:
            raise Invalid(f"rows cannot be partitioned by '{name}', which is no dimension")
        if types[name] in ELEMENT_TYPES:
            raise Invalid(
                f"rows cannot be partitioned by range of '{name}', which holds several values in some rows;"
                " use hashed partitions or another dimension"
            )
    present = {TIME_COLUMN, *types, *(metric.name for metric in shape.metrics)}
    rest = [name for name in shape.sort_columns if name in present and name not in first]
    return (*first, *rest)


def _count(con: Any, table: str) -> int:
    return int(con.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def _cut(batches: Iterable[pa.RecordBatch], task: MergeTask, rows: int) -> Iterator[Piece]:
    if task.partitions.type == "range":
        return cut_ranges(
            batches,
            task.partitions.dimensions,
            rows,
            most=task.partitions.most_rows_per_segment,
            held_bytes_max=max(task.memory_bytes, MIN_MEMORY_BYTES) // HELD_SHARE,
        )
    return cut_evenly(batches, rows)


def _stream(
    con: Any, source: str, sort: tuple[str, ...], slices: int, depth: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query in order.

    DuckDB sorts some times its memory, but how often depends on how wide rows are. So rows are read once for each of
    `slices` ranges of the first sort column, which follow one another; and a range that is still too large is divided
    again.
    """
    import duckdb

    order = ", ".join(f"{quote(name)} ASC NULLS FIRST" for name in sort)
    for condition in _slice_conditions(con, source, sort[0], slices, depth):
        part = f"SELECT * FROM ({source}) WHERE {condition}"
        has_begun = False
        try:
            for batch in con.sql(f"{part} ORDER BY {order}").to_arrow_reader(STREAM_ROWS):
                has_begun = True
                yield batch
        except duckdb.OutOfMemoryException:
            if has_begun or depth == MAX_DEPTH:
                raise
            yield from _stream(con, part, sort, SLICES_AGAIN, depth + 1)


def _slice_conditions(con: Any, source: str, column: str, slices: int, depth: int) -> Iterator[str]:
    """Yield conditions that divide the rows by a column, in its order, nulls first."""
    if slices <= 1:
        yield "TRUE"
        return
    name, table = quote(column), f"cuts_{depth}"
    shares = ", ".join(str(index / slices) for index in range(1, slices))
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT quantile_disc({name}, [{shares}]) AS edges"
        f" FROM (SELECT {name} FROM ({source}) USING SAMPLE reservoir({SAMPLE_ROWS} ROWS))"
    ).complete()
    for index in range(slices):
        low, high = (f"(SELECT edges[{place}] FROM {table})" for place in (index, index + 1))
        if index == 0:
            yield f"({name} IS NULL OR {name} < {high} OR {high} IS NULL)"
        elif index == slices - 1:
            yield f"{name} >= {low}"
        else:
            yield f"{name} >= {low} AND {name} < {high}"


class _Parts:
    """The part files of a task, schemas united by name."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts, self._paths = parts, [part.path for part in parts]
        self.rows = sum(part.rows for part in parts)
        self.memory_bytes = sum(part.memory_bytes for part in parts)
        try:
            self.dataset = self._open()
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise _unreadable(self._paths, error) from error

    def attach(self, con: duckdb.DuckDBPyConnection, shape: RowShape) -> str:
        """Make the rows readable in a connection and return the FROM item; columns are as part rows' are."""
        con.register("parts", self.dataset)
        columns = ", ".join(self._column(name, kind) for name, kind in part_columns(shape))
        return f"(SELECT {columns} FROM parts)"

    def _column(self, name: str, kind: str) -> str:
        """Return the SQL of a column: null if no file has it, cast where files were typed otherwise."""
        column, schema = quote(name), self.dataset.schema
        index = schema.get_field_index(name)
        if index < 0:
            return f"CAST(NULL AS {kind}) AS {column}"
        is_list = pa.types.is_list(schema.field(index).type)
        if kind.endswith("[]") and not is_list:
            value = f"CASE WHEN {column} IS NULL THEN NULL ELSE [CAST({column} AS {kind[:-2]})] END"
            return f"{value} AS {column}"
        return f"CAST({column} AS {kind}) AS {column}"

    def _open(self) -> Any:
        import pyarrow.dataset as ds

        if self.memory_bytes <= FEW_BYTES:
            return ds.dataset(
                pa.concat_tables(map(_read, self._parts), promote_options="permissive")
            )
        files, filesystem = self._paths, None
        if local_root(files[0]) is None:
            import fsspec

            filesystem, _ = fsspec.core.url_to_fs(files[0])
            files = [fsspec.core.url_to_fs(path)[1] for path in files]
        else:
            files = [str(local_root(path)) for path in files]
        some = [ds.dataset(one, format="ipc", filesystem=filesystem).schema for one in files]
        united = pa.unify_schemas(some, promote_options="permissive")
        return ds.dataset(files, format="ipc", filesystem=filesystem, schema=united)


def _ranges(task: MergeTask, sort: tuple[str, ...]) -> list[list[Part]] | None:
    """Return the parts of each range, in order, if memory holds the rows of any, which need no merging."""
    shape, types = task.shape, dict(task.shape.segment_columns)
    if shape.is_rollup or may_leave_chunk(shape, task.chunk.start_ms):
        return None
    if task.partitions.type == "hashed" or not is_sortable(types, sort):
        return None
    ordered = sorted(task.parts, key=lambda part: (part.range_index, part.path))
    ranges = [list(some) for _, some in groupby(ordered, key=lambda part: part.range_index)]
    most = max((sum(part.memory_bytes for part in some) for some in ranges), default=0)
    return ranges if MEMORY_COPIES * most <= task.memory_bytes else None


def is_sortable(types: Mapping[str, ColumnType], sort: Sequence[str]) -> bool:
    """Whether rows can be put in order by packed words: lists and states of sketches cannot."""
    return all(types.get(name, ColumnType.LONG) in SORTABLE for name in sort)


def _range_by_range(
    ranges: Iterable[Sequence[Part]], shape: RowShape, sort: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    for some in ranges:
        table = pa.concat_tables(map(_read, some), promote_options="permissive")
        known = set(table.schema.names)
        columns = [TIME_COLUMN, *(name for name, _ in shape.segment_columns if name in known)]
        rows = _with_dictionaries(table.select(columns))
        del table
        yield from in_order(rows, tuple(name for name in sort if name in known))


def _read(part: Part) -> pa.Table:
    if part.table is not None:
        return part.table
    local = local_root(part.path)
    try:
        if local is not None:
            with pa.ipc.open_file(local) as file:
                return file.read_all()
        import fsspec

        with fsspec.open(part.path, "rb") as far:
            return pa.ipc.open_file(far).read_all()
    except pa.ArrowInvalid as error:
        raise _unreadable([part.path], error) from error


def _unreadable(paths: Sequence[str], error: Exception) -> Corrupt:
    reason = first_line(error)
    return Corrupt(f"part files {', '.join(paths)} cannot be read: {reason}")


def in_order(rows: pa.RecordBatch, sort: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order, one row group's worth at a time."""
    order = None if is_in_order(rows, sort) else pa.array(sorted_order(rows, sort))
    for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
        if order is None:
            yield rows.slice(start, ROW_GROUP_ROWS)
        else:
            yield rows.take(order.slice(start, ROW_GROUP_ROWS))


def _with_dictionaries(table: pa.Table) -> pa.RecordBatch:
    """Return the rows with texts as dictionaries where words repeat: numbers are put in order faster than texts."""
    arrays = []
    for column in table.columns:
        array = one_array(column)
        if pa.types.is_string(array.type):
            encoded = array.dictionary_encode()
            if len(encoded.dictionary) <= len(array) * DICTIONARY_FRACTION:
                array = encoded
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=table.schema.names)
