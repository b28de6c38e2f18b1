"""The door behind a socket: answers that stream, clients that leave, queries that are stopped or wait."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from carnac.bootstrap.serving.process import open_process
from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.ports.serving import Role
from tests.waiting import until

pytestmark = pytest.mark.http

ROWS = 300_000
MORE = 20 * ROWS
"""More than is on its way at a time."""
MANY = f"SELECT range AS n FROM range({ROWS})"
ENDLESS = "SELECT sum(a.range * b.range) AS n FROM range(10000000) a, range(10000000) b"
SQL = "/druid/v2/sql"
PROBE = {"query": "SELECT 1", "context": {"timeout": 200}}
"""Is answered soon or never: 504 says that another query has the slot."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with one slot, and room for one query that waits."""
    open_store(tmp_path / "store", create=True).close()
    settings = Settings(store=str(tmp_path / "store"), query_slots=1, query_queue_max=1)
    before = set(threading.enumerate())
    roles = {Role.COORDINATOR, Role.BROKER}  # the engine of the process answers
    process = open_process(roles, settings=settings, host="127.0.0.1", port=0)
    process.start()
    yield process.url
    process.close()
    left = set(threading.enumerate()) - before
    # they are the process's, used again, and end by themselves
    assert {one.name for one in left} <= {"carnac-beside", "carnac-limits", "carnac-query"}


def body(query: str, query_id: str = "q", **more: object) -> dict[str, Any]:
    return {"query": query, "context": {"sqlQueryId": query_id}, **more}


def test_a_long_answer_comes_in_pieces_and_ends_with_trailers(url: str) -> None:
    connection = HTTPConnection(*_address(url))
    asked = json.dumps(body(MANY, resultFormat="arrayLines"))
    connection.request("POST", SQL, asked, {"Content-Type": "application/json", "TE": "trailers"})
    answer = connection.getresponse()
    assert answer.getheader("Transfer-Encoding") == "chunked"
    assert "X-Carnac-Receipt" in str(answer.getheader("Trailer"))
    assert answer.getheader("X-Carnac-Receipt") is None
    assert answer.fp is not None
    raw = answer.fp.peek(0) and answer.fp
    lines = 0
    while (size := int(raw.readline(), 16)) > 0:
        lines += raw.read(size).count(b"\n")
        raw.readline()
    trailers = dict(line.decode().split(": ", 1) for line in iter(raw.readline, b"\r\n"))
    assert lines == ROWS + 1
    assert trailers["x-carnac-complete"].strip() == "true"
    assert json.loads(trailers["x-carnac-receipt"])["rows"] == ROWS
    connection.close()


def test_an_answer_that_breaks_off_has_no_end(url: str) -> None:
    query = body(f"SELECT range AS n FROM range({1_000 * MORE})", resultFormat="csv")
    with httpx.stream("POST", url + SQL, json=query) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_bytes()
        assert next(pieces).startswith(b"0\n1\n2\n")
        assert httpx.delete(f"{url}{SQL}/q").status_code == 202
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


def test_a_query_is_stopped_by_its_id(url: str) -> None:
    answers: list[httpx.Response] = []
    asker = threading.Thread(
        target=lambda: answers.append(httpx.post(url + SQL, json=body(ENDLESS), timeout=None))
    )
    asker.start()
    until(lambda: httpx.delete(f"{url}{SQL}/q").status_code == 202, "the query that runs")
    asker.join()
    assert answers[0].status_code == 500
    assert answers[0].json()["error"] == "Query cancelled"
    assert answers[0].headers["x-druid-sql-query-id"] == "q"
    assert httpx.delete(f"{url}{SQL}/q").status_code == 404


def test_a_query_whose_client_leaves_is_stopped(url: str) -> None:
    connection = HTTPConnection(*_address(url))
    connection.request("POST", SQL, json.dumps(body(ENDLESS)), {"Content-Type": "application/json"})
    until(lambda: httpx.post(url + SQL, json=PROBE).status_code == 504, "the query that runs")
    connection.close()
    until(lambda: httpx.post(url + SQL, json=PROBE).is_success, "its slot free again")


def test_who_does_not_read_on_is_let_go_of(url: str) -> None:
    with httpx.stream(
        "POST", url + SQL, json=body(f"SELECT range AS n FROM range({MORE})")
    ) as answer:
        assert answer.status_code == 200
        assert httpx.post(url + SQL, json=body("SELECT 1")).status_code == 409
    until(lambda: httpx.post(url + SQL, json=body("SELECT 1")).is_success, "its slot free again")


def test_who_finds_the_queue_full_is_told_when_to_come_again(url: str) -> None:
    def post(query_id: str) -> None:
        while httpx.post(url + SQL, json=body(ENDLESS, query_id), timeout=None).status_code == 429:
            pass  # a probe had the place

    askers = [threading.Thread(target=post, args=(name,)) for name in ("one", "two")]
    for asker in askers:
        asker.start()
    until(lambda: httpx.post(url + SQL, json=PROBE).status_code == 429, "a full queue")
    answer = httpx.post(url + SQL, json=PROBE)
    assert answer.json()["error"] == "Query capacity exceeded"
    assert int(answer.headers["retry-after"]) > 0
    assert httpx.get(url + "/status/health").json() is True
    for name in ("two", "one"):
        until(lambda of=name: httpx.delete(f"{url}{SQL}/{of}").status_code == 202, name)  # type: ignore[misc]
    for asker in askers:
        asker.join()


def test_a_query_that_takes_too_long_is_told_so(url: str) -> None:
    answer = httpx.post(
        url + SQL, json=body(ENDLESS) | {"context": {"timeout": "20"}}, timeout=None
    )
    assert (answer.status_code, answer.json()["error"]) == (504, "Query timeout")


def _address(url: str) -> tuple[str, int]:
    parsed = httpx.URL(url)
    assert parsed.port is not None
    return parsed.host, parsed.port
