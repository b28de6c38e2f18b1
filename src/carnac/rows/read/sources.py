"""Bytes and batches on their way into the engine: opened here, registered as a relation, read once."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid, NotFound
from carnac.ports.temporary import make_private
from carnac.rows.normalise.projection import FILE, LINE, OFFSET, RAW
from carnac.rows.read.arrays import HEAD_BYTES, ArrayReader, Rejoined, begins_array
from carnac.rows.read.columnar import require_time
from carnac.rows.read.csv import CsvReader, Header
from carnac.rows.read.inputs import InputFile, local_file
from carnac.rows.read.lines import (
    BLOCK_BYTES,
    RecordReader,
    Records,
    Reject,
    long_array,
    read_bytes,
    record_array,
)
from carnac.rows.read.messages import MessageLines, MessageReader

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.specs.ingest.inputs import CsvFormat, TsvFormat
    from carnac.specs.ingest.schema import TimestampSpec

_NO_HEADER = ", as its first line says; if that is a row already, give columns in inputFormat"
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
def plain_file(file: InputFile, scratch_dir: str) -> Iterator[Path]:
    """Yield a path on this machine of the decompressed bytes of a file; a copy is deleted afterwards.

    Raises:
        NotFound: It is not there any more.
        Invalid: It cannot be decompressed.
        Unavailable: It is remote and cannot be copied.
    """
    if file.compression is None:
        with local_file(file, scratch_dir) as path:
            yield path
        return
    target = make_private(Path(scratch_dir)) / f"plain-{PurePosixPath(file.url).name}"
    try:
        with open_bytes(file, scratch_dir) as (stream, _), target.open("wb") as sink:
            while block := read_bytes(stream, BLOCK_BYTES, file.url):
                sink.write(block)
        yield target
    finally:
        target.unlink(missing_ok=True)


class LineFiles:
    """The lines of some files, one file after the other, as batches of `line_schema`.

    Attributes:
        count: Lines so far, rejected and blank ones included.
        rejects: Index of the file, and the record.
    """

    def __init__(self, files: Sequence[InputFile], scratch_dir: str) -> None:
        self._files = files
        self._scratch_dir = scratch_dir
        self.count = 0
        self.rejects: list[tuple[int, Reject]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches.

        Raises:
            NotFound: A file is not there any more.
            Invalid: A file is damaged.
            Unavailable: A file is remote and cannot be copied.
        """
        for index, file in enumerate(self._files):
            if file.messages is not None:
                messages = MessageReader(file.messages)
                for block in messages:
                    yield line_batch(block, file=index, with_lines=False)
                self.count += messages.count
                self.rejects += [(index, reject) for reject in messages.rejects]
                continue
            with open_bytes(file, self._scratch_dir) as (stream, offset):
                records = _records_of(stream, file, offset)
                for block in records:
                    yield line_batch(block, file=index, with_lines=offset == 0)
            self.count += records.count
            self.rejects += [(index, reject) for reject in records.rejects]


def _records_of(stream: Any, file: InputFile, offset: int) -> RecordReader | ArrayReader:
    if offset == 0 and file.start_byte == 0:
        head = read_bytes(stream, HEAD_BYTES, file.url)
        stream = Rejoined(head, stream)
        if begins_array(head):
            return ArrayReader(stream=stream, name=file.url)
    return RecordReader(
        stream=stream,
        name=file.url,
        start_offset=offset,
        end_offset=file.end_byte,
        knows_lines=offset == 0,
    )


@contextmanager
def open_lines(
    con: duckdb.DuckDBPyConnection, files: Sequence[InputFile], scratch_dir: str
) -> Iterator[LineFiles]:
    """Make the lines of some files the relation `BATCH`, to be read once; errors are those of `LineFiles`."""
    lines = LineFiles(files, scratch_dir)
    with registered(con, line_schema(), iter(lines)):
        yield lines


