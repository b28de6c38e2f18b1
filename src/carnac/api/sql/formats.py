"""The shapes in which rows are sent: header rows, rows, and the end after them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from carnac.api.sql.kinds import native_type, sql_type
from carnac.api.sql.values import (
    csv_field,
    csv_writer,
    json_lines,
    json_list,
    json_text,
    json_values,
)

if TYPE_CHECKING:
    from datetime import tzinfo

    import pyarrow as pa

ROWS_AT_ONCE = 4_096
"""Rows that become text at a time: so much of an answer is held twice."""


class ResultFormat(StrEnum):
    """Druid's names of the shapes."""

    OBJECT = "object"
    ARRAY = "array"
    OBJECT_LINES = "objectLines"
    ARRAY_LINES = "arrayLines"
    CSV = "csv"

    @property
    def is_lines(self) -> bool:
        """Whether each row is a line; an empty line at the end says that all of them are there."""
        return self not in {ResultFormat.OBJECT, ResultFormat.ARRAY}

    @property
    def is_named(self) -> bool:
        """Whether each row says the names of its columns."""
        return self in {ResultFormat.OBJECT, ResultFormat.OBJECT_LINES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How rows are to be sent.

    Attributes:
        form: Of the body.
        has_header: The first row has the names.
        has_types: It has Druid's native types, too.
        has_sql_types: It has the types of SQL, too.
        zone: Instants are written in it; None: UTC.
        stringifies: Lists are texts that hold JSON.
    """

    form: ResultFormat = ResultFormat.OBJECT
    has_header: bool = False
    has_types: bool = False
    has_sql_types: bool = False
    zone: tzinfo | None = None
    stringifies: bool = True


def render(
    shape: Shape, names: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[bytes]:
    """Yield the body in pieces: the head, rows as they come, the end.

    Args:
        names: Of the columns, in place of the schema's.
    """
    is_lines = shape.form.is_lines
    separator = "\n" if is_lines else ","
    rows = _header(shape, names, schema.types)
    yield "".join(
        ["" if is_lines else "[", separator.join(rows), "\n" if rows and is_lines else ""]
    ).encode()
    is_first = not rows
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            body = _rows(shape, names, batch.slice(start, ROWS_AT_ONCE))
            yield body if is_lines or is_first else b"," + body
            is_first = False
    if shape.form in {ResultFormat.OBJECT_LINES, ResultFormat.ARRAY_LINES} and is_first:
        yield b"\n"  # as Druid ends lines of which there are none
    yield b"\n" if is_lines else b"]\n"


def render_arrow(
    names: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[bytes]:
    """Yield an Arrow IPC stream in pieces; arguments as of `render`."""
    import pyarrow as pa

    sink = _Sink()
    named = pa.schema(
        [field.with_name(name) for name, field in zip(names, schema, strict=True)],
        metadata=schema.metadata,
    )
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), named) as writer:
        yield sink.taken()
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=named))
            yield sink.taken()
    yield sink.taken()


class _Sink:
    """A file that holds what was written since it was last asked."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.closed = False

    def write(self, piece: bytes) -> int:
        """Hold a piece."""
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Do nothing: written pieces are held already."""

    def close(self) -> None:
        """Take nothing more."""
        self.closed = True

    def taken(self) -> bytes:
        """Return what is held, and hold it no more."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _header(shape: Shape, names: Sequence[str], types: Sequence[pa.DataType]) -> list[str]:
    """Return the header rows."""
    if not shape.has_header:
        return []
    native = [native_type(kind) for kind in types] if shape.has_types else None
    in_sql = [sql_type(kind) for kind in types] if shape.has_sql_types else None
    if shape.form.is_named:
        said = []
        for index in range(len(names)):
            both = {}
            if native is not None:
                both["type"] = native[index]
            if in_sql is not None:
                both["sqlType"] = in_sql[index]
            said.append(json.dumps(both or None, separators=(",", ":")))
        return [_object(_keys(names), said)]
    lists = [row for row in (list(names), native, in_sql) if row is not None]
    if shape.form is ResultFormat.CSV:
        return [_csv(map(csv_field, row)) for row in lists]
    return [f"[{','.join(map(json_text, row))}]" for row in lists]


def _rows(shape: Shape, names: Sequence[str], batch: pa.RecordBatch) -> bytes:
    """Return rows as lines, or as items of a list."""
    make = csv_writer if shape.form is ResultFormat.CSV else json_values
    columns = [
        make(column.type, zone=shape.zone, stringifies=shape.stringifies)(column)
        for column in batch.columns
    ]
    rows = zip(*columns, strict=True)
    if shape.form is ResultFormat.CSV:
        return "".join([f"{_csv(row)}\n" for row in rows]).encode()
    write = json_lines if shape.form.is_lines else json_list
    if not shape.form.is_named:
        return write(list(rows))
    keys = _keys(names)
    return write([dict(zip(keys, row, strict=True)) for row in rows])


def _keys(names: Sequence[str]) -> list[str]:
    """Return the keys of objects; a name that was there before gets digits after it."""
    taken: dict[str, None] = {}
    for name in names:
        key, number = name, 0
        while key in taken:
            key, number = f"{name}{number}", number + 1
        taken[key] = None
    return list(taken)


def _object(keys: Sequence[str], values: Sequence[str]) -> str:
    items = zip(map(json_text, keys), values, strict=True)
    return "{" + ",".join(map(":".join, items)) + "}"


def _csv(fields: Iterable[str]) -> str:
    """Return a line; a field that is alone and empty is quoted, as a blank line is the end."""
    return ",".join(fields) or '""'
