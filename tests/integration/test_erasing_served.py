"""An erasure beside processes that serve: what they have read of earlier revisions is not shown any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.store import Store
from tests.support.serve_process import serving
from tests.support.stores import open_local_store
from tests.unit.store.test_erasing import ADA, WHERE, append, bytes_with, hours
from tests.waiting import until

pytestmark = [pytest.mark.http, pytest.mark.slow]

LEASE = {"CARNAC_LEASE_TTL_MS": "3000"}
SQL = "SELECT mail, count(*) AS n FROM events GROUP BY mail"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_local_store(tmp_path / "store", clock=SystemClock(), ids=RandomIds()) as opened:
        append(opened, (1, ADA, 1), (2, "bob", 2), (3, ADA, 30))
        append(opened, (4, "cyd", 3), (5, ADA, 4))
        opened.delete("events", interval=hours(4, 5))
        yield opened


def ask(url: str, at: int | None = None) -> dict[str, int]:
    body: dict[str, Any] = {"query": SQL, "context": {} if at is None else {"at": at}}
    answer = httpx.post(f"{url}/druid/v2/sql", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Carnac-Complete"] == "true"
    return {row["mail"]: row["n"] for row in answer.json()}


@pytest.mark.parametrize("is_cluster", [False, True], ids=["alone", "cluster"])
def test_servers_show_no_revision_with_the_rows(
    store: Store, tmp_path: Path, is_cluster: bool
) -> None:
    with ExitStack() as steps:
        roles = (["coordinator"], ["historical", "--folder", str(tmp_path / "h")], ["broker"])
        for role in roles if is_cluster else ([],):
            given = ["--role", *role] if role else []
            served = steps.enter_context(serving(tmp_path / "store", *given, **LEASE))
            url = served.url
        until(lambda: ask(url) == {ADA: 2, "bob": 1, "cyd": 1}, "the newest revision is served")
        before = {at: ask(url, at) for at in (1, 2, 3)}
        assert before == {at: ask(url, at) for at in before}

        report = store.erase("events", where=WHERE)
        expected = {
            at: {one: n for one, n in found.items() if one != ADA} for at, found in before.items()
        }
        assert {at: ask(url, at) for at in before} == expected
        until(lambda: ask(url) == expected[3], "the newest revision without the rows is served")

        def is_gone() -> bool:
            store.gc()
            return not store._metadata.erased_files() and bytes_with(tmp_path, ADA) == []

        until(is_gone, "no byte of them is left, neither in the store nor at the historical")
        assert report.left == ()
        assert {at: ask(url, at) for at in before} == expected
