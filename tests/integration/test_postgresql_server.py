from __future__ import annotations

from typing import LiteralString

import psycopg
import pytest

from carnac.errors import Corrupt, Unavailable
from carnac.metadata import open_metadata
from tests.support.clock import FakeClock, SequentialIds
from tests.support.postgresql import PostgreSQLServer

pytestmark = pytest.mark.sql


def query(url: str, statement: LiteralString) -> object:
    with psycopg.connect(url) as connection:
        (found,) = connection.execute(statement).fetchone() or (None,)
        return found


def test_it_is_a_real_server_with_durable_defaults(postgresql_url: str) -> None:
    assert "PostgreSQL" in str(query(postgresql_url, "select version()"))
    assert query(postgresql_url, "select current_setting('fsync')") == "on"
    assert query(postgresql_url, "select current_setting('synchronous_commit')") == "on"


def test_it_listens_on_no_network_address(postgresql_url: str) -> None:
    assert query(postgresql_url, "select current_setting('listen_addresses')") == ""


def test_each_database_is_empty_and_apart(postgresql_server: PostgreSQLServer) -> None:
    first, second = (postgresql_server.create_database() for _ in range(2))
    count = "select count(*) from pg_namespace where nspname = 'mine'"
    with psycopg.connect(first) as connection:
        connection.execute("create schema mine")
    assert [query(url, count) for url in (first, second)] == [1, 0]


def test_a_program_that_fails_says_why(postgresql_server: PostgreSQLServer) -> None:
    with pytest.raises(Unavailable, match=r"createdb failed.*already exists"):
        postgresql_server.run(
            "createdb", "-h", str(postgresql_server.directory), "-U", "postgres", "postgres"
        )


def test_damage_that_the_server_finds_is_corrupt_and_says_what_to_do(postgresql_url: str) -> None:
    store = open_metadata(postgresql_url, clock=FakeClock(), ids=SequentialIds())
    found = "DO $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$"
    with (
        pytest.raises(Corrupt, match=r"invalid page in block 7.*restore it"),
        store._read() as link,
    ):
        link.control(found)
    store.close()
