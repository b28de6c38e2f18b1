"""Segments that are read again and again are kept in memory; answers stay what files give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.time.intervals import Interval
from carnac.deep_storage.local import LocalDeepStorage
from carnac.errors import Corrupt
from carnac.query import QueryEngine, hot, scans
from tests.support.segments import MemoryCatalog, write_segment
from tests.unit.query.test_engine import rows

HOUR_MS, SEGMENTS = 3_600_000, 12
STATEMENTS = (
    "SELECT count(*), sum(a), min(b) FROM events",
    "SELECT date_trunc('hour', __time) h, count(*), sum(a) FROM events GROUP BY 1 ORDER BY 1",
    "SELECT b, count(*) FROM events WHERE a > 2 GROUP BY b ORDER BY b NULLS LAST",
    "SELECT * FROM events ORDER BY __time DESC, a, b LIMIT 20",
    "SELECT count(*) FROM events WHERE __time >= '1970-01-01 03:00:00' AND __time < '1970-01-01 06:10:00'",
    "SELECT x.a, count(*) FROM events x JOIN events y USING (__time) GROUP BY ALL ORDER BY ALL",
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "ROWS_MIN", 1)


@pytest.fixture
def storage(tmp_path: Path) -> LocalDeepStorage:
    return LocalDeepStorage(tmp_path / "deep")


@pytest.fixture
def hours(storage: LocalDeepStorage) -> MemoryCatalog:
    """Segments of two schemas, some of them clipped."""
    rng, catalog = random.Random(5), MemoryCatalog()
    for number in range(SEGMENTS):
        start = number * HOUR_MS
        found = [
            {"__time": start + minute * 60_000, "a": rng.randrange(5)}
            | ({} if number % 4 == 0 else {"b": f"{number % 3}"})
            for minute in range(0, 60, 2)
        ]
        clip = [Interval(start, start + HOUR_MS // 2)] if number % 5 == 4 else None
        catalog.add(write_segment(storage, found), clip=clip)
    return catalog


@pytest.fixture
def engine(storage: LocalDeepStorage) -> Iterator[QueryEngine]:
    with_hot = QueryEngine(storage, threads=2)
    yield with_hot
    with_hot.close()


def is_hot(engine: QueryEngine, catalog: MemoryCatalog, sql: str) -> bool:
    return "READ_PARQUET" not in str(rows(engine, catalog, f"EXPLAIN {sql}")).upper()


def heat(engine: QueryEngine, catalog: MemoryCatalog, sql: str) -> None:
    """Ask often enough for segments of two schemas to be loaded."""
    for _ in range(3 * hot.READS):
        rows(engine, catalog, sql)
        engine.hot.wait()


@pytest.mark.slow
def test_answers_are_those_of_files(
    storage: LocalDeepStorage, hours: MemoryCatalog, engine: QueryEngine
) -> None:
    plain = QueryEngine(storage, threads=2, hot_bytes=0)
    for sql in STATEMENTS:  # some segments are hot while others are not yet
        assert rows(engine, hours, sql) == rows(plain, hours, sql)
    heat(engine, hours, STATEMENTS[0])
    for sql in STATEMENTS:
        assert is_hot(engine, hours, sql), sql
        assert not is_hot(plain, hours, sql)
        assert rows(engine, hours, sql) == rows(plain, hours, sql)
    plain.close()


def test_what_is_read_once_stays_in_files(hours: MemoryCatalog, engine: QueryEngine) -> None:
    for _ in range(hot.READS - 1):
        rows(engine, hours, STATEMENTS[0])
    engine.hot.wait()
    assert not is_hot(engine, hours, STATEMENTS[0])


def test_a_file_that_is_damaged_later_is_still_found(
    storage: LocalDeepStorage, hours: MemoryCatalog, engine: QueryEngine
) -> None:
    heat(engine, hours, STATEMENTS[0])
    segment = hours.visible("events", None)[3].segment
    place = storage.local_path(segment.path)
    assert place is not None
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    with pytest.raises(Corrupt, match=segment.segment_id):
        rows(engine, hours, STATEMENTS[0])


@pytest.mark.slow
def test_a_closed_engine_starts_anew(hours: MemoryCatalog, engine: QueryEngine) -> None:
    expected = rows(engine, hours, STATEMENTS[1])
    heat(engine, hours, STATEMENTS[1])
    engine.close()
    assert not is_hot(engine, hours, STATEMENTS[1])
    heat(engine, hours, STATEMENTS[1])
    assert is_hot(engine, hours, STATEMENTS[1])
    assert rows(engine, hours, STATEMENTS[1]) == expected


@pytest.mark.slow
def test_what_fits_is_kept_and_the_rest_stays_in_files(
    storage: LocalDeepStorage, hours: MemoryCatalog
) -> None:
    size_bytes = max(one.segment.size_bytes for one in hours.visible("events", None))
    engine = QueryEngine(storage, threads=2, hot_bytes=3 * hot.GROWTH * size_bytes)
    expected = rows(engine, hours, STATEMENTS[1])
    heat(engine, hours, STATEMENTS[1])
    assert not is_hot(engine, hours, STATEMENTS[1])
    assert rows(engine, hours, STATEMENTS[1]) == expected
    engine.close()


@pytest.mark.slow
def test_many_ask_while_segments_are_loaded_and_put_out(
    storage: LocalDeepStorage, hours: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot, "STILL_USED", 1)
    monkeypatch.setattr(hot, "BATCHES_MAX", 2)
    plain = QueryEngine(storage, threads=2, hot_bytes=0)
    engine = QueryEngine(storage, threads=2, hot_bytes=200_000)
    windows = [
        "SELECT count(*), sum(a) FROM events WHERE __time >= make_timestamptz("
        f"{first * HOUR_MS * 1000}) AND __time < make_timestamptz({(first + 3) * HOUR_MS * 1000})"
        for first in range(SEGMENTS - 2)
    ]
    expected = {sql: rows(plain, hours, sql) for sql in windows}
    asked = random.Random(7).choices(windows, k=100)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda sql: rows(engine, hours, sql), asked))
    assert found == [expected[sql] for sql in asked]
    engine.close()
    plain.close()


@given(st.sets(st.integers(0, 99), min_size=1))
def test_any_of_the_segments_that_are_kept_together_can_be_asked_for(wanted: set[int]) -> None:
    kept = f"range(100) AS kept({scans.NUMBER_COLUMN})"
    found = duckdb.sql(f"FROM {kept} WHERE {scans._one_of(sorted(wanted))}").fetchall()
    assert {number for (number,) in found} == wanted


def test_a_few_ranges_of_segments_are_asked_for_as_ranges() -> None:
    """A list has DuckDB read everything where the newest rows are wanted."""
    few = [number for number in range(4 * scans._RANGES_MAX) if number % 4]
    assert " IN (" not in scans._one_of(few)
    assert " IN (" in scans._one_of([*few, few[-1] + 2])
