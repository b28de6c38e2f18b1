"""Values of the `?` of a statement, as Druid's clients send them: with the name of their type in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial

from carnac.core.texts import short
from carnac.errors import Invalid

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "INT": 32, "BIGINT": 64}
_DIGITS = re.compile(r"\s*[+-]?[0-9]+\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_parameters(listed: object) -> list[object]:
    """Return the values of a list of `{"type": "VARCHAR", "value": …}`.

    Instants are texts (`2000-01-01 00:00:00`, ISO 8601; UTC if they name no zone) or epoch milliseconds.

    Raises:
        Invalid: It is no such list, or a value is not of its type.
    """
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise Invalid("parameters must be a list of objects with type and value")
    return [_value(one, index) for index, one in enumerate(listed, start=1)]


def _value(one: object, place: int) -> object:
    if not isinstance(one, Mapping) or not isinstance(one.get("type"), str):
        raise Invalid(
            f'parameter {place} must be an object like {{"type": "VARCHAR", "value": "x"}}'
        )
    kind, value = str(one["type"]).upper(), one.get("value")
    if kind not in READERS:
        raise Invalid(
            f"parameter {place} is of a type that there is not: {short(kind)}; there are {', '.join(READERS)}"
        )
    if value is None:
        return None
    try:
        return READERS[kind](value)
    except (TypeError, ValueError, OverflowError, InvalidOperation):
        raise Invalid(f"parameter {place} is no {kind}: {short(value)}") from None


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise TypeError


def _whole(value: object, bits: int) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueError
    whole: int = int(value)  # type: ignore[call-overload]  # what it does not take is a TypeError
    if not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise OverflowError
    return whole


def _double(value: object) -> object:
    if isinstance(value, bool):
        raise TypeError
    return float(value)  # type: ignore[arg-type]  # what it does not take is a TypeError


def _decimal(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return Decimal(str(value))


def _instant(value: object) -> datetime:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, int | float):
        return _EPOCH + timedelta(milliseconds=value)
    if not isinstance(value, str):
        raise TypeError
    moment = datetime.fromisoformat(value.strip())
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _day(value: object) -> date:
    return _instant(value).date()


def _list(value: object) -> object:
    if not isinstance(value, list):
        raise TypeError
    return value


READERS: Mapping[str, Callable[[object], object]] = {
    "VARCHAR": _text,
    "CHAR": _text,
    "BOOLEAN": _boolean,
    **{kind: partial(_whole, bits=bits) for kind, bits in _BITS.items()},
    "FLOAT": _double,
    "REAL": _double,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "TIMESTAMP": _instant,
    "DATE": _day,
    "ARRAY": _list,
}
"""Converters to each type; one raises TypeError, ValueError, OverflowError or InvalidOperation if it cannot."""
