"""Druid's filters that are refused, and why. What the others keep is tested where rows are loaded and queried."""

from __future__ import annotations

import re
from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.rows import column_of, compile_filter
from carnac.specs.druid.terms.filters import MAX_DEPTH

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


@pytest.mark.parametrize("flag", [True, False])
def test_flags_may_be_texts(flag: bool) -> None:
    bound = {"type": "bound", "dimension": "s", "lower": "a", "upper": "c"}
    query = {"type": "contains", "value": "B"}
    for given in (flag, str(flag).lower()):
        found = compile_filter({**bound, "lowerStrict": given, "upperStrict": given}, COLUMNS).text
        assert ("\"s\" > 'a'" in found, "\"s\" < 'c'" in found) == (flag, flag)
        search = {"type": "search", "dimension": "s", "query": {**query, "caseSensitive": given}}
        assert ("lower(" not in compile_filter(search, COLUMNS).text) is flag


def test_the_columns_that_are_read_are_known() -> None:
    block = {
        "type": "and",
        "fields": [
            {"type": "selector", "dimension": "a", "value": "x"},
            {"type": "expression", "expression": "b > c"},
        ],
    }
    assert compile_filter(block).inputs == {"a", "b", "c"}


REFUSED: list[tuple[Any, str]] = [
    ("s = 1", "a filter must be an object with a type, such as selector"),
    ({}, "a filter must be an object with a type, such as selector"),
    ({"type": "selectr"}, "there is no filter 'selectr'; did you mean 'selector'?"),
    ({"type": "selector", "value": "x"}, "filter selector needs dimension"),
    (
        {"type": "selector", "dimension": "s", "valu": "x"},
        "filter selector has no field 'valu'; did you mean 'value'?",
    ),
    ({"type": "and", "fields": []}, "filter and needs fields as a list that is not empty"),
    ({"type": "not"}, "filter not needs field"),
    (
        {"type": "javascript", "dimension": "s"},
        "filter 'javascript' is not supported; write it as an expression",
    ),
    ({"type": "bound", "dimension": "s"}, "filter bound needs lower or upper"),
    (
        {"type": "range", "column": "s", "matchValueType": "LONG"},
        "filter range needs lower or upper",
    ),
    ({"type": "in", "dimension": "s"}, "filter in needs values as a list"),
    (
        {"type": "search", "dimension": "s", "query": {"type": "x"}},
        "there is no search query 'x'",
    ),
    (
        {"type": "search", "dimension": "s", "query": {"type": "contains"}},
        "a search query of type contains needs a text to look for",
    ),
    (
        {"type": "columnComparison", "dimensions": ["mv", "s"]},
        "texts of multi-value columns cannot be compared; write an expression",
    ),
    (
        {
            "type": "columnComparison",
            "dimensions": ["n", {"type": "lookup", "dimension": "s", "name": "l"}],
        },
        "a lookup is for queries; it cannot be used while ingesting",
    ),
    (
        {"type": "selector", "dimension": 3, "value": "x"},
        "a dimension must be an object, not 3",
    ),
    (
        {"type": "interval", "dimension": "__time", "intervals": ["2013"]},
        "'2013' is not an interval; write it like 2013-01-01/2013-02-01 or 2013-01-01/P1M",
    ),
    (
        {"type": "expression", "expression": "n >"},
        "expression 'n >', character 4: the expression ends too early",
    ),
]


@pytest.mark.parametrize(("block", "message"), REFUSED, ids=[m[:50] for _, m in REFUSED])
def test_what_is_not_supported_is_named(block: Any, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        compile_filter(block, COLUMNS)
    assert caught.value.message == message


def test_nesting_has_a_limit() -> None:
    block: dict[str, Any] = {"type": "true"}
    for _ in range(MAX_DEPTH + 1):
        block = {"type": "not", "field": block}
    with pytest.raises(Invalid, match=f"nested more than {MAX_DEPTH} deep"):
        compile_filter(block)


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("[", "unterminated character set, at character 1"),
        ("(a", "missing ), unterminated subpattern, at character 1"),
        ("a)", "unbalanced parenthesis, at character 2"),
        ("*a", "nothing to repeat, at character 1"),
        ("a|+", "nothing to repeat, at character 3"),
        ("a\\", "bad escape (end of pattern), at character 2"),
        ("a{2,1}", "min repeat greater than max repeat, at character 3"),
        ("a{99999999999}", "repeats or nests too much"),
    ],
)
def test_a_pattern_that_no_engine_reads_is_refused(pattern: str, wrong: str) -> None:
    quoted = pattern.replace("\\", "\\\\")
    for block in (
        {"type": "regex", "dimension": "s", "pattern": pattern},
        {"type": "expression", "expression": f"regexp_like(s, '{quoted}')"},
        {"type": "expression", "expression": f"regexp_extract(s, '{quoted}') == 'a'"},
        {"type": "expression", "expression": f"regexp_replace(s, '{quoted}', '') == 'a'"},
    ):
        with pytest.raises(Invalid, match=re.escape(wrong)):
            compile_filter(block, COLUMNS)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "a{2}{3}",
            "a++",
            "^*",
            "(?<n>a)",
            "(?>a)",
            r"\p{L}",
            r"\h\R",
            r"\x{1F600}",
            "[[:alpha:]]",
        ),
        *(
            "[a-z&&[^b]]",
            "[[a])]",
            r"\Q(*\E",
            "(?i)a",
            "(?x)a # (",
            r"(a)\1",
            r"\b*",
            "($)+",
            r"[\w-z]",
        ),
    ],
)
def test_a_pattern_that_java_reads_is_taken(pattern: str) -> None:
    assert (
        "regexp_matches"
        in compile_filter({"type": "regex", "dimension": "s", "pattern": pattern}, COLUMNS).text
    )
