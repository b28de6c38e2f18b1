"""Overlords as processes, one of them with a clock that is two days ahead, killed while it leads."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import carnac
from carnac.bootstrap.store import open_records
from carnac.bootstrap.tasks import open_loop
from carnac.cli import main
from carnac.cli.commands.running.locks import locks
from carnac.cli.commands.running.task import list_tasks
from carnac.cli.session import Session
from carnac.clock import StoreClock, SystemClock
from carnac.config import Settings
from carnac.core.tasks.machine import OVERLORD
from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.ports import LeaseKind
from tests.forking import FORK
from tests.integration.clock_children import AHEAD_MS, ClockAhead, lead_ahead
from tests.locks import hours
from tests.locks import wants as wants_lock
from tests.support.clock import ClockSetBack
from tests.support.tasks import FakeRunner
from tests.tasks import candidacy, dispatch, wants

LEASE_MS = 60_000


@pytest.fixture
def killed_ahead(tmp_path: Path) -> str:
    """A store whose leader was two days ahead and is dead."""
    store = str(tmp_path / "store")
    carnac.open(store, create=True).close()
    tell: Any = FORK.Queue()
    child = FORK.Process(target=lead_ahead, args=(store, tell))
    child.start()
    assert tell.get(timeout=60)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return store


@pytest.mark.slow
def test_another_one_takes_over_at_once_and_says_whose_clock_was_wrong(
    killed_ahead: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--store", killed_ahead, "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    found = [one for one in checks if one["name"] == "clocks"]
    assert [one["state"] for one in found] == ["problem"]
    assert "172," in found[0]["detail"]
    assert f"process {os.getpid()}" not in found[0]["detail"]
    loop = open_loop(settings=Settings(store=killed_ahead), runners={"process": FakeRunner()})
    loop.run_round()
    assert loop.is_leader
    assert "its clock is ahead" in caplog.text
    loop.close()


@pytest.mark.slow
def test_a_commit_from_the_future_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "store")
    with carnac.open(folder, create=True, clock=ClockAhead()) as store:
        store.set_lookup("names", {"a": "b"})
    assert main(["doctor", "--store", folder, "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    (found,) = [one for one in checks if one["name"] == "clocks"]
    assert found["state"] == "problem"
    assert "revision 1 was published 172," in found["detail"]


@pytest.mark.sql
def test_a_store_on_postgresql_is_made_at_the_time_of_the_server(
    postgresql_url: str, tmp_path: Path
) -> None:
    settings = Settings(store=postgresql_url, deep_storage=str(tmp_path / "deep"))
    with carnac.open(create=True, settings=settings, clock=StoreClock(ClockAhead())) as store:
        assert abs(store.head().at_ms - SystemClock().now_ms()) < AHEAD_MS // 2


@pytest.mark.sql
def test_a_short_lease_outlives_clocks_that_are_seconds_apart(
    postgresql_url: str, tmp_path: Path
) -> None:
    settings = Settings(store=postgresql_url, deep_storage=str(tmp_path / "deep"))
    carnac.open(create=True, settings=settings).close()
    behind, ahead = ClockSetBack(), ClockSetBack()
    behind.back_ms, ahead.back_ms = 4_500, -4_500
    one = open_records(settings=settings, clock=StoreClock(behind))
    other = open_records(settings=settings, clock=StoreClock(ahead))
    lease = one.acquire_lease(LeaseKind.READER, holder="one", ttl_ms=8_000)
    assert other.leases() == (lease,)
    one.close()
    other.close()


@pytest.mark.sql
def test_ages_are_told_by_the_clock_of_the_server(
    postgresql_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(store=postgresql_url, deep_storage=str(tmp_path / "deep"))
    carnac.open(create=True, settings=settings).close()
    with open_records(settings=settings, clock=SystemClock()) as right:
        right.change_tasks(wants("a"))
        right.change_tasks(dispatch(right.lead(candidacy("right")).fence))
        right.change_locks(wants_lock("a/1", hours(0)))
    for show in (list_tasks, locks):
        session = Session(clock=StoreClock(ClockAhead()))
        session.store_name = postgresql_url
        show(session)
    told = capsys.readouterr().out
    assert "held" in told, "not overdue"
    assert "2 d" not in told


@pytest.mark.sql
def test_leases_on_postgresql_go_by_the_clock_of_the_server(
    postgresql_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(store=postgresql_url, deep_storage=str(tmp_path / "deep"))
    carnac.open(create=True, settings=settings).close()
    ahead = StoreClock(ClockAhead())
    loop = open_loop(settings=settings, runners={"process": FakeRunner()}, clock=ahead)
    right = open_records(settings=settings, clock=SystemClock())
    lease = right.acquire_lease(LeaseKind.READER, holder="right", ttl_ms=LEASE_MS)
    loop.run_round()
    led = right.leader(OVERLORD)
    assert led is not None
    assert abs(led.heartbeat_at_ms - SystemClock().now_ms()) < CLOCKS_AGREE_MS
    assert abs(ahead.ahead_ms - AHEAD_MS) < CLOCKS_AGREE_MS
    assert "172,800 s ahead of the database server's" in caplog.text
    assert right.leases() == (lease,), "whose clock is ahead takes nobody's lease away"
    assert right.ahead() == {}
    loop.close()
    right.close()
