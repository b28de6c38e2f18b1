"""Lines of CSV and of JSON made by DuckDB itself, on all its threads: the bytes that `values` would make, sooner."""

from __future__ import annotations

import json
from collections.abc import Sequence

from carnac.core.quoting import quote_text
from carnac.core.words import unique_names
from carnac.query.export.values import csv_line

_WHOLE = frozenset(
    f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
) | {"HUGEINT"}
_INSTANTS = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMP"})
_DOUBLES = frozenset({"DOUBLE", "FLOAT"})
_QUOTED_CHARS = ("'\"'", "','", "chr(10)", "chr(13)")


def csv_head(names: Sequence[str]) -> bytes:
    """Return the first line."""
    return (csv_line(names) + "\n").encode()


def csv_expression(types: Sequence[str]) -> str | None:
    """Return what makes a line of CSV of the columns c0, c1, …; None: of one of these types it cannot."""
    fields = [_csv_field(f"c{place}", kind) for place, kind in enumerate(types)]
    made = [field for field in fields if field is not None]
    if len(made) < len(fields):
        return None
    if len(made) == 1:  # a null that is alone is quoted: readers pass over blank lines
        return f"""concat(CASE WHEN c0 IS NULL THEN '""' ELSE {made[0]} END, chr(10))"""
    return "concat(" + ", ',', ".join(made) + ", chr(10))"


def json_expression(types: Sequence[str], names: Sequence[str]) -> str | None:
    """Return what makes an object in JSON of the columns c0, c1, …; None: of one of these types it cannot."""
    parts = []
    for place, (kind, name) in enumerate(zip(types, unique_names(list(names)), strict=True)):
        value = _json_value(f"c{place}", kind)
        if value is None:
            return None
        start = ("," if place else "{") + json.dumps(name, ensure_ascii=False) + ":"
        parts.append(f"{quote_text(start)}, coalesce({value}, 'null')")
    return "concat(" + ", ".join(parts) + ", '}', chr(10))"


def _csv_field(column: str, kind: str) -> str | None:
    """Return what makes the field; null may stay null: `concat` takes it as nothing."""
    if kind == "VARCHAR":
        quoted = f"""concat('"', replace({column}, '"', '""'), '"')"""
        needs = " OR ".join(
            [f"{column} = ''"] + [f"contains({column}, {char})" for char in _QUOTED_CHARS]
        )
        return f"CASE WHEN {needs} THEN {quoted} ELSE {column} END"
    return _plain(column, kind)


def _json_value(column: str, kind: str) -> str | None:
    if kind in _WHOLE or kind == "BOOLEAN":
        return f"{column}::VARCHAR"
    if kind in _DOUBLES:
        number = _double(column)
        return f"""CASE WHEN isfinite({column}::DOUBLE) THEN {number} ELSE '"' || {number} || '"' END"""
    if kind == "VARCHAR":
        return f"to_json({column})::VARCHAR"
    text = _plain(column, kind)
    return None if text is None else f"""'"' || {text} || '"'"""


def _plain(column: str, kind: str) -> str | None:
    """Return what makes the text of a value that never needs quotes."""
    if kind in _WHOLE or kind == "BOOLEAN" or kind.startswith("DECIMAL("):
        return f"{column}::VARCHAR"
    if kind in _DOUBLES:
        return _double(column)
    if kind == "BLOB":
        return f"base64({column})"
    if kind in _INSTANTS:
        return _instant(column, "Z" if kind != "TIMESTAMP" else "")
    if kind == "DATE":
        return _in_years(column, f"{column}::VARCHAR")
    return None


def _double(column: str) -> str:
    value = f"{column}::DOUBLE"
    return (
        f"CASE WHEN isfinite({value}) THEN {value}::VARCHAR WHEN isnan({value}) THEN 'NaN' "
        f"WHEN {column} IS NOT NULL THEN CASE WHEN {column} > 0 THEN 'Infinity' ELSE '-Infinity' END END"
    )


def _instant(column: str, zone: str) -> str:
    """Return ISO 8601 with milliseconds, with more digits only if there are more."""
    short = f"strftime({column}, '%Y-%m-%dT%H:%M:%S.%g{zone}')"
    long = f"strftime({column}, '%Y-%m-%dT%H:%M:%S.%f{zone}')"
    return _in_years(
        column, f"CASE WHEN epoch_us({column}) % 1000 = 0 THEN {short} ELSE {long} END"
    )


def _in_years(column: str, text: str) -> str:
    """Return the text, or refuse what Python has not, in the words of `values`."""
    return (
        f"CASE WHEN {column} >= '0001-01-01' AND {column} < '9999-12-31'::DATE + 1 THEN {text} "
        f"WHEN {column} IS NOT NULL THEN error('a time outside of the years 1 to 9999; "
        "select it as text, CAST(… AS VARCHAR)') END"
    )
