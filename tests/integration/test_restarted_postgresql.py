"""PostgreSQL that is away for a while: brokers answer what they read before, and all go on when it is back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import carnac
from tests.support.postgresql import run_postgresql
from tests.support.serve_process import serving
from tests.waiting import until

pytestmark = [pytest.mark.sql, pytest.mark.slow]

LEASE_MS = 600_000
"""Longer than PostgreSQL is away."""
ROWS = [{"__time": f"2013-01-0{day}T10:00:00Z", "n": day} for day in (1, 2, 3)]


def ask(url: str, statement: str) -> Any:
    answer = httpx.post(f"{url}/druid/v2/sql", json={"query": statement}, timeout=120)
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
