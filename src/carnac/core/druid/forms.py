"""Functions that Druid's SQL and its expressions have in common, as expressions of DuckDB over `_1` and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from carnac.core.druid.times import Texts

_PLACE = re.compile(r"'(?:[^']|'')*'|\b_([1-9])\b")
_DIGITS = (
    "list_transform(string_split(upper(ltrim(_1, '+-')), ''),"
    " lambda one: strpos('123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ', one))"
)
PARSE_LONG = "CASE WHEN regexp_full_match(_1, '[+-]?[0-9]+') THEN TRY_CAST(_1 AS BIGINT) END"
"""A cast alone rounds, and reads blanks, exponents and other bases."""
PARSE_LONG_OF_BASE = (
    f"CASE WHEN regexp_full_match(_1, '[+-]?[0-9A-Za-z]+') AND list_max({_DIGITS}) < _2 THEN"
    " CASE WHEN starts_with(_1, '-') THEN -1 ELSE 1 END"
    f" * TRY(list_reduce({_DIGITS}, lambda __high, __low: __high * _2 + __low)) END"
)
SHIFT_LEFT = "CAST(CAST(CAST(trunc(_1) AS BIGINT) AS BIT) << CAST(_2 AS INTEGER) AS BIGINT)"
"""The bits of a negative number, which DuckDB shifts as bits alone."""
_FROM = "greatest(1, least(coalesce(_3, 1), length(_2) + 1))"
"""Where a text is searched from: not before its start, and not behind its end, where an empty one is found."""
POSITION = (
    f"CASE strpos(substr(_2, {_FROM}), _1) WHEN 0 THEN 0"
    f" ELSE strpos(substr(_2, {_FROM}), _1) + {_FROM} - 1 END"
)
JSON_QUERY = "json_extract(TRY_CAST(_1 AS JSON), _2)"
DOUBLE_TEXT = "__carnac_double_text"
"""A macro of ours: a double or a float as Java writes it, of its shortest digits: 1.0E7, 1.0E-4, Infinity, NaN."""
_DIGITS_OF = "replace(__t, '.', '')"
DOUBLE_TEXT_BODY = f"""CASE
    WHEN isnan(v) THEN 'NaN'
    WHEN isinf(v) THEN if(v > 0, 'Infinity', '-Infinity')
    WHEN v = 0 OR (abs(v) >= 0.001 AND abs(v) < 10000000) THEN CAST(v AS VARCHAR)
    ELSE if(v < 0, '-', '') || list_transform([CAST(abs(v) AS VARCHAR)], lambda __t: CASE
        WHEN contains(__t, 'e') THEN split_part(__t, 'e', 1) || if(contains(__t, '.'), '', '.0')
            || 'E' || CAST(split_part(__t, 'e', 2) AS INTEGER)
        WHEN abs(v) > 1 THEN __t[1] || '.' || coalesce(nullif(rtrim({_DIGITS_OF}[2:], '0'), ''), '0')
            || 'E' || (length(split_part(__t, '.', 1)) - 1)
        ELSE ltrim({_DIGITS_OF}, '0')[1] || '.' || coalesce(nullif(ltrim({_DIGITS_OF}, '0')[2:], ''), '0')
            || 'E-' || (length(__t) - length(ltrim({_DIGITS_OF}, '0')) - 1)
        END)[1]
    END"""
"""Its body, over `v`, which may be a column called `t`. Source: `Double.toString` of Java."""
_RETURNED: Mapping[str, str] = {
    **dict.fromkeys(("varchar", "char"), "{0}"),
    **dict.fromkeys(("double", "float", "real", "decimal", "numeric"), "TRY_CAST({0} AS DOUBLE)"),
    # a cast of a text rounds
    **dict.fromkeys(
        ("bigint", "integer", "smallint", "tinyint"),
        "coalesce(CASE WHEN NOT contains({0}, '.') THEN TRY_CAST({0} AS BIGINT) END,"
        " TRY_CAST(trunc(TRY_CAST({0} AS DOUBLE)) AS BIGINT))",
    ),
    "boolean": "TRY_CAST({0} AS BOOLEAN)",
}
"""By the type after RETURNING, in lower case."""


def json_value(texts: Texts) -> str | None:
    """Return the form of JSON_VALUE; None: a path with a star finds several values, which is for DuckDB to say."""
    if len(texts) not in {2, 3} or "*" in (texts[1] or "*"):
        return None
    found = (
        "CASE WHEN json_type(TRY_CAST(_1 AS JSON), _2) NOT IN ('OBJECT', 'ARRAY')"
        " THEN json_extract_string(TRY_CAST(_1 AS JSON), _2) END"
    )
    kind = (texts[2] or "").lower() if len(texts) == 3 else "varchar"
    return _RETURNED[kind].format(found) if kind in _RETURNED else None


def filled(form: str, *arguments: str) -> str:
    """Return a form with its arguments, each of which can stand wherever an operand can."""
    return _PLACE.sub(
        lambda found: arguments[int(found[1]) - 1] if found[1] else found[0], f"({form})"
    )
