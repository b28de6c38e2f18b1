"""Druid's expressions that are refused, and why. What the others give is tested where rows are loaded and queried."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.rows import column_of, compile_value

COLUMNS = {
    name: column_of(name, kind)
    for name, kind in {
        "n": "BIGINT",
        "d": "DOUBLE",
        "s": "VARCHAR",
        "b": "BOOLEAN",
        "mv": "VARCHAR[]",
    }.items()
}


@pytest.mark.parametrize(
    ("kind", "druids"),
    [
        ("BIGINT", "long"),
        ("UTINYINT", "long"),
        ("UBIGINT", "long"),
        ("DECIMAL(10,2)", "double"),
        ("FLOAT", "double"),
        ("BOOLEAN", "long"),
        ("TIMESTAMP WITH TIME ZONE", "long"),
        ("DATE", "long"),
        ("STRUCT(a BIGINT)", "json"),
        ("INTEGER[]", "array<long>"),
        ("BOOLEAN[]", "array<long>"),
        ("DECIMAL(4,1)[]", "array<double>"),
        ("STRUCT(a BIGINT[])[]", "array<string>"),
        ("UUID", "string"),
    ],
)
def test_columns_have_the_type_that_druid_would_give_them(kind: str, druids: str) -> None:
    assert compile_value("c", {"c": column_of("c", kind)}).kind == druids


def test_the_columns_that_are_read_are_known() -> None:
    compiled = compile_value("concat(a, \"b c\", upper('d')) + __time", None)
    assert compiled.inputs == {"a", "b c", "__time"}


REFUSED = [
    ("uper(s)", "function uper is not supported; did you mean 'upper'?"),
    ("xyzzy(s)", "function xyzzy is not supported"),
    ("lookup(s, 'x')", "function lookup is for queries; it cannot be used while ingesting"),
    ("substring(s, 1)", "function substring takes 3 arguments, not 2"),
    ("upper()", "function upper takes 1 argument, not 0"),
    ("timestamp_floor(n)", "function timestamp_floor takes 2 to 4 arguments, not 1"),
    ("coalesce()", "function coalesce takes at least 1 argument, not 0"),
    ("s - s", "operator - does not take two texts; cast them to numbers"),
    ("cast(n, 'WORD')", "function cast does not know the type 'word'; use LONG, DOUBLE or STRING"),
    ("cast(n, s)", "the type must be a constant, such as a text in single quotes"),
    ("like(s, s)", "the pattern must be a constant, such as a text in single quotes"),
    ("round(d, n)", "the digits must be a whole number, as a constant"),
    ("parse_long(s, 40)", "parse_long takes a radix of 2 to 36, not 40"),
    ("concat(mv, mv)", "two multi-value columns in one operation are not supported"),
    ("json_value(s, 'a')", "a path is like $.a.b[0], not 'a'"),
    ("json_object('a')", "json_object takes names and values in turn"),
    (
        "timestamp_floor(n, 'P1D', null, 'Mars')",
        "'Mars' is not a time zone; write UTC, an offset such as +05:30, or a name such as America/New_York",
    ),
    (
        "timestamp_floor(n, 'P1D', null, s)",
        "the zone must be a constant, such as a text in single quotes",
    ),
    (
        "timestamp_floor(n, 'day')",
        "'day' is not an ISO 8601 period; write one such as P1D, P3M or PT6H",
    ),
    (
        "timestamp_floor(n, 'P1M1D')",
        "TIME_FLOOR does not take 'P1M1D'",
    ),
    (
        "timestamp_floor(n, 'P1M', '1970-01-15')",
        "TIME_FLOOR does not take 'P1M', '1970-01-15T00:00:00.000Z'",
    ),
    (
        "timestamp_shift(n, 'day', 1)",
        "'day' is not an ISO 8601 period; write one such as P1D, P3M or PT6H",
    ),
    (
        "timestamp_extract(n, 'FORTNIGHT')",
        "TIME_EXTRACT does not take 'FORTNIGHT'",
    ),
    (
        "timestamp_format(n, 'HH Z', 'Europe/Paris')",
        "TIME_FORMAT does not take 'HH Z', 'Europe/Paris'",
    ),
    ("<WORD>[]", "an array cannot be of type word; use STRING, LONG or DOUBLE"),
    (
        "array(mv, mv) == 1 + upper(array(1))",
        "an array of arrays is not supported",
    ),
]


def test_long_chains_have_a_limit_and_deep_trees_are_refused() -> None:
    chain = " + ".join(["n"] * 200)
    assert compile_value(chain, COLUMNS).kind == "long"
    with pytest.raises(Invalid, match="more than 200 operations in a row"):
        compile_value(f"{chain} + n + n", COLUMNS)
    grown = "d"
    for _ in range(20):
        grown = f"round({grown})"
    with pytest.raises(Invalid, match="becomes too long in SQL"):
        compile_value(grown, COLUMNS)
    deep = "n"
    for _ in range(20):
        deep = f"({' + '.join([deep] + ['n'] * 150)})"
    with pytest.raises(Invalid, match="is nested too deep"):
        compile_value(deep, COLUMNS)


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_not_supported_is_named(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        compile_value(text, COLUMNS)
    assert caught.value.message == f"expression '{text}': {message}"
