"""The newest rows that match are read from the newest files back, and are those that all files would give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import duckdb
import pytest

from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet
from carnac.deep_storage.local import LocalDeepStorage
from carnac.ports.queries import LeafSlice
from carnac.query import QueryEngine, newest
from carnac.query.plans import KnownPlans
from carnac.query.scans import slices_of
from tests.support.segments import MemoryCatalog, write_segment
from tests.unit.query.test_engine import rows

SEGMENTS, HOUR_MS, MINUTE_MS, SECOND_MS = 40, 3_600_000, 60_000, 1_000
END_MS = newest.MAX_SHARE * HOUR_MS


class Counting:
    """A cursor that counts what is run on it."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self.statements = 0

    def execute(self, statement: str) -> duckdb.DuckDBPyConnection:
        self.statements += 1
        return self._cursor.execute(statement)

    def extract_statements(self, sql: str) -> list[duckdb.Statement]:
        return self._cursor.extract_statements(sql)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> LocalDeepStorage:
    return LocalDeepStorage(tmp_path_factory.mktemp("deep"))


@pytest.fixture(scope="module")
def hours(storage: LocalDeepStorage) -> MemoryCatalog:
    """Segments whose times overlap, with many ties; some lack a column, and some are clipped."""
    rng, catalog = random.Random(3), MemoryCatalog()
    for number in range(SEGMENTS):
        start = number * HOUR_MS
        found = [
            {"__time": start + rng.randrange(90) * 60_000, "a": rng.choice([None, 1, 2, 3])}
            | ({} if number % 7 == 0 else {"b": f"{number}-{n}"})
            for n in range(20)
        ]
        found.sort(key=lambda row: int(str(row["__time"])))
        clip = [Interval(start, start + HOUR_MS // 2)] if number % 5 == 4 else None
        catalog.add(write_segment(storage, found), clip=clip)
    return catalog


@pytest.fixture(scope="module")
def engine(storage: LocalDeepStorage) -> Iterator[QueryEngine]:
    engine = QueryEngine(storage, threads=1)
    yield engine
    engine.close()


@pytest.fixture(params=[5, newest.NEAR_ROWS])
def near(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, engine: QueryEngine
) -> None:
    """The files are large, so that their ends are looked at first, or small; nothing is known of any statement."""
    engine.close()
    monkeypatch.setattr(newest, "NEAR_ROWS", request.param)
    monkeypatch.setattr(newest, "NEAR_SHARE", 1)


class Sorted:
    """Rows of queries, and those of queries that have no limit, which are run once."""

    def __init__(self, engine: QueryEngine, catalog: MemoryCatalog) -> None:
        self._engine, self._catalog = engine, catalog
        self._kept: dict[str, list[tuple[object, ...]]] = {}

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return rows(self._engine, self._catalog, sql)

    def kept(self, sql: str) -> list[tuple[object, ...]]:
        if sql not in self._kept:
            self._kept[sql] = self.rows(sql)
        return self._kept[sql]


@pytest.fixture(scope="module")
def whole(engine: QueryEngine, hours: MemoryCatalog) -> Sorted:
    return Sorted(engine, hours)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["DESC", "ASC", "DESC NULLS FIRST"])
@pytest.mark.parametrize("condition", ["true", "a = 2", "b LIKE '3%'", "a IS NULL", "a > 5"])
@pytest.mark.usefixtures("near")
def test_they_are_those_of_all_files(whole: Sorted, order: str, condition: str) -> None:
    every = f"SELECT *, hour(__time) h FROM events WHERE {condition} ORDER BY __time {order}, b, a"
    for page in (slice(0, 1), slice(0, 7), slice(11, 41), slice(0, 500)):
        sql = f"{every} LIMIT {page.stop - page.start} OFFSET {page.start}"
        expected = whole.kept(every)[page]
        assert whole.rows(sql) == expected, sql
        assert whole.rows(sql) == expected, f"{sql}, once more, as it is known"


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT * FROM events WHERE a = 2 ORDER BY __time DESC LIMIT 5", 6),
        ("SELECT a, b FROM events e WHERE a = 2 ORDER BY e.__time LIMIT 5 OFFSET 2", 6),
        ("SELECT date_trunc('hour', __time) FROM events ORDER BY __time DESC LIMIT 3", 4),
        ("SELECT a AS age, b AS today FROM events ORDER BY __time DESC, age, today LIMIT 3", 4),
        ("SELECT * FROM events WHERE a > 5 ORDER BY __time DESC LIMIT 5", SEGMENTS),
    ],
)
def test_older_files_are_not_read(
    engine: QueryEngine, hours: MemoryCatalog, sql: str, most: int
) -> None:
    assert engine.run_query(sql, hours).segments_read <= most


