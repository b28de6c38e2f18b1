"""Whatever an expression is, it is read, refused, or left to Spark; what is translated is SQL that DuckDB takes."""

from __future__ import annotations

import json

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.errors import Invalid
from carnac.specs.spark_sql.duck import FUNCTIONS, Kind, to_duckdb
from carnac.specs.spark_sql.syntax import Beyond, Mistake, parse

KINDS: dict[str, Kind] = {
    "s": "string",
    "n": "long",
    "x": "double",
    "b": "bool",
    "t": "time",
    "a b": "string",
}
PIECES = [
    *(
        "s",
        "n",
        "x",
        "b",
        "t",
        "`a b`",
        "'text'",
        "''",
        "1",
        "2.5",
        "1e3",
        "3L",
        "null",
        "true",
        "0",
    ),
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "=",
        "<>",
        "<=>",
        "<",
        "and",
        "or",
        "not",
        "is",
        "in",
        "between",
        "like",
        ",",
        "(",
        ")",
    ),
    *(
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "as",
        "string",
        "bigint",
        "double",
        "'",
        '"',
        "`",
        "\\",
        "--",
        "[",
        "]",
    ),
    *FUNCTIONS,
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join)))
def test_any_text_is_read_or_refused_by_a_sentence(text: str) -> None:
    message = "it is read"
    try:
        parse(text)
    except (Mistake, Beyond) as error:
        message = error.message
    assert message


def of_kind(kind: Kind) -> st.SearchStrategy[str]:
    """Return expressions of a type, most of them."""
    leaves = {
        "string": st.sampled_from(["s", "`a b`", "'x'", "''"]),
        "long": st.sampled_from(["n", "7", "-1", "3L"]),
        "double": st.sampled_from(["x", "1.5D", "1e3"]),
        "bool": st.sampled_from(["b", "true", "n > 1"]),
    }

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, inner)
        signs = {
            "string": ["||"],
            "long": ["+", "-", "*", "%"],
            "double": ["+", "*", "/"],
            "bool": ["and", "or"],
        }
        return st.one_of(
            pairs.flatmap(
                lambda two: st.sampled_from([f"({two[0]} {sign} {two[1]})" for sign in signs[kind]])
            ),
            pairs.map(lambda two: f"coalesce({two[0]}, {two[1]})"),
            pairs.map(lambda two: f"case when b then {two[0]} else {two[1]} end"),
            pairs.map(lambda two: f"if(n is null, {two[0]}, {two[1]})"),
        )

    return st.recursive(leaves[kind], grow, max_leaves=8)


@pytest.mark.parametrize("kind", ["string", "long", "double", "bool"])
def test_what_is_translated_is_sql_of_the_type_that_was_said(kind: Kind) -> None:
    con = duckdb.connect()
    con.execute(
        'CREATE TABLE r (s VARCHAR, n BIGINT, x DOUBLE, b BOOLEAN, t TIMESTAMPTZ, "a b" VARCHAR)'
    )
    types = {
        "string": "VARCHAR",
        "long": "BIGINT",
        "int": "BIGINT",
        "double": "DOUBLE",
        "bool": "BOOLEAN",
    }

    @given(of_kind(kind))
    def law(text: str) -> None:
        try:
            found = to_duckdb(text, KINDS)
        except Invalid:
            return
        (column,) = con.execute(f"DESCRIBE SELECT {found.sql} AS v FROM r").fetchall()
        assert column[1] == types[found.kind], (text, found.sql)

    law()


@pytest.mark.parametrize(
    "text",
    [
        "not " * 5_000 + "b",
        "- " * 5_000 + "n",
        "(" * 5_000 + "n" + ")" * 5_000,
        " + ".join(["n"] * 20_000),
        " or ".join(["b"] * 20_000),
        "upper(" * 3_000 + "s" + ")" * 3_000,
        "case when b then " * 2_000 + "1" + " end" * 2_000,
        " " * 500_000 + "b",
        "'" + "x" * 500_000,
        json.dumps({"a": [1] * 1_000}),
    ],
    ids=range(10),
)
def test_texts_that_go_on_and_on_are_refused(text: str) -> None:
    if text.strip() == "b":
        parse(text)
        return
    with pytest.raises((Mistake, Beyond)):
        parse(text)
