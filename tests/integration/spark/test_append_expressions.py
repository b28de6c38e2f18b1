"""Every operator and function that `append` computes gives what Spark gives, or refuses the row."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from carnac.jobs.ingest.spark_rows import with_settings
from carnac.spark.session import SparkHolder
from carnac.specs.spark_sql.duck import FUNCTIONS, REFUSAL, Kind, to_duckdb
from carnac.store import Store

pytestmark = pytest.mark.spark

KINDS: dict[str, Kind] = {
    "s": "string", "u": "string", "n": "long", "m": "long", "x": "double", "y": "double",
    "b": "bool", "c": "bool", "t": "time",
}  # fmt: skip
SPARK = (
    "s string, u string, n bigint, m bigint, x double, y double, b boolean, c boolean, t timestamp"
)
DUCK = "s VARCHAR, u VARCHAR, n BIGINT, m BIGINT, x DOUBLE, y DOUBLE, b BOOLEAN, c BOOLEAN, t TIMESTAMPTZ"
TEXTS = [
    None, "", " ", "a", "A b ", "  pad  ", "\tq\t", "Straße", "ΣΑΣ", "x%y_z", "12", " 12 ", "+7", "-0", "1.9", "1e3",
    ".5", "5.", "1.5d", "NaN", "inf", "-Infinity", "0x1F", "99999999999999999999",
    "12a", "é", "日本語", "'", "\U0001f600b",
    "true", "1_000", "--1", "\u00a05", "1\t", "1 2", "e5", "+", ".", "-.5e-3", "9e999",
]  # fmt: skip
LONGS = [None, 0, 1, -1, 2, 7, -7, 10, 1 << 31, -(1 << 53) - 1, (1 << 63) - 1, -(1 << 63)]
DOUBLES = [
    None,
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.1,
    1e18,
    1e300,
    -1e-300,
    math.inf,
    -math.inf,
    math.nan,
]
ROWS = 300

EXPRESSIONS = [
    "n = m",
    "x <> y",
    "s < u",
    "n <= 7",
    "x > 1.5",
    "n >= x",
    "s <=> u",
    "n <=> m",
    "b = c",
    "t = t",
    "n BETWEEN -1 AND 10",
    "s BETWEEN 'a' AND 'z'",
    "n IN (1, 2, 7)",
    "s IN ('a', '12')",
    "n NOT IN (1, 7)",
    "x IN (1.0D, 2.5D)",
    "s LIKE 'a%'",
    "s LIKE '%_%'",
    "s NOT LIKE '_'",
    "s LIKE 'x%y_z'",
    "s IS NULL",
    "n IS NOT NULL",
    "b AND c",
    "b OR c",
    "NOT b",
    "n + m",
    "n - 1",
    "n * 3",
    "n / m",
    "n % m",
    "x + y",
    "x - 1.5",
    "x * y",
    "x / y",
    "x / 0",
    "-n",
    "-x",
    "n + x",
    "n + 2147483647",
    "s || u",
    "concat(s, '-', n)",
    "CASE WHEN n > 0 THEN 'p' WHEN n < 0 THEN 'm' END",
    "CASE n WHEN 1 THEN x ELSE 0.5D END",
    "upper(s)",
    "ucase(s)",
    "lower(s)",
    "lcase(s)",
    "trim(s)",
    "ltrim(s)",
    "rtrim(s)",
    "length(s)",
    "len(s)",
    "char_length(s)",
    "character_length(s)",
    "substring(s, 2)",
    "substring(s, 2, 2)",
    "substr(s, 1, 0)",
    "replace(s, 'a', 'bb')",
    "startswith(s, u)",
    "endswith(s, u)",
    "contains(s, u)",
    "coalesce(s, u, '?')",
    "nvl(n, m)",
    "ifnull(x, 1)",
    "nullif(n, 1)",
    "if(b, s, u)",
    "if(n > 1, 1, 2)",
    "isnull(s)",
    "isnotnull(s)",
    "abs(n)",
    "abs(x)",
    "floor(x)",
    "ceil(x)",
    "ceiling(x)",
    "sqrt(x)",
    "CAST(s AS BIGINT)",
    "CAST(s AS DOUBLE)",
    "CAST(n AS STRING)",
    "CAST(n AS DOUBLE)",
    "CAST(x AS BIGINT)",
    "CAST(b AS STRING)",
    "CAST(NULL AS STRING)",
    "CAST(s AS STRING)",
    "date_trunc('HOUR', t)",
    "date_trunc('week', t)",
    "date_trunc('quarter', t)",
    "year(t)",
    "quarter(t)",
    "month(t)",
    "day(t)",
    "dayofmonth(t)",
    "dayofyear(t)",
    "dayofweek(t)",
    "hour(t)",
    "minute(t)",
    "second(t)",
    "timestamp_millis(n % 1000000)",
    "unix_millis(t)",
    "upper(trim(s)) = 'A B' OR length(s) > 3 AND NOT b",
    "(n + 1) * 2 > 4 - -m",
]


def made(seed: int) -> list[tuple[Any, ...]]:
    from datetime import UTC, datetime, timedelta

    rng = random.Random(seed)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    times = [
        None,
        *(start + timedelta(microseconds=rng.randrange(-(10**15), 4 * 10**15)) for _ in range(40)),
    ]
    pools = [
        TEXTS,
        TEXTS,
        LONGS,
        LONGS,
        DOUBLES,
        DOUBLES,
        [None, True, False],
        [True, False],
        times,
    ]
    return [tuple(rng.choice(pool) for pool in pools) for _ in range(ROWS)]


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or ours == theirs
    return type(ours) is type(theirs) and ours == theirs


def test_every_function_has_an_example() -> None:
    called = {name for name in FUNCTIONS if any(f"{name}(" in one.lower() for one in EXPRESSIONS)}
    assert called == set(FUNCTIONS)


def test_every_expression_gives_what_spark_gives_or_refuses_the_row(
    spark_holder: SparkHolder,
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rows = made(seed)
    session = spark_holder.session()
    with with_settings(session):
        frame = session.createDataFrame(rows, SPARK).select(
            *(F.expr(one).alias(f"e{number}") for number, one in enumerate(EXPRESSIONS))
        )
        theirs = frame.collect()
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE TABLE r (i BIGINT, {DUCK})")
    con.executemany(
        "INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(i, *row) for i, row in enumerate(rows)],
    )
    wrong, refused = [], Counter[str]()
    for number, one in enumerate(EXPRESSIONS):
        sql = to_duckdb(one, KINDS).sql
        try:
            ours = [value for (value,) in con.execute(f"SELECT {sql} FROM r ORDER BY i").fetchall()]
        except duckdb.Error:
            ours = []
        for index, row in enumerate(rows):
            try:
                value = (
                    ours[index]
                    if ours
                    else con.execute(f"SELECT {sql} FROM r WHERE i = {index}").fetchall()[0][0]
                )
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                refused[one] += 1
                continue
            except duckdb.InvalidInputException as error:
                if REFUSAL not in str(error):
                    raise
                refused[one] += 1
                continue
            expected = theirs[index][number]
            if hasattr(value, "timestamp") and expected is not None:
                value, expected = round(value.timestamp(), 6), round(expected.timestamp(), 6)
            if not same(value, expected):
                wrong.append(f"{one} of {row} is {value!r}, not {expected!r}")
    print(dict(refused))
    assert not wrong, "\n".join(wrong[:30])
    assert all(count < ROWS * 0.6 for count in refused.values()), refused


def test_a_spec_with_expressions_gives_the_same_rows_through_both_doors(
    spark_store: Store, tmp_path: Path
) -> None:
    lines = [
        {
            "t": f"2024-03-{4 + i % 3:02d}T09:{i % 60:02d}:00Z",
            "page": f" P{i % 7} ",
            "n": str(i) if i % 5 else "x",
            "x": i / 4,
        }
        for i in range(200)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{no json\n")
    spec: dict[str, Any] = {
        "timestampSpec": {"column": "t"},
        "dimensions": ["up", "hour", {"name": "n2", "type": "long"}, "kind"],
        "transforms": {
            "transforms": [
                {"name": "up", "expression": "concat(lower(trim(page)), '-', length(page))"},
                {"name": "hour", "expression": "minute(__time)"},
                {"name": "n2", "expression": "cast(n as bigint) * 2"},
                {"name": "kind", "expression": "if(x > 10, 'large', 'small')", "type": "druid"},
            ],
            "filter": "x >= 2.5 AND page <> ' P3 '",
        },
        "metrics": [
            {"type": "count", "name": "c", "filter": "x > 20"},
            {"type": "doubleSum", "name": "sum", "fieldName": "x", "filter": "up LIKE 'p%'"},
            {"type": "doubleLast", "name": "last", "fieldName": "x", "filter": "x < 40"},
        ],
        "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "hour"},
    }
    source = {"paths": [str(path)], "inputFormat": {"type": "json"}}
    theirs = spark_store.ingest({**spec, "dataSource": "a", "input": source}).report
    ours = spark_store.append("b", path, spec={**spec, "dataSource": "b"}).report
    assert ours is not None
    assert theirs is not None
    assert (ours.rows_read, ours.rows_filtered, ours.rows_written, ours.rejected.count) == (
        theirs.rows_read, theirs.rows_filtered, theirs.rows_written, theirs.rejected.count,
    )  # fmt: skip
    order = "ORDER BY ALL"
    assert spark_store.sql(f"FROM a {order}").rows() == spark_store.sql(f"FROM b {order}").rows()
