"""Joined subqueries go along with a statement, and windows over groups are the broker's: the rows stay the same."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from carnac.errors import CarnacError
from carnac.ports.distributed import Way
from tests.nightly import by_day
from tests.property.test_query_laws import World, expected_of, rows_of
from tests.support.spreading import spread_query

JOINED = [
    "(SELECT s, max(n) AS n, count(*) AS c FROM a GROUP BY s)",
    "(SELECT s AS s, sum(x) AS n, avg(x) AS c FROM b WHERE x > 1 GROUP BY ALL ORDER BY n DESC, s LIMIT 3)",
    "(SELECT upper(s) AS s, n, x AS c FROM b ORDER BY __time DESC, s, n, x LIMIT 4)",
    "(SELECT DISTINCT s, n, CAST(x AS DECIMAL(9, 3)) AS c FROM b)",
    "(SELECT s, n, n AS c FROM a UNION SELECT 'ab', 2, NULL)",
    "(SELECT max(s) AS s, count(*) AS n, [1, 2] AS c FROM a)",
    "(VALUES ('ab', 1, 2), ('ab', 3, 4), (NULL, 5, 6))",
    "(SELECT s, n, rank() OVER (ORDER BY count(*) DESC, s, n) AS c FROM a GROUP BY s, n)",
    "(SELECT s, count(*) AS n, DATE '2013-01-02' AS c FROM a GROUP BY s HAVING count(*) > 1)",
    "(SELECT q.s, max(r.n) AS n, min(r.x) AS c FROM a q JOIN b r ON q.n = r.n GROUP BY q.s)",
]
FROMS = [
    "a o JOIN {} AS j(s, n, c) ON o.s = j.s",
    "a o LEFT JOIN {} AS j(s, n, c) ON o.n = j.n AND j.s > 'a'",
    "a o JOIN {} AS j(s, n, c) USING (s)",
    "a o SEMI JOIN {} AS j(s, n, c) ON o.n = j.n",
    "a o ANTI JOIN {} AS j(s, n, c) ON o.s = j.s AND o.n < j.n",
    "{} AS j(s, n, c) RIGHT JOIN a o ON o.n = j.n",
    "{} AS j(s, n, c) JOIN a o ON o.n = j.n",
    "{} AS j(s, n, c) LEFT JOIN a o ON o.n = j.n",
    "a o, {} AS j(s, n, c)",
    "a o JOIN {0} AS j(s, n, c) ON o.s = j.s JOIN {0} AS k(s, n, c) ON k.n = o.n",
    "a o JOIN {} AS j(s, n, c) ON o.s = j.s LEFT JOIN b ON b.n = o.n",
    "a o JOIN (SELECT * FROM {} AS i(s, n, c) WHERE i.n > o.n) AS j ON true",
    "a o JOIN {} AS j(s, n) ON o.s = j.s",
]
GIVING = [
    "SELECT o.s AS s, count(*) AS c, max(o.x) AS m FROM {} GROUP BY o.s",
    "SELECT o.n, o.x FROM {} ORDER BY ALL LIMIT 7",
    "SELECT o.__time, o.n FROM {}",
    "SELECT j.s AS s, j.c AS c, sum(o.n) AS m FROM {} GROUP BY j.s, j.c",
    "SELECT *, o.n + 1 AS m FROM {}",
    "SELECT n, count(*) FROM {} GROUP BY n",
    "SELECT o.s, rank() OVER (ORDER BY count(*) DESC, o.s) AS r, sum(count(*)) OVER () AS t FROM {} "
    "GROUP BY o.s",
]
WINDOWS = [
    "SELECT s, row_number() OVER (ORDER BY max(n), s) AS r FROM a GROUP BY s",
    "SELECT s, n, sum(count(*)) OVER (PARTITION BY s ORDER BY n) AS r FROM a GROUP BY s, n",
    "SELECT s, n, count(DISTINCT x) AS d, rank() OVER (PARTITION BY s ORDER BY count(DISTINCT x), "
    "n) AS r FROM a GROUP BY s, n QUALIFY r < 3",
    "SELECT s, count(*) * 1.0 / sum(count(*)) OVER () AS share FROM a GROUP BY ROLLUP (s)",
    "SELECT date_trunc('day', __time) AS d, lag(sum(n)) OVER (ORDER BY date_trunc('day', __time)) "
    "AS p FROM a GROUP BY d",
    "SELECT s, avg(avg(n)) OVER (ORDER BY s ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM a "
    "GROUP BY s HAVING count(*) > 1",
    "SELECT s, max(max(n)) FILTER (WHERE s > 'a') OVER (ORDER BY s) AS m FROM a GROUP BY s ORDER BY "
    "rank() OVER (ORDER BY max(n), s) LIMIT 3",
    "SELECT lower(s) AS l, first_value(lower(s)) OVER (ORDER BY min(n), lower(s)) AS f FROM a GROUP "
    "BY lower(s)",
    "SELECT count(*) AS c, sum(sum(n)) OVER () AS s FROM a",
    "SELECT s, sum(n) OVER (PARTITION BY s) AS t FROM a",
    "SELECT s, sum(x) OVER (ORDER BY s) FROM a GROUP BY s, x",
    "SELECT s, sum(n) OVER () FROM a GROUP BY s",
    "SELECT DISTINCT rank() OVER (ORDER BY count(*)) AS r FROM a GROUP BY s",
    "SELECT s, ntile(2) OVER (ORDER BY count(*), s) AS s FROM a GROUP BY s",
]
COMMON = [
    "WITH t AS (SELECT s, n FROM a WHERE n > 1) SELECT p.s, q.m FROM (SELECT s, count(*) AS c FROM t GROUP BY s) p "
    "JOIN (SELECT s, max(n) AS m FROM t GROUP BY s) q USING (s)",
    "WITH t AS (SELECT s, n + 1 AS m FROM a), u AS (SELECT m, s FROM t WHERE m > 2) SELECT max(m) FROM u UNION ALL "
    "SELECT min(m) FROM t",
    "WITH t(k) AS (SELECT s FROM a) SELECT k, count(*) AS c FROM t WHERE k IN (SELECT max(k) FROM "
    "t) GROUP BY k",
    "WITH t AS (SELECT s, max(n) AS m FROM a GROUP BY s) SELECT o.s, count(*) FROM a o JOIN t ON "
    "o.n = t.m GROUP BY o.s",
    "WITH t AS (SELECT * FROM a LIMIT 1000), u AS (SELECT s, n FROM t) SELECT max(n) FROM u WHERE n "
    "< (SELECT max(n) FROM u)",
    "WITH a AS (SELECT n, s FROM a), b AS (SELECT s FROM a) SELECT count(*) AS c, (SELECT count(*) "
    "FROM b) AS d FROM a",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT o.n, count(*) "
    "FROM a o JOIN t ON o.n = t.n GROUP BY o.n",
]
STATEMENTS = [
    *WINDOWS,
    *COMMON,
    *(given.format(source.format(one)) for one in JOINED for source in FROMS for given in GIVING),
]


@pytest.mark.slow
def test_what_goes_along_changes_no_row(world: World) -> None:
    """Rows, names and refusals are those of plain DuckDB, and most statements are one round."""
    engines = [world.engine, world.engine]
    ways = []
    for sql in by_day(STATEMENTS, 15):
        assert isinstance(sql, str)
        expected = expected_of(world, sql)
        if expected is None:
            with pytest.raises(CarnacError):
                spread_query(engines, sql, world.catalog)
            continue
        found = spread_query(engines, sql, world.catalog, rng=random.Random(1))
        ways.append(found.plan.way)
        assert isinstance(found.table, pa.Table)
        assert found.table.schema.names == expected.schema.names, sql
        same = expected.rename_columns(found.table.schema.names).cast(found.table.schema)
        assert rows_of(found.table) == rows_of(same), sql
    assert ways.count(Way.ONE_ROUND) > len(ways) / 2
