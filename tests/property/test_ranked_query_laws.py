"""Servers that rank rows send those that may be among the first of all, and the rows of a statement stay the same."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.property.test_query_laws import World, rows_of
from tests.support.spreading import spread_query

RANKED = [
    "SELECT s, n, x FROM a QUALIFY row_number() OVER (PARTITION BY s ORDER BY __time, n, x) = 1",
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY s ORDER BY __time DESC, n, x) AS r FROM "
    "a WHERE n > 1) WHERE r = 1",
    "SELECT s, count(*) AS c FROM (SELECT s, n, rank() OVER (PARTITION BY s ORDER BY n DESC) AS r FROM "
    "a) t WHERE t.r <= 2 GROUP BY s",
    "SELECT s, n FROM (SELECT s, n, dense_rank() OVER (ORDER BY n) AS r FROM a) t WHERE 3 > r AND s > 'a'",
    "SELECT s, n, rank() OVER (PARTITION BY s ORDER BY n) AS r FROM a QUALIFY r BETWEEN 2 AND 3",
    "WITH t AS (SELECT s, n, rank() OVER (PARTITION BY s ORDER BY n) AS r FROM a WHERE lower(s) > 'a') "
    "SELECT * FROM t WHERE r < 3 ORDER BY ALL",
    "SELECT lower(s) AS s, rank() OVER (PARTITION BY lower(s) ORDER BY x DESC NULLS LAST) AS r FROM a "
    "QUALIFY r = 1",
    "SELECT DISTINCT s FROM a QUALIFY rank() OVER (PARTITION BY s ORDER BY n) <= 2",
    "SELECT s, n FROM a QUALIFY rank() OVER (ORDER BY n) = 0",
]
OTHERS = [
    "SELECT m FROM (SELECT median(n) AS m, row_number() OVER () AS r FROM a) WHERE r = 1",
    "SELECT string_agg(s, ',' ORDER BY s, n) AS m, rank() OVER () AS r FROM a QUALIFY r = 1",
    "SELECT s, n FROM a WHERE n > (SELECT min(n) FROM b) QUALIFY rank() OVER (ORDER BY n) <= 2",
    "SELECT s, n FROM a QUALIFY rank() OVER (ORDER BY n) >= 2",
    "SELECT s, n FROM a QUALIFY rank() OVER (ORDER BY n) <= 2 OR s = 'ab'",
    "SELECT s, n, sum(n) OVER () AS t FROM a QUALIFY rank() OVER (ORDER BY n) <= 2",
    "SELECT s, n FROM (SELECT s, n, rank() OVER (ORDER BY n) AS r FROM a ORDER BY s, n, r LIMIT 5) "
    "WHERE r <= 2",
    "SELECT s, r FROM (SELECT s, n AS r, rank() OVER (ORDER BY n) AS q FROM a) WHERE r <= 2",
    "SELECT s FROM (SELECT *, rank() OVER (ORDER BY x) AS n FROM a) WHERE n <= 2",
    "SELECT t.s FROM (SELECT s, rank() OVER (ORDER BY n) AS r FROM a) t JOIN b ON b.s = t.s WHERE t.r "
    "<= 2",
    "SELECT s, n FROM a JOIN (SELECT n FROM b) b USING (n) QUALIFY rank() OVER (ORDER BY n) <= 2",
    "SELECT s, max(n) FROM a GROUP BY s QUALIFY rank() OVER (ORDER BY max(n)) <= 1",
    "SELECT s, n FROM a QUALIFY count(*) OVER (PARTITION BY s) = 1",
    "SELECT s FROM (SELECT s, rank() OVER (ORDER BY n) FROM a) t(s, r) WHERE r <= 2",
    "SELECT p.s, q.s FROM (SELECT s, rank() OVER (ORDER BY n) r FROM a) p, (SELECT s, rank() OVER "
    "(ORDER BY n DESC) r FROM a) q WHERE p.r <= 1 AND q.r <= 1",
    "SELECT s FROM a o WHERE n = (SELECT max(n) FROM (SELECT n, rank() OVER (ORDER BY x) r FROM a i "
    "WHERE i.s = o.s) WHERE r = 1)",
    "SELECT s, n FROM a WHERE random() < 2 QUALIFY rank() OVER (ORDER BY n) <= 2",
]


@pytest.mark.parametrize("sql", [*RANKED, *OTHERS])
def test_what_is_not_sent_has_no_rank_that_is_wanted(world: World, sql: str) -> None:
    found = spread_query([world.engine] * 3, sql, world.catalog, rng=random.Random(1))
    assert any("QUALIFY" in leaf.sql for leaf in found.plan.leaves) == (sql in RANKED)
    expected = world.oracle.sql(sql).to_arrow_table()
    assert isinstance(found.table, pa.Table)
    assert found.table.schema.names == expected.schema.names
    same = expected.rename_columns(found.table.schema.names).cast(found.table.schema)
    assert rows_of(found.table) == rows_of(same)
