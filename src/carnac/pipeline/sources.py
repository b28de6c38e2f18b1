"""Bytes and batches on their way into the engine: opened here, registered as a relation, read once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid, NotFound
from carnac.pipeline.inputs import InputFile, local_file
from carnac.pipeline.lines import RecordReader, Records, record_array
from carnac.pipeline.projection import LINE, OFFSET, RAW

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH = "__carnac_batch"
"""Name of the relation."""
CELL = "__carnac_c"
"""Columns of CSV, by position: this and the position from 0."""


@contextmanager
def open_bytes(file: InputFile, scratch_dir: str) -> Iterator[tuple[Any, int]]:
    """Yield the decompressed bytes of a file, from the first line of its range on, and the offset of that.

    Raises:
        NotFound: It is not there any more.
        Invalid: It cannot be opened.
        Unavailable: It is remote and cannot be copied.
    """
    import pyarrow as pa

    if file.data is not None:
        yield pa.BufferReader(file.data), 0
        return
    with local_file(file, scratch_dir) as path:
        if file.start_byte == 0:
            with _open(path, file) as stream:
                yield stream, 0
            return
        with path.open("rb") as ranged:
            ranged.seek(file.start_byte - 1)
            ranged.readline()
            yield ranged, ranged.tell()


@contextmanager
def open_lines(
    con: duckdb.DuckDBPyConnection, file: InputFile, scratch_dir: str
) -> Iterator[RecordReader]:
    """Make the lines of a file the relation `BATCH`, to be read once.

    Raises:
        NotFound: It is not there any more.
        Invalid: It is damaged.
        Unavailable: It is remote and cannot be copied.
    """
    with open_bytes(file, scratch_dir) as (stream, offset):
        records = RecordReader(
            stream=stream,
            name=file.url,
            start_offset=offset,
            end_offset=file.end_byte,
            knows_lines=offset == 0,
        )
        batches = (line_batch(block, with_lines=offset == 0) for block in records)
        with registered(con, line_schema(), batches):
            yield records


class Counted:
    """Batches that count their rows as they go by."""

    def __init__(self, batches: pa.RecordBatchReader) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


class _Guarded:
    """Keeps the error of an iterator that C code runs, so that it comes out as it was raised."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        try:
            yield from self._batches
        except Exception as error:
            self.error = error
            raise


@contextmanager
def registered(
    con: duckdb.DuckDBPyConnection, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[None]:
    """Let the connection see the batches, once, as a relation."""
    import pyarrow as pa

    guarded = _Guarded(batches)
    con.register(BATCH, pa.RecordBatchReader.from_batches(schema, iter(guarded)))
    try:
        yield
    except Exception:
        if guarded.error is not None:
            raise guarded.error from None
        raise
    finally:
        con.unregister(BATCH)


@contextmanager
def _open(path: Path, file: InputFile) -> Iterator[Any]:
    import pyarrow as pa

    try:
        stream = pa.input_stream(str(path), compression=file.compression)
    except FileNotFoundError:
        raise NotFound(f"input file {file.url} does not exist any more", url=file.url) from None
    except OSError as error:
        raise Invalid(f"input file {file.url} cannot be read: {error}", url=file.url) from error
    with stream:
        yield stream


def line_schema() -> pa.Schema:
    """Return the columns of lines: LINE, OFFSET and RAW."""
    import pyarrow as pa

    return pa.schema([(LINE, pa.int64()), (OFFSET, pa.int64()), (RAW, pa.string())])


def line_batch(records: Records, *, with_lines: bool) -> pa.RecordBatch:
    """Return records as a batch of `line_schema`."""
    import pyarrow as pa

    lines = pa.array(records.lines) if with_lines else pa.nulls(len(records.ends), pa.int64())
    return pa.RecordBatch.from_arrays(
        [lines, pa.array(records.offsets), record_array(records)], schema=line_schema()
    )


def csv_batch(records: Records, table: pa.Table) -> pa.RecordBatch:
    """Return records and their fields as a batch: the columns of `line_schema`, and `CELL` ones."""
    import pyarrow as pa

    fields = table.combine_chunks()
    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], pa.string())
        for column in fields.columns
    ]
    names = [f"{CELL}{index}" for index in range(len(columns))]
    rows = line_batch(records, with_lines=True)
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names=[LINE, OFFSET, RAW, *names])
