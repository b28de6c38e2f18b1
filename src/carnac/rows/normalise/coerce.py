"""From a cell to a column: the values that each type takes, as SQL that never raises.

A cell comes as text (CSV, TSV), as JSON, or typed (Parquet, ORC, Arrow). The rules, whatever it comes as:

- string: text as it is; numbers in their shortest text that reads back the same, `NaN`, `Infinity`; `true`, `false`;
  objects as JSON text; an array of none is null, of one is that value, of several raises `SeveralValues`.
- long: whole numbers, the whole part of others (`12.7` is 12, `-0.5` is 0), written as number or text (blanks around
  it, an exponent and `_` between digits may be there); booleans as 1 and 0; blank text is null. Not: other text, NaN,
  infinities, numbers that do not fit into 64 bits.
- double, float: numbers, `NaN`, `Infinity`, written as number or text; booleans as 1 and 0; blank text is null.
- boolean: `true`, `false`, and numbers (not zero is true); blank text is null.
- json: anything; a cell of CSV that is JSON is taken as JSON, other text as a JSON string.
- array<…>: an array whose elements the element type takes; one value is an array of one; nulls stay.
- sketches: bytes of a sketch of that type, or base64 text of them.

A row with a cell that its column does not take goes to quarantine. Values that lost something are counted (`changes`).

Null is null and empty text is empty text (SQL's way; Druid's since version 28). Source: Druid's DimensionHandlerUtils
and Rows. We depart from Druid where it takes text with a fraction for no long (in a dimension) or for one (in a
metric): here both are cut; and where it drops the thousands separators of text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from carnac.core.druid.forms import DOUBLE_TEXT, DOUBLE_TEXT_BODY
from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import ELEMENT_TYPES, NUMBER_TYPES, ColumnType
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.errors import Invalid
from carnac.rows.normalise.changes import Change
from carnac.rows.normalise.shape import MultiValue
from carnac.rows.normalise.timestamps import as_instant, has_finer

if TYPE_CHECKING:
    import duckdb

FieldKind = Literal["absent", "text", "json", "typed"]

SEVERAL_MARK = "several values: "
"""Marks rows in which a string column has several values; never seen outside of the reader."""

Cut = tuple[Change, str]
"""A change of a value, and the condition of a value that was changed so."""
EXACT = {ColumnType.DOUBLE: 1 << 53, ColumnType.FLOAT: 1 << 24}
"""By type, the whole numbers up to which it has all."""
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
_ALWAYS_FITS: dict[ColumnType, set[str]] = {
    ColumnType.LONG: _SMALL | {"BIGINT"},
    ColumnType.DOUBLE: _SMALL | {"FLOAT", "DOUBLE"},
    ColumnType.FLOAT: (_SMALL - {"INTEGER", "UINTEGER"}) | {"FLOAT"},
    ColumnType.BOOLEAN: {"BOOLEAN"},
}
"""By type, those of which it takes every value as it is: nothing need be looked at."""
_NULL = {'"NULL"', "NULL"}
_FRACTION = re.compile(r"DECIMAL\((\d+),\1\)")
_REAL = re.compile(r"DOUBLE|FLOAT|DECIMAL[^\[]*")
_LIST = re.compile(r"(.*)\[\d*\]", re.DOTALL)
_NESTED = re.compile(r"(STRUCT|MAP|UNION)\(.*", re.DOTALL)
_INSTANT = re.compile(r"TIMESTAMP[^\[]*|DATE")


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
        cut: The condition goes over the same names; None: the type has room for every value.
    """

    value: str
    reason: str = "NULL"
    cut: Cut | None = None


