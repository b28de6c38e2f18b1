"""Rows of an Arrow table as text and as JSON: times in UTC, numbers exact, bytes in base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from carnac.cli.tables import Column

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "null"
BATCH_ROWS = 10_000
_BYTES_SHOWN = 12


def table_columns(table: pa.Table) -> list[Column]:
    """Return the titles of the table's columns; numbers are right-aligned."""
    import pyarrow.types as kinds

    return [
        Column(
            field.name,
            kinds.is_integer(field.type)
            or kinds.is_floating(field.type)
            or kinds.is_decimal(field.type),
        )
        for field in table.schema
    ]


def unique_names(names: list[str]) -> list[str]:
    """Return the names with `_1`, `_2`, … after those that repeat, so that an object can hold them."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 0
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        result.append(candidate)
    return result


def iterate_rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield the rows as Python values, a batch at a time."""
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        columns = [_to_python(column) for column in batch.columns]
        if columns:
            yield from zip(*columns, strict=True)


def to_text(value: object) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        shown = value[:_BYTES_SHOWN].hex()
        return f"0x{shown}{'…' if len(value) > _BYTES_SHOWN else ''} ({len(value)} bytes)"
    return _scalar_text(value)


def to_csv_text(value: object) -> str:
    """Return a value as CSV holds it: null is the empty field, bytes are base64."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return _scalar_text(value)


def to_json_value(value: object) -> object:
    """Return a value as JSON holds it: times are ISO 8601, bytes base64, NaN and infinities text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    return _scalar_text(value)


def _scalar_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, datetime):
        return _datetime_text(value)
    if isinstance(value, date | time | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f} s"
    if isinstance(value, dict | list | tuple):
        return json.dumps(to_json_value(value), ensure_ascii=False)
    return str(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _datetime_text(value: datetime) -> str:
    """Return ISO 8601 in UTC with milliseconds, with more digits only if there are more."""
    moment = value.astimezone(UTC) if value.tzinfo is not None else value
    digits = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    zone = "Z" if value.tzinfo is not None else ""
    return moment.replace(tzinfo=None).isoformat(timespec=digits) + zone


def _to_python(column: pa.Array) -> list[object]:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[object] = column.to_pylist()
    return values
