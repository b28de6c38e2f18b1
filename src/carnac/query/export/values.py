"""Rows of an Arrow table as text and as JSON: times in UTC, numbers exact, bytes in base64."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from carnac.ports.python_values import to_python

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "null"
BATCH_ROWS = 10_000
_BYTES_SHOWN = 12
_QUOTED = re.compile(r'[",\r\n]')


def iterate_rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield the rows as Python values, a batch at a time.

    Raises:
        Invalid: A value is one that Python has not.
    """
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        columns = [_to_python(*one) for one in zip(batch.schema.names, batch.columns, strict=True)]
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


def csv_line(row: Iterable[object]) -> str:
    """Return a row of CSV: null is the empty field, empty text a quoted empty field, bytes are base64.

    A null that is alone is quoted too: readers pass over blank lines.
    """
    return ",".join(map(_csv_field, row)) or '""'


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    text = value if isinstance(value, str) else _scalar_text(value)
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def to_json_value(value: object, scalar: Callable[[object], object] | None = None) -> object:
    """Return a value as JSON holds it: times are ISO 8601, bytes base64, NaN and infinities text.

    Args:
        scalar: Form of times, decimals and whatever else JSON has no words for; None: their text.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else float_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): to_json_value(item, scalar) for key, item in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return [to_json_value(item, scalar) for item in value]
    return (scalar or _scalar_text)(value)


def _scalar_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, datetime):
        return _datetime_text(value)
    if isinstance(value, date | time | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f} s"
    if hasattr(value, "nanoseconds"):  # Arrow's intervals; this module loads without Arrow
        return _period_text(value.months, value.days, value.nanoseconds)  # type: ignore[attr-defined]
    if isinstance(value, dict | list) or type(value) is tuple:
        return json.dumps(to_json_value(value), ensure_ascii=False)
    return str(value)


def float_text(value: float) -> str:
    """Return a number as text, NaN and the infinities by their names."""
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


def _period_text(months: int, days: int, nanoseconds: int) -> str:
    """Return an ISO 8601 duration, `P1M2DT10800S`; each part has its own sign."""
    text = "P" + (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if nanoseconds:
        seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        text += f"T{'-' if nanoseconds < 0 else ''}{seconds}{fraction}S"
    return text if len(text) > 1 else "PT0S"


def _to_python(name: str, column: pa.Array) -> list[object]:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return to_python(name, column)
