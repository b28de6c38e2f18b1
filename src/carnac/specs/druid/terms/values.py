"""Pieces of SQL with the type that Druid would give them, and casts between those types, which never fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from carnac.core.druid.forms import DOUBLE_TEXT
from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import TIME_COLUMN, ColumnType
from carnac.specs.druid.blocks import said

Kind = Literal[
    "string", "long", "double", "float", "bool", "json", "hll", "theta", "quantiles",
    "array<string>", "array<long>", "array<double>",
]  # fmt: skip

TIME_SQL = quote(TIME_COLUMN)
SQL_KINDS = {
    "string": "VARCHAR",
    "json": "VARCHAR",
    "long": "BIGINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "bool": "BOOLEAN",
    "hll": "BLOB",
    "theta": "BLOB",
    "quantiles": "BLOB",
}
_KINDS: dict[ColumnType, Kind] = {
    ColumnType.STRING: "string",
    ColumnType.LONG: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.FLOAT: "float",
    ColumnType.BOOLEAN: "bool",
    ColumnType.JSON: "json",
    ColumnType.STRING_ARRAY: "array<string>",
    ColumnType.LONG_ARRAY: "array<long>",
    ColumnType.DOUBLE_ARRAY: "array<double>",
    ColumnType.HLL: "hll",
    ColumnType.THETA: "theta",
    ColumnType.QUANTILES: "quantiles",
}
_DRUIDS = {
    "string": "STRING",
    "bool": "LONG",
    "json": "COMPLEX<json>",
    "hll": "COMPLEX<HLLSketch>",
    "theta": "COMPLEX<thetaSketch>",
    "quantiles": "COMPLEX<quantilesDoublesSketch>",
}


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL that can stand wherever an operand can.

    Attributes:
        value: The value, if it is a literal.
        is_literal: Tells null from no literal.
    """

    text: str
    kind: Kind
    value: int | float | str | None = None
    is_literal: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it holds several values."""
        return self.kind.startswith("array<")

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.kind in {"long", "double", "float", "bool"}

    @property
    def is_time(self) -> bool:
        """Whether it is the time of a row."""
        return self == TIME


_EXACT = "DECIMAL(38, 18)"
"""A type in which texts of all longs are exact, and have a fraction."""
TIME = Sql(f"epoch_ms({TIME_SQL})", "long")
"""The time of a row as expressions see it: milliseconds."""
EACH = "__one"
"""One value of a list, inside a lambda: no column that a user writes has such a name."""
NULL = Sql("CAST(NULL AS VARCHAR)", "string", None, is_literal=True)
TYPES_SAID: Mapping[str, Kind] = {
    "STRING": "string",
    "LONG": "long",
    "DOUBLE": "double",
    "FLOAT": "float",
    "ARRAY<STRING>": "array<string>",
    "ARRAY<LONG>": "array<long>",
    "ARRAY<DOUBLE>": "array<double>",
    "COMPLEX<JSON>": "json",
}


def column(name: str, kind: ColumnType) -> Sql:
    """Return a column of a datasource."""
    return Sql(quote(name), _KINDS[kind])


def druids_type(kind: Kind) -> str:
    """Return Druid's name of a type."""
    return _DRUIDS.get(kind, kind.upper())


def sql_type(kind: Kind) -> str:
    """Return the type in SQL."""
    return f"{SQL_KINDS[kind[6:-1]]}[]" if kind.startswith("array<") else SQL_KINDS[kind]


def element(kind: Kind) -> Kind:
    """Return the type of an array's elements; a scalar's own type."""
    return kind[6:-1] if kind.startswith("array<") else kind  # type: ignore[return-value]


def array_of(kind: Kind) -> Kind:
    """Return the type of an array of such elements."""
    one = {"bool": "long", "float": "double", "json": "string"}.get(kind, kind)
    return f"array<{one}>"  # type: ignore[return-value]


