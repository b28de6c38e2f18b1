"""What clients ask to learn what there is: `sys`, routines, and `EXPLAIN PLAN FOR`, as a real Druid answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.serving import load_recorded, open_door, recorded
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(load_recorded(tmp_path_factory.mktemp("recorded"))) as client:
        yield client


def ask(door: InProcessClient, sql: str) -> Any:
    answer = door.request("POST", "/druid/v2/sql", json={"query": sql})
    assert answer.status_code == 200, answer.text
    return answer.json()


def case(name: str) -> tuple[str, Any]:
    """Return a recorded statement and its answer."""
    [found] = [one for one in recorded("sql.jsonl") if one["id"] == name]
    return found["body"]["query"], json.loads(found["response_text"])


@pytest.mark.parametrize("name", ["explain-ts", "explain-topn", "explain-join"])
def test_explain_plan_for_tells_the_columns_that_druid_tells(
    door: InProcessClient, name: str
) -> None:
    sql, theirs = case(name)
    [ours] = ask(door, sql)
    assert list(ours) == list(theirs[0])
    [plan], [their_plan] = json.loads(ours["PLAN"]), json.loads(theirs[0]["PLAN"])
    assert plan["query"]["plan"]
    types = [one["type"] for one in plan["signature"]]
    assert types == [one["type"] for one in their_plan["signature"]]
    names = [one["outputColumn"] for one in plan["columnMappings"]]
    assert names == [one["outputColumn"] for one in their_plan["columnMappings"]]
    assert json.loads(ours["ATTRIBUTES"]) == json.loads(theirs[0]["ATTRIBUTES"])
    assert {"name": "wikipedia", "type": "DATASOURCE"} in json.loads(ours["RESOURCES"])


def test_explain_alone_is_lines(door: InProcessClient) -> None:
    rows = ask(door, "EXPLAIN SELECT count(*) FROM wikipedia")
    assert len(rows) > 1
    assert all(list(row) == ["plan"] for row in rows)


def test_segments_are_told_as_druid_tells_them(door: InProcessClient) -> None:
    sql, theirs = case("sys-segments")
    ours = ask(door, sql)
    not_ours = {"segment_id", "version", "num_replicas", "replication_factor", "shard_spec"}
    told = [{key: row[key] for key in row if key not in not_ours} for row in ours]
    assert told == [{key: row[key] for key in row if key not in not_ours} for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert json.loads(one["shard_spec"]) == json.loads(other["shard_spec"])
        assert one["segment_id"].rsplit("_", 1)[0] == other["segment_id"].rsplit("_", 1)[0]


def test_the_console_counts_segments(door: InProcessClient) -> None:
    sql, theirs = case("sys-segments-console")
    known = {"datasource", "num_segments", "p", "total_rows", "avg_rows", "sz"}
    ours = [{key: row[key] for key in known} for row in ask(door, sql)]
    wanted = [row for row in theirs if row["datasource"] != "wikirollup"]
    assert ours == [{key: row[key] for key in known} for row in wanted]


def test_routines_are_what_a_statement_may_call(door: InProcessClient) -> None:
    sql = (
        "SELECT ROUTINE_NAME, IS_AGGREGATOR FROM INFORMATION_SCHEMA.ROUTINES "
        "WHERE ROUTINE_NAME IN ('SUM', 'ABS', 'READ_PARQUET', 'GETENV', 'BLOOM_FILTER', 'TIME_FLOOR', 'DS_HLL', "
        "'JSON_MERGE', 'ARRAY_CONCAT_AGG') ORDER BY 1"
    )
    assert ask(door, sql) == [
        {"ROUTINE_NAME": "ABS", "IS_AGGREGATOR": "NO"},
        {"ROUTINE_NAME": "ARRAY_CONCAT_AGG", "IS_AGGREGATOR": "YES"},
        {"ROUTINE_NAME": "DS_HLL", "IS_AGGREGATOR": "YES"},
        {"ROUTINE_NAME": "JSON_MERGE", "IS_AGGREGATOR": "NO"},
        {"ROUTINE_NAME": "SUM", "IS_AGGREGATOR": "YES"},
        {"ROUTINE_NAME": "TIME_FLOOR", "IS_AGGREGATOR": "NO"},
    ]
