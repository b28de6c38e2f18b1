"""Writes segment files: sorted rows in, one Parquet file and the facts for its record out.

Why pyarrow writes and not DuckDB's `COPY`: see the decision record on segment files. One pass over the dictionary of
each text column gives its bytes in the file, its bounds and its row hashes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from carnac.core.segments.segment import TEXT_TYPES, TIME_COLUMN, Column, ColumnType
from carnac.core.segments.sql_columns import element_of, field_ids
from carnac.errors import Corrupt
from carnac.rows.output import OutputFile
from carnac.rows.row_hash import add_hashes, hash_rows
from carnac.rows.statistics import ColumnStatistics, bounds_of

ROW_GROUP_ROWS = 100_000
COMPRESSION_LEVEL = 1
"""Level of zstd. Level 3 makes files no smaller and takes an eighth longer (measured on the benchmark's events)."""
FEW_ROWS = 4_096
"""A file whose first row group has no more rows is compressed with Snappy: preparing zstd anew for each page is more
than a third of what such a file takes to write and to read, and compaction soon writes its rows again. Nor has it
statistics in its footer, which take as long again: they would say what the segment's record says already. Nor are its
numbers counted, of which a dictionary would save a few kilobytes."""
SCHEMAS_KEPT = 256
"""Schemas of files that a process remembers: appends write one again and again."""
DICTIONARY_FRACTION = 0.5
"""A column gets a dictionary if the first row group holds fewer distinct values per row than this."""
SAMPLE_ROWS = 20_000
MIN_BATCH_ROWS = 1024
PAGE_BYTES = 1 << 20
"""About how many bytes of a column a page holds."""

TIME_TYPE = pa.timestamp("us", tz="UTC")
ARROW_TYPE: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.FLOAT: pa.float32(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.JSON: pa.string(),
    ColumnType.STRING_ARRAY: pa.list_(pa.string()),
    ColumnType.LONG_ARRAY: pa.list_(pa.int64()),
    ColumnType.DOUBLE_ARRAY: pa.list_(pa.float64()),
    ColumnType.HLL: pa.binary(),
    ColumnType.THETA: pa.binary(),
    ColumnType.QUANTILES: pa.binary(),
}
_ENCODING = {
    ColumnType.LONG: "DELTA_BINARY_PACKED",
    ColumnType.DOUBLE: "BYTE_STREAM_SPLIT",
    ColumnType.FLOAT: "BYTE_STREAM_SPLIT",
}
"""Encodings of columns that have no dictionary."""

Columns: TypeAlias = tuple[tuple[str, ColumnType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A segment file that is in its place, and the facts that its record must hold."""

    size_bytes: int
    checksum: str
    blocks: str
    rows: int
    min_time_ms: int
    max_time_ms: int
    columns: tuple[Column, ...]
    row_hash: int

    def facts(self) -> dict[str, Any]:
        """Return all of it, by the names of its record's fields."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@cache
def segment_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of rows of segments: `__time`, not null, then `columns`."""
    time = pa.field(TIME_COLUMN, TIME_TYPE, nullable=False)
    return pa.schema([time, *(pa.field(name, ARROW_TYPE[kind]) for name, kind in columns)])


class SegmentWriter:
    """Writes one segment file; use it as a context manager: without `finish`, nothing is left behind.

    Args:
        columns: All columns but `__time`, in file order.
        sort_columns: By which the rows will come sorted, nulls first; written into the footer.
    """

    def __init__(
        self,
        root_url: str,
        path: str,
        columns: Columns,
        *,
        temp_dir: str,
        sort_columns: tuple[str, ...] = (),
        row_group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        self.schema = segment_schema(columns)
        self.rows = 0
        self._path = path
        self._types = dict(columns)
        self._sort = sort_columns
        self._group_rows = row_group_rows
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._statistics = {name: ColumnStatistics(name, kind) for name, kind in columns}
        self._row_hash = 0
        self._min_us: int | None = None
        self._max_us: int | None = None
        self._writer: Any = None
        self._output = OutputFile(root_url, path, temp_dir=temp_dir)
        self._is_placed = False

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far; rows of the row group that is not full are not among them."""
        size: int = self._output.stream.tell()
        return size

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows that follow those written before; columns by name, absent ones are null.

        Texts may come as dictionaries, which may hold words that no row uses.

        Raises:
            Unavailable: Deep storage is full or does not answer.
        """
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        table = self._conform(table)
        at = 0
        while at < table.num_rows:
            piece = table.slice(at, self._group_rows - self._pending_rows)
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            at += piece.num_rows
            if self._pending_rows == self._group_rows:
                self._flush()
        self.rows += table.num_rows

    def finish(self) -> WrittenFile:
        """Write what is left, put the file in its place and return what it holds.

        Raises:
            Unavailable: Deep storage is full or does not answer.
            Corrupt: No row was written.
        """
        self._flush()
        if self._writer is None or self._min_us is None or self._max_us is None:
            raise Corrupt(f"segment file {self._path} would hold no rows")
        try:
            self._writer.close()
        except OSError as error:
            raise self._output.failure(error) from error
        placed = self._output.place()
        self._is_placed = True
        return WrittenFile(
            size_bytes=placed.size_bytes,
            checksum=placed.checksum,
            blocks=placed.blocks,
            rows=self.rows,
            min_time_ms=self._min_us // 1000,
            max_time_ms=self._max_us // 1000,
            columns=tuple(statistics.column() for statistics in self._statistics.values()),
            row_hash=self._row_hash,
        )

    def discard(self) -> int:
        """Remove what was written, unless it is finished; return its bytes. Idempotent."""
        if self._is_placed:
            return 0
        if self._writer is not None:
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()
        return self._output.discard()

    def _conform(self, table: pa.Table) -> pa.Table:
        """Return the rows with exactly the columns of the schema."""
        if table.schema.equals(self.schema):
            return table
        present = dict(zip(table.schema.names, table.columns, strict=True))
        arrays = []
        for field in self.schema:
            column = present.get(field.name)
            if column is None:
                arrays.append(pa.nulls(table.num_rows, field.type))
                continue
            kind = column.type
            is_ready = kind.equals(field.type) or (
                pa.types.is_dictionary(kind) and self._types[field.name] in TEXT_TYPES
            )
            arrays.append(column if is_ready else column.cast(field.type))
        return pa.Table.from_arrays(arrays, names=self.schema.names)

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        pieces, rows = self._pending, self._pending_rows
        self._pending, self._pending_rows = [], 0
        encoded = {
            name: _united([piece.column(name) for piece in pieces], self._types.get(name))
            for name in self.schema.names
        }
        writer = self._writer or self._open(encoded)
        self._observe(encoded)
        arrays = [_as_type(encoded[field.name], field.type) for field in writer.schema]
        try:
            writer.write_table(
                pa.Table.from_arrays(arrays, schema=writer.schema), row_group_size=rows
            )
        except OSError as error:
            raise self._output.failure(error) from error

    def _observe(self, encoded: dict[str, pa.Array]) -> None:
        times = encoded[TIME_COLUMN].view(pa.int64())
        if times.null_count:
            raise Corrupt(f"rows for segment file {self._path} have no time")
        low, high = bounds_of(times)
        self._min_us = low if self._min_us is None else min(self._min_us, low)
        self._max_us = high if self._max_us is None else max(self._max_us, high)
        for name, statistics in self._statistics.items():
            statistics.add(encoded[name])
        rows = pa.RecordBatch.from_arrays(list(encoded.values()), names=list(encoded))
        self._row_hash = add_hashes(self._row_hash, hash_rows(rows))

    def _open(self, first: dict[str, pa.Array]) -> Any:
        """Open the file; the first row group decides how columns are encoded in all row groups."""
        fields, words, encodings = [self.schema.field(0)], [], {TIME_COLUMN: "DELTA_BINARY_PACKED"}
        is_small = len(first[TIME_COLUMN]) <= FEW_ROWS
        for name, kind in self._types.items():
            array, field = first[name], self.schema.field(name)
            leaf = f"{name}.list.element" if pa.types.is_list(field.type) else name
            if _wants_dictionary(array, is_small=is_small):
                words.append(leaf)
                field = field.with_type(array.type)
            elif kind in _ENCODING:
                encodings[leaf] = _ENCODING[kind]
            fields.append(field)
        self._writer = pq.ParquetWriter(
            self._output.stream,
            _with_field_ids(tuple(fields)),
            compression="snappy" if is_small else "zstd",
            compression_level=None if is_small else COMPRESSION_LEVEL,
            use_dictionary=words,
            column_encoding=encodings,
            store_schema=False,
            sorting_columns=self._sorting() or None,
            write_statistics=not is_small,
            write_batch_size=_batch_rows(first, words),
        )
        return self._writer

    def _sorting(self) -> list[pq.SortingColumn]:
        """Return what the footer says of the order: up to the first column that it cannot speak of."""
        columns = []
        for name in self._sort:
            index = self.schema.get_field_index(name)
            if index < 0 or pa.types.is_list(self.schema.field(index).type):
                break
            columns.append(pq.SortingColumn(index, nulls_first=True))
        return columns


@lru_cache(maxsize=SCHEMAS_KEPT)
def _with_field_ids(fields: tuple[pa.Field, ...]) -> pa.Schema:
    """Return the schema of a file: each column, and the elements of each list, have the id of their names."""
    ids = field_ids(
        name
        for field in fields
        for name in (
            field.name,
            *([element_of(field.name)] if pa.types.is_list(field.type) else []),
        )
    )

    def numbered(field: pa.Field, name: str) -> pa.Field:
        if name not in ids:
            return field
        return field.with_metadata({b"PARQUET:field_id": str(ids[name]).encode()})

    def column(field: pa.Field) -> pa.Field:
        if pa.types.is_list(field.type):
            element = pa.field("element", field.type.value_type)
            field = field.with_type(pa.list_(numbered(element, element_of(field.name))))
        return numbered(field, field.name)

    return pa.schema([column(field) for field in fields])


def _united(columns: list[pa.ChunkedArray], kind: ColumnType | None) -> pa.Array:
    """Return pieces of a column as one array; texts as a dictionary of which every word is used."""
    if len(columns) == 1 and columns[0].num_chunks == 1:
        array = columns[0].chunk(0)
    else:
        array = _concatenated([chunk for column in columns for chunk in column.chunks])
    if kind not in TEXT_TYPES:
        return array
    if not pa.types.is_dictionary(array.type):
        return array.dictionary_encode()
    return _in_order_of_use(array) if _wants_dictionary(array) else _only_used(array)


def _concatenated(chunks: list[pa.Array]) -> pa.Array:
    """Return pieces as one array; a dictionary if all of them have one."""
    if not all(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        return pa.concat_arrays([_as_type(chunk, None) for chunk in chunks])
    united = pa.chunked_array(chunks).unify_dictionaries()
    return pa.concat_arrays(united.chunks)


def _as_type(array: pa.Array, kind: pa.DataType | None) -> pa.Array:
    """Return the array without its dictionary, unless `kind` wants one."""
    if not pa.types.is_dictionary(array.type) or (kind and pa.types.is_dictionary(kind)):
        return array
    return array.dictionary_decode()


def _only_used(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the array with the words that rows use, in the order of its dictionary."""
    count = len(array.dictionary)
    indices = array.indices.fill_null(count) if array.null_count else array.indices
    numbers = indices.to_numpy(zero_copy_only=False)
    is_used = np.zeros(count + 1, np.bool_)
    is_used[numbers] = True
    used = np.flatnonzero(is_used[:count])
    if len(used) == count:
        return array
    return _with_words(array, numbers, used)


def _in_order_of_use(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the array with the words that rows use, the first used first: as texts are when they are written.

    So a file does not depend on how its rows were put in order.
    """
    count, rows = len(array.dictionary), len(array)
    indices = array.indices.fill_null(count) if array.null_count else array.indices
    numbers = indices.to_numpy(zero_copy_only=False)
    first = np.full(count + 1, rows, np.int32)
    first[numbers[::-1]] = np.arange(rows - 1, -1, -1, dtype=np.int32)  # the last write stays
    used = np.flatnonzero(first[:count] < rows)
    used = used[np.argsort(first[used])]
    if len(used) == count and (used == np.arange(count)).all():
        return array
    return _with_words(array, numbers, used)


def _with_words(array: pa.DictionaryArray, numbers: Any, words: Any) -> pa.DictionaryArray:
    """Return the array with a dictionary of these words, which are all that rows use.

    Args:
        numbers: The word of each row; of a null, the number of words.
    """
    places = np.zeros(len(array.dictionary) + 1, np.int32)
    places[words] = np.arange(len(words), dtype=np.int32)
    mask = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
    kept = pa.array(places[numbers], pa.int32(), mask=mask)
    return pa.DictionaryArray.from_arrays(kept, array.dictionary.take(pa.array(words)))


def _batch_rows(first: dict[str, pa.Array], words: list[str]) -> int:
    """Return how many rows are encoded at a time: no page can be smaller, and few large batches are faster.

    Of columns with a dictionary, statistics are taken batch by batch from the words that each uses.
    """
    if len(first[TIME_COLUMN]) <= MIN_BATCH_ROWS:
        return MIN_BATCH_ROWS
    width = max(
        (array.nbytes / len(array) for name, array in first.items() if name not in words),
        default=1.0,
    )
    return max(MIN_BATCH_ROWS, min(ROW_GROUP_ROWS, int(PAGE_BYTES / max(width, 1.0))))


def _wants_dictionary(array: pa.Array, *, is_small: bool = False) -> bool:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return bool(len(array.dictionary) <= len(array) * DICTIONARY_FRACTION)
    if pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return False
    if pa.types.is_list(kind):
        return bool(pa.types.is_string(kind.value_type))
    if is_small:
        return False
    sample = array.slice(0, SAMPLE_ROWS)
    distinct: int = pc.count_distinct(sample).as_py()
    return distinct <= len(sample) * DICTIONARY_FRACTION
