"""Statements whose answers are small are known by their trees, and run at once with the same rows and types."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from carnac.ports.queries import LeafSlice
from carnac.query.distributed import sizes
from carnac.query.distributed.sizes import AnswerSize, size_of
from carnac.query.planning import Planner
from carnac.query.results import run, silence_copies
from carnac.query.scans import slices_of
from carnac.query.syntax import parsed
from tests.support.segments import MemoryCatalog

FEW = [
    "SELECT count(*), sum(delay) FROM flights",
    "SELECT max(delay) + 1 AS n FROM flights WHERE carrier = 'AA' HAVING count(*) > 2",
    "SELECT * FROM flights LIMIT 10",
    "SELECT carrier, count(*) FROM flights GROUP BY 1 ORDER BY 2 LIMIT 10 OFFSET 3",
    "SELECT 1 AS a UNION ALL SELECT 2 LIMIT 1",
    "SELECT count(*) FROM (SELECT unnest([1, 2]) FROM flights)",
]
WITHIN = [
    "SELECT * FROM flights",
    "SELECT carrier, count(*) FROM flights GROUP BY 1",
    "SELECT DISTINCT carrier FROM flights ORDER BY 1",
    f"SELECT * FROM flights LIMIT {sizes.FEW_ROWS + 1}",
]
ANY = [
    "SELECT (SELECT 1) AS one, carrier FROM flights",
    "SELECT unnest(list(delay)) FROM flights",
    "SELECT carrier, unnest([1, 2]) FROM flights",
    "SELECT f.carrier FROM flights f JOIN flights g USING (carrier)",
    "SELECT * FROM (SELECT *, 1 FROM flights)",
    "SELECT carrier, delay, count(*) FROM flights GROUP BY CUBE (carrier, delay)",
    "SELECT sum(delay) OVER (PARTITION BY carrier) FROM (SELECT *, 1 FROM flights)",
    "SELECT * FROM flights, (SELECT count(*) FROM flights)",
    "SELECT * FROM (SELECT *, 1 FROM flights) LIMIT 10 %",
    "SELECT delay FROM flights UNION ALL SELECT delay FROM flights",
]


@pytest.fixture(scope="module")
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    silence_copies()
    with duckdb.connect() as found:
        yield found


def size(cursor: duckdb.DuckDBPyConnection, catalog: MemoryCatalog, sql: str) -> AnswerSize:
    plan = Planner(cursor, catalog, ()).plan(sql)
    return size_of(plan.statement, plan.selects)


def slices(catalog: MemoryCatalog) -> list[LeafSlice]:
    return slices_of(catalog.visible("flights", None))


@pytest.mark.parametrize("sql", FEW)
def test_one_row_and_a_low_limit_are_few_rows_whatever_is_read(
    cursor: duckdb.DuckDBPyConnection, catalog: MemoryCatalog, sql: str
) -> None:
    assert size(cursor, catalog, sql).is_few


@pytest.mark.parametrize("sql", WITHIN)
def test_rows_and_groups_of_one_table_are_few_where_few_are_read(
    cursor: duckdb.DuckDBPyConnection,
    catalog: MemoryCatalog,
    sql: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = size(cursor, catalog, sql)
    assert found == AnswerSize(is_few=False, is_within=True)
    assert found.is_small(slices(catalog))
    monkeypatch.setattr(sizes, "SMALL_ROWS", 239)
    assert not found.is_small(slices(catalog)), "ten segments of 24 rows"


@pytest.mark.parametrize("sql", ANY)
def test_what_makes_more_rows_than_it_reads_is_streamed(
    cursor: duckdb.DuckDBPyConnection, catalog: MemoryCatalog, sql: str
) -> None:
    assert size(cursor, catalog, sql) == AnswerSize(is_few=False, is_within=False)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1::HUGEINT AS h, 'x' AS s, 1.50::DECIMAL(5,2) AS d, NULL AS n",
        "SELECT make_timestamptz(2026, 1, 2, 3, 4, 5) AS t, [1, NULL] AS l, {'a': 1} AS st, INTERVAL 1 DAY AS i",
        "SELECT i, i / 3 AS d FROM range(300000) t(i)",
        "SELECT i FROM range(3) t(i) WHERE i > ?",
        "SELECT 1 AS a WHERE false",
    ],
)
def test_both_ways_give_the_same_rows_and_types(
    cursor: duckdb.DuckDBPyConnection, sql: str
) -> None:
    parameters = [0] * sql.count("?")
    found = []
    for is_small in (True, False):
        schema, batches = run(cursor, sql, parameters, is_small=is_small)
        found.append(pa.Table.from_batches(list(batches), schema))
    assert found[0].schema == found[1].schema
    assert found[0].equals(found[1])


def test_a_statement_is_parsed_once(cursor: duckdb.DuckDBPyConnection) -> None:
    assert parsed(cursor, "SELECT 41 + 1") is parsed(cursor.cursor(), "SELECT 41 + 1")


@pytest.mark.parametrize("is_small", [True, False])
def test_an_error_is_the_same_both_ways(
    cursor: duckdb.DuckDBPyConnection, *, is_small: bool
) -> None:
    with pytest.raises(duckdb.Error, match="for input"):
        list(run(cursor, "SELECT error('for input') FROM range(3)", is_small=is_small)[1])
