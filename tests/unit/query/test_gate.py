"""The wall around SQL: whatever a statement says, it reads the datasources of one revision and nothing else."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from carnac.errors import Invalid, NotFound
from carnac.ports import DeepStorage
from carnac.query import QueryEngine
from carnac.query.functions import NAMES
from carnac.query.rewriting.sketching import SKETCH_FUNCTIONS
from tests.support.segments import MemoryCatalog

READS_FILES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "select * from READ_CSV('/etc/passwd', sep=':')",
    "SELECT * FROM \"read_csv\"('/etc/passwd')",
    "SELECT * FROM/**/read_text/**/('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd') -- harmless",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_json_auto('/etc/passwd')",
    "SELECT * FROM read_ndjson('/etc/passwd')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_scan('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM parquet_schema('{file}')",
    "SELECT * FROM parquet_file_metadata('{file}')",
    "SELECT * FROM parquet_kv_metadata('{file}')",
    "SELECT * FROM parquet_bloom_probe('{file}', 'a', 1)",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM main.read_text('/etc/passwd')",
    "SELECT * FROM system.main.read_text('/etc/passwd')",
    "FROM '/etc/passwd'",
    "FROM '{file}'",
    'SELECT * FROM "{file}"',
    "TABLE '/etc/passwd'",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM 'https://example.org/x.csv'",
    "DESCRIBE '/etc/passwd'",
    "SUMMARIZE '{file}'",
    "DESCRIBE SELECT * FROM read_text('/etc/passwd')",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT size FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT EXISTS (FROM read_text('/etc/passwd'))",
    "SELECT 1 WHERE 1 IN (SELECT size FROM read_text('/etc/passwd'))",
    "SELECT * FROM flights, LATERAL (SELECT * FROM read_text('/etc/' || carrier))",
    "SELECT * FROM flights JOIN read_text('/etc/passwd') r ON true",
    "SELECT 1 UNION ALL SELECT size FROM read_text('/etc/passwd')",
    "SELECT list_transform([1], lambda x: (SELECT content FROM read_text('/etc/passwd')))",
    "SELECT 1 ORDER BY (SELECT size FROM read_text('/etc/passwd'))",
    "SELECT 1 LIMIT (SELECT size FROM read_text('/etc/passwd'))",
    "SELECT count(*) FILTER (WHERE EXISTS (FROM read_text('/etc/passwd')))",
    "SELECT sum(1) OVER (ORDER BY (SELECT size FROM read_text('/etc/passwd')))",
    "SELECT * FROM (PIVOT (SELECT * FROM read_text('/etc/passwd')) ON size IN (1) USING count(*))",
    "SELECT * FROM (VALUES ((SELECT content FROM read_text('/etc/passwd'))))",
    "SELECT 1 QUALIFY (SELECT true FROM read_text('/etc/passwd'))",
    "SELECT 1 GROUP BY (SELECT size FROM read_text('/etc/passwd'))",
    "SELECT CASE WHEN true THEN (SELECT content FROM read_text('/etc/passwd')) END",
    "EXPLAIN SELECT * FROM read_text('/etc/passwd')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('/etc/passwd')",
    "/* EXPLAIN */ explain /* x */ analyze FROM read_text('/etc/passwd')",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('/etc/passwd')",
    "SELECT * FROM query_table(['flights', '/etc/passwd'])",
    "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "SELECT * FROM sql_auto_complete('SEL')",
    "SELECT * FROM read_duckdb('/tmp/x.db')",
    "SELECT * FROM unnest((SELECT list(content) FROM read_text('/etc/passwd')))",
    "SELECT * FROM range((SELECT size FROM read_text('/etc/passwd')))",
]
LEAKS = [
    "SELECT getenv('HOME')",
    "SELECT current_setting('home_directory')",
    "SELECT CURRENT_SETTING('allowed_directories')",
    "SELECT getvariable('x')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM duckdb_functions()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM duckdb_external_file_cache()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pg_catalog.pg_views",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM system.information_schema.tables",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SELECT * FROM (SHOW DATABASES)",
    "SELECT current_query()",
    "SELECT txid_current()",
    "SELECT pg_get_viewdef(1)",
    "SELECT parse_duckdb_log_message('a', 'b')",
    "SELECT json_serialize_sql('SELECT 1')",
    "SELECT write_log('x')",
    "SELECT nextval('s')",
    "SELECT setseed(0.5)",
    "SELECT pg_sleep(1)",
    "SELECT main.lower('A')",
    "SELECT sum(1) export_state",
    "SELECT * FROM local_python_variable",
    "SELECT * FROM __carnac_scan_0",
    "SELECT * FROM temp.main.__carnac_scan_0",
    "SELECT __carnac_merge_hll([], 12)",
    "SELECT __carnac_scan_0.carrier FROM flights",
    "SELECT __internal_compress_string_uhugeint('a')",
]
WRITES = [
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP TABLE x (a INT)",
    "CREATE VIEW x AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE SECRET s (TYPE s3)",
    "INSERT INTO flights VALUES (1)",
    "UPDATE flights SET delay = 1",
    "DELETE FROM flights",
    "TRUNCATE flights",
    "DROP VIEW flights",
    "ALTER TABLE flights ADD COLUMN x INT",
    "MERGE INTO flights USING airlines ON true WHEN MATCHED THEN DELETE",
    "WITH x AS (INSERT INTO flights VALUES (1) RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM flights RETURNING *) SELECT * FROM x",
    "COPY flights TO '/tmp/evil.csv'",
    "COPY (SELECT 1) TO '{file}.csv'",
    "COPY flights FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/evil'",
    "IMPORT DATABASE '/tmp/evil'",
    "ATTACH '/tmp/evil.db'",
    "ATTACH ':memory:' AS y",
    "DETACH temp",
    "USE temp",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL httpfs",
    "SET threads = 2",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SET VARIABLE x = 1",
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "COMMENT ON VIEW flights IS 'x'",
    "SELECT 1; DROP VIEW flights",
    "SELECT 1;; SELECT 2",
    "EXPLAIN SELECT 1; SELECT 2",
    "EXPLAIN EXPLAIN SELECT 1",
    "EXPLAIN CREATE TABLE x (a INT)",
    "explain analyze copy (select 1) to '/tmp/evil.csv'",
    "SELECT * FROM flights AT (VERSION => 1)",
    "PIVOT flights ON carrier USING sum(delay)",
    "",
    " ; ",
    "-- nothing",
]


@pytest.mark.parametrize("sql", READS_FILES + LEAKS + WRITES)
def test_a_hostile_statement_is_refused(
    engine: QueryEngine, catalog: MemoryCatalog, storage: DeepStorage, sql: str
) -> None:
    path = storage.local_path(catalog.entries["flights"][0].segment.path)
    local_python_variable = duckdb  # what a replacement scan would find
    assert local_python_variable
    before = sorted(file.path for file in storage.list_files(""))
    with pytest.raises((Invalid, NotFound)) as caught:
        engine.run_query(sql.format(file=path), catalog)
    assert "\n" not in caught.value.message
    assert not Path("/tmp/evil.csv").exists()
    assert sorted(file.path for file in storage.list_files("")) == before


@pytest.mark.parametrize("sql", READS_FILES)
def test_behind_the_gate_duckdb_itself_opens_nothing_outside(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    """The second wall, tried without the first: no file but those in the folder of segments."""
    if "{file}" in sql:
        sql = sql.format(file="/etc/passwd")
    engine.run_query("SELECT 1", catalog)
    assert engine._connection is not None
    try:
        rows = engine._connection.cursor().execute(sql.replace("{{}}", "{}")).fetchall()
    except duckdb.Error:
        return
    assert "root:" not in str(rows)


@pytest.mark.parametrize(
    "sql",
    [
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '/tmp/evil.db'",
        "COPY (SELECT 1) TO '/tmp/evil.csv'",
        "SELECT * FROM os",
    ],
)
def test_behind_the_gate_the_configuration_is_locked(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    engine.run_query("SELECT 1", catalog)
    assert engine._connection is not None
    assert os.name  # a module in reach of a replacement scan
    with pytest.raises(duckdb.Error):
        engine._connection.cursor().execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'read_csv(''/etc/passwd'')' AS \"CREATE TABLE\"",
        "SELECT 1 -- ; DROP TABLE flights",
        "SELECT 1;",
        "(SELECT 1)",
        "FROM flights SELECT count(*)",
        "VALUES (1), (2)",
        "SELECT * FROM range(3)",
        "SELECT * FROM generate_series(1, 3) t(x)",
        "SELECT unnest([1, 2])",
        "SELECT * FROM unnest([1, 2]) AS t(x)",
        "SELECT current_date, current_timestamp, now(), localtimestamp",
        "SELECT list_transform([1, 2], lambda x: x + 1)",
        "SELECT [x * 2 for x in [1, 2] if x > 1]",
        "SELECT {'a': 1}.a, MAP {'k': 1}['k'], '{\"a\": 1}' ->> '$.a'",
        "EXPLAIN SELECT count(*) FROM flights",
        "explain analyze SELECT count(*) FROM flights",
        "SHOW TABLES",
        "DESCRIBE flights",
        "SUMMARIZE SELECT delay FROM flights",
        "SELECT * FROM flights TABLESAMPLE 10%",
        "SELECT * FROM flights USING SAMPLE 3",
        "SELECT * FROM (PIVOT flights ON carrier IN ('AA', 'UA') USING sum(delay) GROUP BY __time)",
        "UNPIVOT (SELECT delay, distance::BIGINT AS distance FROM flights) ON delay, distance",
        "SELECT DISTINCT ON (carrier) carrier, delay FROM flights ORDER BY delay DESC NULLS LAST LIMIT 50%",
        "SELECT sum(delay) OVER (PARTITION BY carrier ORDER BY __time ROWS 2 PRECEDING) FROM flights",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r",
        "SELECT carrier FROM flights INTERSECT SELECT carrier FROM airlines EXCEPT SELECT 'AA'",
        "SELECT COLUMNS('d.*') FROM flights",
        "SELECT * EXCLUDE (delay) REPLACE (distance * 2 AS distance) FROM flights",
        "SELECT carrier, grouping(carrier) FROM flights GROUP BY ROLLUP (carrier)",
        "SELECT time_bucket(INTERVAL 1 HOUR, __time), date_trunc('day', __time) FROM flights",
        "SELECT regexp_matches(carrier, 'A.*'), carrier COLLATE nocase, carrier ILIKE 'a%' FROM flights",
        "SELECT TRY_CAST(carrier AS INT), try(1 / 0), coalesce(delay, 0) FROM flights",
        "SELECT x.carrier FROM druid.flights x, main.airlines",
    ],
)
def test_a_harmless_statement_is_run(engine: QueryEngine, catalog: MemoryCatalog, sql: str) -> None:
    assert engine.run_query(sql, catalog).revision == 7


def test_every_function_that_is_let_pass_exists() -> None:
    keywords = {
        "coalesce",
        "grouping",
        "grouping_id",
        "fill",
        "unnest",
        "current_date",
        "rank_dense",
    }
    known = {
        name.lower()
        for (name,) in duckdb.connect()
        .execute("SELECT function_name FROM duckdb_functions()")
        .fetchall()
    }
    assert sorted(NAMES - known - keywords) == []
    assert not {
        name for name in NAMES if name.startswith(("read_", "__", "pg_", "duckdb_", "pragma"))
    }
    assert {"hll_merge", "theta_estimate", "quantile"} <= SKETCH_FUNCTIONS


def test_deep_nesting_is_refused_not_fatal(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    for sql in (
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "1+" * 20_000 + "1",
        "SELECT '\0'",
        "SELECT 1 FROM (" * 300 + "SELECT 1" + ")" * 300,
    ):
        with pytest.raises(Invalid):
            engine.run_query(sql, catalog)
    for depth in range(
        200, 300, 20
    ):  # from some depth on it is refused, which differs by the caller's
        with suppress(Invalid):
            engine.run_query("SELECT 1 FROM (" * depth + "SELECT 1" + ")" * depth, catalog)
    assert len(engine.run_query("SELECT 1", catalog).table) == 1  # type: ignore[arg-type]
