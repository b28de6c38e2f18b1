"""The Spark SQL that Druid's filters become. What it keeps is tested on Spark itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.filters import FILTER_TYPES, MAX_DEPTH, NUMBER
from carnac.specs.druid.spark_filters import compile_filter

TYPES = {"n": "bigint", "d": "double", "s": "string", "b": "boolean", "mv": "array<string>"}

S_AS_NUMBER = f"CASE WHEN `s` RLIKE '^{NUMBER}$' THEN try_cast(`s` AS DOUBLE) END"

GOLDENS: list[tuple[dict[str, Any], str]] = [
    ({"type": "true"}, "true"),
    ({"type": "false"}, "false"),
    ({"type": "selector", "dimension": "s", "value": "a'b"}, "(`s` = 'a\\'b')"),
    ({"type": "selector", "dimension": "s", "value": None}, "(`s` IS NULL)"),
    ({"type": "selector", "dimension": "n", "value": "5"}, "(`n` = 5L)"),
    ({"type": "selector", "dimension": "d", "value": "10.1"}, "(`d` = 10.1D)"),
    ({"type": "selector", "dimension": "n", "value": "word"}, "(`n` <> `n`)"),
    *(
        (
            {"type": "selector", "dimension": "n", "value": digits},
            f"(CAST(`n` AS DOUBLE) = {as_double})",
        )
        for digits, as_double in (("9" * 20, "1e+20D"), ("9" * 5_000, "double('inf')"))
    ),
    ({"type": "selector", "dimension": "b", "value": "true"}, "(CAST(`b` AS STRING) = 'true')"),
    ({"type": "selector", "dimension": "b", "value": True}, "(CAST(`b` AS STRING) = 'true')"),
    ({"type": "selector", "dimension": "new", "value": 5}, "(CAST(`new` AS STRING) = '5')"),
    (
        {"type": "selector", "dimension": "mv", "value": "a"},
        "CASE WHEN array_size(`mv`) > 0 THEN exists(`mv`, e -> (e = 'a')) END",
    ),
    (
        {"type": "equals", "column": "s", "matchValueType": "LONG", "matchValue": 3},
        f"CASE WHEN `s` IS NOT NULL THEN coalesce(({S_AS_NUMBER} = 3.0D), False) END",
    ),
    (
        {"type": "equals", "column": "s", "matchValueType": "LONG", "matchValue": "word"},
        "(`s` <> `s`)",
    ),
    ({"type": "null", "column": "n"}, "(`n` IS NULL)"),
    (
        {"type": "null", "column": "mv"},
        "(`mv` IS NULL OR array_size(`mv`) = 0 OR exists(`mv`, e -> e IS NULL))",
    ),
    ({"type": "in", "dimension": "s", "values": ["a", "b"]}, "(`s` IN ('a', 'b'))"),
    ({"type": "in", "dimension": "s", "values": ["a", None]}, "((`s` IN ('a')) OR (`s` IS NULL))"),
    ({"type": "in", "dimension": "n", "values": ["1", 2]}, "(`n` IN (1L, 2L))"),
    ({"type": "in", "dimension": "s", "values": []}, "false"),
    (
        {"type": "inType", "column": "n", "matchValueType": "LONG", "sortedValues": [1]},
        "(`n` IN (1L))",
    ),
    (
        {"type": "bound", "dimension": "s", "lower": "a", "upper": "c", "upperStrict": True},
        "((`s` >= 'a') AND (`s` < 'c'))",
    ),
    (
        {"type": "bound", "dimension": "s", "upper": "31", "ordering": "numeric"},
        f"((CASE WHEN `s` IS NOT NULL THEN coalesce(({S_AS_NUMBER} <= 31.0D), True) END) OR (`s` IS NULL))",
    ),
    (
        {"type": "bound", "dimension": "s", "lower": "ab", "ordering": "strlen"},
        "((length(`s`) > length('ab') OR (length(`s`) = length('ab') AND `s` >= 'ab')))",
    ),
    (
        {
            "type": "range",
            "column": "n",
            "matchValueType": "LONG",
            "lower": 1,
            "upper": 3,
            "upperOpen": True,
        },
        "((`n` >= 1L) AND (`n` < 3L))",
    ),
    (
        {"type": "interval", "dimension": "__time", "intervals": ["1970-01-01/1970-01-02"]},
        "((unix_millis(`__time`) >= 0L AND unix_millis(`__time`) < 86400000L))",
    ),
    ({"type": "like", "dimension": "s", "pattern": "a%"}, "(`s` LIKE 'a%')"),
    ({"type": "like", "dimension": "s", "pattern": "a$%", "escape": "$"}, "(`s` LIKE 'a\\\\%')"),
    ({"type": "regex", "dimension": "s", "pattern": "^\\d+"}, "(`s` RLIKE '^\\\\d+')"),
    (
        {
            "type": "search",
            "dimension": "s",
            "query": {"type": "insensitive_contains", "value": "Ab"},
        },
        "(contains(lower(`s`), 'ab'))",
    ),
    (
        {
            "type": "search",
            "dimension": "s",
            "query": {"type": "fragment", "values": ["a", "B"], "caseSensitive": True},
        },
        "(contains(`s`, 'a') AND contains(`s`, 'B'))",
    ),
    (
        {"type": "columnComparison", "dimensions": ["s", {"type": "default", "dimension": "n"}]},
        "(`s` IS NOT DISTINCT FROM CAST(`n` AS STRING))",
    ),
    (
        {
            "type": "arrayContainsElement",
            "column": "mv",
            "elementMatchValueType": "STRING",
            "elementMatchValue": "a",
        },
        "CASE WHEN array_size(`mv`) > 0 THEN exists(`mv`, e -> (e = 'a')) END",
    ),
    ({"type": "expression", "expression": "n > 1"}, "(`n` > 1L)"),
    (
        {
            "type": "and",
            "fields": [
                {"type": "not", "field": {"type": "null", "column": "s"}},
                {
                    "type": "or",
                    "fields": [{"type": "true"}, {"type": "istrue", "field": {"type": "false"}}],
                },
            ],
        },
        "((NOT (`s` IS NULL)) AND (true OR (false IS TRUE)))",
    ),
    ({"type": "isfalse", "field": {"type": "true"}}, "(true IS FALSE)"),
    ({"type": "extraction", "dimension": "s", "value": "a"}, "(`s` = 'a')"),
]


@pytest.mark.parametrize(("block", "sql"), GOLDENS)
def test_goldens(block: dict[str, Any], sql: str) -> None:
    assert compile_filter(block, TYPES).sql == sql


@pytest.mark.parametrize("flag", [True, False])
def test_flags_may_be_texts(flag: bool) -> None:
    bound = {"type": "bound", "dimension": "s", "lower": "a", "upper": "c"}
    query = {"type": "contains", "value": "B"}
    for given in (flag, str(flag).lower()):
        found = compile_filter({**bound, "lowerStrict": given, "upperStrict": given}, TYPES).sql
        assert ("`s` > 'a'" in found, "`s` < 'c'" in found) == (flag, flag)
        search = {"type": "search", "dimension": "s", "query": {**query, "caseSensitive": given}}
        assert ("lower(" not in compile_filter(search, TYPES).sql) is flag


def test_every_type_has_a_golden() -> None:
    def types_in(block: object) -> set[str]:
        if isinstance(block, dict):
            inner = [types_in(value) for value in block.values()]
            return {str(block.get("type"))}.union(*inner)
        return (
            set().union(*(types_in(item) for item in block)) if isinstance(block, list) else set()
        )

    assert set(FILTER_TYPES) <= set().union(*(types_in(block) for block, _ in GOLDENS))


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
    (
        {"type": "selector", "dimension": "s", "value": "x", "extractionFn": {"type": "upper"}},
        "extractionFn is not supported in filters; write an expression filter",
    ),
    ({"type": "bound", "dimension": "s"}, "filter bound needs lower or upper"),
    (
        {"type": "bound", "dimension": "s", "lower": "1", "ordering": "version"},
        "ordering 'version' of filter bound is not supported; use numeric or lexicographic",
    ),
    (
        {"type": "bound", "dimension": "s", "lower": "1", "alphaNumeric": True},
        "ordering 'alphanumeric' of filter bound is not supported; use numeric or lexicographic",
    ),
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
        {"type": "columnComparison", "dimensions": [{"type": "extraction", "dimension": "s"}]},
        "dimension spec 'extraction' is not supported in filters",
    ),
    (
        {"type": "selector", "dimension": 3, "value": "x"},
        "a filter needs the name of a column, not 3",
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
        compile_filter(block, TYPES)
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
            compile_filter(block, TYPES)


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
        "RLIKE"
        in compile_filter({"type": "regex", "dimension": "s", "pattern": pattern}, TYPES).sql
    )
