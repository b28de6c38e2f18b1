"""Tables that stand in a statement twice: a LIMIT without an order has each place compute its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import carnac
from tests.support.served import ServedStore
from tests.unit.broker.conftest import rows_of, statement


@pytest.mark.slow
def test_many_rows_joined_with_themselves_end_at_a_limit(tmp_path: Path) -> None:
    rows = 131_072  # DuckDB 2.0 waited for ever from 122,880 on
    events = pa.table(
        {"t": pa.array(range(rows), pa.int64()), "n": pa.array(range(rows), pa.int64())}
    )
    spec = {
        "dataSource": "events",
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensionsSpec": {"dimensions": [{"name": "n", "type": "long"}]},
    }
    served = ServedStore(tmp_path, 2)
    try:
        served.store.append("events", events, spec=spec)
        served.assign_all()
        queries = served.open_broker().queries
        for sql in (
            "SELECT a.n, b.n AS m FROM events a JOIN events b ON a.n = b.n LIMIT 7",
            "SELECT DISTINCT a.n % 9 AS n FROM events a JOIN events b ON a.n = b.n LIMIT 7",
            "WITH s(k) AS (SELECT n FROM events) SELECT a.k, b.k AS m FROM s a JOIN s b ON a.k = b.k LIMIT 7",
            "WITH s AS (SELECT n, count(*) AS c FROM events GROUP BY n) SELECT a.n, b.c FROM s a JOIN s b "
            "ON a.n = b.n LIMIT 7",
            "WITH s AS MATERIALIZED (SELECT n FROM events) SELECT n FROM s WHERE n IN (SELECT n FROM s) LIMIT 7",
        ):
            answer = queries.run(statement(sql, timeout_ms=60_000))
            assert len(rows_of(answer)) == len(served.store.sql(sql)) == 7
    finally:
        served.close()


DOUBLING = "".join(
    f", t{place} AS (SELECT x FROM t{place - 1} UNION SELECT x FROM t{place - 1})"
    for place in range(1, 41)
)
"""Tables that each read the one before twice: as subqueries they would be a million of millions."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT count(*) AS n FROM (WITH t AS (SELECT 1 AS x) SELECT * FROM t) a, t b", 3),
        ("WITH t AS (SELECT x + 1 AS x FROM t) SELECT sum(a.x * b.x) AS n FROM t a, t b", 36),
        (
            "WITH b AS (SELECT x FROM t), t AS (SELECT 9 AS x) SELECT sum(p.x * q.x + t.x) AS n FROM b p, b q, t",
            90,
        ),
        (
            "WITH a AS (SELECT x FROM t) SELECT sum(p.x * q.x * r.x) AS n FROM a p, a q, "
            "(WITH t AS (SELECT 9 AS x) SELECT a.x + t.x AS x FROM a, t) r",
            9 * 30,
        ),
        (
            "WITH t AS (SELECT 5 AS x) SELECT sum(t.x + a.x + b.x) AS n FROM t, t b, "
            "(WITH t AS (SELECT x + 1 AS x FROM t) SELECT t.x FROM t, t z) a",
            16,
        ),
        (
            "SELECT sum(a.x + b.x) AS n FROM (WITH v AS (SELECT x FROM t) SELECT v.x FROM v, v w) a, "
            "(WITH v AS (SELECT 9 AS x) SELECT v.x FROM v, v w) b",
            90,
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t WHERE x < 3) "
            "SELECT sum(t.x * b.x + z.x) AS n FROM t, t b, (WITH t AS (SELECT 7 AS x) SELECT t.x FROM t, t q) z",
            99,
        ),
        (f"WITH t0 AS (SELECT x FROM t){DOUBLING} SELECT sum(x) AS n FROM t40", 3),
    ],
    ids=["outside", "own query", "before", "within", "nested", "beside", "recursive", "doubling"],
)
def test_a_name_means_the_table_that_is_defined_there(
    tmp_path: Path, sql: str, wanted: int
) -> None:
    rows = [{"t": f"2024-01-0{x}", "x": x} for x in (1, 2)] + [{"t": "2024-01-03", "x": 0}]
    with carnac.open(tmp_path / "store", create=True) as store:
        spec = {
            "dataSource": "t",
            "timestampSpec": {"column": "t"},
            "dimensions": [{"name": "x", "type": "long"}],
        }
        store.append("t", rows, spec=spec)
        for asked in (sql, f"{sql} LIMIT 1"):
            assert [int(row["n"]) for row in store.sql(asked).rows()] == [wanted]
