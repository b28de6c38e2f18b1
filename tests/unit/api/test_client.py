"""The client against the application: the same calls give the same values and errors as the service itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from carnac.api.client import OverlordClient
from carnac.core.tasks.events import BeatAttempt
from carnac.core.tasks.model import Task, TaskState
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Conflict, Invalid, NotFound, Unavailable
from carnac.ports.tasks import TaskFilter
from tests.hostile import as_json, places, replaced, values
from tests.support.clock import FakeClock
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
    with pytest.raises(Unavailable, match="is no overlord: it answers 502 Bad Gateway"):
        client.get("a")


# --------------------------------------------------------------------- servers that are no overlord

WHOLE: dict[str, object] = {
    "task_id": "a",
    "number": 1,
    "type": "kill",
    "datasource": "events",
    "group_id": "a",
    "context": {},
    "priority": 0,
    "slots": 1,
    "dependencies": [],
    "waits_for": [],
    "retry": {"limit": 3, "delay_ms": 1, "longest_delay_ms": 1},
    "failures": 0,
    "attempts": 0,
    "state": "pending",
    "wakes_at": None,
    "created_at": "2014-01-01T00:00:00.000Z",
    "changed_at": "2014-01-01T00:00:00.000Z",
    "started_at": None,
    "finished_at": None,
    "error": None,
}


def client_of(answer: httpx.Response | Callable[[httpx.Request], httpx.Response]) -> OverlordClient:
    """A client of a server that answers so."""
    handler = answer if callable(answer) else lambda _: answer
    return OverlordClient("http://one", FakeClock(), transport=httpx.MockTransport(handler))


def calls(client: OverlordClient) -> Iterator[Callable[[], object]]:
    """Everything that a client can be asked for."""
    yield lambda: client.submit({"type": "kill"})
    yield lambda: client.get("a")
    yield client.list
    yield lambda: client.attempts("a")
    yield lambda: client.payload("a")
    yield lambda: client.report("a")
    yield lambda: client.cancel("a")
    yield client.leader


def says(call: Callable[[], object]) -> None:
    """Whatever is answered, a call returns or says in one printable sentence why not."""
    said = ""
    try:
        call()
    except CarnacError as error:
        said = error.message
    assert said.isprintable()
    assert len(said) < 3_000


@given(body=st.binary(max_size=20) | values.map(as_json), status=st.sampled_from((200, 404, 500)))
def test_whatever_a_server_answers_is_one_sentence(body: bytes, status: int) -> None:
    client = client_of(lambda _: httpx.Response(status, content=body))
    for call in calls(client):
        says(call)
    says(lambda: client.log("a"))


@given(data=st.data())
def test_a_part_of_an_answer_that_is_wrong_is_one_sentence(data: st.DataObject) -> None:
    whole = {"task": WHOLE, "tasks": [WHOLE], "attempts": [], "leader": None, "report": {}}
    place = data.draw(st.sampled_from(list(places(whole))))
    body = as_json(replaced(whole, place, data.draw(values)))
    assert client_of(httpx.Response(200, json=whole)).get("a").task_id == "a"
    for call in calls(client_of(lambda _: httpx.Response(200, content=body))):
        says(call)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            httpx.Response(200, text="<html>"),
            "is no overlord of this version: the answer is not valid JSON",
        ),
        (httpx.Response(200, json=[]), "is not an object"),
        (httpx.Response(200, json={}), "its answer has no 'task'"),
        (httpx.Response(200, content=b"[" * 10_000), "nested deeper than"),
        (
            httpx.Response(
                200, stream=httpx.ByteStream(b"{}"), headers={"content-encoding": "gzip"}
            ),
            "no overlord",
        ),
        (httpx.Response(200, json={"task": {**WHOLE, "number": "1"}}), "got `str` - at `$.number`"),
        (httpx.Response(200, json={"task": {**WHOLE, "error": "\x1b[2J"}}), "a control character"),
        (httpx.Response(302, headers={"location": "http://one/"}), "no overlord"),
        (httpx.Response(302, headers={"location": "file:///etc/passwd"}), "no overlord"),
        (httpx.Response(500, json={"error": "\x1b[2J", "errorClass": "x", "context": {}}), "x1b"),
    ],
)
def test_what_is_wrong_with_an_answer_is_told(answer: httpx.Response, words: str) -> None:
    with pytest.raises(CarnacError) as caught:
        client_of(answer).get("a")
    assert words in caught.value.message
    assert caught.value.message.isprintable()


def test_an_order_goes_to_no_other_address_than_it_was_given() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url}")
        assert request.headers["content-type"] == "application/json"
        return httpx.Response(307, headers={"location": "http://evil.example.com/"})

    with pytest.raises(Unavailable):
        client_of(handler).cancel("a")
    assert asked == ["POST http://one/druid/indexer/v1/task/a/shutdown"]


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b"[" * (1 << 20)

    client = client_of(lambda _: httpx.Response(200, stream=Endless()))
    for call in (lambda: client.get("a"), lambda: client.log("a")):
        with pytest.raises(Unavailable, match="does not come to an end"):
            call()


def test_an_id_that_is_none_is_not_asked_for() -> None:
    client = client_of(lambda request: pytest.fail(str(request.url)))
    for task_id in ("a\0b", "a\nb", "\ud800"):
        with pytest.raises(Invalid):
            client.get(task_id)
