"""Short lists after IN and NOT IN have the rows that DuckDB gives them, whatever they are written as."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.deep_storage.local import LocalDeepStorage
from carnac.query import QueryEngine, conditions
from carnac.query.plans import KnownPlans
from tests.support.segments import MemoryCatalog, write_segment
from tests.unit.query.test_bucketing import both
from tests.unit.query.test_engine import rows

WORDS = ["", "a", "it's", "b", "c", "ä"]
NUMBERS = [-3, 0, 1, 2, 5, 50, 9_000]
DATA = [
    {
        "__time": place,
        "k": None if place % 7 == 6 else WORDS[place % len(WORDS)],
        "n": None if place % 9 == 8 else NUMBERS[place % len(NUMBERS)],
    }
    for place in range(70)
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> LocalDeepStorage:
    folder: Path = tmp_path_factory.mktemp("membership")
    return LocalDeepStorage(folder)


@pytest.fixture(scope="module")
def catalog(storage: LocalDeepStorage) -> MemoryCatalog:
    return MemoryCatalog().add(write_segment(storage, DATA))


def listed(values: list[str | int]) -> str:
    quoted = (
        f"'{one}'".replace("it's", "it''s") if isinstance(one, str) else one for one in values
    )
    return f"({', '.join(map(str, quoted))})"


TESTS = st.tuples(
    st.sampled_from(["", "NOT"]),
    st.one_of(
        st.tuples(st.just("k"), st.lists(st.sampled_from([*WORDS, "x"]), min_size=1, max_size=7)),
        st.tuples(st.just("n"), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=14)),
        st.tuples(st.just("n + 1"), st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=5)),
    ),
)


@pytest.mark.slow
@given(first=TESTS, second=TESTS, word=st.sampled_from(["AND", "OR"]))
def test_rows_are_those_of_duckdb(
    storage: LocalDeepStorage,
    catalog: MemoryCatalog,
    first: tuple[str, tuple[str, list[str | int]]],
    second: tuple[str, tuple[str, list[str | int]]],
    word: str,
) -> None:
    tests = [
        f"{column} {negated} IN {listed(values)}" for negated, (column, values) in (first, second)
    ]
    sql = f"SELECT __time, k, n FROM events WHERE {tests[0]} {word} {tests[1]} ORDER BY __time"
    found, expected = both(storage, catalog, sql)
    assert found.equals(expected)


def printed(catalog: MemoryCatalog, condition: str, table: str = "events") -> str:
    with duckdb.connect() as connection:
        sql = f"SELECT count(*) FROM {table} WHERE {condition}"
        plan = KnownPlans().plan(connection, catalog, sql, ())
        return plan.sql.partition("WHERE ")[2]


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("k IN ('a', 'b')", "(((k = 'a') OR (k = 'b')) = true)"),
        ("k NOT IN ('a', 'b')", "(((k != 'a') AND (k != 'b')) = true)"),
        (
            "n IN (9, 1, 5, 1, 2)",
            "((((n = 9) OR (n = 1) OR (n = 5) OR (n = 1) OR (n = 2)) = true)"
            " AND (n >= 1) AND (n <= 9))",
        ),
    ],
)
def test_short_lists_become_comparisons(
    catalog: MemoryCatalog, condition: str, written: str
) -> None:
    assert printed(catalog, condition) == written


@pytest.mark.parametrize(
    "condition",
    [
        "k IN ('a', 'b', 'c', 'd')",
        "k NOT IN ('a', 'b', 'c', 'd', 'e', 'f')",
        "k IN ('a', NULL)",
        "n IN (1, 2, 3, 4)",
        "n IN (1, 9)",
        "n NOT IN (1, 5, 9, 20)",
        "n IN (1, 5, 9, 2.5)",
        "upper(k) IN ('A', 'B')",
        "k IN (SELECT 'a')",
        "((k IN ('a', 'b')) OR (n = 1))",
        "k IN ('a', 'b') AND n = 1",
        "n > 5 AND k NOT IN ('a', 'b')",
    ],
)
def test_other_lists_stay(catalog: MemoryCatalog, condition: str) -> None:
    assert "= true" not in printed(catalog, condition)


def test_conditions_on_time_and_other_lists_may_stand_beside_it(catalog: MemoryCatalog) -> None:
    lists = "k IN ('a', 'b') AND k NOT IN ('c', 'ä')"
    assert (
        printed(catalog, f"year(__time) < 2030 AND {lists} AND __time > '2000-01-01'").count(
            "= true"
        )
        == 2
    )


def test_a_column_of_a_subquery_stays_and_that_of_its_datasource_does_not(
    catalog: MemoryCatalog,
) -> None:
    inner = "(SELECT DISTINCT k FROM events WHERE k IN ('a', 'b')) AS s"
    assert printed(catalog, "s.k IN ('a', 'b')", inner).count("= true") == 1


DAYS, DAY_MS = 4, 86_400_000
MANY = [*range(1, 9), 2 * DAY_MS]
"""The last one is that of a row."""


@pytest.fixture(scope="module")
def days(storage: LocalDeepStorage) -> MemoryCatalog:
    """A segment a day, each of one row, whose columns say when it was."""
    found = MemoryCatalog()
    for start in range(0, DAYS * DAY_MS, DAY_MS):
        found.add(write_segment(storage, [{"__time": start, "n": start, "k": f"{start:09}"}]))
    return found


def instant(time_ms: int) -> str:
    return f"'{datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(' ', 'milliseconds')}'"


NUMBERED, WRITTEN, TIMED = (
    ", ".join(map(shown, MANY)) for shown in (str, "'{:09}'".format, instant)
)


@pytest.mark.parametrize(
    ("condition", "segments"),
    [
        (f"n IN ({NUMBERED})", 2),
        (f"n IN (NULL, {NUMBERED})", 2),
        (f"k IN ({WRITTEN})", 2),
        (f"__time IN ({TIMED})", 2),
        (f"__time::TIMESTAMP IN ({TIMED})", 2),
        (f"date_trunc('second', __time) IN ({TIMED})", 2),
        (f"n IN (1.5, {NUMBERED})", DAYS),
        (f"n IN (abs(1), {NUMBERED})", DAYS),
        (f"__time IN (now(), {TIMED})", DAYS),
        (f"n + 0 IN ({NUMBERED})", DAYS),
    ],
)
def test_of_a_long_list_every_value_counts(
    storage: LocalDeepStorage,
    days: MemoryCatalog,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    segments: int,
) -> None:
    monkeypatch.setattr(conditions, "MAX_SET", 7)
    sql, engine = f"SELECT n FROM events WHERE {condition}", QueryEngine(storage, threads=1)
    assert rows(engine, days, sql) == [(2 * DAY_MS,)]
    assert engine.run_query(sql, days).segments_read == segments
    engine.close()
