"""Values of the `?` of a prepared statement, as the driver sends them: by their types in Java."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.specs.sql.parameters import parse_parameters

if TYPE_CHECKING:
    from datetime import tzinfo

DAY_MS = 86_400_000
_TYPES: Mapping[str, str] = {
    "BOOLEAN": "BOOLEAN",
    "PRIMITIVE_BOOLEAN": "BOOLEAN",
    "BYTE": "BIGINT",
    "PRIMITIVE_BYTE": "BIGINT",
    "SHORT": "BIGINT",
    "PRIMITIVE_SHORT": "BIGINT",
    "INTEGER": "BIGINT",
    "PRIMITIVE_INT": "BIGINT",
    "LONG": "BIGINT",
    "PRIMITIVE_LONG": "BIGINT",
    "FLOAT": "DOUBLE",
    "PRIMITIVE_FLOAT": "DOUBLE",
    "DOUBLE": "DOUBLE",
    "PRIMITIVE_DOUBLE": "DOUBLE",
    "NUMBER": "DECIMAL",
    "STRING": "VARCHAR",
    "CHARACTER": "VARCHAR",
    "PRIMITIVE_CHAR": "VARCHAR",
    "JAVA_SQL_DATE": "DATE",
    "JAVA_SQL_TIMESTAMP": "TIMESTAMP",
    "JAVA_UTIL_DATE": "TIMESTAMP",
    "ARRAY": "ARRAY",
}
"""Types of SQL by representations of Avatica's."""


def parse_typed(listed: object, zone: tzinfo | None) -> list[object]:
    """Return the values of a list of `{"type": "STRING", "value": …}`.

    Args:
        zone: In which the driver's times of day are meant; None: UTC.

    Raises:
        Invalid: It is no such list, or a value is not of its type, or of a type that SQL has not here.
    """
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise Invalid("parameterValues must be a list of objects with type and value")
    values = parse_parameters([_in_sql(one, place) for place, one in enumerate(listed, start=1)])
    if zone is None:
        return values
    return [_placed(value, zone) for value in values]


def _in_sql(one: object, place: int) -> Mapping[str, object]:
    if one is None:
        raise Invalid(f"parameter {place} has no value: set one, or null")
    if not isinstance(one, Mapping):
        raise Invalid(
            f'parameter {place} must be an object like {{"type": "STRING", "value": "x"}}'
        )
    kind, value = one.get("type"), one.get("value")
    if value is None:
        return {"type": "VARCHAR", "value": None}
    found = _TYPES.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise Invalid(
            f"parameter {place} is of a type that no statement takes: {short(kind)}; set a text, a number, a boolean, "
            "a date, a timestamp or an array"
        )
    if found == "DATE" and isinstance(value, int) and not isinstance(value, bool):
        value = value * DAY_MS  # the driver sends days
    return {"type": found, "value": value}


def _placed(value: object, zone: tzinfo) -> object:
    """Return an instant by its date and time of day in a zone, which the driver sends as if they were UTC's."""
    if not isinstance(value, datetime):
        return value
    try:
        return value.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise Invalid(f"a parameter is beyond all years that there are: {value}") from None
