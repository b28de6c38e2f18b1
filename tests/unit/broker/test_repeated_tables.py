"""Tables that stand in a statement twice, of as many rows as DuckDB 2.0 needs to wait for ever."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

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
