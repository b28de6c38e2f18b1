"""HTTP/1.1 as clients speak it over a socket: whole, in pieces, one request behind another, and badly."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from carnac.api import protocol
from carnac.api.bodies import JsonObject
from carnac.api.exchange import BODY_HELD_MAX_BYTES, trailers_of
from carnac.api.gate import Gate
from carnac.api.hosts import Hosts
from carnac.api.problems import add_handlers
from carnac.api.protocol import HEAD_MAX_BYTES, PIPELINED_MAX, BoundedProtocol
from carnac.api.server import HttpServer
from tests.waiting import until

pytestmark = pytest.mark.http

HOST = b"Host: localhost\r\n"
CLOSE = b"Connection: close\r\n"
JSON = b"Content-Type: application/json\r\n"
POST = b"POST /body HTTP/1.1\r\n" + HOST + JSON
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
OBJECT = b'{"a": 1}'


class Gone:
    """Answers nothing until its client has left."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            self.seen.append("whole" if not message["more_body"] else "piece")
        self.seen.append("gone")


@pytest.fixture(scope="module")
def gone() -> Gone:
    return Gone()


@pytest.fixture(scope="module")
def server(gone: Gone) -> Iterator[HttpServer]:
    app = FastAPI()
    add_handlers(app)
    app.add_middleware(Gate, hosts=Hosts())

    @app.get("/headers")
    def headers(request: Request) -> dict[str, str]:
        return dict(request.headers)

    @app.post("/body")
    async def body(body: JsonObject, request: Request) -> list[object]:
        return [body, "x-late" in request.headers]

    @app.get("/pieces")
    def pieces(request: Request) -> StreamingResponse:
        trailers = trailers_of(request.scope)
        if trailers is not None:
            trailers.append((b"x-end", b"yes"))
        return StreamingResponse(iter([b"one", b"two"]))

    @app.get("/split")
    def split() -> Response:
        return Response(headers={"x-bad": "a\r\nset-cookie: b"})

    app.mount("/gone", gone)
    server = HttpServer("127.0.0.1", 0)
    server.start(app, has_access_log=True)
    yield server
    server.stop()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def say(server: HttpServer, *pieces: bytes) -> bytes:
    """Everything that comes after these pieces, until the server closes the connection."""
    data = b""
    with connect(server) as connection:
        for piece in pieces:
            connection.sendall(piece)
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def get(path: bytes, *more: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"".join(more) + b"\r\n"


def sized(body: bytes, *more: bytes, of: bytes = POST) -> bytes:
    return of + b"".join(more) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def body_of(answer: bytes) -> object:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


# --------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    "asked",
    [
        sized(OBJECT, CLOSE),
        sized(OBJECT, CLOSE, b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"),
        CHUNKED + CLOSE + b'\r\n1;a=b\r\n{\r\n7\r\n"a": 1}\r\n0\r\n\r\n',
        CHUNKED + CLOSE + b"\r\n8\r\n" + OBJECT + b"\r\n0\r\nX-Late: 1\r\nHost: evil\r\n\r\n",
        sized(OBJECT, of=POST.replace(b"HTTP/1.1", b"HTTP/1.0")),
        sized(OBJECT, CLOSE, of=POST.replace(b" /", b" http://localhost/")),
        b"\r\n" + sized(OBJECT, CLOSE, b"X-Spaced:  1 \t \r\nX-Empty:\r\n"),
    ],
    ids=["sized", "upgrade", "chunked", "trailers", "1.0", "absolute", "spaces"],
)
def test_a_body_is_read_whole_and_in_pieces(server: HttpServer, asked: bytes) -> None:
    for pieces in ([asked], [asked[at : at + 1] for at in range(len(asked))]):
        answer = say(server, *pieces)
        assert (statuses(answer), body_of(answer)) == ([200], [{"a": 1}, False])


def test_headers_are_what_was_sent(server: HttpServer) -> None:
    sent = b"X-Empty:\r\nX-Spaced: \t a b \t\r\nX-High: \xe9\r\n"
    found = body_of(say(server, get(b"/headers", sent, CLOSE)))
    assert isinstance(found, dict)
    assert (found["x-empty"], found["x-spaced"], found["x-high"]) == ("", "a b", "é")


def test_a_client_that_waits_to_be_told_is_told_to_go_on(server: HttpServer) -> None:
    expecting = b"Expect: 100-Continue\r\n"
    with connect(server) as connection:
        connection.sendall(sized(OBJECT, expecting)[: -len(OBJECT)])
        assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(OBJECT)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(sized(OBJECT, expecting))
        answer = connection.recv(1 << 16)
        assert statuses(answer) == [200], "it did not wait"
        assert b"connection: close" not in answer
    refused = say(server, POST.replace(JSON, b"") + expecting + b"Content-Length: 8\r\n\r\n")
    assert statuses(refused) == [415]
    assert b"connection: close" in refused, "whether its body comes nobody knows"


def test_requests_that_follow_one_another_are_answered_in_order(server: HttpServer) -> None:
    bodies = [b'{"n": %d}' % number for number in range(PIPELINED_MAX)]
    asked = b"".join(map(sized, bodies[:-1])) + sized(bodies[-1], CLOSE)
    for size in (len(asked), 999):
        answers = say(server, *(asked[at : at + size] for at in range(0, len(asked), size)))
        assert statuses(answers) == [200] * PIPELINED_MAX
        found = [part.split(b"\r\n\r\n")[1] for part in answers.split(b"HTTP/1.1 200 OK")[1:]]
        assert [json.loads(one)[0]["n"] for one in found] == list(range(PIPELINED_MAX))


def test_what_comes_before_nonsense_is_answered(server: HttpServer) -> None:
    asked, head = get(b"/headers"), CHUNKED + b"\r\n"
    for data in (asked * 2 + b"nonsense\r\n\r\n", asked * 2 + head + b"zz\r\n", asked * 2 + head):
        with connect(server) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answers = b""
            while piece := connection.recv(1 << 16):
                answers += piece
        assert statuses(answers)[:1] == [200]
    assert statuses(say(server, asked * 2 + b"nonsense\r\n\r\n")) == [200, 200]
    assert statuses(say(server, get(b"/headers", CLOSE) + asked)) == [200]
    answers = say(server, asked * 100)
    assert PIPELINED_MAX <= len(statuses(answers)) < 100
    assert answers.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET /headers HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET /headers\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"NONSENSE / HTTP/1.1\r\n" + HOST + b"\r\n",
        get(b"/headers", b"X-Folded: a\r\n b\r\n"),
        get(b"/headers", b"X-Spaced : a\r\n"),
        get(b"/headers", b"X-Bare: a\nHost: b\r\n"),
        sized(OBJECT, b"Content-Length: 8\r\n"),
        sized(OBJECT, b"Transfer-Encoding: chunked\r\n"),
        POST + b"Transfer-Encoding: gzip\r\n\r\n",
        CHUNKED + b"\r\n8;" + b"a" * 8 * HEAD_MAX_BYTES,
        CHUNKED + b"\r\n0\r\nx: " + b"a" * 8 * HEAD_MAX_BYTES,
        CHUNKED + b"\r\n0\r\n" + b"x: a\r\n" * HEAD_MAX_BYTES,
    ],
)
def test_what_is_not_http_1_1_is_refused(server: HttpServer, data: bytes) -> None:
    with connect(server) as connection:
        connection.settimeout(30)
        answer = b""
        try:
            connection.sendall(data)
            while piece := connection.recv(1 << 16):
                answer += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert statuses(answer) in ([400], [])
    assert len(data) > HEAD_MAX_BYTES or b"not a request of HTTP/1.1" in answer


