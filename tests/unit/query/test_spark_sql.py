"""What is printed for Spark, and what is refused by its name; nothing here starts Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import carnac
from carnac.errors import CarnacError
from carnac.ports.distributed import SparkAsked, SparkPlan
from carnac.query import QueryEngine
from carnac.query.spark_sql.kinds import NotInSpark
from carnac.store.querying import RevisionCatalog
from tests.support.merging import START_MS, spec

Planned = Callable[[str], SparkPlan]

REFUSED = (
    ("SELECT approx_count_distinct(k) FROM events", "approx_count_distinct"),
    ("SELECT list(k) FROM events", "function list"),
    ("SELECT ARRAY_CONCAT_AGG(tags) FROM events", "ARRAY_CONCAT_AGG"),
    ("SELECT DS_CDF(DS_QUANTILES_SKETCH(n), 2) FROM events", "DS_CDF"),
    ("SELECT length(CAST(JSON_MERGE(max(s), '{}') AS VARCHAR)) FROM events", "JSON"),
    ("SELECT HLL_SKETCH_ESTIMATE(DS_HLL(k)) FROM events", "function HLL_SKETCH_ESTIMATE"),
    ("SELECT APPROX_COUNT_DISTINCT_DS_HLL(k) FROM events", "function APPROX_COUNT_DISTINCT_DS_HLL"),
    ("SELECT APPROX_QUANTILE_DS(n, 0.5) FROM events", "function APPROX_QUANTILE_DS"),
    ("SELECT TRY_CAST(s AS BIGINT) FROM events", "TRY_CAST"),
    ("SELECT first(k) FROM events", "function first"),
    ("SELECT regexp_replace(s, 'a', 'b') FROM events", "regexp_replace"),
    ("SELECT s = n FROM events", "comparison of BIGINT and VARCHAR"),
    ("SELECT * FROM events USING SAMPLE 3", "a sample"),
    ("SELECT list_transform(tags, lambda t: t || 'x') FROM events", "a lambda"),
    ("SELECT string_agg(k, ',') FROM events", "string_agg without ORDER BY"),
    ("SELECT {'a': k} FROM events", "type STRUCT"),
    ("SELECT random() FROM events", "function random"),
    ("SELECT s FROM events LIMIT 10%", "a limit that is a share"),
    ("SELECT s FROM events UNION ALL SELECT k FROM events LIMIT 10%", "a limit that is a share"),
    ("SELECT unnest(tags), unnest(tags) FROM events", "an unnest beside another one"),
    ("SELECT unnest(tags), rank() OVER (ORDER BY n) FROM events", "beside a window function"),
    ("SELECT greatest(tags, ['a']) FROM events", "greatest(VARCHAR[], VARCHAR[])"),
    ("SELECT * FROM range(3)", "a table function"),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    folder: Path = tmp_path_factory.mktemp("spark sql") / "store"
    columns = ["s", "k", {"name": "n", "type": "long"}, {"name": "x", "type": "double"}]
    columns.append({"name": "tags", "type": "array<string>"})
    row = {"t": START_MS, "s": "a", "k": "b", "n": 1, "x": 0.5, "tags": ["p"]}
    with carnac.open(folder, create=True) as store:
        for day in (0, 1, 2):
            store.append(
                "events", [row | {"t": START_MS + day * 86_400_000}], spec=spec("day", columns)
            )
        engine = QueryEngine(store.deep_storage, threads=1)
        catalog = RevisionCatalog(store._metadata, store.head().revision)
        yield lambda sql: engine.plan_spark(sql, catalog, SparkAsked(reason="asked for"))
        engine.close()


@pytest.mark.parametrize(("sql", "named"), REFUSED)
def test_what_spark_cannot_say_is_refused_by_name(plan: Planned, sql: str, named: str) -> None:
    with pytest.raises(NotInSpark, match="cannot be run on Spark") as caught:
        plan(sql)
    assert named in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT java_method('java.util.UUID', 'randomUUID')",
        "SELECT input_file_name() FROM events",
        'SELECT * FROM parquet."/etc"',
        "SELECT * FROM 'file:///etc/passwd'",
        "SELECT * FROM global_temp.x",
        "DROP TABLE events",
    ],
)
def test_nothing_else_of_spark_can_be_reached(plan: Planned, sql: str) -> None:
    with pytest.raises(CarnacError):
        plan(sql)


def test_texts_and_names_stay_in_their_quotes(plan: Planned) -> None:
    sql = r"""SELECT '\''' || s AS "a`b", 'it''s' AS q FROM events WHERE s <> '\'"""
    found = plan(sql).sql
    assert r"concat('\\\'', " in found
    assert r"'it\'s'" in found
    assert re.sub(r"'(?:[^'\\]|\\.)*'", "", found).count("'") == 0


def test_what_is_read_is_pruned_and_types_are_those_of_the_embedded_engine(plan: Planned) -> None:
    sql = "SELECT s, sum(n), avg(n) / 2, count(*) FROM events WHERE __time >= '2013-01-03' GROUP BY ALL"
    found = plan(sql)
    [table] = found.scans
    assert len(table.slices) == 1
    assert found.merge.basis.segments_total == 3
    assert list(found.merge.stands[0].types) == ["VARCHAR", "HUGEINT", "DOUBLE", "BIGINT"]
    assert "timestamp_micros(1357171200000000L)" in found.sql


def test_each_cast_of_duckdb_is_written(plan: Planned) -> None:
    found = plan(
        "SELECT n / 2, n // 2, x > 1, n = 1.5, coalesce(n, 0.5) FROM events ORDER BY 1 DESC"
    ).sql
    assert "CAST(`n` AS DOUBLE)" in found
    assert "div" in found
    assert "`x` > CAST('1.0' AS DOUBLE)" in found
    assert "ORDER BY c0 DESC NULLS LAST" in found


def test_explain_says_what_spark_is_given(plan: Planned) -> None:
    way, segments, spark = plan("EXPLAIN SELECT count(*) FROM events").merge.told
    assert way == "Spark: asked for"
    assert segments == "segments that may matter: 3 of 3"
    assert spark.startswith("Spark: SELECT c0 FROM")
