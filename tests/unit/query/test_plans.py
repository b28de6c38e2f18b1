"""Plans that an engine remembers: the same for the same statement, and never for another one or another revision."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pytest

from carnac.deep_storage.local import LocalDeepStorage
from carnac.query import QueryEngine
from carnac.query.keeping.store import KeptResults
from carnac.query.planning import Plan
from carnac.query.plans import KnownPlans
from tests.support.segments import MemoryCatalog, write_segment
from tests.unit.query.test_engine import rows

SUMS = "SELECT k, sum(a) AS s FROM events WHERE a > ? GROUP BY k ORDER BY k"


@pytest.fixture
def storage(tmp_path: Path) -> LocalDeepStorage:
    return LocalDeepStorage(tmp_path / "deep")


@pytest.fixture
def catalog(storage: LocalDeepStorage) -> MemoryCatalog:
    made = [{"__time": number, "a": number, "k": f"{number % 2}"} for number in range(10)]
    return MemoryCatalog().add(write_segment(storage, made))


def planned(
    plans: KnownPlans, catalog: MemoryCatalog, sql: str, parameters: Sequence[object] = ()
) -> Plan:
    with duckdb.connect() as connection:
        return plans.plan(connection, catalog, sql, parameters)


def test_the_same_statement_of_the_same_revision_is_planned_once(
    catalog: MemoryCatalog, storage: LocalDeepStorage
) -> None:
    plans = KnownPlans()
    first = planned(plans, catalog, SUMS, (3,))
    assert planned(plans, catalog, SUMS, (3,)).statement is first.statement
    catalog.add(write_segment(storage, [{"__time": 5, "a": 7, "k": "x"}]))
    later = planned(plans, catalog, SUMS, (3,))
    assert later.segments_read == 2, "the segment that came since is seen"


@pytest.mark.parametrize(
    ("sql", "used"),
    [
        ("SELECT count(*) FROM events", []),
        ("SELECT E.K FROM events e WHERE __time > 'epoch'", ["k"]),
        ("SELECT s FROM (SELECT max(a) AS s FROM events)", ["a"]),
        ("SELECT a FROM events JOIN (SELECT 'x' AS k) USING (k)", ["a", "k"]),
        ("SELECT x.k FROM events x NATURAL JOIN (SELECT 1 AS a)", ["a", "k"]),
        ("SELECT events FROM events", ["a", "k"]),
        ("SELECT COLUMNS('k') FROM events", ["a", "k"]),
        ("FROM events", ["a", "k"]),
        ("SELECT z FROM events AS t(x, y, z)", ["a", "k"]),
    ],
)
def test_a_scan_names_the_columns_that_a_statement_may_need(
    catalog: MemoryCatalog, sql: str, used: list[str]
) -> None:
    """What is said of others, DuckDB reads and binds for nothing, three times for each statement."""
    [scan] = planned(KnownPlans(), catalog, sql).scans
    assert (list(scan.used), list(scan.columns)) == (used, ["a", "k"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), (True,)),
        ((1,), (1.0,)),
        ((0.0,), (-0.0,)),
        ((Decimal("1.0"),), (Decimal("1.00"),)),
        (("1",), (1,)),
        (([1],), ([1],)),  # there is no telling whether a list is the same later
    ],
)
def test_values_that_only_look_alike_are_planned_apart(
    one: Sequence[object],
    other: Sequence[object],
    catalog: MemoryCatalog,
) -> None:
    plans = KnownPlans()
    first = planned(plans, catalog, "SELECT ? FROM events", one)
    assert planned(plans, catalog, "SELECT ? FROM events", other).statement is not first.statement


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM events WHERE __time < now()",
        "SELECT count(*) FROM events WHERE __time < current_timestamp",
        "SELECT count(*) FROM events WHERE __time > ago(INTERVAL 1 DAY)",
        "SELECT random() FROM events",
        "SELECT * FROM sys.servers",
        "EXPLAIN SELECT count(*) FROM events",
    ],
)
def test_what_depends_on_the_time_on_chance_or_on_what_is_now_is_planned_each_time(
    sql: str, catalog: MemoryCatalog
) -> None:
    plans = KnownPlans()
    first = planned(plans, catalog, sql, ())
    assert planned(plans, catalog, sql, ()).statement is not first.statement


def test_a_catalog_without_a_log_may_change_under_its_number(
    catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryCatalog, "store_id", "")
    plans = KnownPlans()
    first = planned(plans, catalog, SUMS, (3,))
    assert planned(plans, catalog, SUMS, (3,)).statement is not first.statement


def test_running_a_statement_in_one_round_leaves_its_plan_as_it_was(
    catalog: MemoryCatalog, storage: LocalDeepStorage
) -> None:
    engine = QueryEngine(storage, kept=KeptResults(rows_min=1))
    before = copy.deepcopy(planned(engine._plans, catalog, SUMS, (3,)).statement)
    asked = [rows(engine, catalog, SUMS, (3,)) for _ in range(3)]
    assert asked == [[("0", 18), ("1", 21)]] * 3
    assert planned(engine._plans, catalog, SUMS, (3,)).statement == before
    assert before["node"]["where_clause"]["right"]["class"] == "PARAMETER", "it would be settled"
    engine.close()


def test_values_that_print_alike_have_answers_of_their_own(
    catalog: MemoryCatalog, storage: LocalDeepStorage
) -> None:
    engine = QueryEngine(storage, kept=KeptResults(rows_min=1))
    one = np.arange(100, 3_000)
    other = one.copy()
    other[1_500] = 7
    assert repr(one) == repr(other)
    sql = "SELECT median(a) FROM events WHERE list_contains(?, a)"
    assert [rows(engine, catalog, sql, [given]) for given in (one, other)] == [[(None,)], [(7.0,)]]
    engine.close()


def test_what_is_kept_of_a_column_is_not_put_beside_rows_of_another_type(
    catalog: MemoryCatalog, storage: LocalDeepStorage
) -> None:
    engine = QueryEngine(storage, kept=KeptResults(rows_min=1))
    assert rows(engine, catalog, SUMS, (3,)) == [("0", 18), ("1", 21)]
    catalog.add(write_segment(storage, [{"__time": 5, "a": 7.5, "k": "x"}]))
    assert rows(engine, catalog, SUMS, (3,)) == [("0", 18.0), ("1", 21.0), ("x", 7.5)]
    engine.close()


def test_an_answer_that_is_too_large_is_not_kept_as_none(storage: LocalDeepStorage) -> None:
    made = [{"__time": number, "a": number} for number in range(500)]
    catalog = MemoryCatalog().add(write_segment(storage, made))
    engine = QueryEngine(storage, kept=KeptResults(rows_min=1, entry_bytes_max=4_000))
    sql = "SELECT a, median(a) AS m FROM events GROUP BY a ORDER BY a"
    found = [rows(engine, catalog, sql) for _ in range(2)]
    assert found[0] == found[1] == [(number, float(number)) for number in range(500)]
    engine.close()
