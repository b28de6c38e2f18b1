"""Whatever comes to an overlord is answered: no status of ours, one sentence in JSON, no traceback; tasks still start.

The routes are those that the application has: a new one is fuzzed without being named here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote_from_bytes, unquote

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from carnac.api.allocation import PATH
from carnac.api.page import operations
from carnac.core.texts import LINE_MAX
from scripts.docs.http_page import describe
from tests.hostile import as_json, numbers, places, replaced, scalars, texts, values
from tests.unit.api.conftest import Overlord, Submit

API = "/druid/indexer/v1"
JSON = "application/json"
ROUTES = [
    *((method, path) for method, path, _ in operations(describe())),
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
]
OF_BOTH = "/proxy/enabled"
"""A process answers it that is overlord and coordinator."""
OTHERS = (
    "/druid/v2", "/druid/coordinator", "/carnac/v1/coordinator", PATH, f"{API}/datasources/", OF_BOTH,
    "/iceberg",
)  # fmt: skip
"""How paths begin that a process with other roles answers."""
OVERLORDS = f"{API}/datasources/{{datasource}}/shutdownAllTasks"
OVERLORDS_SQL = ("/druid/v2/sql/task", "/druid/v2/sql/statements")
OWN = [
    route
    for route in ROUTES
    if route[1] == OVERLORDS
    or route[1].startswith(OVERLORDS_SQL)
    or not route[1].startswith(OTHERS)
]
"""The routes of an overlord."""
PARAMETERS = {
    (method, path): [str(one["name"]) for one in cast("list[Any]", operation.get("parameters", []))]
    for method, path, operation in operations(describe())
}
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW")
SPEC = {
    "dataSource": "events",
    "input": {"type": "inline", "data": '{"t": 1}'},
    "timestampSpec": {"column": "t", "format": "millis"},
    "dimensionsSpec": {"dimensions": ["a"]},
    "metricsSpec": [{"type": "count", "name": "n", "filter": "a = 'b'"}],
    "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "hour"},
    "transformSpec": {"transforms": [{"name": "b", "expression": "upper(a)"}], "filter": "b > 'A'"},
    "tuningConfig": {"partitionsSpec": {"type": "range", "partitionDimensions": ["a"]}},
}
DRUID = {
    "dataSchema": {
        "dataSource": "events",
        "timestampSpec": {"column": "t", "format": "auto"},
        "dimensionsSpec": {"dimensions": [{"type": "long", "name": "a"}]},
        "transformSpec": {"filter": {"type": "selector", "dimension": "a", "value": "1"}},
        "granularitySpec": {"intervals": ["2015-01-01/P1D"], "segmentGranularity": "DAY"},
    },
    "ioConfig": {
        "type": "index_parallel",
        "inputSource": {"type": "local", "baseDir": "/etc", "filter": "*"},
        "inputFormat": {"type": "csv", "columns": ["t", "a"]},
    },
}
CONTEXT = {
    "priority": 1,
    "slots": 1,
    "retries": 1,
    "retryDelayMs": 1,
    "taskLockType": "EXCLUSIVE",
    "taskLockTimeout": 1,
    "sparkConf": {"spark.driver.memory": "1g"},
}
GROUP = {"id": "g", "dataSource": "events", "kind": "merge", "interval": [0, 1], "segments": ["s"]}
LOCK = {
    "group_id": "g",
    "type": "append",
    "granularity": "segment",
    "priority": 1,
    "timeout_ms": 1,
    "lease_ms": 1,
}
SUPERVISOR = {
    "type": "kafka",
    "suspended": True,
    "spec": {
        "dataSchema": {"dataSource": "events", "timestampSpec": {"column": "t"}},
        "ioConfig": {
            "topic": "t",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "127.0.0.1:1", "sasl.jaas.config": "x"},
            "taskDuration": "PT1H",
        },
        "tuningConfig": {"type": "kafka", "maxParseExceptions": 1},
    },
}
PLACE = {
    "datasource": "events",
    "at_ms": 0,
    "segment_granularity": "day",
    "sequence": "s",
    "owner": "o",
}
INSERT = (
    """REPLACE INTO events OVERWRITE WHERE __time >= TIMESTAMP '2015-01-01' SELECT TIME_PARSE(t) AS __time """
    """FROM TABLE(EXTERN('{"type": "inline", "data": ""}', '{"type": "json"}')) (t VARCHAR) PARTITIONED BY DAY"""
)
BODIES: tuple[object, ...] = (
    {"type": "index_parallel", "spec": SPEC, "id": "i", "context": CONTEXT},
    {"type": "index_parallel", "spec": DRUID},
    {"type": "query_controller", "query": INSERT, "context": CONTEXT},
    {"query": INSERT, "context": CONTEXT},
    {
        "query": "SELECT k, ? AS p FROM events",
        "parameters": [{"type": "DATE", "value": "2015-01-01"}],
        "context": {**CONTEXT, "executionMode": "ASYNC", "rowsPerPage": 10, "sqlOuterLimit": 5},
        "resultFormat": "csv",
    },
    {"type": "compact", "dataSource": "events", "target": {"filter": "a = 1", "targetRows": 1}},
    {"type": "compact", "dataSource": "events", "groups": [GROUP], "context": CONTEXT},
    {"type": "compact", "dataSource": "events", "segments": ["s"], "dimensionsSpec": {}},
    {"type": "delete", "dataSource": "events", "interval": "2015/P1D", "where": "a = 1"},
    {"type": "kill", "dataSource": "events", "groupId": "g", "dependencies": ["a"]},
    {"type": "clean", "dataSource": "events", "interval": "2015/P1D"},
    SUPERVISOR,
    {"type": "index_kafka", "supervisor": SUPERVISOR, "group": 0},
    {"type": "kafka", "partitions": {"type": "end", "stream": "t", "partitionOffsetMap": {"0": 1}}},
    ["a"],
    [{"datasource": "events", "priority": 1, "intervals": ["2015/P1D"], "context": {}}],
    [PLACE],
    [{**PLACE, "lock": LOCK, "previous_id": "p", "lease_id": "l"}],
)
"""Bodies that mean something, of which a part is then replaced."""


@dataclass(frozen=True)
class Request:
    """What is sent."""

    method: str
    path: bytes
    query: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ((b"host", b"one"), (b"content-type", JSON.encode()))
    pieces: Sequence[bytes] = (b"",)


@dataclass
class Answer:
    """What comes back."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def bodies(draw: st.DrawFn, bases: Sequence[object] = BODIES) -> bytes:
    """Bodies: any value, one that means something with a part replaced, or no JSON."""
    kind = draw(st.sampled_from(("replaced", "replaced", "any", "bytes", "broken")))
    if kind == "any":
        return as_json(draw(values))
    if kind == "bytes":
        return draw(st.binary(max_size=30))
    base = draw(st.sampled_from(bases))
    place = draw(st.sampled_from(list(places(base))))
    data = as_json(replaced(base, place, draw(values)))
    return data[: draw(st.integers(0, len(data)))] if kind == "broken" else data