class CsvFiles:
    """The rows of some CSV files, in groups of files that have the same columns one after the other.

    A file without a header loses its first line to us, so one whose header does not name the time's column is refused.

    Attributes:
        count: Rows so far, rejected ones included.
        rejects: Index of the file, and the record.
    """

    def __init__(
        self,
        files: Sequence[InputFile],
        file_format: CsvFormat | TsvFormat,
        scratch_dir: str,
        timestamp: TimestampSpec,
    ) -> None:
        self._timestamp = timestamp
        self._open_files = self._opened(files, file_format, scratch_dir)
        self._next: tuple[tuple[str, ...], Iterator[pa.RecordBatch]] | None = None
        self.count = 0
        self.rejects: list[tuple[int, Reject]] = []

    def groups(self) -> Iterator[tuple[tuple[str, ...], Iterator[pa.RecordBatch]]]:
        """Yield the names of the columns, and batches of `csv_schema`, to be read before the next group."""
        self._next = next(self._open_files, None)
        while self._next is not None:
            columns = self._next[0]
            yield columns, self._batches(columns)

    def close(self) -> None:
        """Close the file that is open, if one is."""
        self._open_files.close()

    def _batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        while self._next is not None and self._next[0] == columns:
            yield from self._next[1]
            self._next = next(self._open_files, None)

    def _opened(
        self, files: Sequence[InputFile], file_format: CsvFormat | TsvFormat, scratch_dir: str
    ) -> Generator[tuple[tuple[str, ...], Iterator[pa.RecordBatch]], None, None]:
        """Yield the columns and batches of each file that has rows."""
        for index, file in enumerate(files):
            if file.messages is not None:
                yield from self._of_messages(index, file, file_format)
                continue
            with open_bytes(file, scratch_dir) as (stream, offset):
                reader = csv_reader(stream, offset, file, file_format)
                header = reader.header
                tables = reader.tables()
                first = next(tables, None)
                if self._timestamp.column not in header.columns:
                    hint = _hint(header.columns, file_format)
                    require_time(self._timestamp, header.columns, file.url, hint=hint)
                if first is not None:
                    yield (
                        header.columns,
                        (csv_batch(*one, file=index) for one in chain([first], tables)),
                    )
            self.count += reader.records.count - reader.skipped
            self.rejects += [(index, reject) for reject in reader.records.rejects]

    def _of_messages(
        self, index: int, file: InputFile, file_format: CsvFormat | TsvFormat
    ) -> Generator[tuple[tuple[str, ...], Iterator[pa.RecordBatch]], None, None]:
        """Yield the columns and batches of a part of a stream."""
        assert file.messages is not None  # noqa: S101 - who calls has looked
        lines = MessageLines(file.messages, file_format)
        header = Header(file.url, file_format)
        reader = CsvReader(lines, file.url, file_format, header)
        if self._timestamp.column not in header.columns:
            require_time(self._timestamp, header.columns, file.url)
        tables = ((lines.placed(records), table) for records, table in reader.tables())
        yield header.columns, (csv_batch(*one, file=index) for one in tables)
        self.count += reader.records.count - reader.skipped + len(lines.rejects)
        self.rejects += [(index, one) for one in lines.all_rejects(reader.records.rejects)]


def csv_reader(
    stream: Any, offset: int, file: InputFile, file_format: CsvFormat | TsvFormat
) -> CsvReader:
    """Return the reader of what `open_bytes` gives."""
    return CsvReader(
        stream,
        file.url,
        file_format,
        Header(file.url, file_format, file.columns),
        start_offset=offset,
        start_line=file.start_line or 1,
        end_offset=file.end_byte,
    )


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
    """Return the columns of lines: FILE, LINE, OFFSET and RAW."""
    import pyarrow as pa

    return pa.schema(
        [(FILE, pa.int64()), (LINE, pa.int64()), (OFFSET, pa.int64()), (RAW, pa.string())]
    )


def line_batch(records: Records, *, file: int, with_lines: bool = True) -> pa.RecordBatch:
    """Return records as a batch of `line_schema`."""
    import numpy as np
    import pyarrow as pa

    lines = long_array(records.lines) if with_lines else pa.nulls(len(records.ends), pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            long_array(np.full(len(records.ends), file)),
            lines,
            long_array(records.offsets),
            record_array(records),
        ],
        schema=line_schema(),
    )


def csv_schema(columns: int) -> pa.Schema:
    """Return the columns of rows of CSV: those of `line_schema`, and `CELL` ones."""
    import pyarrow as pa

    cells = [pa.field(f"{CELL}{index}", pa.string()) for index in range(columns)]
    return pa.schema([*line_schema(), *cells])


def csv_batch(records: Records, table: pa.Table, *, file: int) -> pa.RecordBatch:
    """Return records and their fields as a batch of `csv_schema`."""
    import pyarrow as pa

    cells = [column.combine_chunks() for column in table.columns]
    rows = line_batch(records, file=file)
    return pa.RecordBatch.from_arrays([*rows.columns, *cells], schema=csv_schema(len(cells)))


def _hint(columns: Sequence[str], file_format: CsvFormat | TsvFormat) -> str:
    """Return what may be wrong with the columns that a file seems to have."""
    if len(columns) == 1:
        for text, name in ((";", "';'"), ("\t", "tabs"), ("|", "'|'")):
            if text in columns[0]:
                return f"; if {name} separate its fields, say so with delimiter in inputFormat"
    return _NO_HEADER if file_format.header else ""
