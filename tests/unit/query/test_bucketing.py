"""Buckets and parts of `__time` have the values, the types and the names that DuckDB gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carnac.core.time.intervals import MAX_MS, MIN_MS
from carnac.deep_storage.local import LocalDeepStorage
from carnac.errors import Invalid
from carnac.ports import DeepStorage
from carnac.ports.queries import READ_ALL
from carnac.query import QueryEngine, hot
from tests.support.segments import MemoryCatalog, write_segment
from tests.unit.query.test_engine import rows

DAY_MS = 86_400_000
EDGES = [MIN_MS, MAX_MS - 1, -1, 0, 1, 951_782_400_000, 951_868_799_999, -2_203_891_200_000]
"""Also the leap day of 2000, and the day that 1900 had not."""
UNITS = ["millisecond", "second", "minute", "hour", "DAY", "weeks", "month", "quarter", "year"]
UNITS += ["decade", "century", "millennium", "isoyear"]
PARTS = [*UNITS, "microseconds", "dow", "isodow", "doy", "epoch", "yearweek", "era", "timezone"]
WIDTHS = ["15 minutes", "1 hour", "36 hours", "7 days", "1 month", "90 seconds", "1 year"]
EXPRESSIONS = [
    *(f"date_trunc('{unit}', __time)" for unit in UNITS),
    *(f"extract({part} FROM events.__time)" for part in PARTS),
    *(f"time_bucket(INTERVAL '{width}', __time)" for width in WIDTHS),
    "time_bucket(INTERVAL 1 DAY, __time, TIMESTAMPTZ '2020-01-01 06:00:00+00')",
    "time_bucket(to_minutes(n), __time)",
    "date_trunc('hour', __time AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin'",
    "year(__time) * 100 + month(__time)",
    "monthname(__time)",
    "__time::DATE",
    "CAST(__time AS TIMESTAMP)",
    "date_trunc('day', __time::TIMESTAMP) + INTERVAL 1 DAY",
    "strftime(date_trunc('week', __time), '%Y-%m-%d %z')",
    "date_trunc('month', (SELECT max(__time) FROM events WHERE n < 3)) AS scalar",
]


@cache
def opened() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB of these tests: to open one takes longer than what most of them ask."""
    plain = duckdb.connect()
    plain.execute("SET GLOBAL TimeZone = 'UTC'")
    return plain


