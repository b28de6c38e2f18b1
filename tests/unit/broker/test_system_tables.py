"""`sys`: what holds now, over historicals and beside a statement's own revision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.errors import NotFound
from tests.support.historicals import settled
from tests.support.served import ServedStore
from tests.tasks import candidacy
from tests.unit.broker.conftest import append_day, day_of, rows_of, statement


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedStore]:
    """Give a store of three days over two historicals, each segment on both but the last, which is on none."""
    served = ServedStore(tmp_path, 2)
    for day in (1, 2):
        append_day(served.store, day)
    served.assign_all(copies=2)
    for line in served.lines:
        settled(line)
    append_day(served.store, 3)
    yield served
    served.close()


def test_copies_are_counted_and_servers_say_what_they_hold(served: ServedStore) -> None:
    queries = served.open_broker().queries

    def ask(sql: str) -> list[dict[str, object]]:
        return rows_of(queries.run(statement(sql)))

    segments = ask("SELECT segment_id, num_replicas, num_rows, size FROM sys.segments ORDER BY 1")
    assert [one["num_replicas"] for one in segments] == [2, 2, 0]
    assert sum(int(str(one["num_rows"])) for one in segments) == len(day_of(1)) * 3
    historicals = "FROM sys.servers WHERE server_type = 'historical' ORDER BY server"
    servers = ask(f"SELECT server, curr_size, max_size > 0 AS has_room {historicals}")
    assert [one["has_room"] for one in servers] == [True, True]
    held = sum(int(str(one["size"])) for one in segments[:2])
    assert [one["curr_size"] for one in servers] == [held, held]
    pairs = ask("SELECT server, segment_id FROM sys.server_segments ORDER BY ALL")
    wanted = [
        {"server": server["server"], "segment_id": segment["segment_id"]}
        for server in servers
        for segment in segments[:2]
    ]
    assert pairs == wanted


def test_answers_are_of_now_and_joined_with_rows(served: ServedStore) -> None:
    queries = served.open_broker().queries
    sql = "SELECT count(*) AS n FROM sys.segments s, events e WHERE s.datasource = 'events'"
    before = queries.run(statement(sql))
    assert rows_of(before) == [{"n": 3 * 3 * len(day_of(1))}]
    assert before is not None
    again = queries.run(statement(sql, "q2"), if_none_match=before.facts.etag)
    assert again is not None, "an answer of now is never the one that a client has"
    rows_of(again)


def test_tables_without_rows_have_their_types(served: ServedStore) -> None:
    queries = served.open_broker().queries
    sql = "SELECT sum(duration) AS d, count(*) AS n FROM sys.tasks WHERE duration > 5"
    assert rows_of(queries.run(statement(sql))) == [{"d": None, "n": 0}]


def test_a_leading_overlord_is_a_server_and_columns_are_those_of_druid(served: ServedStore) -> None:
    queries = served.open_broker().queries
    overlords = "SELECT * FROM sys.servers WHERE server_type = 'overlord'"
    assert rows_of(queries.run(statement(overlords))) == []
    served.metadata.lead(candidacy("o", url="http://10.0.0.7:8090"))
    [row] = rows_of(queries.run(statement(overlords, "q2")))
    assert list(row) == [
        *("server", "host", "plaintext_port", "tls_port", "server_type", "tier", "curr_size"),
        *("max_size", "is_leader", "start_time", "version", "labels"),
    ]
    assert (row["server"], row["is_leader"]) == ("10.0.0.7:8090", 1)
    sql = 'SELECT supervisor_id, datasource, "suspended" = 1 AS s FROM sys.supervisors'
    assert rows_of(queries.run(statement(sql, "q3"))) == []


def test_a_table_that_is_not_there_is_named(served: ServedStore) -> None:
    queries = served.open_broker().queries
    with pytest.raises(NotFound, match=r"there is no table 'sys.segmentz'.*segments"):
        queries.run(statement("SELECT * FROM sys.segmentz"))


def test_without_a_cluster_nobody_was_asked(served: ServedStore) -> None:
    rows = served.store.sql("SELECT DISTINCT num_replicas FROM sys.segments").rows()
    assert rows == [{"num_replicas": None}]
