"""The client against the application: the same calls give the same values and errors as the service itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.client import OverlordClient
from carnac.core.tasks.events import BeatAttempt
from carnac.core.tasks.model import Task, TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import Conflict, Invalid, NotFound, Unavailable
from carnac.ports.task_records import TaskFilter
from tests.unit.api.conftest import Overlord, Submit

DAY_MS = 86_400_000


class InProcess(httpx.BaseTransport):
    """Calls an application without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            answer = await self._inner.handle_async_request(request)
            return httpx.Response(
                answer.status_code, headers=answer.headers, content=await answer.aread()
            )

        return asyncio.run(ask())


@pytest.fixture
def client(overlord: Overlord) -> OverlordClient:
    return OverlordClient("http://one:8090/", overlord.clock, transport=InProcess(overlord.app))


def told(task: Task) -> Task:
    """The task as a client sees it."""
    return replace(task, digest="")


def test_values_are_those_of_the_service(
    client: OverlordClient, overlord: Overlord, submit: Submit
) -> None:
    task = client.submit(
        {"type": "kill", "dataSource": "events", "id": "a", "context": {"priority": 60, "é": [1]}}
    )
    assert task == told(overlord.tasks.get("a"))
    submit("b", dependencies=["a"])
    assert client.leader() is None
    overlord.start_next()
    assert client.list() == [told(task) for task in overlord.tasks.list()]
    beat = BeatAttempt(task_id="a", number=1, progress='{"phase": "read", "done": 1}')
    overlord.metadata.change_tasks(beat)
    assert client.leader() == overlord.tasks.leader()
    assert client.attempts("a") == list(overlord.tasks.attempts("a"))
    assert client.payload("a") == overlord.tasks.payload("a")
    assert client.report("a") is None
    overlord.finish("a", report=json.dumps({"rows": 1}))
    assert client.report("a") == client.report("a", 1) == {"rows": 1}
    assert client.get("a") == told(overlord.tasks.get("a"))
    assert client.get("a").state is TaskState.SUCCEEDED


def test_filters_go_through(client: OverlordClient, overlord: Overlord, submit: Submit) -> None:
    submit("a")
    overlord.clock.advance_ms(DAY_MS)
    submit("b", dataSource="other", groupId="g")
    submit("c", type="clean", dependencies=["a"])

    def ids(**which: object) -> list[str]:
        return [task.task_id for task in client.list(TaskFilter(**which))]  # type: ignore[arg-type]

    now_ms = overlord.clock.now_ms()
    assert ids() == ["c", "b", "a"]
    assert ids(states=(TaskState.PENDING,)) == ["b", "a"]
    assert ids(states=(TaskState.PENDING, TaskState.WAITING)) == ["c", "b", "a"]
    assert ids(datasource="other") == ids(group_id="g") == ["b"]
    assert ids(type="clean") == ["c"]
    assert ids(created=Interval(now_ms - DAY_MS, now_ms)) == ["a"]
    assert ids(before=client.get("b").number) == ["a"]
    assert [task.task_id for task in client.list(limit=1)] == ["c"]


def test_orders_go_through(client: OverlordClient, submit: Submit) -> None:
    submit("a")
    assert client.cancel("a").state is TaskState.CANCELLED
    assert client.retry("a").state is TaskState.PENDING
    with pytest.raises(Conflict, match="task a is pending"):
        client.retry("a")


def test_waiting_looks_again_until_it_is_over(
    client: OverlordClient, overlord: Overlord, submit: Submit
) -> None:
    submit("a")
    assert client.wait("a", timeout_ms=5_000).state is TaskState.PENDING
    assert sum(overlord.clock.slept_ms) == 5_000
    looks: list[TaskState] = []

    def look(task: object) -> None:
        looks.append(task.state)  # type: ignore[attr-defined]
        if len(looks) == 3:
            overlord.start_next()
            overlord.finish("a")

    assert client.wait("a", on_look=look).state is TaskState.SUCCEEDED
    assert looks[-1] is TaskState.SUCCEEDED


def test_a_log_that_nobody_has_is_none(
    client: OverlordClient, overlord: Overlord, submit: Submit
) -> None:
    submit("a/b?c#d e".replace("/", "-"))
    task_id = client.list()[0].task_id
    assert client.log(task_id) is None
    overlord.start_next()
    assert client.log(task_id) is None
    logs = overlord.tasks._runners["fake"]._logs  # type: ignore[attr-defined]
    logs.prepare(task_id, 1).write_text("one\ntwo\n")
    assert client.log(task_id) == "one\ntwo\n"
    assert client.log(task_id, 1, tail_bytes=4) == "two\n"
    with pytest.raises(NotFound, match="has no attempt 2"):
        client.log(task_id, 2)


def test_errors_are_those_of_the_service(client: OverlordClient, submit: Submit) -> None:
    submit("a")
    with pytest.raises(NotFound, match="there is no task none") as caught:
        client.get("none")
    assert caught.value.ids == {"task_id": "none"}
    with pytest.raises(Invalid, match="nonsense"):
        client.submit({"type": "nonsense"})
    with pytest.raises(Conflict, match="there is a task a already"):
        client.submit({"type": "kill", "dataSource": "other", "id": "a"})


def test_where_nobody_listens_is_one_sentence(overlord: Overlord) -> None:
    with (
        OverlordClient("http://127.0.0.1:1", overlord.clock) as client,
        pytest.raises(Unavailable, match=r"no overlord answers at http://127\.0\.0\.1:1: "),
    ):
        client.get("a")


class Breaking(InProcess):
    """A connection that breaks when it is used first."""

    is_whole = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_whole:
            self.is_whole = True
            raise httpx.ReadError("connection reset by peer")
        return super().handle_request(request)


def test_what_only_reads_is_asked_once_more_when_the_connection_breaks(
    overlord: Overlord, submit: Submit
) -> None:
    """The server closes one that was idle, in the moment in which it is used again."""
    submit("a")
    client = OverlordClient("http://one", overlord.clock, transport=Breaking(overlord.app))
    assert client.get("a").task_id == "a"
    client = OverlordClient("http://one", overlord.clock, transport=Breaking(overlord.app))
    with pytest.raises(Unavailable, match="connection reset by peer"):
        client.cancel("a")
    assert client.get("a").state is TaskState.PENDING


def test_what_is_no_overlord_is_one_sentence(overlord: Overlord) -> None:
    other = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>bad gateway</html>"))
    client = OverlordClient("http://proxy", overlord.clock, transport=other)
    with pytest.raises(Unavailable, match="is no overlord: it says 502 Bad Gateway"):
        client.get("a")
