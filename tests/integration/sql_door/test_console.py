"""What the views of Druid's web console ask in SQL: datasources, segments, services, tasks, supervisors, its doctor.

The statements have the forms of its sources, shortened; what the answers hold is what its tables read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cli import DAYS, ROWS, make_store
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

ALL_TIME = ("-146136543-09-08T08:23:32.096Z", "146140482-04-24T15:36:27.903Z")
SPAN = f"""CASE
  WHEN "start" = '{ALL_TIME[0]}' AND "end" = '{ALL_TIME[1]}' THEN 'All'
  WHEN "start" LIKE '%-01T00:00:00.000Z' AND "end" LIKE '%-01T00:00:00.000Z' THEN 'Month'
  WHEN "start" LIKE '%T00:00:00.000Z' AND "end" LIKE '%T00:00:00.000Z' THEN 'Day'
  ELSE 'Sub minute'
END"""
SEGMENTS = f"""WITH s AS (SELECT "segment_id", "datasource", "start", "end", "version", {SPAN} AS "time_span",
  "shard_spec", "partition_num", "size", "num_rows",
  CASE WHEN "num_rows" <> 0 THEN ("size" / "num_rows") ELSE 0 END AS "avg_row_size",
  "num_replicas", "replication_factor", "is_available", "is_active", "is_realtime", "is_published", "is_overshadowed"
FROM sys.segments)"""
CANCELED = """"status" = 'FAILED' AND ("error_msg" = 'Shutdown request from user' OR "error_msg" LIKE 'Canceled%')"""
RANKED = (
    "CASE \"status\" WHEN 'RUNNING' THEN 4 WHEN 'PENDING' THEN 3 WHEN 'WAITING' THEN 2 ELSE 1 END"
)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(make_store(tmp_path_factory.mktemp("door") / "store")) as client:
        yield client


def ask(door: InProcessClient, sql: str) -> list[dict[str, Any]]:
    answer = door.post("/druid/v2/sql", json={"query": sql})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def test_datasources(door: InProcessClient) -> None:
    [row] = ask(
        door,
        f"""SELECT datasource,
  COUNT(*) FILTER (WHERE is_active = 1) AS num_segments,
  COUNT(*) FILTER (WHERE is_published = 1 AND is_overshadowed = 0 AND replication_factor = 0) AS num_cold,
  COUNT(*) FILTER (WHERE is_published = 1 AND is_overshadowed = 0 AND is_available = 0 AND replication_factor > 0) AS l,
  COUNT(*) FILTER (WHERE is_available = 1 AND is_active = 0) AS num_segments_to_drop,
  SUM("size") FILTER (WHERE is_active = 1) AS total_data_size,
  AVG("num_rows") FILTER (WHERE is_available = 1 AND is_realtime = 0) AS avg_segment_rows,
  COUNT(*) FILTER (WHERE is_active = 1 AND "start" LIKE '%T00:00:00.000Z' AND "end" LIKE '%T00:00:00.000Z') AS days,
  COUNT(*) FILTER (WHERE is_active = 1 AND "start" = '{ALL_TIME[0]}' AND "end" = '{ALL_TIME[1]}') AS alls,
  SUM("num_rows") FILTER (WHERE is_active = 1) AS total_rows,
  CASE WHEN SUM("num_rows") FILTER (WHERE is_available = 1) <> 0
    THEN (SUM("size") FILTER (WHERE is_available = 1) / SUM("num_rows") FILTER (WHERE is_available = 1))
    ELSE 0 END AS avg_row_size
