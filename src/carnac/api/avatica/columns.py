"""Columns of Arrow in the form that the driver needs: a description of each, and the values.

Numbers, instants and days are numbers: an instant by its milliseconds and a day by its days since 1970, both as the
clock on the wall of `sqlTimeZone` shows them. Lists are lists; structs and bytes are texts, as in `carnac.api.sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from carnac.api.sql.kinds import is_list, sql_type
from carnac.api.sql.values import FAR, in_milliseconds, json_values
from carnac.errors import Invalid
from carnac.query.results import is_huge

if TYPE_CHECKING:
    from datetime import tzinfo

    import pyarrow as pa

_INFINITIES: Mapping[bytes, bytes] = {b'"Infinity"': b"1e999", b'"-Infinity"': b"-1e999"}
"""JSON has no infinity; Java reads one from a number that is too large."""
Values = Callable[["pa.Array"], Sequence[object]]
"""Makes of a column what is encoded as JSON."""


class _Kind(NamedTuple):
    """A type of SQL in JDBC: its number, Avatica's representation, the class in Java, and digits."""

    number: int
    rep: str
    java: str
    precision: int = 0


_KINDS: Mapping[str, _Kind] = {
    "BOOLEAN": _Kind(16, "BOOLEAN", "java.lang.Boolean", 1),
    "TINYINT": _Kind(-6, "NUMBER", "java.lang.Byte", 3),
    "SMALLINT": _Kind(5, "NUMBER", "java.lang.Short", 5),
    "INTEGER": _Kind(4, "NUMBER", "java.lang.Integer", 10),
    "BIGINT": _Kind(-5, "NUMBER", "java.lang.Long", 19),
    "DECIMAL": _Kind(3, "NUMBER", "java.math.BigDecimal", 38),
    "FLOAT": _Kind(6, "NUMBER", "java.lang.Float", 7),
    "DOUBLE": _Kind(8, "NUMBER", "java.lang.Double", 15),
    "TIMESTAMP": _Kind(93, "NUMBER", "java.sql.Timestamp", 3),
    "DATE": _Kind(91, "NUMBER", "java.sql.Date"),
    "VARCHAR": _Kind(12, "STRING", "java.lang.String", -1),
    "ARRAY": _Kind(2003, "ARRAY", "java.sql.Array"),
    "OTHER": _Kind(1111, "OBJECT", "java.lang.Object"),
}
_IN_LISTS_TEXTS = frozenset({"TIMESTAMP", "DATE", "OTHER"})


def signature(
    names: Sequence[str], schema: pa.Schema | None, sql: str, *, parameters: int = 0
) -> dict[str, object]:
    """Return what the driver is told of a statement.

    Args:
        schema: None: nobody knows its columns.
        parameters: How many values it takes.
    """
    kinds = [] if schema is None else list(schema.types)
    return {
        "columns": [
            _column(place, name, kind)
            for place, (name, kind) in enumerate(zip(names, kinds, strict=False))
        ],
        "sql": sql,
        "parameters": [_parameter(place) for place in range(parameters)],
        "cursorFactory": {"style": "ARRAY", "clazz": None, "fieldNames": None},
        "statementType": "SELECT",
    }


def _column(place: int, name: str, kind: pa.DataType) -> dict[str, object]:
    known = _KINDS[sql_type(kind)]
    return {
        "ordinal": place,
        "autoIncrement": False,
        "caseSensitive": True,
        "searchable": True,
        "currency": False,
        "nullable": 1,
        "signed": True,
        "displaySize": known.precision,
        "label": name,
        "columnName": name,
        "schemaName": None,
        "precision": known.precision,
        "scale": _scale(kind),
        "tableName": None,
        "catalogName": None,
        "type": _type(kind),
        "readOnly": True,
        "writable": False,
        "definitelyWritable": False,
        "columnClassName": known.java,
    }


def _scale(kind: pa.DataType) -> int:
    import pyarrow.types as kinds

    return max(0, kind.scale) if kinds.is_decimal(kind) else 0


def _type(kind: pa.DataType, *, is_item: bool = False) -> dict[str, object]:
    name = sql_type(kind)
    if is_item and name in _IN_LISTS_TEXTS:
        name = "VARCHAR"
    known = _KINDS[name]
    said = {"type": "scalar", "id": known.number, "name": name, "rep": known.rep}
    if not is_list(kind):
        return said
    return {**said, "type": "array", "component": _type(kind.value_type, is_item=True)}


def _parameter(place: int) -> dict[str, object]:
    """Return what is said of a `?`: it takes whatever comes."""
    return {
        "signed": False,
        "precision": 0,
        "scale": 0,
        "parameterType": 1111,
        "typeName": "OTHER",
        "className": "java.lang.Object",
        "name": f"?{place}",
    }


def values_of(kind: pa.DataType, zone: tzinfo | None) -> Values:
    """Return the function that makes values of a type.

    Args:
        zone: Time zone whose date and time of day instants show; None: UTC.
    """
    import pyarrow.types as kinds

    if kinds.is_timestamp(kind):
        return _instants if zone is None else partial(_instants_in, zone=zone)
    if kinds.is_date(kind):
        return _days
    if is_huge(kind) or kinds.is_uint64(kind):
        return _longs
    plain = json_values(kind, stringifies=False)
    if kinds.is_floating(kind):
        return lambda column: [_number(one) for one in plain(column)]
    return plain


def _number(value: object) -> object:
    if not isinstance(value, msgspec.Raw):
        return value
    infinity = _INFINITIES.get(bytes(value))
    return value if infinity is None else msgspec.Raw(infinity)


def _instants(column: pa.Array) -> list[int | None]:
    import pyarrow as pa

    whole = pa.array(in_milliseconds(column)).cast(pa.int64())
    found: list[int | None] = whole.to_pylist()
    return found


def _instants_in(column: pa.Array, zone: tzinfo) -> list[int | None]:
    return [None if one is None else _on_wall(one, zone) for one in _instants(column)]


def _on_wall(instant_ms: int, zone: tzinfo) -> int:
    """Return the milliseconds of a clock in a zone, counted as if it were UTC's."""
    try:
        offset = datetime.fromtimestamp(instant_ms // 1000, zone).utcoffset()
    except (OverflowError, ValueError, OSError):
        raise Invalid(FAR) from None
    return instant_ms + (int(offset.total_seconds() * 1000) if offset is not None else 0)


def _days(column: pa.Array) -> list[int | None]:
    import pyarrow as pa

    in_milliseconds(column)  # infinity is refused
    found: list[int | None] = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
    return found


def _longs(column: pa.Array) -> list[int | None]:
    """Return whole numbers that a `long` of Java holds."""
    import pyarrow as pa

    try:
        found: list[int | None] = column.cast(pa.int64()).to_pylist()
    except pa.ArrowInvalid:
        raise Invalid(
            "a column holds a whole number beyond 64 bits, which JDBC would cut: select it as text, CAST(… AS VARCHAR)"
        ) from None
    return found
