"""`/status/health`: true while every loop of the process turns, else 503 with a sentence that says which does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from tests.unit.api.conftest import InProcessClient


def test_one_loop_that_does_not_turn_makes_it_false() -> None:
    loops: Any = [SimpleNamespace(trouble=None) for _ in range(2)]
    http = InProcessClient(make_app([], loops=loops, hosts=hosts_of("one")))
    assert http.get("/status/health").json() is True
    loops[0].trouble = "the overlord loop has not turned for 121 s"
    loops[1].trouble = "the upkeep loop has ended"
    answer = http.get("/status/health")
    assert answer.status_code == 503
    assert answer.json()["error"] == (
        "the overlord loop has not turned for 121 s; the upkeep loop has ended; restart this process"
    )
