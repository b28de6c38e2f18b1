"""A sample of files or of a table in memory, and the spec that it makes.

Of lines (JSON, CSV) about `SAMPLE_BYTES` are read: the beginning of each file, and the end of those that are neither
compressed nor elsewhere; of columns (Parquet, ORC, tables in memory) `SAMPLE_ROWS` rows and all types. Of more than
`FILES_MAX` files as many are looked at, evenly spread; the names of all count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.core.quoting import quote_path
from carnac.core.segments.segment import ColumnType
from carnac.errors import Invalid
from carnac.ports.temporary import make_private
from carnac.rows.duck import connect
from carnac.rows.infer.columns import SeenTable, is_time, look_at, span_ms
from carnac.rows.normalise.projection import RAW
from carnac.rows.read.arrays import HEAD_BYTES, begins_array, whole_of_array
from carnac.rows.read.columnar import (
    batches_of,
    parquet_sample,
    unreadable,
)
from carnac.rows.read.csv import CsvReader, Header, distinct_names, names_of
from carnac.rows.read.discover import discover_fields, shows_type, type_of
from carnac.rows.read.inputs import InputFile, resolve_input
from carnac.rows.read.lines import read_bytes
from carnac.rows.read.paths import engine_look
from carnac.rows.read.reading import ReadTask
from carnac.rows.read.roots import local_path
from carnac.rows.read.sources import BATCH, open_bytes, open_lines, plain_file
from carnac.specs.ingest.inference import (
    SeenColumn,
    TimeHints,
    decide_granularity,
    decide_time,
    make_spec,
)
from carnac.specs.ingest.inputs import (
    ArrowFormat,
    ColumnarFormat,
    CsvFormat,
    FilesInput,
    InputFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    TsvFormat,
    infer_format,
)
from carnac.specs.ingest.schema import TimestampSpec

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

COUNTED_LINES_MAX = 1_000
"""Lines that are searched for the separator of their fields, where DuckDB finds none."""
SAMPLE_BYTES = 4 << 20
SAMPLE_BYTES_MIN = 64 << 10
"""Minimum sample of each file, however many there are."""
SAMPLE_ROWS = 20_000
FILES_MAX = 64
LINE_BYTES_MAX = 16 << 20
"""A first line that is longer is no line of JSON or CSV."""
MEMORY_BYTES = 512 << 20
_MAGIC: tuple[tuple[bytes, type[ParquetFormat | OrcFormat | ArrowFormat]], ...] = (
    (b"PAR1", ParquetFormat),
    (b"ORC", OrcFormat),
    *((magic, ArrowFormat) for magic in (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")),
)
_COMPRESSED = ((b"\x1f\x8b", "gzip", ".gz"), (b"\x28\xb5\x2f\xfd", "zstd", ".zst"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """A spec that was found in the data.

    Attributes:
        block: The spec, as JSON would say it.
        columns: Columns of the sample, the time included.
        sampled_rows: Rows that were looked at.
        is_whole: They are all rows.
        found_format: How the files are read, in words; None for rows in memory.
    """

    block: dict[str, Any]
    columns: tuple[SeenColumn, ...]
    sampled_rows: int
    is_whole: bool
    found_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Rows, and how to read them.

    Attributes:
        block: `inputFormat`, as JSON would say it.
        types: Of columns that are known, of which the table holds text.
    """

    table: pa.Table
    block: dict[str, Any]
    is_text: bool = False
    types: Mapping[str, ColumnType] | None = None
    is_whole: bool = False


def infer_from_files(
    datasource: str, paths: Sequence[str], hints: TimeHints, scratch_dir: str
) -> Inferred:
    """Return the spec that files make, their paths included.

    Raises:
        Ambiguous: A person must choose.
        Invalid: They have no rows, or cannot be read.
        NotFound: There are none.
    """
    source = " and ".join(paths[:2]) + (" …" if len(paths) > 2 else "")
    with (
        _memory_told(source),
        connect(temp_dir=scratch_dir, memory_bytes=MEMORY_BYTES) as con,
    ):
        sample = _sample_files(con, paths, scratch_dir)
        if not sample.table.num_rows:
            raise Invalid(
                f"{source} has no rows, which would say how it is to be read; give a spec"
            )
        found = _infer(con, datasource, sample, hints, source)
        if hints.column is None and sample.is_text and is_time(con, found.block["timestampSpec"]):
            sample = _sample_files(con, paths, scratch_dir, is_bare=True)
            found = _infer(con, datasource, sample, hints, source)
        return found