@pytest.mark.parametrize("condition", ["a = 2", "b LIKE '%nowhere'"])
def test_what_was_found_is_not_looked_for_again(
    storage: LocalDeepStorage, hours: MemoryCatalog, condition: str
) -> None:
    """Rows that are rare were looked for near the end anew each time."""
    engine = QueryEngine(storage, threads=1)
    sql = f"SELECT * FROM events WHERE {condition} ORDER BY __time DESC LIMIT 5"
    with engine._planning(sql, hours, ()) as (query, plan):
        counted = Counting(query.cursor)
        own = replace(query, cursor=cast("duckdb.DuckDBPyConnection", counted))
        [scan] = plan.scans
        first = engine._files.narrowed(scan, plan.edge, own, None)
        asked = counted.statements
        assert asked > 0
        assert engine._files.narrowed(scan, plan.edge, own, None) == first
        assert counted.statements == asked
        fewer = replace(scan, slices=scan.slices[:-1])
        engine._files.narrowed(fewer, plan.edge, own, None)
        assert counted.statements > asked, "other segments are other rows"
        asked = counted.statements
        engine._files.forget()
        engine._files.narrowed(scan, plan.edge, own, None)
        assert counted.statements > asked
    engine.close()


@pytest.mark.parametrize("is_newest", [True, False])
def test_of_a_large_file_the_end_is_looked_at_first(hours: MemoryCatalog, is_newest: bool) -> None:
    """Of hot segments a whole one took four times as long."""
    [small, *_] = slices_of(hours.visible("events", None))
    large = [
        replace(
            small.segment,
            rows=newest.NEAR_ROWS * 60,
            min_time_ms=place * HOUR_MS,
            max_time_ms=(place + 1) * HOUR_MS,
        )
        for place in range(newest.MAX_SHARE)
    ]
    looked_at: list[IntervalSet] = []

    def times_of(slices: Sequence[LeafSlice]) -> list[int]:
        [piece] = slices
        assert piece.clip is not None
        looked_at.append(piece.clip)
        return [(END_MS - SECOND_MS) * 1000] if is_newest else [SECOND_MS * 1000]

    def clip(width_ms: int) -> IntervalSet:
        near = Interval(END_MS - width_ms, MAX_MS) if is_newest else Interval(MIN_MS, width_ms + 1)
        return IntervalSet((near,))

    edge = newest.TimeEdge(sql="", rows=1, is_newest=is_newest)
    slices = [LeafSlice(segment=one, clip=None) for one in large]
    [read] = newest.narrowed(edge, slices, times_of)
    assert looked_at == [clip(MINUTE_MS)]
    assert read.clip == clip(SECOND_MS)
    more = replace(edge, rows=2)
    assert newest.narrowed(more, slices, times_of, is_together=True) == slices
    assert looked_at == [clip(MINUTE_MS)] * 2, "the rest of one table is left to DuckDB"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM events ORDER BY max(__time) DESC LIMIT 1",
        "SELECT max(a) FROM events GROUP BY __time ORDER BY __time DESC LIMIT 1",
        "SELECT DISTINCT __time FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT unnest([a, a]) FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT a, -a AS __time FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT * REPLACE (TIMESTAMPTZ '2020-01-01' AS __time) FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT * FROM events WHERE random() < 0.5 ORDER BY __time DESC LIMIT 3",
        "SELECT * FROM events WHERE epoch_ms(current_timestamp) > a ORDER BY __time DESC LIMIT 3",
        "SELECT * FROM events WHERE a < epoch_ms(LOCALTIMESTAMP) ORDER BY __time DESC LIMIT 3",
        "SELECT a, current_date AS today FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT * FROM events ORDER BY a, __time DESC LIMIT 3",
        "SELECT * FROM events ORDER BY __time DESC LIMIT 1 %",
        "SELECT row_number() OVER () FROM events ORDER BY __time DESC LIMIT 3",
        "SELECT e.* FROM events e JOIN events o USING (a) ORDER BY e.__time DESC LIMIT 3",
    ],
)
def test_other_statements_read_all_files(
    engine: QueryEngine, hours: MemoryCatalog, sql: str
) -> None:
    assert engine.run_query(sql, hours).segments_read == SEGMENTS


@pytest.mark.parametrize("order", ["DESC", "ASC"])
def test_times_are_looked_for_by_the_column_whose_end_is_known(
    hours: MemoryCatalog, order: str
) -> None:
    """By an expression of it a table in memory is read as a whole: that took five times as long."""
    sql = f"SELECT b FROM events e WHERE a > 1 ORDER BY e.__time {order}, 1 LIMIT 3 OFFSET 2"
    with duckdb.connect() as connection:
        edge = KnownPlans().plan(connection, hours, sql, ()).edge
    assert edge is not None
    assert edge.rows == 5
    assert edge.sql.startswith("SELECT epoch_us(e.__time) FROM ")
    assert edge.sql.endswith(f" WHERE (a > 1) ORDER BY e.__time {order}")
