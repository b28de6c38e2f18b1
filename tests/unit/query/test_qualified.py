"""Columns with schema and table before their name."""

from __future__ import annotations

import pytest

from carnac.errors import CarnacError
from carnac.query import QueryEngine
from tests.support.segments import MemoryCatalog

FORMS = [
    'SELECT "druid"."flights"."carrier" FROM "druid"."flights" WHERE druid.flights.delay > 900 ORDER BY 1',
    "SELECT carrier FROM druid.flights WHERE 900 < Druid.Flights.delay ORDER BY druid.flights.carrier",
    'SELECT s.c FROM (SELECT "druid"."flights"."carrier" AS c FROM "druid"."flights" WHERE delay > 900) s ORDER BY 1',
]


@pytest.mark.parametrize("sql", FORMS)
def test_a_schema_before_the_table_of_a_column_is_its_schema_in_from(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    plain = "SELECT carrier FROM flights WHERE delay > 900 ORDER BY 1"
    expected = engine.run_query(plain, catalog).table.to_pydict()
    assert [*engine.run_query(sql, catalog).table.to_pydict().values()] == [*expected.values()]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT druid.flights.carrier FROM flights",
        "SELECT druid.flights.carrier FROM druid.flights AS f",
        "SELECT lookup.flights.carrier FROM druid.flights",
        "SELECT druid.flights.gone FROM druid.flights",
    ],
)
def test_another_schema_or_an_alias_is_no_such_table(
    engine: QueryEngine, catalog: MemoryCatalog, sql: str
) -> None:
    with pytest.raises(CarnacError, match=r"not found|no column 'gone'"):
        engine.run_query(sql, catalog)
