"""Pieces of Spark SQL with the type that Druid would give them, and casts between those types.

Druid has three scalar types and no boolean: a comparison is the long 1 or 0. Here a condition stays
a boolean (`bool`) as long as it is used as one. `unknown` is a column of which nothing is said: it
is taken for a number in arithmetic and for a text elsewhere. Casts never fail: like Druid's, they
give null for a text that is no number, whatever Spark's ANSI setting says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import cast

from carnac.core.quoting import quote_for_spark

CastType = OneOf[
    "long", "double", "string", "json", "array<string>", "array<long>", "array<double>",
]  # fmt: skip
"""Types that a cast has a word for."""
SqlType = OneOf[
    "long", "double", "string", "bool", "null", "json", "unknown",
    "array<string>", "array<long>", "array<double>", "array<json>", "array<unknown>",
]  # fmt: skip

MAX_LONG = 2**63 - 1
_SHORT_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""Texts of whole numbers that are longs, whatever their digits are."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of Spark SQL that can stand wherever an operand can.

    Attributes:
        text: The SQL; in parentheses where it needs them.
        type: Type that it would have in Druid.
        literal: The value, if it is one; `is_literal` tells null from "no literal".
    """

    text: str
    type: SqlType
    literal: int | float | str | None = None
    is_literal: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it holds several values."""
        return self.type.startswith("array<")


NULL = Sql("NULL", "null", None, True)


def quote_text(value: str) -> str:
    """Return a Spark SQL text literal."""
    body = value.replace("\\", "\\\\").replace("'", "\\'")
    for raw, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\0", "\\0")):
        body = body.replace(raw, escaped)
    return f"'{body}'"


def literal(value: float | str | None) -> Sql:
    """Return a literal."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return Sql("1L" if value else "0L", "long", int(value), True)
    if isinstance(value, int):
        if value < -MAX_LONG:
            return Sql(f"(-{MAX_LONG}L - 1L)", "long", value, True)
        text = f"{value}L" if value >= 0 else f"(-{-value}L)"
        return Sql(text, "long", value, True)
    if isinstance(value, float):
        text = f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
        return Sql(text if value >= 0 else f"({text})", "double", value, True)
    return Sql(quote_text(value), "string", value, True)


def element_type(type_: SqlType) -> SqlType:
    """Return the type of an array's elements; a scalar's own type."""
    return cast("SqlType", type_[6:-1]) if type_.startswith("array<") else type_


def array_type(type_: SqlType) -> SqlType:
    """Return the type of an array of such elements."""
    arrays: Mapping[str, SqlType] = {
        "long": "array<long>",
        "bool": "array<long>",
        "double": "array<double>",
        "json": "array<json>",
        "unknown": "array<unknown>",
    }
    return arrays.get(type_, "array<string>")


def to_text(value: Sql) -> Sql:
    """Return the value as text; a condition gives 1 or 0, as in Druid."""
    if value.type in ("string", "json"):
        return Sql(value.text, "string", value.literal, value.is_literal)
    if value.type == "null":
        return Sql("CAST(NULL AS STRING)", "string")
    if value.is_literal and value.type == "long":
        return literal(str(value.literal))
    inner = to_long(value) if value.type == "bool" else value
    return Sql(f"CAST({inner.text} AS STRING)", "string")


def to_long(value: Sql) -> Sql:
    """Return the value as a long; a double loses its fraction."""
    if value.type == "long":
        return value
    if value.type == "null":
        return Sql("CAST(NULL AS BIGINT)", "long")
    if value.type in ("bool", "unknown"):
        cast = "CAST" if value.type == "bool" else "try_cast"
        return Sql(f"{cast}({value.text} AS BIGINT)", "long")
    if value.type == "double":
        if isinstance(value.literal, float) and abs(value.literal) < 2**53:
            return literal(int(value.literal))
        return Sql(f"try_cast({value.text} AS BIGINT)", "long")
    if isinstance(value.literal, str) and _SHORT_WHOLE.fullmatch(value.literal):
        return literal(int(value.literal))
    text = f"try_cast({value.text} AS BIGINT)"
    double = f"try_cast(try_cast({value.text} AS DOUBLE) AS BIGINT)"
    return Sql(f"coalesce({text}, {double})", "long")


def to_double(value: Sql) -> Sql:
    """Return the value as a double."""
    if value.type == "double":
        return value
    if value.type == "null":
        return Sql("CAST(NULL AS DOUBLE)", "double")
    if isinstance(value.literal, int):
        return literal(float(value.literal))
    if value.type == "long":
        return Sql(f"CAST({value.text} AS DOUBLE)", "double")
    if value.type == "bool":
        return Sql(f"CAST(CAST({value.text} AS BIGINT) AS DOUBLE)", "double")
    return Sql(f"try_cast({value.text} AS DOUBLE)", "double")