headers = st.lists(
    st.tuples(
        st.sampled_from(
            (
                b"host",
                b"origin",
                b"sec-fetch-site",
                b"content-type",
                b"content-length",
                b"accept",
                b"x-y",
            )
        ),
        st.binary(max_size=20) | texts.map(as_bytes),
    ),
    max_size=2,
)


@st.composite
def requests(draw: st.DrawFn, route: tuple[str, str], bases: Sequence[object] = BODIES) -> Request:
    """Requests of a route, most of them nearly right."""
    method, template = route
    path = as_bytes(template)
    for part in template.split("/"):
        if part.startswith("{"):
            value = draw(st.just("a") | texts)
            path = path.replace(part.encode(), quote_from_bytes(as_bytes(value), safe="").encode())
    declared = st.sampled_from([*PARAMETERS.get(route, ()), "x"])
    names = declared | declared | texts
    known = st.sampled_from(("2015-01-01_P1D", "events", "running", "kill", "1", "-1"))
    wanted = known | numbers.map(str) | scalars.map(str)
    pairs = draw(st.lists(st.tuples(names, wanted), max_size=3))
    query = b"&".join(
        b"=".join(quote_from_bytes(as_bytes(one), safe="/").encode() for one in pair)
        for pair in pairs
    )
    if not draw(st.integers(0, 9)):
        method = draw(st.sampled_from(METHODS))
    more = draw(headers) if not draw(st.integers(0, 4)) else []
    there = {name for name, _ in more}
    body = draw(bodies(bases)) if method != "GET" else b""
    cut = draw(st.integers(0, len(body)))
    return Request(
        method,
        path,
        query,
        [*(one for one in Request("", b"").headers if one[0] not in there), *more],
        [body[:cut], body[cut:]],
    )


