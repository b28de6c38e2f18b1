"""The functions that a statement on Spark may call, and how Spark says the same. Other functions are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from carnac.query.spark_sql.kinds import EXACT_MAX

Form = tuple[str, str]
"""The kinds of the arguments, a letter each, and the template.

Letters: `t` text, `v` anything made a text, `d` number made a double, `r` number made the type of the result, `b`
boolean, `i` whole number made a long, `T` time made a timestamp, `D` time made a date, `l` list, `x` made the type of
the result, `o` the same if that is no list, `e` element of the list that the first argument is, `y` element of the list
that is the result, `s` constant text that is not empty, `k` constant whole number of at least 0, `1` of at least 1; `*`
after a letter: any number more of its kind.
"""

_SPACES = " \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""The blanks that DuckDB trims."""


def _log(name: str) -> str:
    """Return the template of a logarithm, which Spark has for positive numbers only."""
    return (
        f"CASE WHEN {{0}} > 0 OR {{0}} IS NULL THEN {name}({{0}}) "
        "WHEN {0} = 0 THEN double('-Infinity') ELSE double('NaN') END"
    )


_HIDDEN = 0x10_F800
"""First of the letters, for private use, that stand for those which Spark would turn into several."""
_YOUNG_RANGES = (
    (0x019B, 0x019B), (0x0264, 0x0264), (0x1C89, 0x1C8A), (0xA7CB, 0xA7CF), (0xA7D2, 0xA7D5),
    (0xA7DA, 0xA7DC), (0x10D50, 0x10D85), (0x16EA0, 0x16ED3),
)  # fmt: skip
"""Letters whose other case came with Unicode 16 and 17, which Spark may know; DuckDB does not."""


@cache
def _letters() -> tuple[str, str, str]:
    """Return the letters with several capitals in Spark, signs that stand for them, and their capitals in DuckDB."""
    letters = (chr(one) for one in range(0x11_0000) if not 0xD800 <= one < 0xE000)
    found = [one for one in letters if len(one.upper()) > 1]
    single = ["ẞ" if one == "ß" else one.title() for one in found]
    capitals = [title if len(title) == 1 else one for one, title in zip(found, single, strict=True)]
    return "".join(found), _hidden(len(found)), "".join(capitals)


@cache
def _young() -> str:
    return "".join(chr(one) for first, last in _YOUNG_RANGES for one in range(first, last + 1))


def _hidden(count: int) -> str:
    return "".join(chr(_HIDDEN + place) for place in range(count))


def upper(sql: str) -> str:
    """Return a text in upper case, letter by letter."""
    letters, hidden, capitals = _letters()
    young = _young()
    hidden = _hidden(len(hidden) + len(young))
    return f"translate(upper(translate({sql}, '{letters}{young}', '{hidden}')), '{hidden}', '{capitals}{young}')"


def lower(sql: str) -> str:
    """Return a text in lower case, letter by letter."""
    young = _young()
    hidden = _hidden(len(young))
    return f"translate(lower(translate({sql}, 'Σİ{young}', 'σi{hidden}')), '{hidden}', '{young}')"


_EPOCH_ALIKE = {
    "epoch_us": ("T", "unix_micros({0})"),
    "epoch_ms": ("T", "unix_millis({0})"),
    "epoch": ("T", "CAST(unix_micros({0}) AS DOUBLE) / 1000000D"),
}
PARTS: Mapping[str, str] = {
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "week": "weekofyear({0})",
    "weekofyear": "weekofyear({0})",
    "day": "day({0})",
    "dayofmonth": "day({0})",
    "hour": "hour({0})",
    "minute": "minute({0})",
    "second": "second({0})",
    "millisecond": "pmod(unix_millis({0}), 60000)",
    "microsecond": "pmod(unix_micros({0}), 60000000)",
    "dow": "dayofweek({0}) - 1",
    "dayofweek": "dayofweek({0}) - 1",
    "weekday": "dayofweek({0}) - 1",
    "isodow": "weekday({0}) + 1",
    "doy": "dayofyear({0})",
    "dayofyear": "dayofyear({0})",
    "epoch": "CAST(unix_micros({0}) AS DOUBLE) / 1000000D",
}
"""Parts of a time, for `date_part`; most are functions, too."""
UNITS = frozenset(
    ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
)  # fmt: skip
"""The units of `date_trunc`."""
COUNTED: Mapping[str, str] = {
    "year": "CAST(year({0}) AS BIGINT)",
    "month": "(year({0}) * 12L + month({0}))",
    "day": "CAST(datediff(CAST({0} AS DATE), DATE'1970-01-01') AS BIGINT)",
    "hour": "((unix_micros({0}) - pmod(unix_micros({0}), 3600000000)) div 3600000000)",
    "minute": "((unix_micros({0}) - pmod(unix_micros({0}), 60000000)) div 60000000)",
    "second": "((unix_micros({0}) - pmod(unix_micros({0}), 1000000)) div 1000000)",
    "millisecond": "unix_millis({0})",
    "microsecond": "unix_micros({0})",
}
"""The ordinal of a time by each unit; `date_diff` is the difference of two."""
STRFTIME: Mapping[str, str] = {
    "Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "I": "hh", "M": "mm", "S": "ss", "f": "SSSSSS", "g": "SSS",
    "j": "DDD", "p": "a", "y": "yy", "B": "MMMM", "b": "MMM", "A": "EEEE", "a": "EEE",
}  # fmt: skip
"""Letters of `strftime` as Spark's patterns have them."""

