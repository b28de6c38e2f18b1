"""Statements that are planned, started, read batch by batch, cancelled and closed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest

from carnac.errors import CarnacError, Invalid, NotFound, TimedOut, Unavailable
from carnac.query import QueryEngine
from carnac.query.streams.streaming import StreamedQuery
from tests.support.segments import MemoryCatalog
from tests.unit.query.test_queries_that_end import HEAVY, LIGHT

MANY = "SELECT range AS n, repeat('x', 100) AS t FROM range(3000000)"


def rows_of(query: StreamedQuery) -> list[dict[str, object]]:
    schema = query.start()
    assert isinstance(schema, pa.Schema)
    batches = [one for one in query.batches() if isinstance(one, pa.RecordBatch)]
    rows: list[dict[str, object]] = pa.Table.from_batches(batches, schema).to_pylist()
    return rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT carrier, count(*) AS n, sum(delay) AS d FROM flights GROUP BY carrier ORDER BY carrier",
        "SELECT * FROM flights WHERE __time >= '2013-01-09' ORDER BY __time, carrier",
        "SELECT __time FROM flights ORDER BY __time DESC LIMIT 3",
        "SELECT k, v FROM lookup.names ORDER BY k",
        "SELECT count(*) AS n FROM flights WHERE false",
        "SHOW TABLES",
    ],
)
def test_rows_are_those_of_a_whole_result(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    table = engine.run_query(sql, catalog).table
    assert isinstance(table, pa.Table)
    assert rows_of(engine.open_query(sql, catalog)) == table.to_pylist()


def test_a_plan_is_rows_too(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    query = engine.open_query("EXPLAIN SELECT 1 FROM flights", catalog)
    assert query.basis.is_volatile
    assert rows_of(query)


def test_the_basis_names_segments_and_columns(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    sql = "SELECT  Carrier /* who */ FROM flights WHERE __time >= TIMESTAMP '2013-01-09'"
    query = engine.open_query(sql, catalog)
    basis = query.basis
    query.close()
    assert len(basis.slices) == 2
    assert [list(columns) for columns in basis.columns.values()] == [["carrier"]]
    assert not basis.is_volatile
    assert basis.segments_total == 10
    again = engine.open_query(sql.replace("/* who */", "").replace("  ", " "), catalog)
    assert again.basis == basis
    again.close()


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM flights", {"carrier", "delay", "distance"}),
        ("SELECT f FROM flights f", {"carrier", "delay", "distance"}),
        ("SELECT f.delay FROM flights f JOIN airlines USING (carrier)", {"carrier", "delay"}),
        ("SELECT count(*) FROM flights", set()),
    ],
)
def test_columns_that_a_statement_may_see(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str, columns: set[str]
) -> None:
    query = engine.open_query(sql, catalog)
    assert set(query.basis.columns["flights"]) == columns
    query.close()


@pytest.mark.parametrize(
    ("expression", "is_volatile"),
    [
        ("now()", True),
        ("current_date", True),
        ("random()", True),
        ("uuid()", True),
        ("age(__time)", True),
        ("(SELECT max(today()) FROM airlines)", True),
        ("max(delay)", False),
        ("date_trunc('day', __time)", False),
    ],
)
def test_answers_that_depend_on_time_or_chance(
    engine: QueryEngine, catalog: MemoryCatalog, expression: str, is_volatile: bool
) -> None:
    group = "" if "max(delay)" in expression else "LIMIT 1"
    query = engine.open_query(f"SELECT {expression} FROM flights {group}", catalog)
    assert query.basis.is_volatile is is_volatile
    query.close()


def test_a_sample_depends_on_chance(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    query = engine.open_query("SELECT delay FROM flights TABLESAMPLE 10%", catalog)
    assert query.basis.is_volatile
    query.close()


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT nothing FROM flights", NotFound),
        ("SELECT 1 FROM nowhere", NotFound),
        ("SELEC 1", Invalid),
        ("SELECT CAST(carrier AS BIGINT) FROM flights", Invalid),
    ],
)
def test_what_is_wrong_is_said_as_ever(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str, kind: type[CarnacError]
) -> None:
    with pytest.raises(kind) as streamed:
        rows_of(engine.open_query(sql, catalog))
    with pytest.raises(kind) as whole:
        engine.run_query(sql, catalog)
    assert streamed.value.message == whole.value.message


def test_rows_come_before_all_are_there_and_the_rest_can_be_left(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    query = engine.open_query(MANY, catalog)
    query.start()
    batches = query.batches()
    first = next(batches)
    assert isinstance(first, pa.RecordBatch)
    assert first.num_rows < 3_000_000
    query.close()
    query.close()
    with pytest.raises(Unavailable, match="interrupted"):
        next(batches)
    assert rows_of(engine.open_query(LIGHT, catalog)) == [{"n": 3}]


def test_a_query_is_cancelled_from_another_thread(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    query = engine.open_query(HEAVY, catalog)
    canceller = threading.Timer(0.1, query.cancel)
    canceller.start()
    with pytest.raises(Unavailable, match="interrupted"):
        rows_of(query)
    canceller.join()


def test_a_query_is_closed_by_another_thread_while_it_runs(
    engine: QueryEngine, catalog: MemoryCatalog
) -> None:
    query = engine.open_query(HEAVY, catalog)
    closer = threading.Timer(0.1, query.close)
    closer.start()
    with pytest.raises(Unavailable):
        rows_of(query)
    closer.join()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_is_cancelled_early_does_not_run(
    engine: QueryEngine, catalog: MemoryCatalog, moment: str
) -> None:
    query = engine.open_query(LIGHT, catalog)
    if moment == "after":
        query.start()
    query.cancel()
    with pytest.raises(Unavailable, match="interrupted"):
        rows_of(query)


def test_a_time_limit_of_its_own(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    with pytest.raises(TimedOut, match="longer than 50 ms"):
        rows_of(engine.open_query(HEAVY, catalog, timeout_ms=50))


@pytest.mark.parametrize("parameters", [[1], [3]])
def test_parameters_take_their_places(
    engine: QueryEngine, catalog: MemoryCatalog, parameters: Sequence[object]
) -> None:
    query = engine.open_query("SELECT ? AS n FROM airlines LIMIT 1", catalog, parameters=parameters)
    assert rows_of(query) == [{"n": parameters[0]}]


def test_sums_are_longs(engine: QueryEngine, catalog: MemoryCatalog) -> None:
    query = engine.open_query("SELECT sum(delay) AS d FROM flights", catalog)
    assert query.start() == pa.schema([("d", pa.int64())])
    query.close()
    with pytest.raises(Invalid, match="beyond 64 bits"):
        rows_of(engine.open_query("SELECT sum(9223372036854775807) AS d FROM flights", catalog))
