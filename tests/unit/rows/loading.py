"""What the tests of reading share: load some bytes, and look at what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import duckdb

from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import IntervalSet
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.read.discover import discover_fields, discovered_columns
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.reading import ReadCounts, ReadTask, load_rows
from carnac.specs.ingest.inputs import InputFormat, JsonFormat
from carnac.specs.ingest.schema import TimestampSpec
from carnac.specs.load import load_spec

STAMP = TimestampSpec(column="t")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows as dicts, `__time` as milliseconds; rejected rows as (line, byte_offset, raw, reason)."""

    rows: list[dict[str, Any]]
    rejected: list[tuple[int | None, int | None, str, str]]
    counts: ReadCounts

    @property
    def reasons(self) -> list[str]:
        return [reason for *_, reason in self.rejected]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]


@lru_cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1, "preserve_insertion_order": False})


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the one connection of the process: what is loaded must not depend on what was loaded before."""
    yield _connection()


def shape(
    types: Mapping[str, str | ColumnType],
    multi_value: Literal["sorted_array", "sorted_set", "array"] = "array",
) -> RowShape:
    return RowShape(
        dimensions=tuple(
            DimensionShape(name=name, type=ColumnType(kind), multi_value=multi_value)
            for name, kind in types.items()
        )
    )


def inline(data: bytes | str) -> InputFile:
    raw = data.encode() if isinstance(data, str) else data
    return InputFile(url="inline:", size_bytes=len(raw), data=raw)


def load_bytes(
    data: bytes | str,
    types: Mapping[str, str | ColumnType],
    *,
    file_format: InputFormat | None = None,
    timestamp: TimestampSpec = STAMP,
    within: IntervalSet | None = None,
    multi_value: Literal["sorted_array", "sorted_set", "array"] = "array",
) -> Loaded:
    return load_files(
        [inline(data)],
        shape(types, multi_value),
        file_format=file_format or JsonFormat(),
        timestamp=timestamp,
        within=within,
    )


def load_files(
    files: Sequence[InputFile],
    row_shape: RowShape,
    *,
    file_format: InputFormat,
    timestamp: TimestampSpec = STAMP,
    within: IntervalSet | None = None,
    scratch_dir: str = "",
) -> Loaded:
    task = ReadTask(
        files=tuple(files),
        format=file_format,
        timestamp=timestamp,
        scratch_dir=scratch_dir,
        within=within,
    )
    with connection() as con:
        return look(con, load_rows(con, task, row_shape))


def discovered_types(file: InputFile, file_format: InputFormat) -> dict[str, str]:
    """Return the dimensions that a spec without any finds in a file, and their types."""
    task = ReadTask(files=(file,), format=file_format, timestamp=STAMP, scratch_dir="")
    with connection() as con:
        seen = discover_fields(con, task)
    spec = load_spec(
        {
            "dataSource": "a",
            "input": {"type": "inline", "data": ""},
            "timestampSpec": {"column": "t"},
            "dimensionsSpec": {"useSchemaDiscovery": True},
        }
    )
    return {name: str(kind) for name, kind in discovered_columns(seen, spec)}


def look(con: duckdb.DuckDBPyConnection, counts: ReadCounts) -> Loaded:
    """Return what is in the views; they must hold what the counts say."""
    cursor = con.execute(
        "SELECT epoch_ms(__time) AS __time, * EXCLUDE (__time) FROM rows ORDER BY ALL"
    )
    names = [column[0] for column in cursor.description or []]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    rejected = (
        con.execute(
            "SELECT line, byte_offset, raw, reason FROM rejected ORDER BY file, line, byte_offset"
        ).fetchall()
        if counts.rows_rejected
        else []
    )
    assert counts.rows_parsed == len(rows)
    assert counts.rows_rejected == len(rejected) == sum(counts.rejected_by_reason.values())
    assert counts.rows_read == len(rows) + len(rejected) + counts.rows_thrown_away
    return Loaded(rows, rejected, counts)