_LEN: Sequence[Form] = (("t", "length({0})"), ("l", "array_size({0})"))
_CONTAINS: Sequence[Form] = (
    (
        "le",
        "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE coalesce(array_contains({0}, {1}), false) END",
    ),
    ("tt", "contains({0}, {1})"),
)
_HAS: Sequence[Form] = _CONTAINS[:1]
_ONLY_NULLS = "array_size({0}) > 0 AND array_size(array_compact({0})) = 0"
_FLOOR = f"CASE WHEN abs({{0}}) < {EXACT_MAX} THEN CAST(%s({{0}}) AS DOUBLE) ELSE {{0}} END"

FUNCTIONS: Mapping[str, Sequence[Form]] = {
    **{name: [form] for name, form in _EPOCH_ALIKE.items()},
    **{
        name: [("T", text)]
        for name, text in PARTS.items()
        if name not in {"dow", "doy", "epoch"}
    },
    "make_timestamp": [("i", "timestamp_micros({0})")],
    "make_timestamptz": [("i", "timestamp_micros({0})")],
    "make_date": [("iii", "make_date(CAST({0} AS INT), CAST({1} AS INT), CAST({2} AS INT))")],
    "last_day": [("D", "last_day({0})")],
    "dayname": [("T", "date_format({0}, 'EEEE')")],
    "monthname": [("T", "date_format({0}, 'MMMM')")],
    "length": _LEN,
    "len": _LEN,
    "char_length": [("t", "length({0})")],
    "character_length": [("t", "length({0})")],
    "array_length": [("l", "array_size({0})")],
    "strlen": [("t", "octet_length({0})")],
    "trim": [("t", f"trim(BOTH '{_SPACES}' FROM {{0}})"), ("ts", "trim(BOTH {1} FROM {0})")],
    "ltrim": [("t", f"trim(LEADING '{_SPACES}' FROM {{0}})"), ("ts", "trim(LEADING {1} FROM {0})")],
    "rtrim": [("t", f"trim(TRAILING '{_SPACES}' FROM {{0}})"), ("ts", "trim(TRAILING {1} FROM {0})")],
    "substring": [("t1", "substring({0}, {1})"), ("t1k", "substring({0}, {1}, {2})")],
    "substr": [("t1", "substring({0}, {1})"), ("t1k", "substring({0}, {1}, {2})")],
    "left": [("tk", "left({0}, {1})")],
    "right": [("tk", "right({0}, {1})")],
    "replace": [("ttt", "replace({0}, {1}, {2})")],
    "repeat": [("tk", "repeat({0}, {1})")],
    "contains": _CONTAINS,
    "starts_with": [("tt", "startswith({0}, {1})")],
    "prefix": [("tt", "startswith({0}, {1})")],
    "^@": [("tt", "startswith({0}, {1})")],
    "ends_with": [("tt", "endswith({0}, {1})")],
    "suffix": [("tt", "endswith({0}, {1})")],
    "strpos": [("ts", "instr({0}, {1})")],
    "instr": [("ts", "instr({0}, {1})")],
    "position": [("ts", "instr({0}, {1})")],
    "split_part": [("ts1", "split_part({0}, {1}, {2})")],
    "concat_ws": [("sv*", "concat_ws({0}, {1})")],
    "concat": [("v*", "concat_ws('', {0})")],
    "md5": [("t", "md5({0})")],
    "sha256": [("t", "sha2({0}, 256)")],
    "abs": [("r", "abs({0})")],
    "@": [("r", "abs({0})")],
    "sqrt": [("d", "sqrt({0})")],
    "ln": [("d", _log("ln"))],
    "log": [("d", _log("log10"))],
    "log10": [("d", _log("log10"))],
    "log2": [("d", _log("log2"))],
    "exp": [("d", "exp({0})")],
    "pow": [("dd", "pow({0}, {1})")],
    "power": [("dd", "pow({0}, {1})")],
    "**": [("dd", "pow({0}, {1})")],
    "^": [("dd", "pow({0}, {1})")],
    "pi": [("", "pi()")],
    "isnan": [("d", "CASE WHEN {0} IS NULL THEN NULL ELSE isnan({0}) END")],
    "greatest": [("oo*", "greatest({0}, {1})")],
    "least": [("oo*", "least({0}, {1})")],
    "if": [("bxx", "if({0}, {1}, {2})")],
    "list_contains": _HAS,
    "list_has": _HAS,
    "array_contains": _HAS,
    "array_has": _HAS,
    "array_to_string": [("ls", f"CASE WHEN {_ONLY_NULLS} THEN NULL ELSE array_join({{0}}, {{1}}) END")],
    "list_value": [("y*", "array({0})")],
}  # fmt: skip
"""Forms of functions, the first that fits counts; the rest is in `calls`."""
FLOORS = {"floor": _FLOOR % "floor", "ceil": _FLOOR % "ceil", "ceiling": _FLOOR % "ceil"}
"""Rounding of doubles, which Spark would make longs."""
