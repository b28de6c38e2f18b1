"""Leadership, locks, health, and the page that shows the API."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from fastapi import APIRouter

import carnac
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.page import operations, parameters_of
from carnac.core.locks.model import LockType
from scripts.docs.http_page import describe
from tests.browser import browser
from tests.locks import hours, wants
from tests.unit.api.conftest import LEADER_URL, InProcessClient, Overlord, Submit

API = "/druid/indexer/v1"
HOUR_0 = "1970-01-01T00:00:00.000Z/1970-01-01T01:00:00.000Z"
HOUR_3 = "1970-01-01T03:00:00.000Z/1970-01-01T04:00:00.000Z"


def test_status_and_health(overlord: Overlord) -> None:
    assert overlord.http.get("/status/health").json() is True
    status = overlord.http.get("/status").json()
    assert status["version"] == "33.0.0"  # Druid's: Turnilo asks nothing of one below 0.14
    assert status["carnacVersion"] == carnac.__version__
    assert status["modules"] == []
    memory = status["memory"]
    assert set(memory) == {"maxMemory", "totalMemory", "freeMemory", "usedMemory", "directMemory"}
    assert 0 < memory["usedMemory"] < memory["maxMemory"]


def test_what_consoles_ask_first(overlord: Overlord) -> None:
    assert overlord.http.get("/status/selfDiscovered/status").json() == {"selfDiscovered": True}
    assert overlord.http.get("/status/selfDiscovered").status_code == 200
    properties = overlord.http.get("/status/properties").json()
    assert properties["druid.router.managementProxy.enabled"] == "true"
    assert all(isinstance(value, str) for value in properties.values())


def test_a_process_with_both_roles_is_its_own_router(overlord: Overlord) -> None:
    answer = overlord.http.get("/proxy/enabled")  # an overlord alone has not what is asked of both
    assert (answer.status_code, "overlord and coordinator" in answer.json()["error"]) == (404, True)
    assert overlord.http.get("/proxy/overlord/status/health").json() is True
    assert overlord.http.get("/proxy/coordinator/status/health").status_code == 404
    routers = [APIRouter(prefix=f"/druid/{one}/v1") for one in ("indexer", "coordinator")]
    for router in routers:
        router.get("/isLeader")(lambda: {"leader": True})
    both = InProcessClient(make_app(routers, hosts=hosts_of("one")))
    assert both.get("/proxy/enabled").json() == {"enabled": True}
    assert both.get("/proxy/coordinator/status").json() == both.get("/status").json()
    for path in ("/proxy/coordinator/druid/coordinator/v1", "/proxy/overlord/druid/indexer/v1"):
        assert both.get(f"{path}/isLeader").json() == {"leader": True}


def test_the_overlord_is_the_only_worker(overlord: Overlord, submit: Submit) -> None:
    assert overlord.http.get(f"{API}/workers").json() == []
    submit("one")
    overlord.start_next()
    [worker] = overlord.http.get(f"{API}/workers").json()
    assert (worker["worker"]["host"], worker["worker"]["capacity"]) == ("one:8090", 1)
    assert (worker["currCapacityUsed"], worker["runningTasks"]) == (1, ["one"])
    assert overlord.http.get(f"{API}/totalWorkerCapacity").json() == {
        "currentClusterCapacity": 1,
        "maximumCapacityWithAutoScale": -1,
        "usedClusterCapacity": 1,
    }


def test_who_leads(overlord: Overlord) -> None:
    assert overlord.http.get(f"{API}/leader").status_code == 404
    answer = overlord.http.get(f"{API}/isLeader")
    assert (answer.status_code, answer.json()) == (404, {"leader": False})
    overlord.loop.run_round()
    answer = overlord.http.get(f"{API}/isLeader")
    assert (answer.status_code, answer.json()) == (200, {"leader": True})
    assert overlord.http.get(f"{API}/leader").text == LEADER_URL


@pytest.fixture
def locked(overlord: Overlord) -> Overlord:
    """A compaction and an append that hold locks, and one that waits."""
    overlord.lockbox.acquire(wants("compact-1", hours(3), 0, 1, type=LockType.REPLACE, priority=25))
    overlord.lockbox.acquire(wants("append-1", hours(0), type=LockType.APPEND, priority=75))
    overlord.lockbox.request(wants("compact-2", hours(3), 1, type=LockType.REPLACE, priority=25))
    return overlord


def test_locked_intervals(locked: Overlord) -> None:
    def ask(**policy: object) -> object:
        body = [{"datasource": "events", **policy}]
        return locked.http.post(f"{API}/lockedIntervals/v2", json=body).json()

    assert ask() == {"events": [HOUR_0, HOUR_3]}
    assert ask(priority=50) == {"events": [HOUR_0]}
    assert ask(intervals=["1970-01-01T03:00/PT1H"]) == {"events": [HOUR_3]}
    assert ask(context={"taskLockType": "REPLACE"}) == {"events": [HOUR_3]}
    assert ask(context={"useConcurrentLocks": "true"}) == {"events": [HOUR_3]}
    assert ask(datasource="other") == {}


def test_active_locks(locked: Overlord) -> None:
    body = [{"datasource": "events", "priority": 0}]
    answer = locked.http.post(f"{API}/activeLocks", json=body).json()
    first, second = answer["datasourceToLocks"]["events"]
    assert first == {
        "type": "REPLACE",
        "groupId": "compact-1",
        "dataSource": "events",
        "interval": HOUR_3,
        "version": "2014-01-01T00:00:00.000Z",
        "priority": 25,
        "revoked": False,
        "granularity": "segment",
    }
    assert (second["type"], second["granularity"]) == ("APPEND", "timeChunk")
    body = [{"datasource": "events", "context": {"taskLockType": "append"}}]
    answer = locked.http.post(f"{API}/activeLocks", json=body).json()
    assert [lock["groupId"] for lock in answer["datasourceToLocks"]["events"]] == ["compact-1"]


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        ["events"],
        [{"priority": 1}],
        [{"datasource": "x", "priority": "high"}],
        [{"datasource": "x", "context": []}],
        [{"datasource": "x", "intervals": "2014/2015"}],
        [{"datasource": "x", "intervals": ["nonsense"]}],
    ],
)
@pytest.mark.parametrize("path", ["lockedIntervals/v2", "activeLocks"])
def test_a_filter_that_is_wrong(overlord: Overlord, path: str, body: object) -> None:
    answer = overlord.http.post(f"{API}/{path}", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["category"] == "INVALID_INPUT"


def test_the_page_shows_every_operation_and_needs_nothing_from_elsewhere(
    overlord: Overlord,
) -> None:
    page = overlord.http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert overlord.http.get("/").text == page.text
    description = overlord.http.get("/openapi.json").json()
    shown = unescape(page.text)
    plain = re.sub("</?code>", "`", shown)
    found = list(operations(description))
    assert len(found) >= 20
    for method, path, operation in found:
        assert f'class="m {method}">{method}</td><td><code>{path}</code>' in shown
        assert operation["summary"] in plain
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<script" not in page.text


def test_a_process_of_no_role_with_paths_shows_its_page_too() -> None:
    """A historical has none but those of every process, and so no shapes of bodies."""
    http = InProcessClient(make_app([], hosts=hosts_of("one")))
    assert "<code>/status/health</code>" in http.get("/").text
    described = http.get("/openapi.json").json()
    assert set(described["components"]["schemas"]) == {"Problem"}
    assert "/metrics" not in described["paths"]


_FAINTEST = """
(() => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3)
      .map(one => one / 255).map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const shown = [...document.body.querySelectorAll("*")].filter(one => one.innerText);
  return Math.min(...shown.map(one => {
    const [low, high] = [light(getComputedStyle(one).color), paper].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }));
})()
"""
"""The smallest contrast of a text with the page, as WCAG computes it."""


@pytest.mark.slow
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_page_can_be_read_on_a_telephone_and_in_the_dark(
    overlord: Overlord, tmp_path: Path, *, is_dark: bool
) -> None:
    file = tmp_path / "docs.html"
    file.write_text(overlord.http.get("/docs").text, encoding="utf-8")
    with browser() as page:
        for width in (320, 1200):
            page.look(width=width, is_dark=is_dark)
            page.open(file)
            page.picture(tmp_path / f"{width}.png")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(_FAINTEST) >= 4.5
        assert page.complaints == []


def test_everything_on_the_reference_page_is_explained() -> None:
    for method, path, operation in operations(describe()):
        assert operation.get("summary"), f"{method} {path}"
        assert "422" not in operation["responses"], "what is wrong is answered with 400"
        for parameter in parameters_of(operation):
            assert parameter.get("description"), f"{method} {path}: {parameter['name']}"