FROM sys.segments
GROUP BY datasource
ORDER BY datasource""",
    )
    assert row["avg_row_size"] == pytest.approx(row["total_data_size"] / ROWS)
    assert row["avg_segment_rows"] == ROWS / len(DAYS)
    for name in ("total_data_size", "avg_row_size", "avg_segment_rows"):
        row.pop(name)
    days = len(DAYS)
    assert row == {
        "datasource": "flights", "num_segments": days, "num_cold": 0, "l": 0, "num_segments_to_drop": 0,
        "days": days, "alls": 0, "total_rows": ROWS,
    }  # fmt: skip


def test_segments_sorted_filtered_and_grouped(door: InProcessClient) -> None:
    newest = ask(
        door, f'{SEGMENTS} SELECT * FROM s ORDER BY "start" DESC, "version" DESC LIMIT 2 OFFSET 0'
    )
    assert [one["start"] for one in newest] == [f"2013-01-0{day}T00:00:00.000Z" for day in (3, 2)]
    assert {one["time_span"] for one in newest} == {"Day"}
    like = """"shard_spec" LIKE '%"type":"numbered"%' AND "is_available" = 1"""
    found = ask(door, f"""{SEGMENTS} SELECT * FROM s WHERE "datasource" = 'flights' AND {like}""")
    assert len(found) == len(DAYS)
    groups = ask(
        door, 'SELECT "start", "end" FROM sys.segments GROUP BY 1, 2 ORDER BY 1 DESC LIMIT 25'
    )
    chunks = ", ".join(f"'{one['start']}/{one['end']}'" for one in groups)
    told = ask(
        door,
        f"""{SEGMENTS} SELECT "start" || '/' || "end" AS "interval", * FROM s
WHERE ("start" || '/' || "end") IN ({chunks}) ORDER BY "start" DESC LIMIT 25000""",
    )
    assert list(told[0])[:3] == ["interval", "segment_id", "datasource"]
    assert len(told) == len(DAYS)


def test_services_tasks_and_supervisors(door: InProcessClient) -> None:
    services = ask(
        door,
        """SELECT "server" AS "service", "server_type" AS "service_type", "tier", "host", "plaintext_port", "tls_port",
  "curr_size", "max_size", "is_leader", "start_time", "version", "labels"
FROM sys.servers
ORDER BY (CASE "server_type" WHEN 'coordinator' THEN 8 WHEN 'overlord' THEN 7 ELSE 0 END) DESC, "service" DESC""",
    )
    assert services == []
    tasks = f"""WITH tasks AS (SELECT "task_id", "created_time", "error_msg",
  CASE WHEN {CANCELED} THEN 'CANCELED' WHEN "status" = 'RUNNING' THEN "runner_status" ELSE "status" END AS "status"
  FROM sys.tasks)
SELECT * FROM tasks ORDER BY ({RANKED}) DESC, "created_time" DESC"""
    assert ask(door, tasks) == []
    assert ask(
        door,
        """SELECT COUNT(*) FILTER (WHERE "suspended" = 0) AS "running",
  COUNT(*) FILTER (WHERE "suspended" = 1) AS "suspended" FROM sys.supervisors""",
    ) == [{"running": 0, "suspended": 0}]
    supervisors = """WITH s AS (SELECT "supervisor_id", "datasource", "type", "source",
  CASE WHEN "suspended" = 0 THEN "detailed_state" ELSE 'SUSPENDED' END AS "detailed_state", "spec",
  "suspended" = 1 AS "suspended" FROM "sys"."supervisors")
SELECT * FROM s ORDER BY "supervisor_id" LIMIT 50"""
    assert ask(door, supervisors) == []


def test_the_doctor(door: InProcessClient) -> None:
    assert ask(door, 'SELECT 1 + 1 AS "two"') == [{"two": 2}]
    assert ask(
        door,
        """SELECT "datasource", COUNT(*) AS "num_bad_time_chunks" FROM (
  SELECT "datasource", "start", "end", AVG("size") AS "avg_size", SUM("size") AS "total_size", COUNT(*) AS "num"
  FROM sys.segments WHERE is_published = 1 AND "start" < '2026-11-28T00:00:00.000Z'
  GROUP BY 1, 2, 3 HAVING "num" > 0 AND "total_size" > 1 AND "avg_size" < 100000000
) GROUP BY 1 ORDER BY "num_bad_time_chunks\"""",
    ) == [{"datasource": "flights", "num_bad_time_chunks": len(DAYS)}]
    assert door.get("/druid/v2/sql/engines").json() == {"engines": [{"name": "native"}]}
