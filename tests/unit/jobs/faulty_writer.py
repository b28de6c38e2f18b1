"""A writer of segments that makes one mistake with the rows it is given, and otherwise does its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.rows.segment_writer import SegmentWriter, segment_schema

Mistake = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def writer_with(mistake: Mistake, *, always: bool = False) -> Callable[..., SegmentWriter]:
    """Return what makes writers that make the mistake with the first rows they get, or with all."""
    left = [mistake]

    class FaultyWriter(SegmentWriter):
        def __init__(self, root: str, path: str, columns: Any, **more: Any) -> None:
            super().__init__(root, path, columns, **more)
            self._columns = columns

        def write(self, rows: pa.Table | pa.RecordBatch) -> None:
            if left:
                wrong = left[0](rows.to_pylist())
                left[:] = left if always else []
                arrays = [
                    pa.array([row[field.name] for row in wrong], field.type)
                    for field in segment_schema(self._columns)
                ]
                rows = pa.table(arrays, schema=segment_schema(self._columns))
            super().write(rows)

    return FaultyWriter


def lose(place: int) -> Mistake:
    return lambda rows: rows[:place] + rows[place + 1 :]


def double(place: int) -> Mistake:
    return lambda rows: [*rows, rows[place]]


def alter(place: int, column: str, kind: ColumnType) -> Mistake:
    """Change one value to another one of its type: also times, and bytes of sketches."""

    def mistake(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = dict(rows[place])
        changed[column] = _other(changed[column], kind)
        return [*rows[:place], changed, *rows[place + 1 :]]

    return mistake


def swap(left: int, right: int, column: str) -> Mistake:
    """Let two rows exchange their values."""

    def mistake(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = [dict(row) for row in rows]
        changed[left][column], changed[right][column] = rows[right][column], rows[left][column]
        return changed

    return mistake


def _other(value: Any, kind: ColumnType | None) -> Any:
    if value is not None and kind is ColumnType.STRING:
        return value + "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if isinstance(value, list):
        return [*value, *value, None]
    if hasattr(value, "replace") and not isinstance(value, str):  # a time
        return value.replace(year=value.year - 1)
    if value is None:
        plain: dict[ColumnType | None, Any] = {
            ColumnType.STRING: "",
            ColumnType.LONG: 0,
            ColumnType.DOUBLE: 0.0,
            ColumnType.BOOLEAN: False,
        }
        return plain.get(kind, [])
    return value + 1


__all__ = ["TIME_COLUMN", "Mistake", "alter", "double", "lose", "swap", "writer_with"]
