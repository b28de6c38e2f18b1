"""Who asks, at the gate: nobody, somebody unknown, and users who may do this or that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.access import FRESH_MS, TRIES_AT_ONCE, Access, require
from carnac.api.gate import Gate
from carnac.api.hosts import hosts_of
from carnac.api.problems import Refused, add_handlers
from carnac.core.access import (
    Accounts,
    Permission,
    User,
    hash_password,
    needed_permission,
    server_token,
    token_of,
)
from carnac.errors import Unavailable
from tests.support.clock import FakeClock
from tests.unit.api.test_fuzz import ROUTES
from tests.waiting import until

KEY = bytes(range(32))
PASSWORDS = {"ana": "reads alone", "etl": "writes too", "root": "does it all"}

NEEDED = {
    "read": [
        "POST /druid/v2/sql",
        "DELETE /druid/v2/sql/{query_id}",
        "POST /druid/v2",
        "DELETE /druid/v2/{query_id}",
        "POST /druid/v2/sql/avatica",
        "POST /druid/indexer/v1/taskStatus",
        "POST /druid/v2/sql/statements",
        "DELETE /druid/v2/sql/statements/{query_id}",
        "POST /druid/indexer/v1/lockedIntervals/v2",
        "POST /druid/indexer/v1/activeLocks",
    ],
    "write": [
        "POST /druid/indexer/v1/task",
        "POST /druid/indexer/v1/task/{task_id}/shutdown",
        "POST /druid/indexer/v1/task/{task_id}/retry",
        "POST /druid/indexer/v1/datasources/{datasource}/shutdownAllTasks",
        "POST /druid/v2/sql/task",
        "POST /druid/indexer/v1/supervisor",
        "POST /druid/indexer/v1/supervisor/suspendAll",
        "POST /druid/indexer/v1/supervisor/resumeAll",
        "POST /druid/indexer/v1/supervisor/terminateAll",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/suspend",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/resume",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/reset",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/resetOffsets",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/terminate",
        "POST /druid/indexer/v1/supervisor/{supervisor_id}/shutdown",
        "POST /carnac/v1/allocations",
        "DELETE /druid/coordinator/v1/datasources/{datasource}",
        "DELETE /druid/coordinator/v1/datasources/{datasource}/segments/{segment_id}",
        "POST /druid/coordinator/v1/datasources/{datasource}/markUnused",
        "POST /druid/indexer/v1/datasources/{datasource}/markUnused",
        "DELETE /druid/indexer/v1/datasources/{datasource}",
        "DELETE /druid/indexer/v1/datasources/{datasource}/segments/{segment_id}",
        "POST /druid/coordinator/v1/lookups/config",
        "POST /druid/coordinator/v1/lookups/config/{tier}/{name}",
        "DELETE /druid/coordinator/v1/lookups/config/{tier}/{name}",
    ],
    "admin": [
        "POST /druid/indexer/v1/compaction/config/cluster",
        "POST /druid/indexer/v1/compaction/config/datasources/{datasource}",
        "DELETE /druid/indexer/v1/compaction/config/datasources/{datasource}",
        "POST /druid/coordinator/v1/rules/{datasource}",
        "POST /druid/coordinator/v1/config",
        "POST /druid/coordinator/v1/config/compaction",
        "POST /druid/coordinator/v1/config/compaction/taskslots",
        "DELETE /druid/coordinator/v1/config/compaction/{datasource}",
    ],
}


def user(name: str, permission: Permission) -> User:
    kept = hash_password(PASSWORDS[name], name.encode())
    return User(name=name, permission=permission, password=kept)


class House:
    """An application behind a gate, and the users that its store has by now."""

    def __init__(self, *users: User) -> None:
        self.clock = FakeClock()
        self.users = {one.name: one for one in users}
        self.failure: Unavailable | None = None
        self.answers = Event()
        self.answers.set()
        self.reads = 0
        self.access = Access(self._load, self.clock, b"salt")
        app = FastAPI()
        add_handlers(app)
        for path in ("/druid/v2/sql", "/druid/v2/sql/task", "/druid/coordinator/v1/config"):
            app.post(path)(lambda: "done")

        @app.get("/status/health")
        def health() -> bool:
            return True

        @app.post("/druid/v2/sql/statements")
        def load() -> str:
            require(Permission.WRITE)
            return "done"

        app.add_middleware(Gate, hosts=hosts_of("127.0.0.1"), access=self.access)
        self.app = app

    def _load(self) -> Accounts:
        self.reads += 1
        assert self.answers.wait(60)
        if self.failure is not None:
            raise self.failure
        return Accounts(users=dict(self.users), key=KEY)

    def post(
        self, path: str, name: str = "", *, password: str = "", **headers: str
    ) -> httpx.Response:
        """Send a request, as a user if one is named."""
        auth = httpx.BasicAuth(name, password or PASSWORDS.get(name, "?")) if name else None
        return self.ask("POST", path, json={}, headers=headers, auth=auth)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as it:
                return await it.request(method, path, **more)

        return asyncio.run(ask())


@pytest.fixture
def house() -> House:
    return House(
        user("ana", Permission.READ),
        user("etl", Permission.WRITE),
        user("root", Permission.ADMIN),
    )


def test_without_users_everybody_may_do_everything() -> None:
    house = House()
    for path in ("/druid/v2/sql", "/druid/v2/sql/statements", "/druid/coordinator/v1/config"):
        assert (house.post(path)).json() == "done"
    assert house.reads == 1


def test_whoever_says_nothing_is_asked_for_a_name(house: House) -> None:
    answer = house.post("/druid/v2/sql")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Basic realm="carnac"')
    assert "has users" in answer.json()["error"]
    assert answer.json()["category"] == "UNAUTHORIZED"


@pytest.mark.parametrize(
    ("name", "password"),
    [("ana", "reads alonf"), ("nobody", "reads alone"), ("etl", "reads alone")],
)
def test_a_wrong_name_or_password_is_told_alike(house: House, name: str, password: str) -> None:
    answer = house.post("/druid/v2/sql", name, password=password)
    assert (answer.status_code, answer.json()["error"]) == (401, "the name or password is wrong")


@pytest.mark.parametrize(
    "said", ["Digest a", "Basic ????", "Bearer x", "Bearer .", "Bearer YW5h.0"]
)
def test_what_does_not_read_lets_nobody_in(house: House, said: str) -> None:
    assert (house.post("/druid/v2/sql", authorization=said)).status_code == 401


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/druid/v2/sql", {"ana", "etl", "root"}),
        ("/druid/v2/sql/statements", {"etl", "root"}),
        ("/druid/v2/sql/task", {"etl", "root"}),
        ("/druid/coordinator/v1/config", {"root"}),
    ],
)
def test_each_user_may_do_what_is_theirs(house: House, path: str, names: set[str]) -> None:
    for name in PASSWORDS:
        answer = house.post(path, name)
        assert answer.status_code == (200 if name in names else 403), (name, answer.text)
        if name not in names:
            assert f"carnac users set {name} --may" in answer.json()["error"]


def test_a_token_stands_in_place_of_a_password(house: House) -> None:
    wrong = house.post("/druid/v2/sql", authorization="Bearer no.token").json()["error"]
    assert wrong == "the token is wrong; carnac users token NAME prints one"
    token = token_of(house.users["ana"], KEY)
    assert (house.post("/druid/v2/sql", authorization=f"Bearer {token}")).status_code == 200
    answer = house.post("/druid/v2/sql/task", authorization=f"Bearer {token}")
    assert answer.status_code == 403


def test_changes_are_known_moments_later(house: House) -> None:
    assert (house.post("/druid/v2/sql", "ana")).status_code == 200
    del house.users["ana"]
    house.clock.advance_ms(FRESH_MS)
    assert (house.post("/druid/v2/sql", "ana")).status_code == 401
    assert house.reads == 2


def test_users_that_cannot_be_read_stay_as_they_were(house: House) -> None:
    house.failure = Unavailable("the database does not answer")
    answer = house.post("/druid/v2/sql", "ana")
    assert (answer.status_code, "cannot tell who may ask" in answer.json()["error"]) == (503, True)
    house.failure = None
    assert (house.post("/druid/v2/sql", "ana")).status_code == 200
    house.failure = Unavailable("the database does not answer")
    house.clock.advance_ms(FRESH_MS)
    assert (house.post("/druid/v2/sql", "ana")).status_code == 200


def test_whoever_asks_does_not_wait_for_a_database_that_hangs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.api.access.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("carnac.api.access.WAIT_S", 0.01)
    house.answers.clear()
    answer = house.post("/druid/v2/sql", "ana")
    assert (answer.status_code, "hangs" in answer.json()["error"]) == (503, True)
    house.answers.set()
    until(lambda: house.post("/druid/v2/sql", "ana").status_code == 200, "users that are known")
    house.answers.clear()
    house.clock.advance_ms(FRESH_MS)
    reads = house.reads
    for name in ("ana", "etl", "ana"):
        assert house.post("/druid/v2/sql", name).status_code == 200
    assert house.reads == reads + 1, "one asks in the stead of all"
    del house.users["ana"]
    house.answers.set()
    until(lambda: house.post("/druid/v2/sql", "ana").status_code == 401, "users that are read")


def test_health_is_asked_by_everybody(house: House) -> None:
    assert house.ask("GET", "/status/health").json() is True


def test_servers_are_told_from_users(house: House) -> None:
    assert house.access.is_server(server_token(KEY))
    assert house.access.server_token() == server_token(KEY)
    assert not house.access.is_server("")
    assert not house.access.is_server(token_of(house.users["root"], KEY))
    assert House().access.is_server("")


def test_a_password_is_hashed_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    is_right: Callable[[str, str], bool] = lambda password, _: not tried.append(password)  # noqa: E731
    monkeypatch.setattr("carnac.api.access.is_password", is_right)
    for _ in range(3):
        assert house.access.user("Basic YW5hOmE=") is not None
    assert tried == ["a"]


def test_whoever_was_right_before_waits_for_nobody(house: House) -> None:
    """Strangers who try passwords all the time keep out only those who have to be tried, too."""
    assert house.post("/druid/v2/sql", "ana").status_code == 200
    token = token_of(house.users["etl"], KEY)
    with ExitStack() as steps:
        for _ in range(TRIES_AT_ONCE):
            steps.enter_context(house.access._trying)
        assert house.post("/druid/v2/sql", "ana").status_code == 200
        assert house.post("/druid/v2/sql", authorization=f"Bearer {token}").status_code == 200


def test_whoever_may_not_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="'ana' may read, and this needs admin"):
        require(Permission.ADMIN, user("ana", Permission.READ))


def test_what_each_request_needs_that_is_no_reading() -> None:
    """One that is new, and that nobody thought of, needs everything: say here what it is to need."""
    found: dict[str, list[str]] = {one.word: [] for one in Permission}
    for method, path in ROUTES:
        needed = needed_permission(method, path)
        if method not in {"GET", "HEAD"}:
            assert needed is not None
            found[needed.word].append(f"{method} {path}")
            for router in ("/proxy/overlord", "/proxy/coordinator"):
                assert needed_permission(method, f"{router}{path}") == needed
    assert found == NEEDED
