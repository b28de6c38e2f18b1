"""`carnac locks` and `carnac locks break` on a store with locks of other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from carnac.bootstrap.store import open_lockbox, open_store
from carnac.cli.commands import all_commands
from carnac.config import Settings
from carnac.core.locks.model import LockType
from carnac.core.log.commits import CommitKind, LockHeld, Publication
from carnac.errors import NotFound, Revoked
from tests.e2e.conftest import Run
from tests.locks import hours, wants


@pytest.fixture
def locked(store: Path) -> Path:
    """A compaction that holds three segments, an append beside it, and somebody who waits."""
    with open_lockbox(Settings(store=str(store))) as lockbox:
        lockbox.acquire(wants("compact-1", hours(3), 0, 1, 2, type=LockType.REPLACE, priority=25))
        lockbox.acquire(wants("stream-1", hours(0, 24), type=LockType.APPEND, priority=75))
        lockbox.request(wants("compact-2", hours(3), 2, 3, type=LockType.REPLACE, priority=25))
    return store


def test_a_store_without_locks_says_so(run: Run, store: Path) -> None:
    assert run("locks", "--store", store).out == "no locks\n"
    assert run("locks", "--store", store, "--json").json == {"locks": []}


def test_it_shows_who_holds_what_and_who_waits_for_it(run: Run, locked: Path) -> None:
    done = run("locks", "--store", locked)
    title, _, first, second, third = done.out.splitlines()
    for word in ("task", "type", "partitions", "age", "heartbeat", "waiters", "waits for"):
        assert word in title
    assert "compact-1  replace  events      1970-01-01T03:00Z/1970-01-01T04:00Z  0-2" in first
    assert "compact-2 (5)" in first
    assert " all " in second
    assert "waiting" in third
    assert "compact-1 (1)" in third
    assert "3 locks, 1 of them waiting" in done.err


def test_json_has_all_of_it(run: Run, locked: Path) -> None:
    first, second, third = run("locks", "--store", locked, "--json").json["locks"]
    assert first["task_id"] == "compact-1"
    assert first["granularity"] == "segment"
    assert first["partitions"] == "0-2"
    assert first["interval"] == "1970-01-01T03:00:00.000Z/1970-01-01T04:00:00.000Z"
    assert first["heartbeat_at"].endswith("Z")
    assert first["waiters"] == [{"lock_id": 5, "task_id": "compact-2", "state": "waiting"}]
    assert second["partitions"] is None
    assert third["waits_for"] == [{"lock_id": 1, "task_id": "compact-1", "state": "held"}]
    refused = run("locks", "--store", locked, "--datasource", "x", "--json", code=5)
    assert "there is no datasource 'x'" in refused.err


def test_breaking_hands_the_lock_on_and_the_old_holder_cannot_publish(
    run: Run, locked: Path
) -> None:
    done = run("locks", "break", "1", "--store", locked)
    assert "lock 1 of compact-1 on events" in done.out
    assert "was broken by an operator at" in done.out
    broken, _, next_one = run("locks", "--store", locked, "--json").json["locks"]
    assert broken["revocation"]["reason"] == "broken"
    assert next_one["state"] == "held"
    fence = LockHeld(lock_id=1, fence=broken["fence"])
    late = Publication(kind=CommitKind.LOOKUP, requirements=(fence,))
    with open_store(locked) as store, pytest.raises(Revoked, match="broken by an operator"):
        store._metadata.publish(late)


def test_breaking_what_is_not_there_is_an_error(run: Run, locked: Path) -> None:
    assert "there is no lock 99" in run("locks", "break", "99", "--store", locked, code=5).err


def test_a_store_that_is_not_there_has_no_lockbox(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_lockbox(Settings(store=str(tmp_path / "nothing")))


def test_the_group_is_a_command() -> None:
    assert {"locks", "locks break"} <= set(all_commands())