@contextmanager
def _memory_told(source: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise Invalid(
            f"rows of {source} have so many or so long fields that {MEMORY_BYTES >> 20} MiB do not hold a sample of"
            " them; give a spec with the columns that are needed"
        ) from error


def infer_from_table(
    datasource: str, table: pa.Table, hints: TimeHints, scratch_dir: str
) -> Inferred:
    """Return the spec that a table in memory makes, without input; see `infer_from_files`."""
    if not table.num_rows:
        raise Invalid("there are no rows, which would say how they are to be read; give a spec")
    with connect(temp_dir=scratch_dir, memory_bytes=MEMORY_BYTES) as con:
        sample = _Sample(table=table, block={}, is_whole=True)
        return _infer(con, datasource, sample, hints, "the rows")


def format_of_files(paths: Sequence[str], scratch_dir: str) -> dict[str, Any]:
    """Return the `inputFormat` of files, as JSON would say it."""
    with connect(temp_dir=scratch_dir, memory_bytes=MEMORY_BYTES) as con:
        return _sample_files(con, paths, scratch_dir).block


def _infer(
    con: duckdb.DuckDBPyConnection, datasource: str, sample: _Sample, hints: TimeHints, source: str
) -> Inferred:
    table = sample.table
    some = table.slice(0, SAMPLE_ROWS * 5)
    with unreadable(source, "input"):
        seen: SeenTable = look_at(con, some, is_text=sample.is_text, types=sample.types)
    timestamp = decide_time(seen.columns, hints, source)
    span = span_ms(con, table, timestamp)
    if span is None:
        raise Invalid(
            f"no row of {source} that was looked at has a time in column '{timestamp['column']}' that can be read as"
            f" {timestamp.get('format', 'auto')}; give another --time-format or --time (in Python time=)"
        )
    block = make_spec(
        datasource, seen.columns, timestamp=timestamp, granularity=decide_granularity(span)
    )
    input_format = dict(sample.block)
    if seen.null_values:
        input_format["nullValues"] = list(seen.null_values)
    if input_format:
        block["input"] = {"inputFormat": input_format}
    return Inferred(
        block=block,
        columns=seen.columns,
        sampled_rows=table.num_rows,
        is_whole=sample.is_whole,
        found_format=_words_of(input_format) if input_format else None,
    )


def _words_of(block: Mapping[str, Any]) -> str:
    words = [str(block["type"])]
    if "delimiter" in block:
        words.append(f"separated by {block['delimiter']!r}")
    if block.get("columns"):
        words.append("names given to its columns")
    if "nullValues" in block:
        words.append(f"{', '.join(block['nullValues'])} for null")
    return ", ".join(words)


def _sample_files(
    con: duckdb.DuckDBPyConnection, paths: Sequence[str], scratch_dir: str, *, is_bare: bool = False
) -> _Sample:
    """Return rows of files; `is_bare`: CSV among them has no header."""
    named = {_name_of(infer_format(path)) for path in paths}
    source = FilesInput.model_validate(
        {"paths": list(paths), "inputFormat": None if named - {None} else {"type": "json"}}
    )
    resolved = resolve_input(source)
    filled = [file for file in resolved.files if file.size_bytes] or list(resolved.files)
    files = filled[:: max(1, -(-len(filled) // FILES_MAX))]
    found = resolved.format if source.format is None else _by_contents(files[0], scratch_dir)
    whole = len(files) == len(filled)
    if isinstance(found, ColumnarFormat):
        tables, ended = zip(
            *(_columnar(con, file, found, scratch_dir) for file in files), strict=True
        )
        return _Sample(
            table=_united(tables), block={"type": found.type}, is_whole=whole and all(ended)
        )
    share = max(SAMPLE_BYTES // len(files), SAMPLE_BYTES_MIN)
    samples = [_lines_of(file, share, scratch_dir) for file in files]
    is_whole = whole and all(is_all for _, is_all in samples)
    heads = [head for head, _ in samples]
    if isinstance(found, JsonFormat):
        return replace(_json(con, heads, scratch_dir), is_whole=is_whole)
    return replace(_csv(con, heads, found, scratch_dir, is_bare=is_bare), is_whole=is_whole)


def _name_of(found: InputFormat | None) -> str | None:
    return None if found is None else found.type


def _by_contents(file: InputFile, scratch_dir: str) -> InputFormat:
    """Return the format that the first bytes of a file say."""
    with open_bytes(file, scratch_dir) as (stream, _):
        head = read_bytes(stream, HEAD_BYTES, file.url)
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind()
    for magic, name, suffix in _COMPRESSED:
        if head.startswith(magic):
            raise Invalid(
                f"{file.url} is compressed ({name}), which its name does not say; name it …{suffix}"
            )
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        return JsonFormat()
    return CsvFormat.model_validate({})


# ------------------------------------------------------------------------------------------ lines


def _lines_of(file: InputFile, size: int, scratch_dir: str) -> tuple[InputFile, bool]:
    """Return whole lines of a file, and whether they are all."""
    with open_bytes(file, scratch_dir) as (stream, _):
        head = read_bytes(stream, size + 1, file.url)
        while b"\n" not in head and size < len(head) <= LINE_BYTES_MAX:
            more = read_bytes(stream, SAMPLE_BYTES, file.url)
            if not more:
                size = len(head)
            head += more
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Invalid(f"input file {file.url} is UTF-16; convert it to UTF-8", url=file.url)
    if (place := head[:65536].find(b"\0")) >= 0:
        line = head.count(b"\n", 0, place) + 1
        raise Invalid(
            f"{file.url} is not text (line {line} has a zero byte), nor in a format that is read",
            url=file.url,
        )
    if len(head) > size and begins_array(head[:HEAD_BYTES]):
        whole = whole_of_array(head)
        return (file if whole is None else replace(file, data=whole, compression=None)), False
    if len(head) <= size:
        return replace(file, data=head, compression=None), True
    cut = head.rfind(b"\n") + 1
    if not cut:
        raise Invalid(
            f"the first line of {file.url} is longer than {LINE_BYTES_MAX >> 20} MiB:"
            " it holds neither lines of JSON nor CSV",
            url=file.url,
        )
    return replace(file, data=head[:cut] + _end_of(file, len(head), size), compression=None), False


def _end_of(file: InputFile, after: int, size: int) -> bytes:
    """Return the last lines of a file that is neither compressed nor elsewhere."""
    path = local_path(file.url)
    if path is None or file.compression is not None:
        return b""
    with Path(path).open("rb") as stream:
        stream.seek(max(after, file.size_bytes - size // 4))
        return stream.read(size // 4).partition(b"\n")[2]


def _json(con: duckdb.DuckDBPyConnection, heads: Sequence[InputFile], scratch_dir: str) -> _Sample:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = JsonFormat()
    task = ReadTask(
        files=tuple(heads), format=found, timestamp=TimestampSpec(), scratch_dir=scratch_dir
    )
    with open_lines(con, heads, scratch_dir):
        ((lines, objects),) = con.execute(
            f"SELECT count(*), count(*) FILTER (TRY(json_type({RAW})) = 'OBJECT') FROM {BATCH}"
            f" WHERE trim({RAW}, E' \\t\\r\\n') <> ''"
        ).fetchall()
    if lines and objects * 2 < lines:
        raise Invalid(
            f"{heads[0].url} holds neither lines of JSON, an object each, nor one array of objects",
            url=heads[0].url,
        )
    fields = discover_fields(con, task).kinds
    types = {
        name: ColumnType.BOOLEAN if kinds - {"null"} == {"boolean"} else type_of(kinds)
        for name, kinds in fields.items()
        if shows_type(kinds)
    }
    if not fields:
        return _Sample(table=pa.table({}), block={"type": "json"})
    names, look = engine_look("json_extract_string", {name: (name,) for name in fields}, RAW)
    with open_lines(con, heads, scratch_dir):
        cells = con.sql(
            f"SELECT {look} AS cells FROM {BATCH} WHERE TRY(json_type({RAW})) = 'OBJECT'"
        ).to_arrow_table()
    values = pc.list_flatten(cells["cells"]).combine_chunks()
    found_cells = {name: values[place :: len(names)] for place, name in enumerate(names)}
    nulls = pa.nulls(len(cells))
    table = pa.table({name: found_cells[name] if name in types else nulls for name in fields})
    return _Sample(table=table, block={"type": "json"}, types=types)


def _csv(
    con: duckdb.DuckDBPyConnection,
    heads: Sequence[InputFile],
    named: CsvFormat | TsvFormat,
    scratch_dir: str,
    *,
    is_bare: bool,
) -> _Sample:
    head = next((one for one in heads if one.data), heads[0])
    block = _dialect(con, head, named, scratch_dir, is_bare=is_bare)
    chosen = (TsvFormat if block["type"] == "tsv" else CsvFormat).model_validate(block)
    tables, rejected = [], 0
    header = Header(heads[0].url, chosen)
    for head in heads:
        header = Header(head.url, chosen)
        with open_bytes(head, scratch_dir) as (stream, _):
            reader = CsvReader(stream, head.url, chosen, header)
            read = [table for _, table in reader.tables()]
            rejected += len(reader.records.rejects)
        tables += [table.rename_columns(list(header.columns)) for table in read]
    if rejected and not tables:
        raise Invalid(
            f"no row of {heads[0].url} has as many fields as its first line, {len(header.columns)}; say with a spec"
            " what separates them, or how many lines come before the header",
            url=heads[0].url,
        )
    return _Sample(table=_united(tables), block=block, is_text=True)


def _dialect(
    con: duckdb.DuckDBPyConnection,
    head: InputFile,
    named: CsvFormat | TsvFormat,
    scratch_dir: str,
    *,
    is_bare: bool,
) -> dict[str, Any]:
    """Return the `inputFormat` that the first lines of a file show."""
    import duckdb

    text = (head.data or b"").removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    path = Path(scratch_dir) / "sample.csv"
    make_private(path.parent)  # a connection that is shared has a folder of its own
    path.write_text(text[: 1 << 20], encoding="utf-8")
    try:
        rows = con.execute(
            "SELECT Delimiter, SkipRows, HasHeader FROM"
            f" sniff_csv({quote_path(path)}, strict_mode=false, ignore_errors=true)"
        ).fetchall()
    except duckdb.Error:
        rows = []
    finally:
        path.unlink()
    delimiter, skipped, has_header = rows[0] if rows else (named.delimiter, 0, True)
    if delimiter not in {",", ";", "\t", "|"} or delimiter not in text:
        delimiter, skipped = _by_counts(text) or named.delimiter, 0
    kind: type[CsvFormat | TsvFormat] = TsvFormat if delimiter == "\t" else CsvFormat
    block: dict[str, Any] = {"type": "tsv" if delimiter == "\t" else "csv"}
    if kind.model_fields["delimiter"].default != delimiter:
        block["delimiter"] = delimiter
    lines = [line for line in text.splitlines()[skipped:] if line]
    spaced = _by_spaces(lines, head.url) if delimiter not in text else None
    if spaced is not None:
        return spaced
    names = names_of(lines[0], delimiter, head.url) if lines else ()
    if skipped:
        block["skipHeaderRows"] = skipped
    if is_bare or (not has_header and any(map(_is_value, names))):
        return {**block, "columns": [f"column_{number}" for number, _ in enumerate(names, start=1)]}
    if (distinct := distinct_names(names)) != names:
        return {**block, "columns": list(distinct), "skipHeaderRows": skipped + 1}
    return block


def _by_counts(text: str) -> str | None:
    """Return what all of the first lines have equally often, whatever quotes there are; None: nothing."""
    lines = text.splitlines()[:COUNTED_LINES_MAX]
    lines = lines[:-1] if len(lines) > 2 else lines  # the last one may be cut
    counts = {one: {line.count(one) for line in lines if line} for one in ",\t;|"}
    return next((one for one, found in counts.items() if len(found) == 1 and found != {0}), None)


def _by_spaces(lines: Sequence[str], url: str) -> dict[str, Any] | None:
    """Return the `inputFormat` of lines whose fields one space separates; None: none does.

    Raises:
        Invalid: The fields stand under one another, with several spaces between them.
    """
    some = [line.rstrip() for line in lines[:COUNTED_LINES_MAX]]
    some = some[:-1] if len(some) > 2 else some  # the last one may be cut
    if len(some) < 2:
        return None
    for pattern in (r" {2,}", r" +"):
        counts = {len(re.split(pattern, line.strip())) for line in some}
        if len(counts) == 1 and counts != {1} and any("  " in line.strip() for line in some):
            raise Invalid(
                f"the fields of {url} have several spaces between them, and one character must separate fields; make"
                f" tabs of the spaces (sed -E 's/{pattern}/\\t/g' FILE > FILE.tsv) and load that",
                url=url,
            )
    fields = [names_of(line, " ", url) for line in some]
    if len({len(one) for one in fields}) > 1 or len(fields[0]) < 2:
        return None
    block: dict[str, Any] = {"type": "csv", "delimiter": " "}
    if any(map(_is_value, fields[0])):
        names = [f"column_{number}" for number, _ in enumerate(fields[0], start=1)]
        return {**block, "columns": names}
    if (distinct := distinct_names(fields[0])) != tuple(fields[0]):
        return {**block, "columns": list(distinct), "skipHeaderRows": 1}
    return block


def _is_value(text: str) -> bool:
    return (
        re.fullmatch(r"\s*[+-]?\.?\d[\d.,:/TZ eE+-]*|true|false", text, re.IGNORECASE) is not None
    )


# ---------------------------------------------------------------------------------------- columns


def _columnar(
    con: duckdb.DuckDBPyConnection, file: InputFile, found: ColumnarFormat, scratch_dir: str
) -> tuple[pa.Table, bool]:
    """Return the first rows of a file and the last ones, and whether they are all."""
    import pyarrow as pa

    with plain_file(file, scratch_dir) as path:
        if isinstance(found, ParquetFormat):
            return parquet_sample(con, path, file.url, scratch_dir, SAMPLE_ROWS)
        reader = batches_of(found, path, file.url)
        first = next((batch for batch in reader if batch.num_rows), None)
        table = reader.schema.empty_table() if first is None else pa.Table.from_batches([first])
        return table.slice(0, SAMPLE_ROWS), False


def _united(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    if not tables:
        return pa.table({})
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise Invalid(
            f"the files do not go together: {str(error).splitlines()[0]}; load each by itself"
        ) from None
