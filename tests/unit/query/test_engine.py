"""The query engine: what it reads, what it leaves, how it fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import Interval, parse_instant, parse_interval
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError, Corrupt, Invalid, NotFound
from carnac.ports import DeepStorage
from carnac.query import QueryEngine
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import MemoryCatalog, build_catalog, without_file, write_segment


def rows(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str, parameters: Sequence[object] = ()
) -> list[tuple[object, ...]]:
    table = engine.run_query(sql, catalog, parameters=parameters).table
    assert isinstance(table, pa.Table)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    ("condition", "segments"),
    [
        ("true", 10),
        ("false", 0),
        ("__time >= '2013-01-09'", 2),
        ("__time > '2013-01-09T23:00:00.001Z'", 1),
        ("__time < TIMESTAMP '2013-01-03 00:00:00'", 2),
        ("__time <= TIMESTAMPTZ '2013-01-03 00:00:00+00'", 3),
        ("__time BETWEEN DATE '2013-01-02' AND DATE '2013-01-04'", 3),
        ("__time IN ('2013-01-02', '2013-01-05T03:00:00Z')", 2),
        ("'2013-01-02' > __time", 1),
        ("NOT (__time >= '2013-01-02' OR __time IS NULL)", 1),
        ("__time < '2013-01-02' OR (__time >= '2013-01-09' AND carrier = 'AA')", 3),
        ("__time >= now() - INTERVAL 1 HOUR", 0),
        ("__time >= DATE '2013-01-11' - INTERVAL 1 DAY", 1),
        ("date_trunc('day', __time) = '2013-01-04'", 1),
        ("CAST(__time AS DATE) = DATE '2013-01-04'", 1),
        ("__time::date >= '2013-01-09 18:00:00'", 2),
        ("CAST(__time AS TIMESTAMP) >= '2013-01-10 12:00:00'", 1),
        ("FLIGHTS.__TIME >= '2013-01-09'", 2),
        ("delay > 1000", 1),
        ("delay = 523", 1),
        ("delay IN (523, 618)", 2),
        ("delay BETWEEN 500 AND 610", 2),
        ("delay < 0", 0),
        ("carrier = 'ZZ'", 0),
        ("carrier LIKE 'Z%'", 0),
        ("carrier IS NULL", 0),
        ("delay IS NULL", 10),
        ("carrier = lower('AA')", 0),
        ("delay + 0 > 1000", 10),
    ],
)
def test_segments_that_cannot_match_are_not_read(
    engine: QueryEngine, catalog: MemoryCatalog, condition: str, segments: int
) -> None:
    result = engine.run_query(f"SELECT count(*) FROM flights WHERE {condition}", catalog)
    assert (result.segments_read, result.segments_total, result.revision) == (segments, 10, 7)


@pytest.mark.parametrize(
    ("sql", "segments"),
    [
        (
            "SELECT 1 FROM flights f JOIN airlines a ON f.carrier = a.carrier AND f.__time < '2013-01-02'",
            2,
        ),
        (
            "SELECT 1 FROM airlines a LEFT JOIN flights f ON f.carrier = a.carrier AND f.__time < '2013-01-02'",
            2,
        ),
        ("SELECT 1 FROM flights f LEFT JOIN airlines a ON f.__time < '2013-01-02'", 11),
        ("WITH f AS (SELECT * FROM flights WHERE __time < '2013-01-03') SELECT * FROM f", 2),
        ("SELECT (SELECT count(*) FROM flights WHERE __time < '2013-01-02') FROM airlines", 2),
        (
            "SELECT 1 FROM flights p JOIN flights q ON p.__time < '2013-01-02' AND q.__time >= '2013-01-10'",
            2,
        ),
        ("SELECT 1 FROM flights TABLESAMPLE 50% WHERE __time < '2013-01-02'", 10),
    ],
)
def test_each_place_of_a_table_is_pruned_by_its_own_conditions(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str, segments: int
) -> None:
    assert engine.run_query(sql, catalog).segments_read == segments


def test_a_beginning_is_matched_within_the_scan(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    """A filter after the scan has columns read for all rows that the other conditions let pass."""
    sql = "SELECT sum(delay) FROM flights WHERE carrier LIKE 'A%' AND delay > 0"
    told = "\n".join(line for (line,) in rows(engine, catalog, f"EXPLAIN {sql}"))
    assert "prefix(carrier, 'A') = true" in told
    assert "Expression:" not in told


def test_parameters_are_bound_and_prune(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    sql = "SELECT count(*) FROM flights WHERE __time >= ? AND __time < $2 AND carrier = $3"
    for start in (
        "2013-01-05",
        datetime.fromisoformat("2013-01-05"),
        datetime(2013, 1, 5, tzinfo=UTC),
    ):
        result = engine.run_query(sql, catalog, parameters=[start, "2013-01-06", "AA"])
        assert result.segments_read == 1
        assert isinstance(result.table, pa.Table)
        assert result.table.to_pylist() == [{"count_star()": 8}]
    with pytest.raises(Invalid):
        engine.run_query("SELECT ?", catalog)


def test_datasources_join_at_one_revision(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    sql = """
        SELECT a.name, count(*) AS flights, l.v FROM flights f JOIN airlines a USING (carrier)
        JOIN lookup.names l ON l.k = f.carrier GROUP BY ALL ORDER BY 1
    """
    assert rows(engine, catalog, sql) == [
        ("American", 80, "American"),
        ("JetBlue", 80, "JetBlue"),
        ("United", 80, "United"),
    ]


def test_results_are_arrow_with_utc_times_and_sums_of_longs_are_longs(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    table = engine.run_query(
        "SELECT max(__time) t, sum(delay) s, avg(delay) a FROM flights", catalog
    ).table
    assert isinstance(table, pa.Table)
    assert table.schema.types == [pa.timestamp("us", "UTC"), pa.int64(), pa.float64()]
    huge = engine.run_query("SELECT sum(9223372036854775807) s FROM range(3)", catalog).table
    assert isinstance(huge, pa.Table)
    assert huge.column("s").to_pylist() == [3 * (2**63 - 1)]


def test_what_describes_the_store_is_there(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    assert rows(engine, catalog, "SHOW TABLES") == [("airlines",), ("flights",), ("latest",)]
    assert [row[0] for row in rows(engine, catalog, "DESCRIBE latest")] == ["__time", "a"]
    sql = "SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'airlines' ORDER BY 1"
    assert rows(engine, catalog, sql) == [
        ("__time", "TIMESTAMP"),
        ("carrier", "VARCHAR"),
        ("name", "VARCHAR"),
    ]
    sql = "SELECT TABLE_NAME AS TableName FROM information_schema.tables WHERE TABLE_SCHEMA = 'druid' ORDER BY 1"
    assert rows(engine, catalog, sql) == [("airlines",), ("flights",), ("latest",)]


def test_columns_of_first_and_last_metrics_stay_hidden(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    table = engine.run_query("SELECT * FROM latest", catalog).table
    assert isinstance(table, pa.Table)
    assert table.schema.names == ["__time", "a"]
    with pytest.raises(NotFound, match="no column '__at_a'"):
        engine.run_query("SELECT __at_a FROM latest", catalog)


def test_clips_hide_rows(engine: QueryEngine, storage: DeepStorage) -> None:
    hours = [
        {"__time": f"2013-03-{day:02d}T{hour:02d}:00:00Z", "h": hour}
        for day in (1, 2)
        for hour in range(24)
    ]
    first, second = hours[:24], hours[24:]
    catalog = MemoryCatalog()
    catalog.add(
        write_segment(storage, first),
        clip=[parse_interval("2013-03-01T00:00:00Z/2013-03-01T06:00:00Z")],
    )
    catalog.add(
        write_segment(storage, second),
        clip=[
            parse_interval("2013-03-02T01:00:00Z/2013-03-02T02:00:00Z"),
            parse_interval("2013-03-02T20:00:00Z/2013-03-03T00:00:00Z"),
        ],
    )
    catalog.add(write_segment(storage, first))
    sql = "SELECT day(__time), list(h ORDER BY h) FROM events GROUP BY 1 ORDER BY 1"
    twice = sorted([*range(24), *range(6)])
    assert rows(engine, catalog, sql) == [(1, twice), (2, [1, 20, 21, 22, 23])]


def test_a_segment_with_entries_in_many_chunks_is_read_once(
    engine: QueryEngine, storage: DeepStorage
) -> None:
    hours = [
        {"__time": f"2013-03-{day:02d}T{hour:02d}:00:00Z", "h": hour}
        for day in (1, 2)
        for hour in range(24)
    ]
    segment = write_segment(storage, hours)
    catalog = MemoryCatalog()
    for day in (1, 2):
        start = parse_instant(f"2013-03-{day:02d}")
        catalog.add(segment, clip=[Interval(start, start + 86_400_000)])
    result = engine.run_query("SELECT count(*), sum(h) FROM events", catalog)
    assert isinstance(result.table, pa.Table)
    assert result.table.to_pylist() == [{"count_star()": 48, "sum(h)": 552}]
    assert result.segments_read == 1


def test_schemas_are_united_by_name(engine: QueryEngine, storage: DeepStorage) -> None:
    long, text, double = ColumnType.LONG, ColumnType.STRING, ColumnType.DOUBLE
    tags = ColumnType.STRING_ARRAY
    day = "2013-01-01"
    catalog = MemoryCatalog()
    catalog.add(
        write_segment(
            storage,
            [{"__time": day, "v": 1, "w": 1, "m": "x"}],
            types={"v": long, "w": long, "m": text},
        )
    )
    catalog.add(
        write_segment(
            storage, [{"__time": day, "v": 2.5, "w": "b"}], types={"w": text, "v": double}
        )
    )
    catalog.add(
        write_segment(
            storage, [{"__time": day, "m": ["y", "z"]}, {"__time": day}], types={"m": tags}
        )
    )
    found = rows(engine, catalog, "SELECT v, w, m FROM events ORDER BY v NULLS LAST, m")
    assert found == [
        (1.0, "1", ["x"]),
        (2.5, "b", None),
        (None, None, ["y", "z"]),
        (None, None, None),
    ]
    assert rows(engine, catalog, "SELECT count(*) FROM events WHERE w = '1'") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        (
            "SELECT carier FROM flights",
            NotFound,
            "there is no column 'carier'; did you mean 'carrier'?",
        ),
        ("SELECT f.carier FROM flights f", NotFound, "there is no column 'carier'; did you mean"),
        (
            'SELECT count(*) FROM flights WHERE carrier = "UA"',
            NotFound,
            "there is no column 'UA'; there are __time, .*; a text stands in single quotes: 'UA'",
        ),
        (
            'SELECT "carier" AS "carier", count(*) AS n FROM flights GROUP BY "carier"',
            NotFound,
            r"there is no column 'carier' \(what AS names cannot be used there\); did you mean 'carrier'\?",
        ),
        (
            'SELECT carrier, sum("qqq") AS "qqq" FROM flights GROUP BY carrier ORDER BY "qqq"',
            NotFound,
            r"there is no column 'qqq' \(.*\); there are __time, carrier, delay, distance",
        ),
        (
            "SELECT carrier FROM flights QUALIFY rank() OVER (ORDER BY qqq) = 1",
            NotFound,
            "there is no column 'qqq'; there are __time, carrier, delay, distance",
        ),
        (
            "SELECT * FROM flihgts",
            NotFound,
            "no datasource 'flihgts' at revision 7; did you mean 'flights'?",
        ),
        ("SELECT * FROM x.flights", NotFound, "there is no datasource 'x.flights' at revision 7"),
        (
            "SELECT * FROM lookup.nmaes",
            NotFound,
            "there is no lookup 'nmaes'; did you mean 'names'?",
        ),
        (
            "SELECT summ(delay) FROM flights",
            Invalid,
            "function 'summ' does not exist or cannot be used",
        ),
        (
            "SELECT percentile_cont(delay, 0.5) FROM flights",
            Invalid,
            r"cannot be used in queries; write percentile_cont\(0.5\) WITHIN GROUP \(ORDER BY added\)",
        ),
        (
            "SELECT percentile_cont(delay, 0.5) WITHIN GROUP (ORDER BY delay) FROM flights",
            Invalid,
            r"PERCENTILE_CONT; write percentile_cont\(0.5\) WITHIN GROUP",
        ),
        (
            "SELECT listagg(carrier, ',') WITHIN GROUP (ORDER BY delay) FROM flights",
            Invalid,
            r"unknown ordered aggregate .*; write its order among its arguments: string_agg\(",
        ),
        (
            "WITH __carnac_scan_0 AS (SELECT 1 AS a) SELECT * FROM flights",
            Invalid,
            "names that start with __carnac are reserved",
        ),
        (
            "SELECT * FROM (WITH RECURSIVE __CARNAC_scan_0 AS (SELECT 1) SELECT * FROM flights)",
            Invalid,
            "names that start with __carnac are reserved",
        ),
        (
            "SELECT\n  delay,\n  FROM flights WHERE",
            Invalid,
            r"syntax error at .*\(line 3, column \d+\)",
        ),
        ("SELECT sum(delay), carrier FROM flights", Invalid, "carrier"),
        ("SELECT CAST('x' AS BIGINT)", Invalid, "could not convert string 'x' to INT64"),
        ("SELECT error('stop here')", Invalid, "stop here"),
        ("SELECT date_trunc('fortnight', __time) FROM flights", Invalid, "fortnight"),
    ],
)
def test_errors_are_one_clear_sentence(
    engine: QueryEngine,
    catalog: MemoryCatalog,
    sql: str,
    kind: type[CarnacError],
    message: str,
) -> None:
    with pytest.raises(kind, match=message.replace("?", r"\?")) as caught:
        engine.run_query(sql, catalog)
    assert "\n" not in caught.value.message
    assert not caught.value.message.endswith(".")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY delay)", "quantile_cont(delay, 0.5)"),
        ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY delay)", "quantile_disc(delay, 0.9)"),
        ("percentile_cont(0.25) WITHIN GROUP (ORDER BY delay DESC)", "quantile_cont(delay, 0.75)"),
        (
            "string_agg(carrier, ', ' ORDER BY delay)",
            "array_to_string(list(carrier ORDER BY delay), ', ')",
        ),
    ],
)
def test_percentiles_of_standard_sql_and_what_is_said_to_write_are_computed(
    engine: QueryEngine, catalog: MemoryCatalog, wanted: str, found: str
) -> None:
    sql = f"SELECT {wanted} = {found} AND {wanted} IS NOT NULL FROM flights"
    [column] = engine.run_query(sql, catalog).table.columns
    assert column.to_pylist() == [True]


def test_a_missing_or_damaged_file_is_corrupt(engine: QueryEngine, storage: DeepStorage) -> None:
    catalog = MemoryCatalog().add(
        without_file(storage, write_segment(storage, [{"__time": 0, "a": 1}]))
    )
    with pytest.raises(Corrupt, match=r"segment .*; run 'verify'"):
        engine.run_query("SELECT * FROM events", catalog)
    damaged = write_segment(storage, [{"__time": 0, "a": 1}])
    storage.write(damaged.path, b"PAR1 not at all PAR1")
    with pytest.raises(Corrupt, match=r"segment .*; run 'verify'"):
        engine.run_query("SELECT * FROM events", MemoryCatalog().add(damaged))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("CAST(v AS INTEGER)", "could not convert string 'x' to INT32"),
        ("if(v = 'x', error('boom'), v)", "boom"),
    ],
)
def test_what_fails_in_the_middle_of_a_result_is_told_as_ever(
    engine: QueryEngine, catalog: MemoryCatalog, expression: str, message: str
) -> None:
    values = "SELECT if(range = 500000, 'x', range::VARCHAR) AS v FROM range(600000)"
    with pytest.raises(Invalid, match=message):
        engine.run_query(f"SELECT {expression} AS v FROM ({values})", catalog)


def test_a_plan_is_shown_line_by_line(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    lines = [line for (line,) in rows(engine, catalog, "EXPLAIN SELECT * FROM airlines")]
    assert len(lines) > 3
    assert all("\n" not in str(line) for line in lines)


def test_threads_query_at_the_same_time(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    found: list[object] = []

    def run(day: int) -> None:
        for _ in range(5):
            sql = f"SELECT min(delay) FROM flights WHERE __time >= '2013-01-{day:02d}'"
            found.append((day, rows(engine, catalog, sql)[0][0]))

    threads = [threading.Thread(target=run, args=(day,)) for day in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted((day, day * 100) for day in range(1, 9) for _ in range(5))  # type: ignore[type-var]


def test_a_closed_engine_starts_anew(storage: DeepStorage, catalog: MemoryCatalog) -> None:
    engine = QueryEngine(storage, threads=1)
    for _ in range(2):
        assert rows(engine, catalog, "SELECT count(*) FROM airlines") == [(3,)]
        engine.close()


def test_folders_with_wild_cards_and_quotes_in_their_names_are_read(tmp_path: Path) -> None:
    storage = open_deep_storage(str(tmp_path / "it's [a] *?"))
    catalog = build_catalog(storage, {"events": [[{"__time": 0, "a": 1}], [{"__time": 1, "a": 2}]]})
    engine = QueryEngine(storage, threads=1)
    assert rows(engine, catalog, "SELECT sum(a) FROM events") == [(3,)]
    engine.close()


def test_files_of_an_object_store_are_fetched(tmp_path: Path) -> None:
    storage = MemoryDeepStorage()
    catalog = build_catalog(
        storage, {"events": [[{"__time": day * 86_400_000, "a": day}] for day in range(5)]}
    )
    engine = QueryEngine(storage, threads=1, cache_folder=tmp_path / "cache", cache_bytes=1 << 20)
    assert rows(engine, catalog, "SELECT sum(a) FROM events WHERE a >= 3") == [(7,)]
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == 2
    engine.close()


def test_each_object_store_has_a_cache_of_its_own_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for url, value in (("memory://one", 1), ("memory://two", 2)):
        storage = MemoryDeepStorage(url)
        segment = write_segment(storage, [{"__time": 0, "a": value}], segment_id="same")
        engine = QueryEngine(storage, threads=1)
        assert rows(engine, MemoryCatalog().add(segment), "SELECT a FROM events") == [(value,)]
        engine.close()
    assert len(list((tmp_path / "carnac" / "segments").iterdir())) == 2


def test_names_differ_by_case_only_where_that_is_clear(
    engine: QueryEngine, storage: DeepStorage
) -> None:
    catalog = build_catalog(
        storage, {"Events": [[{"__time": 0, "a": 1}]], "other": [[{"__time": 0, "a": 2}]]}
    )
    assert rows(engine, catalog, "SELECT A FROM EVENTS") == [(1,)]
    assert rows(engine, catalog, 'SELECT e."a" FROM "Events" AS e') == [(1,)]
    odd = build_catalog(storage, {'we"ird.name; DROP': [[{"__time": 0, 'c"ol': 5}]]})
    assert rows(engine, odd, 'SELECT "c""ol" FROM "we""ird.name; DROP"') == [(5,)]


@pytest.mark.slow
def test_the_engine_imports_no_spark_and_sketches_only_when_named(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from carnac.deep_storage import open_deep_storage\n"
        "from carnac.query import QueryEngine\n"
        "from tests.support.segments import MemoryCatalog\n"
        "assert not {'duckdb', 'pyarrow', 'numpy'} & set(sys.modules), 'heavy at import'\n"
        f"engine = QueryEngine(open_deep_storage({str(tmp_path)!r}))\n"
        "engine.run_query('SELECT 1', MemoryCatalog())\n"
        "print(sorted({'pyspark', 'datasketches', 'pandas', 'fsspec', 'sqlalchemy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_time_that_is_none_is_told_as_such(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    """Pruning evaluates the constant first; its failure must not hide the statement's own."""
    for literal in ("'2013-01-05T02'", "DATE 'soon'", "CAST('x' AS TIMESTAMP)"):
        with pytest.raises(Invalid) as caught:
            engine.run_query(f"SELECT count(*) FROM flights WHERE __time >= {literal}", catalog)
        assert "aborted" not in str(caught.value)


def test_of_columns_that_differ_by_case_only_none_is_guessed(storage: DeepStorage) -> None:
    days = [[{"__time": "2013-01-01", name: "x"}] for name in ("Page", "page")]
    doubled = build_catalog(storage, {"t": days})
    with_doubled = QueryEngine(storage, threads=1)
    for sql in ("SELECT page FROM t", 'SELECT 1 FROM t WHERE t."Page" = 1'):
        with pytest.raises(Invalid, match="t has the columns 'Page' and 'page', which differ only"):
            with_doubled.run_query(sql, doubled)
    assert rows(with_doubled, doubled, "SELECT count(*) FROM t") == [(2,)]
    with_doubled.close()
