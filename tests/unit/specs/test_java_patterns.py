"""Java's regular expressions: which of them DuckDB does not read, and their replacements."""

from __future__ import annotations

import duckdb
import pytest

from carnac.errors import Invalid
from carnac.rows.expressions import provide
from carnac.specs.druid.patterns import is_javas, read_pattern, to_rewrite

OF_BOTH = [
    "(?<n>a)",
    "(?:a)",
    r"\\1",
    "a+",
    "[a+]+",
    "[]+]+x",
    r"\(?=",
    r"a\++",
    "(?i)a",
]
OF_JAVA = [
    "a(?=b)",
    "a(?!b)",
    "(?<=x)y",
    "(?<!x)y",
    r"(a)\1",
    r"(?<n>a)\k<n>",
    "a++",
    "a{2}+",
    "(?>a)",
]


@pytest.mark.parametrize("pattern", OF_BOTH)
def test_what_duckdb_reads_is_left_to_it(pattern: str) -> None:
    assert not is_javas(pattern)
    duckdb.execute("SELECT regexp_matches('x', ?)", [read_pattern(pattern)]).fetchall()


@pytest.mark.parametrize("pattern", OF_JAVA)
def test_what_duckdb_does_not_read_is_read(pattern: str) -> None:
    assert is_javas(pattern)
    with duckdb.connect() as con:
        provide(con, "java_regexp_matches(x, y)")
        provide(con, "java_regexp_matches(x, y)")
        found = con.execute(
            "SELECT java_regexp_matches(NULL, ?), java_regexp_matches('', ?)",
            [read_pattern(pattern)] * 2,
        )
        assert found.fetchall() == [(None, False)]
        with pytest.raises(duckdb.InvalidInputException):
            con.execute("SELECT regexp_matches('x', ?)", [pattern]).fetchall()


@pytest.mark.parametrize(
    ("replacement", "rewrite"),
    [("a$1b", r"a\1b"), (r"\$1", "$1"), (r"\\", r"\\"), (r"\x", "x"), ("", "")],
)
def test_replacements_are_javas(replacement: str, rewrite: str) -> None:
    assert to_rewrite(replacement) == rewrite


@pytest.mark.parametrize("replacement", ["${n}", "a$", "a\\"])
def test_a_replacement_that_names_nothing_is_refused(replacement: str) -> None:
    with pytest.raises(Invalid, match="that is followed by no"):
        to_rewrite(replacement)
