"""How the HTTP server of an overlord ends, and what clients cannot do to it that speak HTTP badly."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.bodies import JsonObject
from carnac.api.gate import BODY_MAX_BYTES, Gate
from carnac.api.hosts import Hosts
from carnac.api.problems import add_handlers
from carnac.api.protocol import HEAD_MAX_BYTES, BoundedProtocol
from carnac.api.server import HttpServer

pytestmark = pytest.mark.http


def test_nothing_that_a_request_does_outlives_the_server() -> None:
    app, entered, go_on, over = FastAPI(), threading.Event(), threading.Event(), threading.Event()

    @app.get("/")
    def work() -> None:
        entered.set()
        go_on.wait()
        over.set()

    server = HttpServer("127.0.0.1", 0, grace_s=0)
    server.start(app)
    asking = threading.Thread(target=_ask_in_vain, args=(server.url,))
    asking.start()
    entered.wait()
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    asking.join()  # it was cut off: the loop that waited for the work is about to end
    stopping.join(0.2)
    assert stopping.is_alive()
    go_on.set()
    stopping.join()
    assert over.is_set()
    server.stop()


_WITHOUT_FILES = """
import os, resource
from fastapi import FastAPI
from carnac.api.server import HttpServer
from carnac.errors import Unavailable

server = HttpServer("127.0.0.1", 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(os.dup(0), 32), 32))
try:
    server.start(FastAPI())
except Unavailable as error:
    print(error)
"""


def test_a_server_that_cannot_begin_says_so_and_does_not_run_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FILES],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert re.fullmatch(
        r"cannot answer at http://[\d.:]+: .*Too many open files.*\n", done.stdout
    ), done.stderr


def _ask_in_vain(url: str) -> None:
    with httpx.Client(timeout=60) as client:
        try:
            client.get(url)
        except httpx.TransportError:
            return


# ------------------------------------------------------------------------------- bad manners

POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Iterator[HttpServer]:
    """A server that takes objects; nothing is ever logged with a traceback."""
    caplog.set_level(logging.DEBUG)
    app = FastAPI()
    add_handlers(app)
    app.add_middleware(Gate, hosts=Hosts())

    @app.get("/")
    def look() -> bool:
        return True

    @app.post("/")
    def take(body: JsonObject) -> int:
        return len(body)

    server = HttpServer("127.0.0.1", 0)
    server.start(app)
    yield server
    assert httpx.get(server.url).json() is True, "it still answers"
    server.stop()
    assert [record.message for record in caplog.records if record.exc_info] == []


def open_socket(server: HttpServer) -> socket.socket:
    """A connection to a server."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def read_to_end(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        pass
    connection.close()
    return data


def is_problem(answer: bytes, status: int) -> bool:
    """Whether an answer has a status and says why in one sentence."""
    head, _, body = answer.partition(b"\r\n\r\n")
    said = json.loads(body)["error"]
    return head.startswith(b"HTTP/1.1 %d " % status) and bool(said) and "\n" not in said


def wait_for(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    """The lines with these words, as soon as there is one."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        found = [record.message for record in caplog.records if words in record.message]
        if found:
            return found
        threading.Event().wait(0.01)
    raise AssertionError(caplog.text)


def test_an_upload_that_breaks_off_is_one_line(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with open_socket(server) as connection:
        connection.sendall(POST + b"Content-Length: 1000\r\n\r\n" + b"{" * 10)
    assert wait_for(caplog, "left") == ["POST /: the client left after 10 bytes of the body"]


def test_a_chunked_body_is_refused_when_it_is_too_long(server: HttpServer) -> None:
    connection = open_socket(server)
    connection.sendall(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"10000\r\n" + b" " * (1 << 16) + b"\r\n"
    try:
        for _ in range(2 * BODY_MAX_BYTES >> 16):
            connection.sendall(piece)
        connection.sendall(b"0\r\n\r\n")
    except OSError:
        pass
    assert is_problem(read_to_end(connection), 413)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * 2 * HEAD_MAX_BYTES,
        b"GET /" + b"a" * 2 * HEAD_MAX_BYTES,
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_one_sentence(server: HttpServer, data: bytes) -> None:
    connection = open_socket(server)
    connection.sendall(data)
    assert is_problem(read_to_end(connection), 400)


def test_garbage_after_a_request_ends_the_connection_only(server: HttpServer) -> None:
    for data in (GET + b"garbage\r\n\r\n", GET + GET + b"\x00" * 100 + b"\r\n\r\n", GET * 3):
        connection = open_socket(server)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")
    upgrade = GET[:-2] + b"Upgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n"
    connection = open_socket(server)
    connection.sendall(upgrade)
    assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("said", [b"", b"GET / HT", POST + b"Content-Length: 9\r\n\r\n"])
def test_who_is_too_slow_is_cut_off(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_timeout_s", 0.05)
    monkeypatch.setattr("carnac.api.gate.BODY_TIMEOUT_S", 0.05)
    connection = open_socket(server)
    connection.sendall(said)
    assert is_problem(read_to_end(connection), 408)


def test_there_are_only_so_many_connections(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedProtocol, "connections_max", 2)
    held = [open_socket(server) for _ in range(2)]
    for one in held:  # until they are taken, and answered
        one.sendall(GET)
        assert one.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert is_problem(read_to_end(open_socket(server)), 503)
    for one in held:
        one.close()
    monkeypatch.undo()