MACROS = (
    f"CREATE OR REPLACE TEMP MACRO {DOUBLE_TEXT}(v) AS {DOUBLE_TEXT_BODY}",
    "CREATE OR REPLACE TEMP MACRO _text_double(x) AS TRY_CAST(x AS DOUBLE)",
    "CREATE OR REPLACE TEMP MACRO _text_boolean(x) AS COALESCE(TRY_CAST(trim(x) AS BOOLEAN),"
    " TRY_CAST(x AS DOUBLE) <> 0)",
    "CREATE OR REPLACE TEMP MACRO _double_long(d) AS TRY_CAST(trunc(d) AS BIGINT)",
    # the digits of a number as text that tell two numbers of one size apart
    "CREATE OR REPLACE TEMP MACRO _digits(x) AS"
    " trim(regexp_replace(split_part(lower(x), 'e', 1), '[^0-9]', '', 'g'), '0')",
    # whether text was read as a long that has fewer digits; most has no fraction and no exponent
    "CREATE OR REPLACE TEMP MACRO _is_cut(x, n) AS CASE"
    " WHEN contains(x, '.') OR contains(x, 'e') OR contains(x, 'E') THEN CASE"
    " WHEN ends_with(rtrim(x, '0 '), '.') THEN false"
    " ELSE _digits(x) <> _digits(CAST(n AS VARCHAR)) END ELSE false END",
    # whether text was read as a number that is not the same, and not written the same
    "CREATE OR REPLACE TEMP MACRO _is_rounded(x, d, exact) AS CASE WHEN abs(d) >= exact"
    " THEN NOT coalesce(TRY_CAST(x AS HUGEINT) = TRY_CAST(d AS HUGEINT), false)"
    " AND _digits(x) <> _digits(CAST(d AS VARCHAR)) ELSE false END",
    # no IN: of each the engine makes a join, through which all columns go
    "CREATE OR REPLACE TEMP MACRO _is_number_as_true(x, b) AS CASE WHEN b AND NOT"
    " regexp_full_match(lower(trim(x)), 'true|t|yes|y|1')"
    " THEN TRY_CAST(x AS DOUBLE) <> 1 ELSE false END",
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


def make_sketch_functions(con: duckdb.DuckDBPyConnection, kind: ColumnType) -> None:
    """Make what the expressions of a type of sketch call: bytes that are none become null."""
    from carnac import sketches

    con.create_function(f"_is_{kind}", partial(sketches.is_sketch, str(kind)), ["BLOB"], "BOOLEAN")
    macro = f"CREATE TEMP MACRO _as_{kind}(b) AS CASE WHEN _is_{kind}(b) THEN b END"
    con.execute(macro).complete()


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
    if kind in ELEMENT_TYPES:
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
    cut = _cut_text(x, kind, target.out)
    is_there = f"{x} IS NOT NULL AND trim({x}) <> ''"
    return _checked(scalar_text(x, kind), is_there, target, cut=cut)


def _cut_text(x: str, kind: ColumnType, value: str) -> Cut | None:
    match kind:
        case ColumnType.LONG:
            return Change.FRACTION, f"_is_cut({x}, {value})"
        case ColumnType.DOUBLE | ColumnType.FLOAT:
            return Change.DIGITS, f"_is_rounded({x}, {value}, {EXACT[kind]})"
        case ColumnType.BOOLEAN:
            return Change.NUMBER, f"_is_number_as_true({x}, {value})"
        case _:
            return None


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
            return f"_as_{kind}(TRY(from_base64({x})))"


def _of_json(j: str, target: Target, number: str | None = None) -> Cell:
    kind = target.type
    if kind is ColumnType.STRING:
        return _string_of_json(j, target)
    if kind is ColumnType.JSON:
        return Cell(value=f"CASE WHEN json_type({j}) <> 'NULL' THEN CAST({j} AS VARCHAR) END")
    if kind is ColumnType.STRING_ARRAY:
        return _list_cell(f"_json_strings({j})", target)
    if kind in ELEMENT_TYPES:
        return _list_cell(f"_json_numbers({j})", target)
    text = f"json_extract_string({j}, '$')" if kind.is_sketch else number or f"_json_number({j})"
    cut = _cut_text(text, kind, target.out)
    return _checked(scalar_text(text, kind), f"trim({text}) <> ''", target, cut=cut)


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
    if sql_type in _NULL:
        return Cell(value=f"CAST(NULL AS {SQL_TYPE[kind]})")
    listed = _LIST.fullmatch(sql_type)
    if listed is not None:
        return _of_list(x, listed[1], target)
    if kind in ELEMENT_TYPES:
        return _list_cell(f"CASE WHEN {x} IS NOT NULL THEN [{x}] END", target, sql_type)
    is_document = kind is ColumnType.STRING and _NESTED.fullmatch(sql_type) is not None
    if is_document or kind is ColumnType.JSON:
        return _document_cell(x, sql_type, target)
    if sql_type in _ALWAYS_FITS.get(kind, ()):
        return Cell(value=f"CAST({x} AS {SQL_TYPE[kind]})")
    cut = _cut_typed(x, sql_type, kind, target.out)
    return _checked(_typed_scalar(x, sql_type, kind, target), f"{x} IS NOT NULL", target, cut=cut)


def _of_list(x: str, element_type: str, target: Target) -> Cell:
    kind = target.type
    if kind is ColumnType.JSON or (kind is ColumnType.STRING and not target.may_split):
        return _document_cell(x, f"{element_type}[]", target)
    if element_type in _NULL and kind not in ELEMENT_TYPES:
        is_there = "false" if kind is ColumnType.STRING else f"{x} IS NOT NULL"
        return _checked(f"CAST(NULL AS {SQL_TYPE[kind]})", is_there, target)
    if kind is ColumnType.STRING:
        raise SeveralValues([target.field])
    if kind not in ELEMENT_TYPES:
        raise _unfit(target, f"{element_type}[]")
    return _list_cell(x, target, element_type)


def _document_cell(x: str, sql_type: str, target: Target) -> Cell:
    far = _far(x, sql_type)
    value = _document(x, far)
    return Cell(value=value) if far is None else _checked(value, f"{x} IS NOT NULL", target)


def _document(x: str, far: str | None) -> str:
    near = "" if far is None else f" AND NOT coalesce({far}, false)"
    return f"CASE WHEN {x} IS NOT NULL{near} THEN CAST(to_json({x}) AS VARCHAR) END"


def _far(x: str, sql_type: str) -> str | None:
    """Return whether a list or an object holds an infinite time, one out of range; None: its type has no times."""
    if "TIMESTAMP" not in sql_type and "DATE" not in sql_type:
        return None
    import duckdb

    return _far_within(x, duckdb.sqltype(sql_type), 0)


def _far_within(x: str, kind: Any, depth: int) -> str | None:
    if str(kind) == "TIMESTAMPTZ_NS":
        return None  # the engine cannot say it, and no nanosecond is far
    if kind.id.startswith("timestamp") or kind.id == "date":
        return f"NOT isfinite({x})"
    if kind.id == "struct":
        parts = (_far_within(f"{x}.{quote(name)}", one, depth) for name, one in kind.children)
        found = [one for one in parts if one is not None]
        return " OR ".join(f"coalesce({one}, false)" for one in found) or None
    if kind.id not in {"list", "array", "map"}:
        return None
    listed = f"map_values({x})" if kind.id == "map" else x
    inner = _far_within(
        f"v{depth}", kind.children[-1][1] if kind.id == "map" else kind.children[0][1], depth + 1
    )
    return None if inner is None else f"len(list_filter({listed}, lambda v{depth}: {inner})) > 0"


def _typed_scalar(x: str, sql_type: str, kind: ColumnType, target: Target) -> str:
    """Return the value of a typed expression for a type of one value; null if there is none."""
    is_number = _WHOLE.fullmatch(sql_type) is not None or _REAL.fullmatch(sql_type) is not None
    if sql_type in _NULL:
        return f"CAST(NULL AS {SQL_TYPE[kind]})"
    if kind is ColumnType.STRING:
        return _typed_string(x, sql_type)
    if sql_type == "VARCHAR":
        return scalar_text(x, kind)
    if kind.is_sketch and sql_type == "BLOB":
        return f"_as_{kind}({x})"
    if kind is ColumnType.LONG and _REAL.fullmatch(sql_type):
        return f"_double_long({x})"
    if kind in NUMBER_TYPES or kind is ColumnType.BOOLEAN:
        if is_number or sql_type == "BOOLEAN":
            return f"TRY_CAST({x} AS {SQL_TYPE[kind]})"
        if kind is ColumnType.LONG and _INSTANT.fullmatch(sql_type):
            return f"epoch_ms({as_instant(x, sql_type)})"
    raise _unfit(target, sql_type)


def _cut_typed(x: str, sql_type: str, kind: ColumnType, value: str) -> Cut | None:
    if sql_type == "VARCHAR":
        return _cut_text(x, kind, value)
    if sql_type in _ALWAYS_FITS.get(kind, ()):
        return None
    is_real = _REAL.fullmatch(sql_type) is not None
    if kind in EXACT:
        return Change.DIGITS, f"_is_rounded(CAST({x} AS VARCHAR), {value}, {EXACT[kind]})"
    if kind is ColumnType.LONG and is_real:
        return Change.FRACTION, f"{x} <> trunc({x})"
    if kind is ColumnType.BOOLEAN and (is_real or _WHOLE.fullmatch(sql_type)):
        return Change.NUMBER, f"({x} <> 0 AND {x} <> 1)"
    finer = has_finer(x, sql_type) if kind in {ColumnType.LONG, ColumnType.STRING} else None
    return None if finer is None else (Change.TIME, finer)


def _typed_string(x: str, sql_type: str) -> str:
    if _LIST.fullmatch(sql_type) or _NESTED.fullmatch(sql_type):
        return _document(x, _far(x, sql_type))
    if sql_type == "BLOB":
        return f"CASE WHEN {x} IS NOT NULL THEN to_base64({x}) END"
    if sql_type in {"DOUBLE", "FLOAT"}:  # as Java writes them, and JSON's own dialects
        return (
            f"CASE WHEN isfinite({x}) THEN CAST({x} AS VARCHAR) WHEN isnan({x}) THEN 'NaN'"
            f" WHEN {x} > 0 THEN 'Infinity' WHEN {x} < 0 THEN '-Infinity' END"
        )
    if _FRACTION.fullmatch(sql_type):  # the engine writes no zero before the point of these
        return f"regexp_replace(CAST({x} AS VARCHAR), '^(-?)[.]', '\\10.')"
    if sql_type == "DATE":
        return f"CASE WHEN isfinite({x}) THEN CAST({x} AS VARCHAR) END"
    if sql_type.startswith("TIMESTAMP"):
        instant = f"CAST({as_instant(x, sql_type)} AS TIMESTAMP)"
        return (
            f"CASE WHEN isfinite({instant}) THEN strftime({instant}, '%Y-%m-%dT%H:%M:%S.%gZ') END"
        )
    return f"CAST({x} AS VARCHAR)"


def _list_cell(texts: str, target: Target, sql_type: str | None = None) -> Cell:
    """Return a list column; `texts` is a list, `sql_type` the type of its elements (default: text to be parsed)."""
    kind = ELEMENT_TYPES[target.type]
    one = scalar_text("e", kind) if sql_type is None else _typed_scalar("e", sql_type, kind, target)
    values = texts if one == "e" else f"list_transform({texts}, lambda e: {one})"
    reason = "NULL"
    if one not in {"e", "CAST(e AS VARCHAR)"}:
        there = "trim(e) <> ''" if sql_type is None else "e IS NOT NULL"
        kept = f"coalesce(len(list_filter({target.out}, lambda e: e IS NOT NULL)), 0)"
        lost = f"len(list_filter({texts}, lambda e: {there})) > {kept}"
        reason = f"CASE WHEN {lost} THEN {quote_text(target.reason)} END"
    match target.multi_value:
        case "sorted_array":
            values = f"list_sort({values}, 'ASC', 'NULLS FIRST')"
        case "sorted_set":
            values = f"_list_set({values})"
        case "array":
            pass
    return Cell(value=values, reason=reason, cut=_list_cut(texts, kind, target, sql_type, one))


def _list_cut(
    texts: str, kind: ColumnType, target: Target, sql_type: str | None, one: str
) -> Cut | None:
    """Return what elements lost; the numbers are looked at first, where those show it."""
    cut = _cut_text("e", kind, one) if sql_type is None else _cut_typed("e", sql_type, kind, one)
    if cut is None:
        return None
    change, condition = cut
    condition = f"len(list_filter({texts}, lambda e: {condition})) > 0"
    if kind in EXACT:
        large = f"len(list_filter({target.out}, lambda e: abs(e) >= {EXACT[kind]})) > 0"
        condition = f"CASE WHEN {large} THEN {condition} ELSE false END"
    return change, condition


def _checked(value: str, is_there: str, target: Target, *, cut: Cut | None = None) -> Cell:
    reason = quote_text(target.reason)
    return Cell(
        value=value,
        reason=f"CASE WHEN {target.out} IS NULL AND {is_there} THEN {reason} END",
        cut=cut,
    )


def _unfit(target: Target, sql_type: str) -> Invalid:
    return Invalid(
        f"column '{target.field}' of type {sql_type} cannot become {target.type.value}; "
        "declare another type, or take a part of it with flattenSpec",
        column=target.field,
        type=sql_type,
    )
