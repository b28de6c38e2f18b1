"""Druid's functions as expressions of DuckDB: buckets are those of granularities, texts of doubles those of Java."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import duckdb
import pytest

from carnac.core.druid.forms import DOUBLE_TEXT, DOUBLE_TEXT_BODY, filled
from carnac.core.druid.times import TIMES
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import parse_instant

TIMES_MS = [parse_instant("2024-03-31T01:30:00Z"), parse_instant("2024-10-28T02:30:00Z"), -1, 0]
"""None of a bucket that begins in an hour that clocks show twice: DuckDB takes the second of both for it."""
TIMES_MS += [random.Random(7).randrange(-(10**12), 3 * 10**12) for _ in range(60)]
PERIODS = ["PT1H", "PT6H", "PT7M", "P1D", "P3D", "P1W", "P2W", "P1M", "P3M", "P1Y", "P5Y"]
ORIGINS = ["", "2000-02-01", "1970-01-02", "2024-07-01T00:00:00Z"]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute(f"CREATE MACRO {DOUBLE_TEXT}(v) AS {DOUBLE_TEXT_BODY}")
        yield engine


@pytest.mark.parametrize("zone", ["", "Europe/Berlin", "Asia/Kolkata", "America/New_York"])
def test_buckets_are_those_of_the_granularity(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    for period, origin in product(PERIODS, ORIGINS):
        block = {"type": "period", "period": period, "timeZone": zone or "UTC"}
        granularity = parse_granularity(block | ({"origin": origin} if origin else {}))
        form = TIMES["time_floor"]([None, period, origin, zone])
        if form is None:
            assert granularity.months
            assert origin
            continue
        floor = filled(form, "make_timestamptz(ms * 1000)")
        found = con.execute(
            f"SELECT ms, epoch_ms({floor}) FROM (SELECT unnest(?::BIGINT[]) AS ms)", [TIMES_MS]
        ).fetchall()
        expected = [(ms, granularity.bucket(ms).start_ms) for ms in TIMES_MS]
        assert found == expected, (period, origin)


def test_most_origins_are_taken() -> None:
    assert TIMES["time_floor"]([None, "P3M", "2000-02-01", ""]) is not None
    assert TIMES["time_floor"]([None, "P1M", "2000-02-15", ""]) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1e7", "1.0E7"),
        ("12345678.9", "1.23456789E7"),
        ("1.5e300", "1.5E300"),
        ("9999999.999999998", "9999999.999999998"),
        ("100", "100.0"),
        ("0.001", "0.001"),
        ("9.99e-4", "9.99E-4"),
        ("1e-4", "1.0E-4"),
        ("-1.25e-5", "-1.25E-5"),
        ("-12345678", "-1.2345678E7"),
        ("0", "0.0"),
        ("-0.0", "-0.0"),
        ("nan", "NaN"),
        ("-inf", "-Infinity"),
    ],
)
def test_texts_of_doubles_are_those_of_java(
    con: duckdb.DuckDBPyConnection, number: str, text: str
) -> None:
    [[found, null]] = con.execute(
        f"SELECT {DOUBLE_TEXT}(CAST(? AS DOUBLE)), {DOUBLE_TEXT}(CAST(NULL AS DOUBLE))", [number]
    ).fetchall()
    assert (found, null) == (text, None)
    column = f"SELECT {DOUBLE_TEXT}(t) FROM (SELECT CAST(? AS DOUBLE) AS t)"
    assert con.execute(column, [number]).fetchall() == [(text,)]


def test_arguments_are_put_in_their_places_and_not_into_texts() -> None:
    assert filled("f(_1, '_1''_2', _2)", "a", "'_1'") == "(f(a, '_1''_2', '_1'))"
