"""From a cell to a column: what each type takes, as SQL that never raises.

A cell comes as text (CSV, TSV), as JSON, or typed (Parquet, ORC, Arrow). The rules, whatever it comes as:

- string: text as it is; numbers in their shortest text that reads back the same, `NaN`, `Infinity`; `true`, `false`;
  objects as JSON text; an array of none is null, of one is that value, of several raises `SeveralValues`.
- long: whole numbers, the whole part of others (`12.7` is 12, `-0.5` is 0), written as number or text (blanks around
  it, an exponent and `_` between digits may be there); booleans as 1 and 0; blank text is null. Not: other text, NaN,
  infinities, what does not fit into 64 bits.
- double, float: numbers, `NaN`, `Infinity`, written as number or text; booleans as 1 and 0; blank text is null.
- boolean: `true`, `false`, and numbers (not zero is true); blank text is null.
- json: anything; a cell of CSV that is JSON is taken as JSON, other text as a JSON string.
- array<…>: an array whose elements the element type takes; one value is an array of one; nulls stay.
- sketches: bytes, or base64 text of them.

A row with a cell that its column does not take goes to quarantine.

Null is null and empty text is empty text (SQL's way; Druid's since version 28). Source: Druid's DimensionHandlerUtils
and Rows. We depart from Druid where it takes text with a fraction for no long (in a dimension) or for one (in a
metric): here both are cut; and where it drops the thousands separators of text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from carnac.core.segments.segment import ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.errors import Invalid
from carnac.rows.normalise.shape import MultiValue
from carnac.rows.normalise.timestamps import quote_text

FieldKind = Literal["absent", "text", "json", "typed"]

SEVERAL_MARK = "several values: "
"""Marks rows in which a string column has several values; never seen outside of the reader."""

_ELEMENT: dict[ColumnType, ColumnType] = {
    ColumnType.STRING_ARRAY: ColumnType.STRING,
    ColumnType.LONG_ARRAY: ColumnType.LONG,
    ColumnType.DOUBLE_ARRAY: ColumnType.DOUBLE,
}
_NUMBERS = {ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT}
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
_ALWAYS_FITS: dict[ColumnType, set[str]] = {
    ColumnType.LONG: _SMALL | {"BIGINT"},
    ColumnType.DOUBLE: _SMALL | {"BIGINT", "UBIGINT", "FLOAT", "DOUBLE"},
    ColumnType.FLOAT: _SMALL | {"FLOAT"},
    ColumnType.BOOLEAN: {"BOOLEAN"},
}
"""By type, those of which it takes every value: nothing need be looked at."""
_REAL = re.compile(r"DOUBLE|FLOAT|DECIMAL.*")
_LIST = re.compile(r"(.*)\[\d*\]", re.DOTALL)
_NESTED = re.compile(r"(STRUCT|MAP|UNION)\(.*", re.DOTALL)
_INSTANT = re.compile(r"TIMESTAMP.*|DATE")


class SeveralValues(Invalid):
    """A dimension of type string has rows with several values: widen it to `array<string>` and read again.

    Attributes:
        columns: Names of such dimensions, sorted.
    """

    def __init__(self, columns: Collection[str]) -> None:
        self.columns = tuple(sorted(columns))
        super().__init__(
            f"dimension {', '.join(self.columns)} has several values in a row; "
            "declare it as array<string>",
            columns=self.columns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Where the cells of a column come from.

    Attributes:
        sql: A column of the source; cheap to repeat.
        sql_type: DuckDB's type of it, for kind `typed`.
        number: For kind `json`: a column with `_json_number` of it, if the source has one.
    """

    kind: FieldKind
    sql: str = "NULL"
    sql_type: str = ""
    number: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The type that a column must get.

    Attributes:
        field: Name of the input field, for reasons and errors.
        out: Name (SQL) under which the value is selected.
        may_split: Several values are another type's business; else they are kept as JSON text.
    """

    field: str
    out: str
    type: ColumnType
    multi_value: MultiValue = "array"
    may_split: bool = False

    @property
    def reason(self) -> str:
        """Why a cell is not taken; stable, so that it can be counted."""
        article = "an" if self.type.value.startswith("array") else "a"
        return f"not {article} {self.type.value}: {self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """SQL of a column: its value, and the reason (or null) why there is none, which may use the value by its name.

    Attributes:
        cut: Whether a fraction was cut off, as a condition over the same names.
    """

    value: str
    reason: str = "NULL"
    cut: str | None = None


MACROS = (
    "CREATE OR REPLACE TEMP MACRO _text_double(x) AS TRY_CAST(x AS DOUBLE)",
    "CREATE OR REPLACE TEMP MACRO _text_boolean(x) AS COALESCE(TRY_CAST(trim(x) AS BOOLEAN),"
    " TRY_CAST(x AS DOUBLE) <> 0)",
    "CREATE OR REPLACE TEMP MACRO _double_long(d) AS TRY_CAST(trunc(d) AS BIGINT)",
    # numbers as text: booleans as 1 and 0, objects and arrays as something that is no number
    "CREATE OR REPLACE TEMP MACRO _json_number(j) AS CASE json_type(j) WHEN 'NULL' THEN NULL"
    " WHEN 'BOOLEAN' THEN CASE WHEN json_extract_string(j, '$') = 'true' THEN '1' ELSE '0' END"
    " ELSE json_extract_string(j, '$') END",
    # the text of any value, the same as of a field that is taken out with its record
    "CREATE OR REPLACE TEMP MACRO _json_text(j) AS json_transform(j, '\"VARCHAR\"')",
    # an array of strings; one value is an array of one
    "CREATE OR REPLACE TEMP MACRO _json_strings(j) AS CASE WHEN j IS NULL OR json_type(j) = 'NULL'"
    " THEN NULL WHEN json_type(j) = 'ARRAY' THEN json_transform(j, '[\"VARCHAR\"]')"
    " ELSE [_json_text(j)] END",
    "CREATE OR REPLACE TEMP MACRO _json_numbers(j) AS CASE WHEN j IS NULL OR json_type(j) = 'NULL'"
    " THEN NULL WHEN json_type(j) = 'ARRAY'"
    " THEN list_transform(json_extract(j, '$[*]'), lambda e: _json_number(e))"
    " ELSE [_json_number(j)] END",
    "CREATE OR REPLACE TEMP MACRO _list_set(v) AS CASE WHEN v IS NULL THEN NULL"
    " WHEN len(list_filter(v, lambda e: e IS NULL)) > 0"
    " THEN list_prepend(NULL, list_sort(list_distinct(v))) ELSE list_sort(list_distinct(v)) END",
)
"""Functions that the expressions call; temporary, made once per connection (after those of `timestamps`)."""


def coerce_cell(field: Field, target: Target, *, list_delimiter: str | None = None) -> Cell:
    """Return the column that `target` describes, made of `field`.

    Args:
        list_delimiter: Text between several values in one cell of kind `text`.

    Raises:
        Invalid: No value of the field's type can become the target's type.
        SeveralValues: The field is an array, the target a string.
    """
    match field.kind:
        case "absent":
            return Cell(value=f"CAST(NULL AS {SQL_TYPE[target.type]})")
        case "text":
            return _of_text(field.sql, target, list_delimiter)
        case "json":
            return _of_json(field.sql, target, field.number)
        case "typed":
            return _of_typed(field, target)


def _of_text(x: str, target: Target, list_delimiter: str | None) -> Cell:
    kind = target.type
    delimiter = None if list_delimiter is None else quote_text(list_delimiter)
    if kind in _ELEMENT:
        texts = f"CASE WHEN {x} IS NOT NULL THEN "
        texts += f"[{x}] END" if delimiter is None else f"string_split({x}, {delimiter}) END"
        return _list_cell(texts, target)
    if kind is ColumnType.STRING and target.may_split and delimiter is not None:
        several = quote_text(SEVERAL_MARK + target.field)
        return Cell(value=x, reason=f"CASE WHEN contains({x}, {delimiter}) THEN {several} END")
    if kind is ColumnType.STRING:
        return Cell(value=x)
    if kind is ColumnType.JSON:
        return Cell(
            value=f"CASE WHEN json_valid({x}) THEN CAST(json({x}) AS VARCHAR)"
            f" ELSE CAST(to_json({x}) AS VARCHAR) END"
        )
    return _checked(
        scalar_text(x, kind), f"{x} IS NOT NULL AND trim({x}) <> ''", target, cut=_cut_text(x)
    )


def _cut_text(x: str) -> str:
    """Return whether text that is read as a long has a fraction; only such text is looked at twice."""
    number = f"TRY_CAST({x} AS DOUBLE)"
    may = " OR ".join(f"contains({x}, '{mark}')" for mark in (".", "e-", "E-"))
    return f"(({may}) AND {number} <> trunc({number}))"


def scalar_text(x: str, kind: ColumnType) -> str:
    """Return the value of text for a type of one value; null if there is none."""
    match kind:
        case ColumnType.LONG:
            return f"_text_long({x})"
        case ColumnType.DOUBLE:
            return f"_text_double({x})"
        case ColumnType.FLOAT:
            return f"TRY_CAST(_text_double({x}) AS FLOAT)"
        case ColumnType.BOOLEAN:
            return f"_text_boolean({x})"
        case ColumnType.STRING:
            return x
        case _:
            return f"TRY(from_base64({x}))"


def _of_json(j: str, target: Target, number: str | None = None) -> Cell:
    kind = target.type
    if kind is ColumnType.STRING:
        return _string_of_json(j, target)
    if kind is ColumnType.JSON:
        return Cell(value=f"CASE WHEN json_type({j}) <> 'NULL' THEN CAST({j} AS VARCHAR) END")
    if kind is ColumnType.STRING_ARRAY:
        return _list_cell(f"_json_strings({j})", target)
    if kind in _ELEMENT:
        return _list_cell(f"_json_numbers({j})", target)
    text = f"json_extract_string({j}, '$')" if kind.is_sketch else number or f"_json_number({j})"
    return _checked(scalar_text(text, kind), f"trim({text}) <> ''", target, cut=_cut_text(text))


def _string_of_json(j: str, target: Target) -> Cell:
    text = f"_json_text({j})"
    if not target.may_split:
        return Cell(value=text)
    several = quote_text(SEVERAL_MARK + target.field)
    return Cell(
        value=f"CASE WHEN json_type({j}) = 'ARRAY' THEN _json_strings({j})[1] ELSE {text} END",
        reason=f"CASE WHEN json_array_length({j}) > 1 THEN {several} END",
    )


def _of_typed(field: Field, target: Target) -> Cell:
    x, sql_type = field.sql, field.sql_type
    kind = target.type
    if sql_type in {"VARCHAR", "UUID"} or sql_type.startswith("ENUM"):
        return _of_text(f"CAST({x} AS VARCHAR)", target, None)
    if sql_type == "JSON":
        return _of_json(x, target)
    if sql_type in {'"NULL"', "NULL"}:
        return Cell(value=f"CAST(NULL AS {SQL_TYPE[kind]})")
    listed = _LIST.fullmatch(sql_type)
    if listed is not None:
        return _of_list(x, listed[1], target)
    if kind in _ELEMENT:
        one = _typed_scalar("e", sql_type, _ELEMENT[kind], target)
        return _list_cell(f"CASE WHEN {x} IS NOT NULL THEN [{x}] END", target, element=one)
    if kind is ColumnType.JSON:
        return Cell(value=f"CASE WHEN {x} IS NOT NULL THEN CAST(to_json({x}) AS VARCHAR) END")
    if sql_type in _ALWAYS_FITS.get(kind, ()):
        return Cell(value=f"CAST({x} AS {SQL_TYPE[kind]})")
    cut = f"{x} <> trunc({x})" if _REAL.fullmatch(sql_type) else None
    return _checked(_typed_scalar(x, sql_type, kind, target), f"{x} IS NOT NULL", target, cut=cut)


def _of_list(x: str, element_type: str, target: Target) -> Cell:
    kind = target.type
    if kind is ColumnType.JSON or (kind is ColumnType.STRING and not target.may_split):
        return Cell(value=f"CASE WHEN {x} IS NOT NULL THEN CAST(to_json({x}) AS VARCHAR) END")
    if kind is ColumnType.STRING:
        raise SeveralValues([target.field])
    if kind not in _ELEMENT:
        raise _unfit(target, f"{element_type}[]")
    one = _typed_scalar("e", element_type, _ELEMENT[kind], target)
    return _list_cell(x, target, element=one)


def _typed_scalar(x: str, sql_type: str, kind: ColumnType, target: Target) -> str:
    """Return the value of a typed expression for a type of one value; null if there is none."""
    is_number = _WHOLE.fullmatch(sql_type) is not None or _REAL.fullmatch(sql_type) is not None
    if kind is ColumnType.STRING:
        return _typed_string(x, sql_type)
    if sql_type == "VARCHAR":
        return scalar_text(x, kind)
    if kind.is_sketch and sql_type == "BLOB":
        return x
    if kind is ColumnType.LONG and _REAL.fullmatch(sql_type):
        return f"_double_long({x})"
    if kind in _NUMBERS or kind is ColumnType.BOOLEAN:
        if is_number or sql_type == "BOOLEAN":
            return f"TRY_CAST({x} AS {SQL_TYPE[kind]})"
        if kind is ColumnType.LONG and _INSTANT.fullmatch(sql_type):
            return f"epoch_ms(TRY_CAST({x} AS TIMESTAMPTZ))"
    raise _unfit(target, sql_type)


def _typed_string(x: str, sql_type: str) -> str:
    if _LIST.fullmatch(sql_type) or _NESTED.fullmatch(sql_type):
        return f"CASE WHEN {x} IS NOT NULL THEN CAST(to_json({x}) AS VARCHAR) END"
    if sql_type == "BLOB":
        return f"CASE WHEN {x} IS NOT NULL THEN to_base64({x}) END"
    if sql_type in {"DOUBLE", "FLOAT"}:  # as Java writes them, and JSON's own dialects
        return (
            f"CASE WHEN isfinite({x}) THEN CAST({x} AS VARCHAR) WHEN isnan({x}) THEN 'NaN'"
            f" WHEN {x} > 0 THEN 'Infinity' WHEN {x} < 0 THEN '-Infinity' END"
        )
    if sql_type.startswith("TIMESTAMP"):
        instant = f"CAST(TRY_CAST({x} AS TIMESTAMPTZ) AS TIMESTAMP)"
        return f"strftime({instant}, '%Y-%m-%dT%H:%M:%S.%gZ')"
    return f"CAST({x} AS VARCHAR)"


def _list_cell(texts: str, target: Target, *, element: str | None = None) -> Cell:
    """Return a list column; `texts` is a list, `element` the value of its element `e` (default: of text)."""
    one = element or scalar_text("e", _ELEMENT[target.type])
    values = texts if one == "e" else f"list_transform({texts}, lambda e: {one})"
    reason = "NULL"
    if one not in {"e", "CAST(e AS VARCHAR)"}:
        there = "e IS NOT NULL" if element else "trim(e) <> ''"
        lost = f"len(list_filter({texts}, lambda e: {there})) > len(list_filter({target.out},"
        reason = f"CASE WHEN {lost} lambda e: e IS NOT NULL)) THEN {quote_text(target.reason)} END"
    match target.multi_value:
        case "sorted_array":
            values = f"list_sort({values}, 'ASC', 'NULLS FIRST')"
        case "sorted_set":
            values = f"_list_set({values})"
        case "array":
            pass
    return Cell(value=values, reason=reason)


def _checked(value: str, is_there: str, target: Target, *, cut: str | None = None) -> Cell:
    reason = quote_text(target.reason)
    return Cell(
        value=value,
        reason=f"CASE WHEN {target.out} IS NULL AND {is_there} THEN {reason} END",
        cut=cut if target.type is ColumnType.LONG else None,
    )


def _unfit(target: Target, sql_type: str) -> Invalid:
    return Invalid(
        f"column '{target.field}' of type {sql_type} cannot become {target.type.value}; "
        "declare another type, or take a part of it with flattenSpec",
        column=target.field,
        type=sql_type,
    )
