"""A condition around a query that stands in FROM leaves out no segment whose rows it needs."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import by_day
from tests.property.test_query_laws import JOINS, World, assert_same, conditions, rows_of
from tests.support.spreading import spread_query

BARE = [
    "SELECT * FROM a",
    "SELECT * FROM a t WHERE t.n > 1 OR s = 'ab'",
    "FROM b WHERE b.x IS NOT NULL AND n IN (SELECT n FROM a)",
    "SELECT t.* FROM a t ORDER BY n",
    "SELECT x, __time, n, s FROM b",
    "SELECT __time, s, x AS n, n AS x FROM a",
    "SELECT date_trunc('day', __time) AS __time, s, n, x FROM a",
    "SELECT CAST(__time AS DATE) AS __time, s, n + 1 AS n, x FROM a",
    "SELECT DISTINCT * FROM a",
    "SELECT DISTINCT ON (s) * FROM a ORDER BY ALL",
    "SELECT * FROM a ORDER BY ALL LIMIT 5",
    "SELECT * FROM a ORDER BY ALL OFFSET 9",
    "SELECT __time, s, n, row_number() OVER (ORDER BY __time, s, n, x) AS x FROM a",
    "SELECT __time, s, n, max(x) AS x FROM a GROUP BY ALL",
    "SELECT __time, s, count(*) AS n, max(x) AS x FROM a GROUP BY 1, 2 HAVING count(*) > 1",
    "SELECT max(__time) AS __time, s, n, max(x) AS x FROM a GROUP BY s, n",
    "SELECT __time, s, n, max(x) AS x FROM a GROUP BY GROUPING SETS ((__time, s, n), (s), ())",
    "SELECT __time, s, n, x FROM a QUALIFY row_number() OVER (PARTITION BY s ORDER BY __time, n, x) = 1",
    "SELECT * FROM a UNION ALL SELECT * FROM b",
    "SELECT * FROM a UNION SELECT __time + INTERVAL 1 DAY, s, n, x FROM b",
    "SELECT * FROM a UNION ALL SELECT __time, s, x, n FROM b",
    "SELECT n, s, x, __time FROM a EXCEPT SELECT n, s, x, __time FROM b",
    "SELECT * FROM a INTERSECT ALL SELECT * FROM a WHERE n > 2",
    "SELECT * FROM a UNION ALL BY NAME SELECT x, __time FROM b",
    "SELECT n, x FROM a UNION ALL BY NAME SELECT s, __time, n::VARCHAR AS n FROM b",
    "SELECT * FROM a UNION ALL SELECT * FROM b ORDER BY ALL LIMIT 7",
    "SELECT q.* FROM a p LEFT JOIN b q ON p.n = q.n",
    "SELECT p.__time, q.s, p.n, q.x FROM a p FULL JOIN b q ON p.n = q.n",
    "SELECT q.__time, p.s, n, q.x FROM a p RIGHT JOIN b q USING (n)",
    "SELECT p.* FROM a p ANTI JOIN b q ON p.n = q.n",
    "WITH a AS (SELECT * FROM b) SELECT * FROM a",
    "WITH RECURSIVE r AS (SELECT * FROM a UNION SELECT __time, s, n + 5, x FROM r WHERE n < 5) SELECT * FROM r",
]
"""Queries with the columns of a datasource, to stand in FROM."""
queries = st.recursive(
    st.sampled_from(BARE),
    lambda inner: st.one_of(
        st.builds("SELECT * FROM ({}) t WHERE {}".format, inner, conditions("t")),
        st.builds("SELECT __time, s, n, x FROM ({}) WHERE {}".format, inner, conditions("")),
        st.builds("SELECT t.* FROM ({}) t LEFT JOIN b u ON t.n = u.n".format, inner),
        st.builds("SELECT u.* FROM a t LEFT JOIN ({}) u ON t.n = u.n".format, inner),
        st.builds("SELECT * FROM a UNION ALL BY NAME ({})".format, inner),
        st.builds(
            "SELECT x, n, s, __time FROM a UNION ALL SELECT x, n, s, __time FROM ({})".format, inner
        ),
        st.builds("WITH t AS ({}) SELECT * FROM t WHERE {}".format, inner, conditions("t", "")),
    ),
    max_leaves=3,
)
nested = st.one_of(
    st.builds("SELECT * FROM ({}) p WHERE {}".format, queries, conditions("p", "")),
    st.builds("SELECT p.s FROM ({}) AS p(__time, s, x) WHERE {}".format, queries, conditions("p")),
    st.builds(
        "SELECT * FROM ({}) p {} b q ON {} WHERE {}".format,
        queries,
        st.sampled_from(JOINS),
        conditions("p", "q"),
        conditions("p", "q"),
    ),
    st.builds(
        "SELECT * FROM a q {} ({}) p ON p.n = q.n AND {} WHERE {}".format,
        st.sampled_from([*JOINS, "SEMI JOIN", "ANTI JOIN", "ASOF JOIN"]),
        queries,
        conditions("p", "q"),
        conditions("q"),
    ),
    st.builds("WITH t AS ({}) SELECT * FROM t p WHERE {}".format, queries, conditions("p")),
    st.builds(
        "WITH t(__time, s, x, n) AS ({}) SELECT * FROM t p WHERE {}".format,
        queries,
        conditions("p"),
    ),
    st.builds(
        "WITH t AS ({}) SELECT * FROM t p {} t q ON p.n = q.n AND {} WHERE {}".format,
        queries,
        st.sampled_from(JOINS),
        conditions("p", "q"),
        conditions("p", "q"),
    ),
    st.builds(
        "WITH t AS ({}), u AS (SELECT * FROM t WHERE {}) SELECT * FROM u p WHERE {}".format,
        queries,
        conditions("t"),
        conditions("p"),
    ),
)


@pytest.mark.slow
@given(sql=nested)
def test_a_condition_around_a_query_leaves_out_none_of_its_rows(world: World, sql: str) -> None:
    assert_same(world, sql)


AROUND = [
    "p.n = 3",
    "p.n = 0",
    "p.n IS NULL",
    "p.n > '30'",
    "p.s = 'ab'",
    "p.x > 2",
    "p.n IS NULL OR p.x < 1",
]
AROUND += [
    "p.__time < '2013-01-03'",
    "p.__time IS NULL",
    "date_trunc('day', p.__time) = '2013-01-05'",
]


@pytest.mark.slow
@pytest.mark.parametrize("query", by_day(BARE, 6))
def test_every_query_gives_the_same_rows_under_each_condition(world: World, query: str) -> None:
    for condition in AROUND:
        assert_same(world, f"SELECT * FROM ({query}) p WHERE {condition}")
        assert_same(
            world, f"SELECT * FROM b q LEFT JOIN ({query}) p ON p.n = q.n WHERE {condition}"
        )
        assert_same(world, f"WITH p AS ({query}) SELECT * FROM p JOIN p q USING (n) WHERE q.x = 1")


@pytest.mark.slow
@pytest.mark.parametrize("query", by_day(BARE, 6))
def test_servers_send_every_row_that_a_condition_around_it_needs(world: World, query: str) -> None:
    engines = [world.engine, world.engine]
    for condition in AROUND:
        for sql in (
            f"SELECT * FROM ({query}) p WHERE {condition}",
            f"SELECT * FROM b q LEFT JOIN ({query}) p ON p.n = q.n WHERE {condition}",
            f"SELECT s, count(*), median(n) FROM ({query}) p WHERE {condition} GROUP BY s",
        ):
            try:
                expected = world.oracle.sql(sql).to_arrow_table()
            except duckdb.Error:
                continue  # the test above says that it is refused
            found = spread_query(engines, sql, world.catalog, rng=random.Random(1)).table
            assert isinstance(found, pa.Table)
            expected = expected.rename_columns(found.schema.names).cast(found.schema)
            assert rows_of(found) == rows_of(expected), sql
