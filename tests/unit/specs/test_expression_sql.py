"""The Spark SQL that Druid's expressions become. What it gives is tested on Spark itself."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.expressions import compile_condition, compile_expression

TYPES = {
    "n": "bigint",
    "i": "int",
    "d": "double",
    "f": "float",
    "s": "string",
    "b": "boolean",
    "mv": "array<string>",
    "ints": "array<int>",
    "at": "timestamp",
    "j": "struct<a:bigint>",
    "price": "decimal(10,2)",
}

GOLDENS = [
    ("n / 2", "(`n` div 2L)", "long"),
    ("n / 3", "(`n` div 3L)", "long"),
    (
        "n / n",
        "(CASE WHEN `n` = -1L THEN try_subtract(0L, `n`) ELSE `n` div nullif(`n`, 0L) END)",
        "long",
    ),
    ("n / 2.0", "(CAST(`n` AS DOUBLE) / 2.0D)", "double"),
    (
        "d / n",
        "(CASE WHEN CAST(`n` AS DOUBLE) = 0.0D THEN `d` * double('Infinity') "
        "ELSE `d` / CAST(`n` AS DOUBLE) END)",
        "double",
    ),
    ("n + i", "try_add(`n`, CAST(`i` AS BIGINT))", "long"),
    ("f + price", "(CAST(`f` AS DOUBLE) + CAST(`price` AS DOUBLE))", "double"),
    ("s + 'x'", "concat(`s`, 'x')", "string"),
    ("cast('-5', 'LONG')", "(-5L)", "long"),
    *(
        (
            f"cast('{text}', 'LONG')",
            f"coalesce(try_cast('{text}' AS BIGINT), try_cast(try_cast('{text}' AS DOUBLE) AS BIGINT))",
            "long",
        )
        for text in ("--5", "9" * 20, "9" * 5_000)
    ),
    ("s + 1", "(try_cast(`s` AS DOUBLE) + 1.0D)", "double"),
    ("new + 1", "(try_cast(`new` AS DOUBLE) + 1.0D)", "double"),
    ("new == 'a'", "CAST((CAST(`new` AS STRING) = 'a') AS BIGINT)", "long"),
    ("n > 1 && b", "CAST(((`n` > 1L) AND `b`) AS BIGINT)", "long"),
    ("!s", "CAST((NOT (lower(`s`) = 'true')) AS BIGINT)", "long"),
    ("b + 1", "try_add(CAST(`b` AS BIGINT), 1L)", "long"),
    ("b", "CAST(`b` AS BIGINT)", "long"),
    ("at", "unix_millis(`at`)", "long"),
    ("__time", "unix_millis(`__time`)", "long"),
    ("j", "to_json(`j`)", "json"),
    ("null + null", "NULL", "null"),
    ("-5", "(-5L)", "long"),
    ("-9223372036854775808", "(-9223372036854775807L - 1L)", "long"),
    ('"a`b"', "`a``b`", "unknown"),
    ("'it\\'s \\\\ \\n'", "'it\\'s \\\\ \\n'", "string"),
    ("upper(mv)", "transform(`mv`, v1 -> upper(v1))", "array<string>"),
    (
        "ints + 1",
        "transform(transform(`ints`, e -> CAST(e AS BIGINT)), v1 -> try_add(v1, 1L))",
        "array<long>",
    ),
    ("if(n > 0, n, d)", "CASE WHEN (`n` > 0L) THEN CAST(`n` AS DOUBLE) ELSE `d` END", "double"),
    ("nvl(s, 'none')", "coalesce(`s`, 'none')", "string"),
    ("like(s, 'a\\\\%')", "CAST((`s` LIKE 'a\\\\\\\\%') AS BIGINT)", "long"),
    (
        "timestamp_floor(__time, 'PT1H')",
        "(unix_millis(`__time`) - pmod(unix_millis(`__time`), 3600000L))",
        "long",
    ),
    ("timestamp_floor(n, 'P1W')", "(`n` - pmod(`n` - 345600000L, 604800000L))", "long"),
]


@pytest.mark.parametrize(("text", "sql", "kind"), GOLDENS, ids=[g[0] for g in GOLDENS])
def test_goldens(text: str, sql: str, kind: str) -> None:
    compiled = compile_expression(text, TYPES)
    assert compiled.sql == sql
    assert compiled.type == kind


def test_the_columns_that_are_read_are_known() -> None:
    compiled = compile_expression("concat(a, \"b c\", upper('d')) + __time")
    assert compiled.inputs == {"a", "b c", "__time"}


def test_conditions_stay_conditions() -> None:
    assert compile_condition("n > 1", TYPES).sql == "(`n` > 1L)"
    assert compile_condition("n", TYPES).sql == "(`n` > 0L)"
    assert compile_condition("s", TYPES).sql == "(lower(`s`) = 'true')"
    several = compile_condition("mv == 'a'", TYPES).sql
    assert several == "exists(transform(`mv`, v1 -> CAST((v1 = 'a') AS BIGINT)), e -> (e > 0L))"


REFUSED = [
    ("uper(s)", "function uper is not supported; did you mean 'upper'?"),
    ("xyzzy(s)", "function xyzzy is not supported"),
    ("lookup(s, 'x')", "function lookup is for queries; it cannot be used while ingesting"),
    ("substring(s, 1)", "function substring takes 3 arguments, not 2"),
    ("upper()", "function upper takes 1 argument, not 0"),
    ("timestamp_floor(n)", "function timestamp_floor takes 2 to 4 arguments, not 1"),
    ("coalesce()", "function coalesce takes at least 1 arguments, not 0"),
    ("s - s", "operator - does not take two texts; cast them to numbers"),
    ("-s", "operator - does not take a text; cast it to a number"),
    ("cast(n, 'WORD')", "function cast does not know the type 'word'; use LONG, DOUBLE or STRING"),
    ("cast(n, s)", "function cast needs the type as a text in single quotes"),
    ("like(s, s)", "function like needs its pattern as a text in single quotes"),
    ("round(d, n)", "function round needs the decimal places as a whole number"),
    ("parse_long(s, 40)", "function parse_long needs a radix of 2 to 36, not 40"),
    ("concat(mv, mv)", "two multi-value columns in one operation are not supported"),
    ("json_value(s, 'a')", "function json_value needs a path like $.a.b[0], not 'a'"),
    ("json_object('a')", "function json_object needs names and values in turn"),
    (
        "timestamp_floor(n, 'P1D', null, 'Mars')",
        "'Mars' is not a time zone; write UTC, an offset such as +05:30, or a name such as America/New_York",
    ),
    (
        "timestamp_floor(n, 'P1D', null, s)",
        "function timestamp_floor needs the time zone as a text in single quotes",
    ),
    (
        "timestamp_floor(n, 'day')",
        "'day' is not an ISO 8601 period; write one such as P1D, P3M or PT6H",
    ),
    (
        "timestamp_floor(n, 'P1M1D')",
        "period P1M1D mixes months with shorter units, which is not supported",
    ),
    (
        "timestamp_floor(n, 'P1M', '1970-01-15')",
        'period {"type": "period", "period": "P1M", "origin": "1970-01-15T00:00:00.000Z"} starts in '
        "the middle of a month, which is not supported",
    ),
    (
        "timestamp_shift(n, 'day', 1)",
        "function timestamp_shift needs an ISO 8601 period, not 'DAY'",
    ),
    (
        "timestamp_extract(n, 'FORTNIGHT')",
        "function timestamp_extract does not know the unit 'FORTNIGHT'; use e.g. 'DAY'",
    ),
    (
        "timestamp_format(n, 'HH Z', 'Europe/Paris')",
        "function timestamp_format cannot write an offset in a zone other than UTC",
    ),
    ("<WORD>[]", "an array cannot be of type word; use STRING, LONG or DOUBLE"),
    (
        "array(mv, mv) == 1 + upper(array(1))",
        "two multi-value columns in one operation are not supported",
    ),
]


def test_long_chains_have_a_limit_and_deep_trees_are_refused() -> None:
    chain = " + ".join(["n"] * 200)
    assert compile_expression(chain, TYPES).sql.startswith("try_add(")
    with pytest.raises(Invalid, match="more than 200 operations in a row"):
        compile_expression(f"{chain} + n + n", TYPES)
    grown = "d"
    for _ in range(20):
        grown = f"({grown} / d)"
    with pytest.raises(Invalid, match="becomes too long in Spark SQL"):
        compile_expression(grown, TYPES)
    deep = "n"
    for _ in range(20):
        deep = f"({' + '.join([deep] + ['n'] * 150)})"
    with pytest.raises(Invalid, match="is nested too deep"):
        compile_expression(deep, TYPES)


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_not_supported_is_named(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        compile_expression(text, TYPES)
    assert caught.value.message == f"expression '{text}': {message}"