def to_bool(value: Sql) -> Sql:
    """Return the value as a condition: numbers above 0 are true, and the text `true` in any case."""
    if value.type == "bool":
        return value
    if value.type == "null":
        return Sql("CAST(NULL AS BOOLEAN)", "bool")
    if value.type in ("long", "double"):
        zero = "0L" if value.type == "long" else "0.0D"
        return Sql(f"({value.text} > {zero})", "bool")
    if value.type == "unknown":
        text = f"lower(CAST({value.text} AS STRING))"
        return Sql(
            f"({text} = 'true' OR coalesce(try_cast({text} AS DOUBLE) > 0.0D, false))", "bool"
        )
    return Sql(f"(lower({value.text}) = 'true')", "bool")


def to_array(value: Sql) -> Sql:
    """Return the value as an array; one value becomes an array of it, null stays null."""
    if value.is_array:
        return value
    if value.type == "null":
        return Sql("CAST(NULL AS ARRAY<STRING>)", "array<string>")
    plain = to_value(value)
    text = f"array({plain.text})"
    if not value.is_literal:
        text = f"CASE WHEN {plain.text} IS NOT NULL THEN {text} END"
    return Sql(text, array_type(plain.type))


def to_value(value: Sql) -> Sql:
    """Return the value as Druid has it: a condition becomes the long 1 or 0."""
    return to_long(value) if value.type == "bool" else value


def cast_to(value: Sql, type_: SqlType) -> Sql:
    """Return the value in another type; arrays element by element."""
    if type_ in (value.type, "unknown"):
        return value
    if type_.startswith("array<"):
        return cast_array(to_array(value), element_type(type_))
    if value.is_array:
        joined = Sql(f"get({value.text}, 0)", element_type(value.type))
        return cast_to(joined, type_)
    casts = {"long": to_long, "double": to_double, "string": to_text, "bool": to_bool}
    if type_ == "json":
        return Sql(to_text(value).text, "json")
    return casts[type_](value) if type_ in casts else value


def cast_array(value: Sql, element: SqlType) -> Sql:
    """Return an array with every element cast."""
    if element_type(value.type) == element:
        return value
    one = cast_to(Sql("e", element_type(value.type)), element)
    return Sql(f"transform({value.text}, e -> {one.text})", array_type(element))


def common_type(types: list[SqlType]) -> SqlType:
    """Return the type in which all of `types` can stand: numbers widen, anything mixes as text."""
    present = {("long" if t == "bool" else t) for t in types if t != "null"}
    if not present:
        return "string"
    if len(present) == 1:
        return (
            next(t for t in types if t not in ("null", "bool")) if present != {"long"} else "long"
        )
    if present == {"long", "double"}:
        return "double"
    arrays = {t for t in present if t.startswith("array<")}
    if arrays:
        inner = common_type([element_type(t) for t in types])
        return array_type(inner)
    return "string"


_COLUMN_FORMS: Mapping[str, tuple[str, SqlType]] = {
    **dict.fromkeys(("long", "bigint"), ("{}", "long")),
    **dict.fromkeys(("int", "integer", "smallint", "tinyint"), ("CAST({} AS BIGINT)", "long")),
    "double": ("{}", "double"),
    **dict.fromkeys(("float", "decimal"), ("CAST({} AS DOUBLE)", "double")),
    **dict.fromkeys(("string", "varchar", "char"), ("{}", "string")),
    **dict.fromkeys(("boolean", "bool"), ("{}", "bool")),
    "timestamp": ("unix_millis({})", "long"),
    **dict.fromkeys(("timestamp_ntz", "date"), ("unix_millis(CAST({} AS TIMESTAMP))", "long")),
    "json": ("{}", "json"),
    **dict.fromkeys(("struct", "map"), ("to_json({})", "json")),
}
"""Expressions that read columns of Spark (or spec) types, and their types for Druid."""


def column(name: str, spark_type: str | None) -> Sql:
    """Return a column, with the type that Druid would make of its Spark (or spec) type."""
    kind = (spark_type or "").lower().replace(" ", "")
    text = quote_for_spark(name)
    if kind.startswith("array<"):
        form, inner = _COLUMN_FORMS.get(_outer(kind[6:-1]), ("{}", "unknown"))
        if form != "{}":
            text = f"transform({text}, e -> {form.format('e')})"
        return Sql(text, array_type(inner))
    form, type_ = _COLUMN_FORMS.get(_outer(kind), ("{}", "unknown"))
    return Sql(form.format(text) if form != "{}" else text, type_)


def _outer(kind: str) -> str:
    """Return the name of a type without what it is made of: `decimal(10,2)` is `decimal`."""
    return kind.split("<", maxsplit=1)[0].split("(", maxsplit=1)[0]
