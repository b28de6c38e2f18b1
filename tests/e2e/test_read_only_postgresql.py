"""A store in PostgreSQL and a role that may only read: all that reads works, what would write says why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest

from carnac.bootstrap.store import open_store
from carnac.errors import Invalid, ReadOnly
from carnac.metadata.backends.postgresql import LOCK_KEY
from tests.e2e.cli import DAYS, ROWS, append_rows
from tests.e2e.conftest import Run
from tests.e2e.test_read_only import READING, WRITING
from tests.support.postgresql import PostgreSQLServer

pytestmark = pytest.mark.sql

ROLE = "only_reads"
MORE_READING = (
    ("compaction", "status", "--json"),
    ("compaction", "show", "--json"),
    ("compact", "flights", "--explain", "--json"),
)
MORE_WRITING = (("lookups", "set", "a", "lookup.csv"), ("tag", "held", "--remove"))


def run_sql(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(cast("LiteralString", statement))


@pytest.fixture(scope="module")
def owner_url(postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with three days of flights, of a role that may do everything."""
    url = postgresql_server.create_database("read_by_others")
    with open_store(url, create=True, deep_storage=str(tmp_path_factory.mktemp("files"))):
        pass
    for day in DAYS:
        append_rows(url, day)
    with open_store(url) as store:
        store.tag("held", at=1)
    run_sql(
        url,
        f"CREATE ROLE {ROLE} LOGIN",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}",
        f"CREATE ROLE {ROLE}_nothing LOGIN",
    )
    return url


@pytest.fixture(scope="module")
def reader_url(owner_url: str) -> str:
    return owner_url.replace("postgres@", f"{ROLE}@")


@pytest.mark.parametrize("args", [*READING, *MORE_READING], ids=" ".join)
def test_reading_gives_what_it_gives_the_owner(
    run: Run, owner_url: str, reader_url: str, args: tuple[str, ...]
) -> None:
    expected = run(*args, "--store", owner_url)
    found = run(*args, "--store", reader_url)
    assert (found.out, found.err) == (expected.out, expected.err)


@pytest.mark.parametrize("args", [*WRITING, *MORE_WRITING], ids=" ".join)
def test_what_would_write_says_why_it_cannot(
    run: Run, tmp_path: Path, owner_url: str, reader_url: str, args: tuple[str, ...]
) -> None:
    (tmp_path / "lookup.csv").write_text("key,value\na,b\n")
    head = run("log", "--json", "--store", owner_url).json
    done = run(*args, "--store", reader_url, code=2)
    assert done.out == ""
    assert done.err == (
        f"error: the store can only be read here, because role {ROLE} may not write to table commits\n"
    )
    assert run("log", "--json", "--store", owner_url).json == head


def test_doctor_says_that_the_store_can_only_be_read(run: Run, reader_url: str) -> None:
    checks = run("doctor", "--json", "--store", reader_url).json["checks"]
    (writing,) = [check for check in checks if check["name"] == "writing"]
    assert writing["state"] == "note"
    assert writing["detail"].endswith(f"because role {ROLE} may not write to table commits")


def test_a_reader_leaves_the_writers_lock_alone(owner_url: str, reader_url: str) -> None:
    plain = owner_url.replace("+psycopg", "")
    with psycopg.connect(plain) as busy:
        busy.execute(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
        held = busy.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
        assert held == (1,)
        with open_store(reader_url) as store:
            assert store.sql("SELECT count(*) AS n FROM flights").rows() == [{"n": ROWS}]
            assert store.leases() == ()
            with pytest.raises(ReadOnly, match="may not write to table commits"):
                store.tag("mine")


def test_a_role_whose_transactions_are_read_only_is_told_so(owner_url: str) -> None:
    run_sql(
        owner_url,
        "CREATE ROLE calm LOGIN SUPERUSER",
        "ALTER ROLE calm SET default_transaction_read_only = on",
    )
    with open_store(owner_url.replace("postgres@", "calm@")) as store:
        assert store.sql("SELECT count(*) AS n FROM flights").rows() == [{"n": ROWS}]
        with pytest.raises(ReadOnly, match=r"because transactions of role calm are read-only$"):
            store.tag("mine")


def test_a_role_that_may_not_even_read_is_one_sentence(owner_url: str) -> None:
    with pytest.raises(
        Invalid, match=r"that it needs: it may not read table commits; grant SELECT"
    ):
        open_store(owner_url.replace("postgres@", f"{ROLE}_nothing@"))


def test_commits_of_the_owner_are_seen(owner_url: str, reader_url: str) -> None:
    count = "SELECT count(*) AS n FROM flights"
    with open_store(reader_url) as reader:
        before = int(str(reader.sql(count).rows()[0]["n"]))
        append_rows(owner_url, [{"__time": "2013-01-09T01:00:00Z", "carrier": "UA", "delay": 1}])
        assert reader.sql(count).rows() == [{"n": before + 1}]
