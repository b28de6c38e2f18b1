"""A query of one table that stands in FROM may be left out, and no statement means another one for that."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.nightly import by_day
from tests.property.test_query_laws import World, expected_of, rows_of
from tests.support.spreading import spread_query

INNER = [
    "SELECT * FROM a WHERE n < 5",
    "SELECT s, n FROM a",
    "SELECT S, a.N FROM a WHERE a.x > 1 OR s = 'ab'",
    "SELECT s AS S, n AS N FROM a",
    "SELECT t.s AS p, n, x AS y FROM a t WHERE t.n > 1",
    "SELECT t.s AS n, t.n AS s FROM a AS t WHERE x IS NOT NULL",
    "SELECT x AS n, n AS x, s FROM a q",
    "SELECT lower(s) AS s, n + 1 AS n, date_trunc('day', __time) AS d FROM a",
    "SELECT CASE WHEN n > 3 THEN n END AS n, coalesce(s, 'none') AS s FROM a",
    "SELECT s, CAST(n AS VARCHAR) AS n FROM a",
    "SELECT s, q.n FROM (SELECT n + 1 AS n, lower(s) AS s FROM a) AS q",
    "SELECT 1 AS n, s FROM a",
    "SELECT n, n + 0, s FROM a",
    "SELECT s, s, n FROM a",
    "SELECT s, n + n FROM a",
    "SELECT *, s FROM a",
    "SELECT n, max(s) AS s FROM a GROUP BY n",
    "SELECT unnest([n, n]) AS n, s FROM a",
    "SELECT (SELECT max(n) FROM b) AS n, s FROM a",
    "SELECT row_number() OVER (ORDER BY __time, s, n, x) AS n, s FROM a",
    "SELECT DISTINCT s, n FROM a",
    "SELECT s, n FROM a ORDER BY ALL LIMIT 9",
    "SELECT s, n FROM a JOIN b USING (s, n)",
    "SELECT p.s, q.n AS n FROM a p JOIN b q ON p.n = q.n WHERE p.x > 1",
    "SELECT p.s AS s, q.s AS n FROM a p LEFT JOIN b q ON p.n = q.n AND q.x > 2",
    "SELECT b.n + a.n AS n, lower(a.s) AS s, b.x AS d FROM a, b WHERE a.n = b.n AND b.x IS NULL",
    "SELECT s, p.x AS n FROM a p LEFT JOIN b q USING (s)",
    "SELECT s, n FROM a SEMI JOIN b USING (n)",
    "SELECT p.*, q.n + 1 AS m FROM a p LEFT JOIN b q USING (s)",
    "SELECT q.*, p.x AS y, p.n FROM a p JOIN b q USING (n, x)",
    "SELECT *, n + 1 AS m, s AS p FROM a",
    "SELECT p.s, p.n FROM a p JOIN a q ON p.n = q.n",
    "SELECT s, list_transform([n], lambda x: x + n) AS n FROM a",
]
AROUND = [
    "SELECT * FROM {}",
    "SELECT q.*, n FROM {}",
    "SELECT * EXCLUDE (n) FROM {}",
    "SELECT COLUMNS('n') FROM {}",
    "SELECT q FROM {}",
    "SELECT n FROM {} ORDER BY ALL",
    "SELECT q.S, count(*) AS n FROM {} GROUP BY q.s ORDER BY n, 1",
    "SELECT s, count(*) AS x FROM {} GROUP BY s ORDER BY x, s",
    "SELECT s AS n, n AS s FROM {} ORDER BY n, s",
    "SELECT s AS n, count(*) FROM {} GROUP BY n",
    "SELECT s || 'x' AS s, max(n) FROM {} GROUP BY s",
    "SELECT s, max(n) AS m FROM {} GROUP BY ALL HAVING m > '3' ORDER BY lower(s)",
    "SELECT s, max(n) AS n FROM {} GROUP BY s HAVING n > '3'",
    "SELECT DISTINCT n FROM {} ORDER BY n",
    "SELECT DISTINCT ON (s) s, n FROM {} ORDER BY s, n",
    "SELECT max(x) FROM {}",
    "SELECT max(q.x) AS m FROM {}",
    "SELECT n AS x, x AS z FROM {}",
    "SELECT count(*) AS c, lower(s) AS x FROM {} GROUP BY x",
    "SELECT count(*) AS c, lower(s) AS e FROM {} GROUP BY e ORDER BY e",
    "SELECT s FROM {} WHERE d < '2013-01-05'",
    "SELECT s FROM {} WHERE n IN (SELECT n FROM b) AND s IN (SELECT s FROM b WHERE b.n = q.n)",
    "SELECT s FROM {} WHERE EXISTS (SELECT 1 FROM b WHERE b.n = x)",
    "SELECT s FROM {} WHERE (SELECT max(y) FROM (SELECT x AS y, n FROM b) r WHERE r.n = q.n) > 1",
    "SELECT s, rank() OVER (PARTITION BY s ORDER BY n) AS r FROM {}",
    "SELECT s FROM {} QUALIFY rank() OVER (PARTITION BY s ORDER BY n) = 1",
    "SELECT n FROM {} WHERE s > '' AND n IS NOT NULL UNION ALL SELECT n FROM {} WHERE s = 'ab'",
    "SELECT upper(CAST(s AS VARCHAR)) FROM {}",
    "SELECT list_transform([1], lambda n: n + 1) FROM {}",
    "SELECT p, max(y) AS y FROM {} GROUP BY p ORDER BY y, p",
    "SELECT o.s, r.n FROM b o JOIN {} ON o.n = q.n JOIN (SELECT n FROM b) r ON r.n = o.n",
    "SELECT k, count(*) FROM (SELECT s AS k FROM {}) GROUP BY k",
    "WITH w(k) AS (SELECT s FROM {}) SELECT k, count(*) AS c FROM w GROUP BY k",
    "WITH a AS (SELECT s FROM {}) SELECT s, count(*) AS c FROM a GROUP BY s",
    "WITH w AS (SELECT n FROM {}), a AS (SELECT n FROM b) SELECT w.n FROM w, a WHERE w.n = a.n",
]
PLACES = ["({}) q", "({}) AS q", "({}) AS q(s, n)", "({}) AS q(x)", "({})"]
STATEMENTS = [
    outer.format(place.format(inner), place.format(inner))
    for inner in INNER
    for outer in AROUND
    for place in PLACES
]
STATEMENTS += [
    f"WITH {name} AS ({inner}) {outer.format('q', 'q')}"
    for inner in INNER
    for outer in AROUND
    for name in ("q", "q(n, s)", "a AS (SELECT * FROM b), q")
    if not outer.startswith("WITH")
]
SIDES = [
    "a o JOIN ({}) q ON o.n = q.n",
    "b o LEFT JOIN ({}) AS q ON o.s = q.s AND q.n > '1'",
    "({}) q LEFT JOIN b o ON o.n = q.n",
    "({}) q RIGHT JOIN b o ON o.n = q.n",
    "b o FULL JOIN ({}) q ON o.n = q.n AND o.s = q.s",
    "b o JOIN ({}) q USING (n)",
    "b o LEFT JOIN ({}) q USING (s, n)",
    "b o LEFT JOIN ({}) q(n, s) ON o.n = q.n",
    "b o SEMI JOIN ({}) q ON o.n = q.n",
    "b o ANTI JOIN ({}) q ON o.n = q.n",
    "b o, ({}) q",
    "({0}) q JOIN ({0}) o ON q.n = o.n",
    "(SELECT s, n AS m, x FROM b WHERE x > 1) o LEFT JOIN ({}) q ON o.m = q.n",
    "b o LEFT JOIN (b r JOIN ({}) q ON r.n = q.n) ON o.s = q.s",
    "b o LEFT JOIN (b r LEFT JOIN ({}) q ON r.n = q.n) ON o.s = r.s",
    "b o JOIN ({}) q ON o.n = q.n JOIN (SELECT n AS z, s FROM a WHERE n < 3) r ON r.z = q.n",
    "({}) q JOIN (SELECT q.n AS s, b.n FROM b WHERE b.n = q.n) o ON q.s = o.s",
    "({}) q NATURAL JOIN b o",
    "({}) q, unnest([q.n, q.n]) o(s)",
]
AROUND_SIDES = [
    "SELECT * FROM {}",
    "SELECT o.s, q.n FROM {}",
    "SELECT q.*, o.s AS t FROM {}",
    "SELECT o.*, q.N FROM {}",
    "SELECT q FROM {}",
    "SELECT o FROM {}",
    "SELECT x FROM {}",
    "SELECT y, d FROM {}",
    "SELECT m, z FROM {}",
    "SELECT COLUMNS(q.*) FROM {}",
    "SELECT p, count(*) AS c FROM {} GROUP BY p ORDER BY c, p",
    "SELECT o.s, max(q.n) AS n, count(*) AS c FROM {} GROUP BY o.s HAVING max(q.n) > '1' ORDER BY n, c, 1",
    "SELECT q.s AS n, count(*) AS c FROM {} WHERE q.n IS NULL OR o.s > 'a' GROUP BY q.s ORDER BY c, n",
    "SELECT o.s FROM {} WHERE o.s IN (SELECT s FROM b) ORDER BY q.n, o.s",
    "SELECT o.s FROM {} WHERE (SELECT max(b.x) FROM b WHERE b.n = q.n) > 1",
    "SELECT k, count(*) AS c FROM (SELECT o.s AS k FROM {}) GROUP BY k",
]
JOINED = [
    outer.format(join.format(inner))
    for inner in [
        *INNER,
        "SELECT * FROM a",
        "SELECT s, n FROM a",
        "SELECT n AS x, s AS y, s, n FROM a",
    ]
    for outer in AROUND_SIDES
    for join in SIDES
    if not ("CAST" in inner and "SELECT q.n" in join)  # DuckDB cannot run these over views
]
JOINED += [
    f"SELECT {what} FROM (SELECT * FROM a p {kind} b r {on}) q WHERE q.x > 1"
    for what in ("*", "q.n", "q.n, count(*) AS c", "s", "q")
    for kind in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
    for on in ("ON p.n = r.n", "USING (n)", "USING (s, n)", "USING (__time, s, n, x)")
]


@pytest.mark.slow
def test_a_chain_that_doubles_a_column_stays_short(world: World) -> None:
    sql = "SELECT n FROM a"
    for _ in range(60):
        sql = f"SELECT n / 2 + n / 2 AS n FROM ({sql})"
    plan = world.engine.plan_distributed(f"SELECT max(n) FROM ({sql})", world.catalog)
    assert len(plan.final_sql) < 100_000
    expected = world.oracle.sql("SELECT max(n) FROM a").fetchall()
    found = world.engine.run_query(f"SELECT max(n) FROM ({sql})", world.catalog).table
    assert isinstance(found, pa.Table)
    assert [[float(found.column(0)[0].as_py())]] == [[float(one) for one in expected[0]]]


@pytest.mark.slow
def test_a_wrapped_query_gives_what_plain_tables_give(world: World) -> None:
    """Rows, names and refusals are those of plain DuckDB, in one process and over several."""
    engines = [world.engine, world.engine]
    for sql in by_day([*STATEMENTS, *JOINED], 90):
        assert isinstance(sql, str)
        expected = expected_of(world, sql)
        if expected is None:
            continue
        for found in (
            world.engine.run_query(sql, world.catalog).table,
            spread_query(engines, sql, world.catalog, rng=random.Random(1)).table,
        ):
            assert isinstance(found, pa.Table)
            assert found.schema.names == expected.schema.names, sql
            same = expected.rename_columns(found.schema.names).cast(found.schema)
            assert rows_of(found) == rows_of(same), sql
