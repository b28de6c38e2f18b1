r"""Values of Arrow columns as Druid writes them into JSON and CSV.

Instants are ISO 8601 with three digits and `Z`; whole numbers are numbers, however long; NaN and the infinities are
texts; lists and structs are texts that hold JSON; bytes are base64. A backslash inside a text is `\u005c`: the brace
matcher of pydruid counts backslashes wrongly.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from carnac.api.sql.kinds import is_bytes, is_list
from carnac.errors import Invalid
from carnac.query.export.values import float_text, to_json_value, to_text
from carnac.query.results import is_huge

if TYPE_CHECKING:
    from datetime import tzinfo

    import pyarrow as pa
    from numpy.typing import NDArray

NULL = "null"
_BACKSLASH = "\\u005c"
_QUOTING = frozenset('",\r\n')
TYPES_KEPT = 256
"""Types whose writers are remembered."""
_ENCODER = msgspec.json.Encoder()
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e16
"""Magnitudes of doubles that Python and msgspec write alike, without an exponent."""
_PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_YEARS_DAYS = tuple(
    int(np.datetime64(day, "D").astype(np.int64)) for day in ("-32767-01-01", "32768-01-01")
)
"""The days that Arrow writes as texts, the end excluded."""
FAR = (
    "a column holds a time beyond all years that can be written, such as infinity; select it as text, "
    "CAST(… AS VARCHAR)"
)
Writer = Callable[["pa.Array"], list[str]]
"""Makes texts of the values of a column."""


def json_writer(
    kind: pa.DataType, *, zone: tzinfo | None = None, stringifies: bool = True
) -> Writer:
    """Return what writes values of a type as JSON.

    Args:
        zone: Instants are written in it, with its offset; None: UTC.
        stringifies: Whether lists are texts that hold JSON; structs always are.
    """
    import pyarrow.types as kinds

    if kinds.is_integer(kind) or kinds.is_boolean(kind) or is_huge(kind):
        return _cast
    if kinds.is_float64(kind):
        return _each(_json_float)
    if kinds.is_floating(kind):
        return _short_floats
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return lambda column: [
            NULL if text is None else f'"{text}"' for text in _instants(column, zone)
        ]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _each(json_text)
    if kinds.is_dictionary(kind):
        inner = json_writer(kind.value_type, zone=zone, stringifies=stringifies)
        return lambda column: inner(column.dictionary_decode())
    if is_list(kind) and not stringifies:
        return _each(lambda value: _compact(value).replace("\\\\", _BACKSLASH))
    if kinds.is_nested(kind):
        return _each(lambda value: json_text(_compact(value)))
    if is_bytes(kind):
        return _each(lambda value: json_text(base64.b64encode(value).decode("ascii")))
    return _each(_json_other)


@lru_cache(TYPES_KEPT)
def json_values(
    kind: pa.DataType, *, zone: tzinfo | None = None, stringifies: bool = True
) -> Callable[[pa.Array], Sequence[object]]:
    """Return what makes of a column what `json_list` and `json_lines` take, arguments as of `json_writer`."""
    import pyarrow.types as kinds

    if kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_string(kind):
        return _to_python
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return lambda column: _instants(column, zone)
    is_double, write = kinds.is_float64(kind), json_writer(kind, zone=zone, stringifies=stringifies)

    def values(column: pa.Array) -> Sequence[object]:
        if is_double and _are_plain(column):
            return _to_python(column)
        return [msgspec.Raw(text.encode()) for text in write(column)]

    return values


def json_list(rows: Sequence[object]) -> bytes:
    """Return rows as the items of a list."""
    return _without_backslashes(_ENCODER.encode(rows)[1:-1])


def json_lines(rows: Sequence[object]) -> bytes:
    """Return rows as lines."""
    return _without_backslashes(_ENCODER.encode_lines(rows))


def _without_backslashes(body: bytes) -> bytes:
    return body.replace(b"\\\\", _BACKSLASH.encode()) if b"\\" in body else body


def _are_plain(column: pa.Array) -> bool:
    """Whether all doubles of a column are written without an exponent."""
    sizes = np.abs(column.drop_null().to_numpy())
    return bool((((sizes >= _PLAIN_FROM) & (sizes < _PLAIN_BELOW)) | (sizes == 0)).all())


def csv_writer(
    kind: pa.DataType, *, zone: tzinfo | None = None, stringifies: bool = True
) -> Writer:
    """Return what writes values of a type as fields of CSV; arguments as of `json_writer`."""
    import pyarrow.types as kinds

    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return lambda column: [
            "" if value is None else csv_field(value) for value in column.to_pylist()
        ]
    if kinds.is_dictionary(kind):
        inner = csv_writer(kind.value_type, zone=zone, stringifies=stringifies)
        return lambda column: inner(column.dictionary_decode())
    write = json_writer(kind, zone=zone, stringifies=stringifies)
    return lambda column: [_unquoted(text) for text in write(column)]


def json_text(value: str) -> str:
    """Return a text as JSON."""
    text: str = encode_basestring(value)
    return text.replace("\\\\", _BACKSLASH) if "\\" in value else text


def csv_field(value: str) -> str:
    """Return a text as a field of CSV, in quotes where it needs them."""
    return f'"{value.replace(chr(34), chr(34) * 2)}"' if not _QUOTING.isdisjoint(value) else value


def _unquoted(text: str) -> str:
    """Return a value of JSON as a field of CSV: null is empty, a text is what it holds."""
    if text == NULL:
        return ""
    return csv_field(json.loads(text) if text[:1] == '"' else text)


def _each(write: Callable[[Any], str]) -> Writer:
    return lambda column: [NULL if value is None else write(value) for value in _to_python(column)]


def _cast(column: pa.Array) -> list[str]:
    import pyarrow as pa

    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return [NULL if text is None else text for text in texts]


def _instants(column: pa.Array, zone: tzinfo | None) -> list[str | None]:
    """Return ISO 8601 with three digits: microseconds are cut off, as Druid has milliseconds only.

    Raises:
        Invalid: One of them is beyond all years that are written, as infinity is.
    """
    import pyarrow as pa

    if zone is not None:
        return [None if value is None else _in_zone(value, zone) for value in _to_python(column)]
    texts: list[str | None] = pa.array(in_milliseconds(column)).cast(pa.string()).to_pylist()
    return [None if text is None else f"{text.replace(' ', 'T', 1)}Z" for text in texts]


def in_milliseconds(column: pa.Array) -> NDArray[np.datetime64]:
    """Return instants or days in milliseconds, by numpy: of a short column, Arrow's functions take twice as long.

    Raises:
        Invalid: One of them is beyond all years that are written.
    """
    values: NDArray[np.datetime64] = column.to_numpy(zero_copy_only=False)
    if column.null_count < len(column):
        first, last = (
            int(edge(values).astype(np.int64)) for edge in (np.fmin.reduce, np.fmax.reduce)
        )
        per_day = _PER_DAY[np.datetime_data(values.dtype)[0]]
        if not (_YEARS_DAYS[0] * per_day <= first and last < _YEARS_DAYS[1] * per_day):
            raise Invalid(FAR)
    return values.astype("datetime64[ms]")


def _in_zone(value: date, zone: tzinfo) -> str:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        text = aware.astimezone(zone).isoformat(timespec="milliseconds")
    except OverflowError:
        raise Invalid(FAR) from None
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _json_float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return f'"{float_text(value)}"'


def _short_floats(column: pa.Array) -> list[str]:
    """Return floats of 32 bits with the digits that they have: 0.1, not 0.10000000149011612."""
    import pyarrow as pa

    texts: list[str | None] = column.cast(pa.float32()).cast(pa.string()).to_pylist()
    return [NULL if text is None else _json_float(float(text)) for text in texts]


def _json_other(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return json_text(str(to_json_value(value, _scalar)))


def _compact(value: object) -> str:
    """Return a list or a struct as JSON."""
    return json.dumps(to_json_value(value, _scalar), ensure_ascii=False, separators=(",", ":"))


def _scalar(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00.000Z"
    return to_text(value)


def _iso(value: datetime) -> str:
    moment = value.astimezone(UTC) if value.tzinfo is not None else value
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _to_python(column: pa.Array) -> list[Any]:
    """Return Python's values.

    Raises:
        Invalid: One of them Python has not.
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        raise Invalid(
            "a column holds a time that Python has not; select it as text, CAST(… AS VARCHAR)"
        ) from None
    return values