def literal(value: object) -> Sql:
    """Return a literal; values other than null, numbers and booleans become texts.

    Raises:
        Invalid: It is a list or an object.
    """
    if value is None:
        return NULL
    if isinstance(value, bool):
        return Sql("1" if value else "0", "long", int(value), is_literal=True)
    if isinstance(value, int):
        return Sql(f"CAST({value} AS BIGINT)", "long", value, is_literal=True)
    if isinstance(value, float):
        text = repr(value) if math.isfinite(value) else quote_text(str(value))
        return Sql(f"CAST({text} AS DOUBLE)", "double", value, is_literal=True)
    return Sql(quote_text(said(value)), "string", said(value), is_literal=True)


def to_text(value: Sql) -> Sql:
    """Return the value as a text."""
    if value.kind in {"string", "json"}:
        return Sql(value.text, "string", value.value, value.is_literal)
    if value.kind in {"double", "float"}:
        return Sql(f"{DOUBLE_TEXT}({value.text})", "string")
    if value.is_literal:
        return literal(str(value.value))
    return Sql(f"CAST({value.text} AS VARCHAR)", "string")


def to_long(value: Sql) -> Sql:
    """Return the value as a long: a double loses its fraction, a text may be a double."""
    if value.kind == "long":
        return value
    if value.kind == "bool":
        return Sql(f"CAST({value.text} AS BIGINT)", "long")
    if value.kind in {"double", "float"}:
        return Sql(f"TRY_CAST(trunc({value.text}) AS BIGINT)", "long")
    return Sql(f"TRY_CAST(trunc(TRY_CAST({_number(value)} AS {_EXACT})) AS BIGINT)", "long")


def _number(value: Sql) -> str:
    """Return a text that is no number if it has a `_`, which DuckDB reads over."""
    return f"replace({value.text}, '_', 'x')"


def to_double(value: Sql) -> Sql:
    """Return the value as a double."""
    if value.kind == "double":
        return value
    if value.is_literal and isinstance(value.value, int):
        return literal(float(value.value))
    if value.is_number:
        return Sql(f"CAST({value.text} AS DOUBLE)", "double")
    return Sql(f"TRY_CAST({_number(value)} AS DOUBLE)", "double")


def to_bool(value: Sql) -> Sql:
    """Return the value as a condition: numbers above 0 are true, and the text `true`."""
    if value.kind == "bool":
        return value
    if value.is_number:
        return Sql(f"({value.text} > 0)", "bool")
    return Sql(f"(lower({to_text(value).text}) = 'true')", "bool")


def to_value(value: Sql) -> Sql:
    """Return the value as Druid has it, without booleans: 1 or 0."""
    return to_long(value) if value.kind == "bool" else value


def as_dimension(value: Sql) -> Sql:
    """Return a stored boolean as the text that it is to Druid, where types are strings and numbers; else the value."""
    return to_text(value) if value.kind == "bool" else value


def cast_to(value: Sql, kind: Kind) -> Sql:
    """Return the value in another type; the first of several values stands for them."""
    if value.kind == kind:
        return value
    if kind.startswith("array<"):
        one = value.text if value.is_array else f"[{value.text}]"
        each = cast_to(Sql("__e", element(value.kind)), element(kind)).text
        return Sql(f"list_transform({one}, lambda __e: {each})", kind)
    if value.is_array:
        value = Sql(f"list_extract({value.text}, 1)", element(value.kind))
    if kind == "float":
        return Sql(f"TRY_CAST({value.text} AS FLOAT)", "float")
    casts = {"long": to_long, "double": to_double, "bool": to_bool}
    return casts[kind](value) if kind in casts else Sql(to_text(value).text, kind)


def common_kind(values: list[Sql]) -> Kind:
    """Return the type in which all values can stand: numbers widen, anything else mixes as text."""
    kinds = {to_value(one).kind for one in values if one is not NULL}
    if len(kinds) == 1:
        return kinds.pop()
    return "double" if kinds and kinds <= {"long", "double", "float"} else "string"


def at_ms(ms: int) -> str:
    """Return an instant."""
    return f"make_timestamptz({ms * 1000})"
