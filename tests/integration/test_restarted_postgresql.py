"""PostgreSQL that is away for a while or hangs: brokers answer what they read before, and all go on when it is back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import carnac
from carnac.api.access import FRESH_MS
from carnac.errors import ReadOnly, Unavailable
from carnac.store import Store
from tests.support.postgresql import SUPERUSER, run_postgresql
from tests.support.serve_process import serving
from tests.waiting import until

pytestmark = [pytest.mark.sql, pytest.mark.slow]

LEASE_MS = 600_000
"""Longer than PostgreSQL is away."""
ROWS = [{"__time": f"2013-01-0{day}T10:00:00Z", "n": day} for day in (1, 2, 3)]


def ask(url: str, statement: str, timeout_s: float = 120) -> Any:
    answer = httpx.post(f"{url}/druid/v2/sql", json={"query": statement}, timeout=timeout_s)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_broker_answers_while_postgresql_is_away_and_follows_when_it_is_back(
    tmp_path: Path,
) -> None:
    with run_postgresql() as server:
        url = server.create_database()
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            store.append("events", ROWS[:2])
        with serving(url, "--role", "broker", CARNAC_LEASE_TTL_MS=str(LEASE_MS)) as broker:
            assert ask(broker.url, "SELECT sum(n) AS n FROM events") == [{"n": 3}]
            server.stop()
            assert ask(broker.url, "SELECT sum(n) AS n FROM events WHERE n > 1") == [{"n": 2}]
            server.start()
            with carnac.open(url) as store:
                store.append("events", ROWS[2:])
            statement = "SELECT sum(n) AS n FROM events"
            until(lambda: ask(broker.url, statement) == [{"n": 6}], "what was published after")


def test_a_writer_goes_on_where_postgresql_was_started_anew(tmp_path: Path) -> None:
    with run_postgresql() as server:
        url = server.create_database()
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            assert store.append("events", ROWS).revision == 1
            server.stop()
            server.start()
            assert store.append("events", ROWS).revision == 2


def test_a_writer_goes_on_where_a_server_can_be_written_to_again(tmp_path: Path) -> None:
    with run_postgresql() as server:
        url = server.create_database()
        name = url.partition("@/")[2].partition("?")[0]
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            store.append("events", ROWS)
            for is_read_only in ("on", "off"):
                change = f"ALTER DATABASE {name} SET default_transaction_read_only = {is_read_only}"
                host, user = ("-h", str(server.directory)), ("-U", SUPERUSER)
                server.run("psql", *host, *user, "-d", SUPERUSER, "-c", change)
                server.stop()  # as a failover ends connections
                server.start()
                if is_read_only == "on":
                    with pytest.raises(ReadOnly, match="transactions of role postgres are read"):
                        store.append("events", ROWS)
            until(lambda: _has_appended(store), "an append")


def _has_appended(store: Store) -> bool:
    try:
        return store.append("events", ROWS).revision is not None
    except ReadOnly:
        return False


def test_a_broker_answers_while_postgresql_hangs(tmp_path: Path) -> None:
    with run_postgresql() as server:
        url = f"{server.create_database()}&tcp_user_timeout=1000&connect_timeout=2"
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            for name in ("events", "others"):
                store.append(name, ROWS)
        with serving(url, "--role", "broker", CARNAC_LEASE_TTL_MS=str(LEASE_MS)) as broker:
            assert ask(broker.url, "SELECT sum(n) AS n FROM events") == [{"n": 6}]
            with server.hanging():
                end = time.monotonic() + 2 * FRESH_MS / 1000
                while time.monotonic() < end:
                    statement = "SELECT sum(n) AS n FROM events WHERE n > 1"
                    assert ask(broker.url, statement, timeout_s=10) == [{"n": 5}]
                body = {"query": "SELECT sum(n) AS n FROM others"}
                answer = httpx.post(f"{broker.url}/druid/v2/sql", json=body, timeout=60)
                assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
            statement = "SELECT sum(n) AS n FROM others"
            assert ask(broker.url, statement) == [{"n": 6}]


def test_a_server_that_hangs_is_given_up_and_asked_again(tmp_path: Path) -> None:
    with run_postgresql() as server:
        url = f"{server.create_database()}&tcp_user_timeout=300&connect_timeout=2"
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            store.append("events", ROWS)
            with server.hanging(), pytest.raises(Unavailable, match=r"does not answer"):
                store.log()
            assert len(store.log()) == 1
            store.append("events", ROWS)


def test_a_server_that_is_told_to_end_waits_for_no_postgresql_that_hangs(tmp_path: Path) -> None:
    with run_postgresql() as server:
        url = server.create_database()
        with carnac.open(url, create=True, deep_storage=str(tmp_path / "deep")) as store:
            store.append("events", ROWS)
        environ = {
            "CARNAC_LEASE_TTL_MS": "2000",  # so that a heartbeat is on its way
            "CARNAC_HISTORICAL_FOLDER": str(tmp_path / "held"),
            "CARNAC_FLIGHT_PORT": "0",
        }
        with serving(url, "--role", "broker", "--role", "historical", **environ) as served:
            assert ask(served.url, "SELECT sum(n) AS n FROM events") == [{"n": 6}]
            with server.hanging():
                body = {"query": "SELECT sum(n) AS n FROM missing"}
                with httpx.Client(timeout=2) as client, pytest.raises(httpx.ReadTimeout):
                    client.post(f"{served.url}/druid/v2/sql", json=body)  # it asks the database
                assert served.end() == 0
            assert any("does not answer" in line for line in served.lines)