def heat(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    """Ask often enough for all segments, however small, to be in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot, "ROWS_MIN", 1)
        for _ in range(hot.READS):
            engine.run_query("SELECT sum(n) FROM events", catalog, keeping=READ_ALL)
        engine.hot.wait()
    told = str(rows(engine, catalog, "EXPLAIN SELECT sum(n) FROM events"))
    assert "READ_PARQUET" not in told.upper()


def both(
    storage: DeepStorage, catalog: MemoryCatalog, sql: str, threads: int = 1
) -> tuple[pa.Table, pa.Table]:
    """Return what the engine answers, the same from files as from memory, and what DuckDB does on the files."""
    engine = QueryEngine(storage, threads=threads)
    found = engine.run_query(sql, catalog).table
    assert isinstance(found, pa.Table)
    heat(engine, catalog)
    again = engine.run_query(sql, catalog).table
    engine.close()
    assert found.equals(again), sql
    with opened().cursor() as plain:
        files = [storage.local_path(one.segment.path) for one in catalog.visible("events", None)]
        listed = ", ".join(f"'{file}'" for file in files)
        plain.execute(f"CREATE OR REPLACE VIEW events AS SELECT * FROM read_parquet([{listed}])")
        return found, plain.sql(sql).to_arrow_table()


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 3))  # of many times each
@given(times=st.lists(st.integers(MIN_MS, MAX_MS - 1), min_size=1, max_size=40))
@example(times=EDGES)
@example(times=[day * DAY_MS - 1 for day in range(-800, 800)])
def test_values_types_and_names_are_those_of_duckdb(
    tmp_path_factory: pytest.TempPathFactory, times: list[int]
) -> None:
    storage = LocalDeepStorage(tmp_path_factory.mktemp("deep"))
    data = [{"__time": time, "n": place + 1} for place, time in enumerate(sorted(times))]
    catalog = MemoryCatalog().add(write_segment(storage, data))
    found, expected = both(storage, catalog, f"SELECT {', '.join(EXPRESSIONS)} FROM events")
    assert found.schema.equals(expected.schema)
    assert found.equals(expected)


@pytest.mark.parametrize("width", [*UNITS, *WIDTHS])
def test_groups_by_buckets_are_those_of_duckdb_at_all_times(
    storage: DeepStorage, width: str
) -> None:
    data = [{"__time": time + more, "n": 1} for time in EDGES for more in (-1, 0, 1)]
    within = [row for row in data if MIN_MS <= row["__time"] < MAX_MS]
    catalog = MemoryCatalog().add(write_segment(storage, sorted(within, key=lambda r: r["__time"])))
    bucket = f"date_trunc('{width}', __time)"
    if width in WIDTHS:
        bucket = f"time_bucket(INTERVAL '{width}', __time)"
    sql = f"SELECT {bucket} AS b, count(*), sum(n) FROM events GROUP BY 1 ORDER BY 1"
    found, expected = both(storage, catalog, sql)
    assert found.column("b").equals(expected.column("b"))
    assert found.drop_columns("b").to_pylist() == expected.drop_columns("b").to_pylist()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('hour', __time) AS h, sum(n) FROM events GROUP BY 1",
        "SELECT date_trunc('hour', __time) AS h, sum(n) FROM events GROUP BY h",
        "SELECT FLOOR(__time TO DAY), sum(n) FROM events GROUP BY FLOOR(__time TO DAY)",
        "SELECT time_bucket(INTERVAL 15 MINUTE, __time), sum(n) FROM events GROUP BY 1",
        "SELECT time_bucket(INTERVAL 6 HOUR, __time), sum(n) FROM events GROUP BY 1",
        "SELECT date_trunc('week', e.__time) AS w, count(*) FROM events e GROUP BY w ORDER BY w",
        "SELECT __time::DATE AS d, sum(n) FROM events GROUP BY d",
    ],
)
def test_groups_of_buckets_are_found_by_their_places(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    """In memory, where DuckDB knows the first and the last time, and has the hours."""
    heat(engine, catalog)
    plan = "\n".join(str(line) for (line,) in rows(engine, catalog, f"EXPLAIN {sql}"))
    assert "Perfect Hash Group By" in plan
    assert ("__carnac_hour" in plan) == ("MINUTE" not in sql)


H = "SELECT date_trunc('hour', __time) AS h"
HOURLY = {
    f"{H}, sum(n) AS s FROM events GROUP BY 1 ORDER BY 1": 2,
    f"{H}, avg(n), avg( n ) FROM events GROUP BY 1 ORDER BY avg(n), h": 2,
    f"{H}, max(n) FROM events GROUP BY 1 HAVING max(n) > 50 ORDER BY 1": 2,
    f"{H}, count(*) AS c FROM events GROUP BY 1 ORDER BY c, h": 2,
    f"{H}, count(n) FROM events GROUP BY 1 HAVING count(n) > 1 OR h > '2013-01-09' ORDER BY 1": 2,
    f"{H}, sum(n), max(n) FROM events GROUP BY 1 ORDER BY 1": 2,
    f"{H}, sum(n), max(n), count(*) FROM events GROUP BY 1 ORDER BY 1": 3,
    f"{H}, sum(n) FILTER (WHERE n > 9) FROM events GROUP BY 1 ORDER BY 1": 1,
    f"{H}, count(DISTINCT n) FROM events GROUP BY 1 ORDER BY 1": 1,
    f"{H}, sum(n) FROM events GROUP BY 1, n % 3 ORDER BY ALL": 1,
    f"{H}, median(n) FROM events GROUP BY 1 ORDER BY 1": 1,
    f"{H} FROM events GROUP BY 1 ORDER BY 1": 0,
}
"""Statements, and how many aggregates DuckDB computes for each."""


@pytest.mark.parametrize("sql", HOURLY)
def test_an_aggregate_that_is_alone_gets_company_that_nobody_sees(
    storage: DeepStorage, engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    found, expected = both(storage, catalog, sql)
    assert found.schema.names == expected.schema.names
    assert found.to_pylist() == expected.to_pylist()
    heat(engine, catalog)
    plan = "".join(str(line) for (line,) in rows(engine, catalog, f"EXPLAIN {sql}"))
    told = re.search(r"Aggregates:(.*?)~", plan)
    assert len(re.findall(r"\w\(", told[1] if told else "")) == HOURLY[sql], plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT *, date_trunc('hour', __time) AS h FROM events ORDER BY n",
        "SELECT events, date_trunc('hour', __time) AS h FROM events ORDER BY n",
        "SELECT count(e) AS c, date_trunc('hour', e.__time) AS h FROM events e GROUP BY h ORDER BY h",
        "SELECT h, e FROM (SELECT date_trunc('hour', __time) AS h, e FROM events e) ORDER BY ALL",
        "SELECT max(COLUMNS(*)) FROM events GROUP BY date_trunc('hour', __time) ORDER BY ALL",
    ],
)
def test_nobody_sees_the_hours_that_are_kept(
    storage: DeepStorage, catalog: MemoryCatalog, sql: str
) -> None:
    found, expected = both(storage, catalog, sql)
    assert found.schema.names == expected.schema.names
    assert "__carnac" not in str(found.schema)
    assert found.to_pylist() == expected.to_pylist()


@pytest.fixture
def storage(tmp_path: Path) -> DeepStorage:
    return LocalDeepStorage(tmp_path)


@pytest.fixture
def engine(storage: DeepStorage) -> Iterator[QueryEngine]:
    one = QueryEngine(storage, threads=1)
    yield one
    one.close()


@pytest.fixture
def catalog(storage: DeepStorage) -> MemoryCatalog:
    data = [{"__time": f"2013-01-{1 + n % 28:02d}T{n % 24:02d}:30:00Z", "n": n} for n in range(99)]
    return MemoryCatalog().add(write_segment(storage, sorted(data, key=lambda r: str(r["__time"]))))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('day', __time), count(*) FROM events"
        " GROUP BY date_trunc('day', __time) ORDER BY date_trunc('day', __time) DESC",
        "SELECT date_trunc('day', __time) FROM events WHERE date_trunc('day', __time) > '2013-01-09'"
        " AND hour(__time) = 5 GROUP BY ALL HAVING date_trunc('day', __time) < '2013-01-20' ORDER BY 1",
        "SELECT DISTINCT extract(dow FROM __time) AS d FROM events ORDER BY d",
        "SELECT e.n, month(o.__time), o.__time::DATE FROM events e"
        " LEFT JOIN events o ON e.n = o.n + 50 ORDER BY 1",
        "SELECT n, (SELECT date_trunc('day', e.__time)) AS day FROM events e ORDER BY n",
        "SELECT __time::DATE AS __time FROM events ORDER BY date_trunc('month', __time), n",
        "SELECT date_trunc('day', __time) AS d FROM (SELECT __time::DATE AS __time FROM events)"
        " ORDER BY 1",
        "WITH e AS (SELECT date_trunc('hour', __time), n FROM events) SELECT * FROM e ORDER BY n",
        "SELECT n, row_number() OVER (PARTITION BY date_trunc('week', __time) ORDER BY n)"
        " FROM events ORDER BY 1",
        "SELECT date_trunc('day', __time) FROM events JOIN events o USING (__time, n) ORDER BY n",
        "SELECT n FROM events ORDER BY time_bucket(INTERVAL 1 WEEK, __time), n LIMIT 20",
        "SELECT date_trunc('day', __time) AS d, n % 2, count(*) FROM events GROUP BY 2, 1 ORDER BY ALL",
        "SELECT date_trunc('week', __time) AS d, count(*) FROM events GROUP BY d ORDER BY d",
        "SELECT date_trunc('week', __time) AS n, count(*) FROM events GROUP BY n, __time ORDER BY ALL",
        "SELECT date_trunc('week', __time) AS w, count(*) FROM events GROUP BY __time ORDER BY ALL",
        "SELECT date_trunc('week', __time) AS w, hour(__time) FROM events GROUP BY w, __time ORDER BY ALL",
        "SELECT date_trunc('hour', __time) AS h, max(date_trunc('day', __time)) FROM events GROUP BY h ORDER BY h",
        "SELECT __time::DATE AS n, count(*) FROM events GROUP BY ALL HAVING n IS NOT NULL ORDER BY ALL",
        "SELECT date_trunc('day', __time) AS d, count(*) FROM events GROUP BY ALL ORDER BY ALL",
        "SELECT __time::DATE AS d, date_trunc('day', __time) + INTERVAL 1 DAY, count(*) FROM events"
        " GROUP BY d, date_trunc('day', __time) HAVING date_trunc('day', __time) > '2013-01-05' ORDER BY d",
        "SELECT date_trunc('day', __time) AS d, n % 3 AS m, count(*), grouping(date_trunc('day', __time))"
        " FROM events GROUP BY ROLLUP (date_trunc('day', __time), m) ORDER BY ALL",
        "SELECT date_trunc('day', __time) AS d, grouping(date_trunc('day', __time)) FROM events"
        " GROUP BY date_trunc('day', __time) ORDER BY 1",
        "SELECT date_trunc('hour', o.__time) AS h, count(*) FROM events e LEFT JOIN events o"
        " ON e.n = o.n + 50 GROUP BY h ORDER BY h",
        "SELECT h, count(*) FROM (SELECT date_trunc('day', __time) AS h, n % 2 AS k FROM events GROUP BY 1, 2)"
        " GROUP BY h ORDER BY h",
        "SELECT date_trunc('day', e.__time) AS d, max(events.n) FROM events, events e"
        " WHERE e.n = events.n GROUP BY date_trunc('day', e.__time) ORDER BY 1",
    ],
)
def test_statements_answer_as_in_duckdb(
    storage: DeepStorage, catalog: MemoryCatalog, sql: str
) -> None:
    found, expected = both(storage, catalog, sql)
    assert found.schema.equals(expected.schema)
    assert found.equals(expected)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('day', __time) AS d, count(*) FROM events GROUP BY date_trunc('hour', __time)",
        "SELECT date_trunc('hour', __time), count(*) FROM events GROUP BY date_trunc('day', __time)",
        "SELECT date_trunc('hour', __time), count(*) FROM events GROUP BY n",
    ],
)
def test_what_is_refused_of_files_is_refused_of_memory(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    with pytest.raises(Invalid) as cold:
        rows(engine, catalog, sql)
    heat(engine, catalog)
    with pytest.raises(Invalid) as warm:
        rows(engine, catalog, sql)
    assert warm.value.message == cold.value.message


def test_a_condition_on_a_bucket_still_chooses_segments_and_row_groups(
    storage: DeepStorage, catalog: MemoryCatalog
) -> None:
    engine = QueryEngine(storage, threads=1)
    sql = "SELECT count(*) FROM events WHERE date_trunc('day', __time) = '2013-01-04'"
    plan = "\n".join(str(line) for (line,) in rows(engine, catalog, f"EXPLAIN {sql}"))
    assert "make_timestamp" not in plan
    assert engine.run_query(sql.replace("04", "30"), catalog).segments_read == 0
    shown = rows(
        engine, catalog, "EXPLAIN SELECT max(date_trunc('day', __time)) > now() FROM events"
    )
    assert "make_timestamptz" in "\n".join(str(line) for (line,) in shown)
    engine.close()


def test_a_series_by_floor_to_is_answered(storage: DeepStorage, catalog: MemoryCatalog) -> None:
    own = QueryEngine(storage, threads=1)
    druid = "SELECT FLOOR(__time TO WEEK) AS w, count(*) FROM events GROUP BY FLOOR(__time TO WEEK)"
    ours = "SELECT date_trunc('week', __time) AS w, count(*) FROM events GROUP BY 1"
    assert sorted(rows(own, catalog, druid)) == sorted(rows(own, catalog, ours))
    own.close()
