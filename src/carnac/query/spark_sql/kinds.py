"""Types of DuckDB in Spark: their names, how a value becomes one of another type, and literals."""

from __future__ import annotations

import re

from carnac.errors import Invalid

Kind = str
"""A type as DuckDB prints it."""

TEXT, DATE, NULL = "VARCHAR", "DATE", '"NULL"'
PLAIN_TIME, TIME = "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"
BOOLEAN, DOUBLE, FLOAT, LONG, HUGE = "BOOLEAN", "DOUBLE", "FLOAT", "BIGINT", "HUGEINT"
INTERVAL = "INTERVAL"

_NAMES = {
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    LONG: "BIGINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    HUGE: "DECIMAL(38,0)",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    BOOLEAN: "BOOLEAN",
    TEXT: "STRING",
    DATE: "DATE",
    PLAIN_TIME: "TIMESTAMP",
    TIME: "TIMESTAMP",
    "BLOB": "BINARY",
}
"""Spark keeps both kinds of timestamp as instants; its session is in UTC, as DuckDB's is."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", LONG, "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", HUGE}
)
FRACTIONS = frozenset({FLOAT, DOUBLE})
TIMES = (DATE, PLAIN_TIME, TIME)
"""In the order in which one becomes another when they are compared."""
EXACT_MAX = "4503599627370496D"
"""2⁵²: doubles from here on are whole numbers."""


class NotInSpark(Invalid):
    """Spark cannot say the same; the message names what."""


def refuse(what: str) -> NotInSpark:
    """Return the refusal of a part of a statement.

    Args:
        what: A noun with its article, or a name.
    """
    return NotInSpark(
        f"{what} cannot be run on Spark with the same meaning; leave it out, or leave the engine to Carnac"
    )


def spark_type(kind: Kind) -> str:
    """Return what Spark calls a type.

    Raises:
        NotInSpark: It has none like it.
    """
    if kind.endswith("[]"):
        return f"ARRAY<{spark_type(kind[:-2])}>"
    if is_decimal(kind):
        return kind.replace(" ", "")
    if kind not in _NAMES:
        raise refuse(f"a value of type {kind}")
    return _NAMES[kind]


def is_decimal(kind: Kind) -> bool:
    """Whether it is an exact number with digits behind the point, or without."""
    return _DECIMAL.fullmatch(kind) is not None


def is_number(kind: Kind) -> bool:
    """Whether it is a number."""
    return kind in WHOLE or kind in FRACTIONS or is_decimal(kind)


def quoted(text: str) -> str:
    """Return a text as a literal of Spark.

    Raises:
        NotInSpark: It holds a null character.
    """
    if "\0" in text:
        raise refuse("a text with a null character")
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(text: str | None, kind: Kind) -> str:
    """Return a constant.

    Args:
        text: As DuckDB casts it to VARCHAR, a time as microseconds since 1970; None: null.
    """
    if text is None:
        return "NULL" if kind == NULL else f"CAST(NULL AS {spark_type(kind)})"
    if kind == TEXT:
        return quoted(text)
    if kind in {TIME, PLAIN_TIME}:
        return f"timestamp_micros({int(text)}L)"
    if kind == BOOLEAN:
        return text.lower()
    if kind == DATE and re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        raise refuse("a date before the year 1 or after 9999")
    if not is_number(kind) and kind != DATE:
        raise refuse(f"a constant of type {kind}")
    if kind in FRACTIONS:
        text = text.replace("-nan", "nan")  # the sign that a processor gives it
    return f"CAST('{text}' AS {spark_type(kind)})"


def sortable(sql: str, kind: Kind) -> str:
    """Return what Spark orders as DuckDB does an expression of a type: a null in a list is greater than all values."""
    if not kind.endswith("[]"):
        return sql
    return f"transform({sql}, e -> struct(e IS NULL, {sortable('e', kind[:-2])}))"


def converted(sql: str, kind: Kind, wanted: Kind) -> str:
    """Return an expression as a value of another type, as DuckDB casts it.

    Raises:
        NotInSpark: Spark cannot do it the same way.
    """
    if kind == wanted or {kind, wanted} == {TIME, PLAIN_TIME}:
        return sql
    target = spark_type(wanted)
    if kind == NULL:
        return f"CAST(NULL AS {target})"
    if wanted == TEXT:
        return _as_text(sql, kind)
    if kind == TEXT:
        return _of_text(sql, wanted)
    if is_number(kind) and is_number(wanted):
        return _as_number(sql, kind, wanted)
    if kind == BOOLEAN and is_number(wanted):
        return f"CAST(CAST({sql} AS INT) AS {target})"
    if kind in WHOLE and wanted == BOOLEAN:
        return f"({sql} <> 0)"
    if (kind in TIMES and wanted in TIMES) or spark_type(kind) == target:
        return f"CAST({sql} AS {target})"
    raise refuse(f"a cast of {kind} to {wanted}")


def _as_number(sql: str, kind: Kind, wanted: Kind) -> str:
    target = spark_type(wanted)
    if spark_type(kind) == target:
        return sql
    decimal = _DECIMAL.fullmatch(wanted)
    if kind in FRACTIONS and (wanted in WHOLE or decimal is not None):
        if decimal is None:
            return f"CAST(rint({sql}) AS {target})"
        digits, scale = decimal.groups()
        unit = f"CAST('{10 ** -int(scale):.{int(scale)}f}' AS DECIMAL({int(scale) + 1},{scale}))"
        whole = f"CAST(round(CAST({sql} AS DOUBLE) * 1e{scale}D) AS DECIMAL({digits},0))"
        return f"CAST({whole} * {unit} AS {target})"
    if (kind, wanted) == (DOUBLE, FLOAT):
        infinite = "CAST('Infinity' AS DOUBLE)"
        is_beyond = f"abs(CAST({sql} AS FLOAT)) = {infinite} AND abs({sql}) <> {infinite}"
        told = "CAST(raise_error('a double is out of the range of floats') AS FLOAT)"
        return f"CASE WHEN {is_beyond} THEN {told} ELSE CAST({sql} AS FLOAT) END"
    if is_decimal(kind) and wanted in WHOLE:
        return f"CAST(round({sql}, 0) AS {target})"
    return f"CAST({sql} AS {target})"


def _as_text(sql: str, kind: Kind) -> str:
    text = f"CAST({sql} AS STRING)"
    if kind == TIME:
        return f"concat({text}, '+00')"
    if kind in FRACTIONS:
        return _of_fraction(sql, text)
    if kind in WHOLE or is_decimal(kind) or kind in {BOOLEAN, DATE, PLAIN_TIME}:
        return text
    raise refuse(f"a text made of {kind}")


def _of_fraction(sql: str, text: str) -> str:
    """Return a double as a text the way DuckDB writes it: `1e+20`, `1.5e-05`, `nan`, where Java has `1.0E20`, `NaN`."""
    plain = f"CAST(CAST({text} AS DECIMAL(38,21)) AS STRING)"
    short = f"regexp_replace({plain}, '^(-?[0-9]+[.][0-9]+?)0+$', '$1')"
    power = f"regexp_replace(regexp_replace({text}, '[.]0E', 'E'), 'E([0-9])', 'e+$1')"
    power = f"regexp_replace(replace({power}, 'E-', 'e-'), 'e([+-])([0-9])$', 'e$10$2')"
    return (
        f"CASE WHEN isnan({sql}) THEN 'nan' WHEN abs({sql}) = CAST('Infinity' AS DOUBLE) "
        f"THEN replace(lower({text}), 'infinity', 'inf') "
        f"WHEN {sql} = 0 THEN {text} "
        f"WHEN abs({sql}) >= 1e-4D AND abs({sql}) < 1e16D THEN {short} ELSE {power} END"
    )


_FORMS = (
    (WHOLE, r"^ *[+-]?[0-9]+ *$"),
    (FRACTIONS, r"^ *[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)? *$"),
    ({DATE}, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    ({PLAIN_TIME, TIME}, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?$"),
)  # fmt: skip


def _of_text(sql: str, wanted: Kind) -> str:
    """Return what a text says in the form that both read alike; another form ends the statement."""
    for kinds, form in _FORMS:
        if wanted in kinds:
            target = spark_type(wanted)
            told = quoted(f" as {wanted} is for the embedded engine: cannot read ")
            return (
                f"CASE WHEN {sql} IS NULL OR {sql} RLIKE '{form}' THEN CAST({sql} AS {target}) "
                f"ELSE CAST(raise_error(concat('text', {told}, {sql})) AS {target}) END"
            )
    raise refuse(f"a cast of text to {wanted}")
