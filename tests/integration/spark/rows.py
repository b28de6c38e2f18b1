"""What tests of jobs look at: the rows in segment files, as plain tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import duckdb

from carnac.core.quoting import quote
from carnac.core.segments.segment import Segment


def rows_of(
    deep_storage: Path, segments: Iterable[Segment], *columns: str
) -> Counter[tuple[object, ...]]:
    """Return how often each row is in the files; all columns, or those named."""
    files = [str(deep_storage / segment.path) for segment in segments]
    if not files:
        return Counter()
    wanted = ", ".join(map(quote, columns)) if columns else "*"
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'").complete()
        table = con.sql(
            f"SELECT {wanted} FROM read_parquet({files!r}, union_by_name = true)"
        ).to_arrow_table()
    return Counter(tuple(_plain(value) for value in row.values()) for row in table.to_pylist())


def files_below(folder: Path) -> list[str]:
    """Return all files below a folder, relative to it."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else value
