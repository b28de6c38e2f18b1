"""Ranges of large files: each record of a file is read in exactly one of them.

A file of JSON lines may be cut anywhere: a line belongs to the range in which it starts. A row of CSV may hold line
breaks in quotes, and whether a quote opens or closes a field depends on all that comes before it. So the file is looked
through from its start, with the same rules by which its rows are read, and is cut where rows begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from carnac.errors import CarnacError
from carnac.rows.read.arrays import begins_array
from carnac.rows.read.csv import REASON_QUOTES, Header, Quotes
from carnac.rows.read.inputs import InputFile, head_of
from carnac.rows.read.lines import MAX_RECORD_BYTES, REASON_UTF8, RecordReader, Records
from carnac.rows.read.roots import local_path
from carnac.specs.ingest.inputs import CsvFormat, InputFormat, JsonFormat, TsvFormat

MIN_SPLIT_BYTES = 1 << 20
"""Files are never cut into smaller pieces than this."""
_ROW_BYTES_MAX = MAX_RECORD_BYTES // 2
"""A file with a longer row of CSV stays whole: near `MAX_RECORD_BYTES` it depends on where reading began."""


def split_files(
    files: Sequence[InputFile], file_format: InputFormat, *, max_bytes: int
) -> tuple[InputFile, ...]:
    """Cut large uncompressed files of JSON lines, CSV and TSV into ranges of about `max_bytes`; leave others whole.

    Of CSV, only files of this machine are cut. A range of JSON lines has byte offsets and no line numbers.
    """
    size = max(max_bytes, MIN_SPLIT_BYTES)
    return tuple(one for file in files for one in _ranges(file, file_format, size))


def _ranges(file: InputFile, file_format: InputFormat, size: int) -> Sequence[InputFile]:
    is_plain = file.compression is None and file.data is None and file.messages is None
    if not is_plain or file.size_bytes < 2 * size:
        return (file,)
    count = -(-file.size_bytes // size)
    edges = [file.size_bytes * index // count for index in range(1, count)]
    match file_format:
        case JsonFormat() if not begins_array(head_of(file)):
            return _cut(file, [(edge, None) for edge in edges])
        case CsvFormat() | TsvFormat():
            with suppress(OSError, CarnacError):  # the task that reads the file tells what is wrong
                return _cut_rows(file, file_format, edges)
    return (file,)


def _cut(
    file: InputFile, starts: Sequence[tuple[int, int | None]], columns: tuple[str, ...] = ()
) -> Sequence[InputFile]:
    """Return the ranges of a file that begin at its first byte and at some bytes and lines."""
    ends = [*(start for start, _ in starts), None]
    first = replace(file, end_byte=ends[0])
    return [
        first,
        *(
            replace(file, start_byte=start, start_line=line, end_byte=end, columns=columns)
            for (start, line), end in zip(starts, ends[1:], strict=True)
        ),
    ]


def _cut_rows(
    file: InputFile, file_format: CsvFormat | TsvFormat, edges: Sequence[int]
) -> Sequence[InputFile]:
    """Cut a file of CSV at the first rows that begin at some bytes or later, as far as its rows can be told apart."""
    path = local_path(file.url)
    if path is None:
        return (file,)
    header = Header(file.url, file_format)
    with path.open("rb", buffering=0) as stream:
        reader = RecordReader(
            stream=stream,
            name=file.url,
            cut=Quotes(file_format.delimiter).cut,
            malformed_reason=REASON_QUOTES,
        )
        starts: dict[tuple[int, int | None], None] = {}  # several edges may be in one row
        left = list(reversed(edges))
        for records in _told_apart(reader, header):
            while left and (index := int(records.offsets.searchsorted(left[-1]))) < len(
                records.ends
            ):
                left.pop()
                starts[int(records.offsets[index]), int(records.lines[index])] = None
            if not left:
                break
    return _cut(file, list(starts), header.columns)


def _told_apart(reader: RecordReader, header: Header) -> Iterator[Records]:
    """Yield rows up to the first that is malformed, or so long that another reader may tell it apart otherwise."""
    import numpy as np

    for records in reader:
        is_headless = bool(reader.rejects) and not header.is_done
        if is_headless or any(reject.reason != REASON_UTF8 for reject in reader.rejects):
            return
        reader.rejects.clear()
        rows = header.take_from(records)
        if not header.is_done:
            return
        if np.diff(rows.ends, prepend=0).max(initial=0) > _ROW_BYTES_MAX:
            return
        yield rows