def test_a_client_that_leaves_is_noticed_after_a_long_body(server: HttpServer, gone: Gone) -> None:
    gone.seen.clear()
    with connect(server) as connection:
        long = POST.replace(b"/body", b"/gone/")
        connection.sendall(sized(b" " * (4 * BODY_HELD_MAX_BYTES), of=long))
        until(lambda: "whole" in gone.seen, "the whole body")
    until(lambda: gone.seen[-1] == "gone", "that the client has left")


# ---------------------------------------------------------------------------------------- answers


def test_a_connection_is_used_again_and_closed_in_silence(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(get(b"/headers"))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HT")
    monkeypatch.setattr(protocol, "KEEP_ALIVE_S", 0.05)
    assert statuses(say(server, get(b"/headers"))) == [200]


def test_a_second_head_that_does_not_end_is_given_up(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_timeout_s", 0.2)
    with connect(server) as connection:
        connection.sendall(get(b"/headers"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HT")
        assert statuses(connection.recv(1 << 16)) == [408]


def test_an_answer_of_unknown_length_ends_as_its_version_can_say(server: HttpServer) -> None:
    chunked = say(server, get(b"/pieces", CLOSE))
    assert chunked.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\nx-end: yes\r\n\r\n")
    plain = say(server, b"GET /pieces HTTP/1.0\r\n" + HOST + b"\r\n")
    assert plain.endswith(b"connection: close\r\n\r\nonetwo")
    assert b"transfer-encoding" not in plain
    assert b"content-length" not in plain


def test_an_answer_to_head_has_no_body(server: HttpServer) -> None:
    head = b"HEAD /body HTTP/1.1\r\n" + HOST
    answers = say(server, head + b"\r\n" + head + CLOSE + b"\r\n")
    assert statuses(answers) == [405, 405]
    assert answers.endswith(b"\r\n\r\n")
    assert b"content-length: 0" not in answers


def test_no_header_of_an_answer_makes_two(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert b"set-cookie" not in say(server, get(b"/split", CLOSE))
    assert "a header holds the end of a line" in caplog.text


def test_each_request_is_a_line_where_that_is_wanted(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "uvicorn.access")
    assert httpx.get(f"{server.url}/headers?a=%41b").is_success
    [line] = [one.getMessage() for one in caplog.records if one.name == "uvicorn.access"]
    assert line.startswith("127.0.0.1:")
    assert line.endswith(' - "GET /headers?a=%41b HTTP/1.1" 200')
