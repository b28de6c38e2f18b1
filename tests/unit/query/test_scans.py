"""Views that stand in a statement give what views that are made give."""

from __future__ import annotations

import duckdb
import pytest

from carnac.query.scans import with_views
from carnac.query.syntax import parse, unparse

VIEWS = {
    "one": "SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (3, NULL)) AS t(n, s)",
    "two": "SELECT 2 AS n, 'WITH (' AS s UNION ALL SELECT 7, 'SELECT'",
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, s FROM one ORDER BY n DESC LIMIT 2",
        "FROM one",
        "EXPLAIN SELECT n FROM one",
        "SELECT a.n, b.s FROM one a JOIN two b USING (n)",
        "(SELECT n FROM one ORDER BY n LIMIT 1) UNION ALL (SELECT n FROM two ORDER BY 1 LIMIT 1)",
        "SELECT s FROM one EXCEPT SELECT s FROM two ORDER BY s",
        "WITH x AS (SELECT n FROM one) SELECT sum(x.n) AS s FROM x, two",
        "SELECT * FROM (WITH two AS (SELECT 5 AS n) SELECT * FROM two), one ORDER BY ALL",
        "WITH RECURSIVE x AS (SELECT n FROM one WHERE n = 1 UNION ALL SELECT n + 1 FROM x WHERE n < 9)"
        " SELECT count(*) AS c FROM x",
        "SELECT (SELECT max(s) FROM two WHERE two.n = one.n) AS m FROM one ORDER BY one.n",
        "SELECT 'FROM one' AS text",
        "DESCRIBE SELECT * FROM one",
        "SUMMARIZE SELECT n FROM two",
        "SELECT column_name FROM (DESCRIBE one)",
        "VALUES (1), (2)",
    ],
)
def test_a_statement_with_its_views_gives_the_same(sql: str) -> None:
    with duckdb.connect() as made, duckdb.connect() as without:
        prefix, tree = parse(made, sql)
        printed = prefix + unparse(made, tree)
        for name, select in VIEWS.items():
            made.execute(f"CREATE TEMP VIEW {name} AS {select}")
        expected = made.execute(printed)
        columns, rows = expected.description, expected.fetchall()
        found = without.execute(with_views(printed, VIEWS))
        assert (found.description, found.fetchall()) == (columns, rows)
