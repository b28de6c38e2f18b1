"""An overlord put together from settings, in this process: attempts are threads, and every part is closed."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import httpx
import pytest

from carnac.api.client import OverlordClient
from carnac.bootstrap.serving.process import open_process
from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_tasks
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.core.tasks.model import TaskState
from carnac.errors import NotFound, Unavailable
from carnac.ports.serving import Role
from tests.e2e.cli import DAYS, ROWS, make_store

pytestmark = pytest.mark.http


OF_THE_PROCESS = {"carnac-beside", "carnac-limits", "carnac-query"}
"""Threads that are used again by whatever runs next in the process, and else end by themselves."""


@pytest.fixture
def settings(store_dir: Path) -> Settings:
    make_store(store_dir)
    return Settings(store=str(store_dir), task_runner="in_process", overlord_period_ms=20)


def test_tasks_run_as_threads_and_all_threads_end_with_it(settings: Settings) -> None:
    before = set(threading.enumerate())
    overlord = open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=0)
    overlord.start()
    with open_tasks(settings=settings) as tasks:
        for day in (1, 2):
            task = {"type": "delete", "dataSource": "flights", "id": f"d{day}"}
            tasks.submit({**task, "interval": f"2013-01-0{day}/P1D"})
        for day in (1, 2):
            done = tasks.wait(f"d{day}", timeout_ms=120_000)
            assert (done.state, done.error) == (TaskState.SUCCEEDED, None)
    log = httpx.get(f"{overlord.url}/druid/indexer/v1/task/d1/log").text
    assert "task d1 succeeded" in log
    assert "task d2" not in log
    overlord.close()
    overlord.close()
    assert {one.name for one in set(threading.enumerate()) - before} <= OF_THE_PROCESS
    with open_store(settings=settings) as store:
        left = store.sql("SELECT count(*) AS n FROM flights").rows()
    assert left == [{"n": ROWS - len(DAYS[0]) - len(DAYS[1])}]


def test_strangers_change_nothing_and_tasks_go_on(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Web pages, clients that break off, bodies without an end, paths of others: then the overlord does its work."""
    overlord = open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=0)
    overlord.start()
    port = int(overlord.url.rpartition(":")[2])
    path = f"{overlord.url}/druid/indexer/v1/task"
    delete = {"type": "delete", "dataSource": "flights", "id": "d", "interval": "2013-01-01/P1D"}
    reading = {"type": "index_parallel", "spec": {"dataSource": "x", "input": "/etc/passwd"}}
    evil = {"host": "evil.example.com", "origin": "http://evil.example.com"}
    strange = [
        httpx.post(path, json=delete, headers=evil),
        httpx.post(path, json=delete, headers={"origin": "http://evil.example.com"}),
        httpx.post(path, data={"a": "b"}, headers={"sec-fetch-site": "cross-site"}),
        httpx.post(path, content=json.dumps(delete)),
        httpx.post(path, json=reading),
        httpx.post(path, json={**delete, "context": {"sparkConf": {"spark.jars": "x"}}}),
        httpx.post(path, json={**delete, "id": "a\0b"}),
    ]
    assert [answer.status_code for answer in strange] == [403, 403, 403, 415, 400, 400, 400]
    head = b"POST /druid/indexer/v1/task HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for rest in (
        b"Content-Length: 99\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n{{{",
        b"",
    ):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head + rest)
    with OverlordClient(overlord.url, SystemClock()) as client:
        assert not client.list()
        client.submit(delete)
        done = client.wait("d", timeout_ms=120_000)
    assert (done.state, done.error) == (TaskState.SUCCEEDED, None)
    assert httpx.get(f"{overlord.url}/status/health").json() is True
    overlord.close()
    assert [one for one in caplog.records if one.exc_info] == []


def test_what_cannot_be_opened_leaves_nothing_open(settings: Settings, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    nowhere = settings.model_copy(update={"store": str(tmp_path / "none")})
    with pytest.raises(NotFound):
        open_process({Role.OVERLORD}, settings=nowhere, host="127.0.0.1", port=0)
    first = open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=0)
    port = int(first.url.rpartition(":")[2])
    with pytest.raises(Unavailable, match="choose another --port"):
        open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=port)
    first.close()
    again = open_process({Role.OVERLORD}, settings=settings, host="127.0.0.1", port=port)
    again.close()
    assert {one.name for one in set(threading.enumerate()) - before} <= OF_THE_PROCESS