class Door:
    """Calls an application as uvicorn does, on one event loop.

    Args:
        stays: Whether the client waits for the answer; else it is gone once it has sent all.
    """

    def __init__(self, app: FastAPI, runner: asyncio.Runner, *, stays: bool = False) -> None:
        self._app = app
        self._runner = runner
        self._stays = stays

    def send(self, request: Request) -> Answer:
        """Return the answer."""
        return self._runner.run(self._send(request))

    async def _send(self, request: Request) -> Answer:
        answer = Answer()
        pieces = list(request.pieces)

        async def receive() -> dict[str, object]:
            if not pieces and self._stays:
                await asyncio.get_running_loop().create_future()
            if not pieces:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": request.method,
            "path": unquote(request.path.decode("ascii")),
            "raw_path": request.path,
            "query_string": request.query,
            "root_path": "",
            "headers": list(request.headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8090),
        }
        await self._app(scope, receive, send)
        return answer


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


Ask = Callable[[Request], Answer]


@pytest.fixture
def ask(
    overlord: Overlord, submit: Submit, runner: asyncio.Runner, caplog: pytest.LogCaptureFixture
) -> Iterator[Ask]:
    """Send a request and hold the answer against the law; at the end the overlord still does its work."""
    caplog.set_level(logging.INFO)
    door = Door(overlord.app, runner)
    submit("a")
    overlord.start_next()
    overlord.finish("a", report='{"rows": 1}')

    def held(request: Request) -> Answer:
        caplog.clear()
        answer = door.send(request)
        assert 200 <= answer.status < 500, (request, answer)
        assert [one for one in caplog.records if one.exc_info or "\n" in one.getMessage()] == []
        assert len(caplog.records) <= 1, caplog.text
        if answer.status >= 400 and not request.path.endswith(b"/isLeader"):
            assert answer.headers["content-type"] == JSON, (request, answer)
            sentence = json.loads(answer.body)["error"]
            assert sentence.isprintable(), request
            assert 0 < len(sentence) <= LINE_MAX, request
        return answer

    yield held
    assert door.send(Request("GET", b"/status/health")).body == b"true"
    body = as_json({"type": "kill", "dataSource": "afterwards", "context": {"priority": 10_000}})
    task_id = json.loads(door.send(Request("POST", f"{API}/task".encode(), pieces=[body])).body)[
        "task"
    ]
    for task in overlord.tasks.list(limit=10_000):
        if task.task_id != task_id:
            overlord.tasks.cancel(task.task_id)
    assert overlord.start_next() == [task_id]


@pytest.mark.parametrize("route", [*OWN, ("GET", "/nowhere")], ids=" ".join)
@settings(
    suppress_health_check=[*HealthCheck], max_examples=max(5, settings.default.max_examples // 2)
)
@given(data=st.data())
def test_every_route_answers_whatever_comes(
    ask: Ask, overlord: Overlord, route: tuple[str, str], data: st.DataObject
) -> None:
    ask(data.draw(requests(route)))


@settings(suppress_health_check=[*HealthCheck])
@given(body=bodies())
@example(as_json([{**PLACE, "at_ms": 2**63 - 1}]))
@example(as_json([{**PLACE, "at_ms": -(2**63) + 1}]))
def test_bodies_of_all_kinds_are_answered_by_every_route_that_takes_one(
    ask: Ask, body: bytes
) -> None:
    for method, path in OWN:
        if method == "POST" and "{" not in path:
            ask(Request(method, path.encode(), pieces=[body]))


def test_every_number_has_bounds() -> None:
    """What a database keeps is not what Python reads."""
    for method, path, operation in operations(describe()):
        for one in cast("list[Any]", operation.get("parameters", [])):
            for kind in one["schema"].get("anyOf", [one["schema"]]):
                if kind.get("type") in {"integer", "number"}:
                    assert {"minimum", "maximum"} <= kind.keys(), f"{method} {path}: {one['name']}"


def test_all_routes_are_here(overlord: Overlord) -> None:
    described = set(overlord.app.openapi()["paths"])
    assert {path for _, path in OWN} == described | {"/", "/docs", "/openapi.json"}


@pytest.mark.parametrize(
    "number", ["-1", "0", "2147483648", str(2**63), str(-(2**63) - 1), "9" * 255]
)
def test_every_parameter_takes_or_refuses_every_number(ask: Ask, number: str) -> None:
    for method, path in OWN:
        for name in PARAMETERS.get((method, path), ()):
            if "{" + name + "}" in path:
                filled = path.replace("{" + name + "}", number)
                ask(Request(method, filled.encode()))
            else:
                filled = path.replace("{task_id}", "a")
                ask(Request(method, filled.encode(), f"{name}={number}".encode()))
