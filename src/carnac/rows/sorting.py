"""Opens the part files of a chunk as one stream of merged, sorted rows, cut into pieces.

Two ways, one result: what surely fits into memory and needs no merging is sorted by Arrow, which is twice as fast;
everything else by DuckDB, which rolls up, and spills to disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
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
from carnac.rows.normalise.shape import RowShape, part_columns, quote
from carnac.rows.output import local_root
from carnac.rows.rollup import may_leave_chunk, merge_sql
from carnac.rows.segment_writer import DICTIONARY_FRACTION, ROW_GROUP_ROWS, one_array

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from carnac.rows.merge_task import MergeTask

SORTABLE_FACTOR = 1.0
"""DuckDB is trusted to sort this many times its memory in one go; 0.5 to 5 were measured."""
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
IN_MEMORY_FRACTION = 0.2
"""Arrow sorts what takes no more than this part of the task's memory: rows, their sorted copy, and the writer."""
_UNSORTABLE = {ColumnType.STRING_ARRAY, ColumnType.LONG_ARRAY, ColumnType.DOUBLE_ARRAY}
"""Arrow sorts no lists."""
FEW_BYTES = 1 << 20
"""Part files that take less are read at once: to make a data set of them takes longer."""


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
    parts = _Parts(task.parts)
    sort = sort_order(shape, spec.dimensions if spec.type == "range" else ())
    limit = spec.rows_per_segment
    if spec.type != "hashed" and _fits(parts, task, sort):
        table = parts.read(shape)
        if not _has_nan(table, sort):
            batches: Iterable[pa.RecordBatch] = _sorted_in_memory(table, sort)
            rows = even_rows(table.num_rows, limit)
            return OpenRows(pieces=_cut(batches, task, rows), sort_columns=sort)
    con = resources.enter_context(
        connect(temp_dir=temp_dir, memory_bytes=task.memory_bytes, threads=task.threads)
    )
    slices = parts.slices(max(task.memory_bytes, MIN_MEMORY_BYTES))
    source = merge_sql(shape, parts.attach(con, shape), not_before_ms=task.chunk.start_ms)
    total = parts.rows
    if shape.is_rollup and (total > limit or slices > 1):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {MERGED} AS {source}").complete()
        # in a connection that is kept its rows would stay in memory
        resources.callback(lambda: con.execute(f"DROP TABLE {MERGED}").complete())
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
        if types[name] in {
            ColumnType.STRING_ARRAY,
            ColumnType.LONG_ARRAY,
            ColumnType.DOUBLE_ARRAY,
        }:
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
    """The part files of a task."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._local = [root for path in paths if (root := local_root(path)) is not None]
        self._paths = paths
        self._is_arrow = any(path.endswith(".arrow") for path in paths)
        self._dataset: Any = None

    @cached_property
    def _bytes(self) -> int:
        return sum(path.stat().st_size for path in self._local)

    @property
    def rows(self) -> int:
        """How many rows the files hold."""
        return int(self.dataset.count_rows())

    @property
    def dataset(self) -> Any:
        """The files as an Arrow dataset, schemas united by name."""
        if self._dataset is None:
            try:
                self._dataset = self._open()
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise self._corrupt(error) from error
        return self._dataset

    def read(self, shape: RowShape) -> pa.Table:
        """Return the rows: columns of the shape that the files have, each in one piece."""
        known = set(self.dataset.schema.names)
        columns = [TIME_COLUMN, *(name for name, _ in shape.segment_columns if name in known)]
        table: pa.Table = self.dataset.to_table(columns=columns, use_threads=False)
        return table.combine_chunks()

    def bytes_in_memory(self) -> int:
        """Return about how many bytes the rows take in memory."""
        if self._is_arrow:
            return 4 * self._bytes
        total = 0
        for path in self._local:
            try:
                metadata = pq.read_metadata(path)
            except pa.ArrowInvalid as error:
                raise self._corrupt(error) from error
            total += sum(
                metadata.row_group(index).total_byte_size
                for index in range(metadata.num_row_groups)
            )
        return 2 * total

    def slices(self, memory_bytes: int) -> int:
        """Return in how many goes the rows should be sorted."""
        if not self.is_local:
            return 1
        return max(1, math.ceil(self.bytes_in_memory() / (SORTABLE_FACTOR * memory_bytes)))

    @property
    def is_local(self) -> bool:
        """Whether all files are on this machine."""
        return len(self._local) == len(self._paths)

    def attach(self, con: duckdb.DuckDBPyConnection, shape: RowShape) -> str:
        """Make the rows readable in a connection and return the FROM item; columns are as part rows' are."""
        if self.is_local and not self._is_arrow:
            files = ", ".join("'" + str(path).replace("'", "''") + "'" for path in self._local)
            item = f"read_parquet([{files}], union_by_name = true)"
        else:
            con.register("parts", self.dataset)
            item = "parts"
        columns = ", ".join(self._column(name, kind) for name, kind in part_columns(shape))
        return f"(SELECT {columns} FROM {item})"

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

    def _corrupt(self, error: Exception) -> Corrupt:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return Corrupt(f"part files {', '.join(self._paths)} cannot be read: {reason}")

    def _open(self) -> Any:
        kind = "ipc" if self._is_arrow else "parquet"
        if self._is_arrow and self.is_local and self._bytes <= FEW_BYTES:
            tables = [_read_arrow(path) for path in self._local]
            return ds.dataset(pa.concat_tables(tables, promote_options="permissive"))
        if self.is_local:
            files = [str(path) for path in self._local]
            schemas = [ds.dataset(file, format=kind).schema for file in files]
            united = pa.unify_schemas(schemas, promote_options="permissive")
            return ds.dataset(files, format=kind, schema=united)
        import fsspec

        filesystem, _ = fsspec.core.url_to_fs(self._paths[0])
        files = [fsspec.core.url_to_fs(path)[1] for path in self._paths]
        return ds.dataset(files, format=kind, filesystem=filesystem)


def _read_arrow(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


def _fits(parts: _Parts, task: MergeTask, sort: tuple[str, ...]) -> bool:
    shape = task.shape
    types = dict(shape.segment_columns)
    start_ms = task.chunk.start_ms
    if shape.is_rollup or not parts.is_local or may_leave_chunk(shape, start_ms):
        return False
    if any(types.get(name) in _UNSORTABLE or _is_sketch(types.get(name)) for name in sort):
        return False
    return parts.bytes_in_memory() <= IN_MEMORY_FRACTION * task.memory_bytes


def _is_sketch(kind: ColumnType | None) -> bool:
    return kind is not None and kind.is_sketch


def _has_nan(table: pa.Table, sort: tuple[str, ...]) -> bool:
    """Whether a column to sort by holds NaN, which Arrow puts in another place than DuckDB does."""
    columns = (table.column(name) for name in sort if name in table.schema.names)
    floats = [column for column in columns if pa.types.is_floating(column.type)]
    return any(pc.any(pc.is_nan(column)).as_py() for column in floats)


def _sorted_in_memory(table: pa.Table, sort: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    keys = [(name, "ascending", "at_start") for name in sort if name in table.schema.names]
    order = pc.sort_indices(table, sort_keys=keys)
    rows = _with_dictionaries(table)
    del table
    for start in range(0, len(order), ROW_GROUP_ROWS):
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
