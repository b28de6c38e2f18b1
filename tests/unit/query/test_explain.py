"""What EXPLAIN says: which way and why, what is read, what is left out by what, and what is kept."""

from __future__ import annotations

import pytest

from carnac.ports.queries import READ_ALL
from carnac.query import QueryEngine
from carnac.query.keeping.store import KeptResults
from tests.support.segments import MemoryCatalog

BY_CARRIER = (
    "SELECT carrier, sum(delay) AS d FROM flights WHERE __time >= '2013-01-02' GROUP BY carrier"
)


@pytest.fixture
def keeping(engine: QueryEngine) -> QueryEngine:
    storage = engine._files.storage
    return QueryEngine(storage, threads=1, kept=KeptResults(rows_min=0))


def explained(engine: QueryEngine, catalog: MemoryCatalog, sql: str, **how: object) -> str:
    table = engine.run_query(sql, catalog, **how).table  # type: ignore[arg-type]
    return "\n".join(table.column(0).to_pylist())  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", ["EXPLAIN", "explain plan  for", "EXPLAIN\nPLAN FOR"])
def test_it_says_what_is_read_and_what_is_kept(
    keeping: QueryEngine, catalog: MemoryCatalog, words: str
) -> None:
    total = catalog.count_segments("flights")
    before = explained(keeping, catalog, f"{words} {BY_CARRIER}")
    result = keeping.run_query(BY_CARRIER, catalog)
    read = result.segments_read
    assert f"segments that may matter: {read} of {total}" in before
    assert f"taken from kept ones: 0 of {read} segments" in before
    assert f"{total - read} by time" in before
    assert "over all: SELECT" in before
    after = explained(keeping, catalog, f"{words} {BY_CARRIER}")
    assert f"taken from kept ones: {read} of {read} segments" in after
    unkept = explained(keeping, catalog, f"{words} {BY_CARRIER}", keeping=READ_ALL)
    assert "nothing is kept" in unkept


def test_it_says_which_values_leave_segments_out(
    keeping: QueryEngine, catalog: MemoryCatalog
) -> None:
    told = explained(keeping, catalog, "EXPLAIN SELECT * FROM flights WHERE carrier = 'nobody'")
    total = catalog.count_segments("flights")
    assert f"pruned: {total} by values of carrier" in told
    plan = keeping.plan_distributed(
        "EXPLAIN PLAN FOR SELECT count(*) FROM flights WHERE carrier = 'nobody'", catalog
    )
    assert f"pruned: {total} by values of carrier" in plan.told


@pytest.mark.parametrize("value", ["count(DISTINCT delay)", "avg(DISTINCT delay)", "sum(delay)"])
def test_a_longer_window_takes_what_is_kept_of_a_shorter_one(
    keeping: QueryEngine, catalog: MemoryCatalog, value: str
) -> None:
    sql = f"SELECT carrier, {value} AS v FROM flights WHERE __time < '%s' GROUP BY carrier ORDER BY carrier"
    shorter, longer = sql % "2013-01-03", sql % "2013-01-05"
    kept = keeping.run_query(shorter, catalog).segments_read
    read = keeping.run_query(longer, catalog, keeping=READ_ALL).segments_read
    assert 0 < kept < read
    told = explained(keeping, catalog, f"EXPLAIN {longer}")
    assert f"taken from kept ones: {kept} of {read} segments" in told
    wanted = keeping.run_query(longer, catalog, keeping=READ_ALL).table
    found = keeping.run_query(longer, catalog).table
    assert found.to_pylist() == wanted.to_pylist()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "segments"),
    [
        ("SELECT count(*) FROM (SELECT * FROM flights) AS virtual_table WHERE {}", 1),
        ("SELECT d FROM (SELECT date_trunc('day', __time) AS d FROM flights) WHERE d = '{day}'", 1),
        (
            "WITH f(t, c) AS (FROM flights SELECT __time, carrier) SELECT c FROM f WHERE t < '{end}'",
            1,
        ),
        ("SELECT 1 FROM TABLE(APPEND('flights', 'flights')) WHERE {}", 1),
        ("SELECT 1 FROM (SELECT __time, max(delay) FROM flights GROUP BY 1) WHERE {}", 1),
        ("SELECT 1 FROM (SELECT * FROM flights LIMIT 100000) WHERE {}", 10),
        ("SELECT 1 FROM (SELECT *, row_number() OVER () FROM flights) WHERE {}", 10),
        ("WITH f AS (FROM flights) SELECT 1 FROM f JOIN f g USING (carrier) WHERE f.{}", 10),
    ],
)
def test_a_condition_around_a_query_leaves_out_segments_within(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str, segments: int
) -> None:
    asked = sql.format("__time < '2013-01-02'", day="2013-01-01", end="2013-01-02")
    assert engine.run_query(asked, catalog).segments_read == segments
