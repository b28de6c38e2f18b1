"""An S3 in this process."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    import s3fs

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@contextmanager
def run_object_store() -> Iterator[str]:
    """Run moto's server; yield its URL. Later servers of the process hold the same objects."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def named_object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3fs.S3FileSystem]:
    """Run one that the environment names, as it would name a real one; yield its files."""
    import s3fs

    with run_object_store() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        yield s3fs.S3FileSystem()
        s3fs.S3FileSystem.clear_instance_cache()


class Front(ThreadingHTTPServer):
    """A server in front of an object store that hands on requests, and their answers as long as it has no fault.

    Attributes:
        fault: What becomes of requests for segment files: None: nothing; `denied`: an answer that is an error;
            `closed`: no answer; `cut`: half of the bytes that are asked for.
    """

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(behind).netloc
        self.fault: Literal["denied", "closed", "cut"] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"  # a client waits to be asked for what it puts

    def handle_one(self) -> None:
        """Hand a request on, unless there is a fault."""
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        self.close_connection = True
        fault = self.server.fault if ".parquet" in self.path else None
        if fault == "closed":
            return
        if fault == "denied":
            self._answer(403, {}, b"" if self.command == "HEAD" else DENIED)
            return
        with closing(http.client.HTTPConnection(self.server.behind)) as link:
            link.request(self.command, self.path, body, dict(self.headers))
            found = link.getresponse()
            headers = dict(found.getheaders())
            data = found.read()
        is_cut = fault == "cut" and self.command == "GET"
        self._answer(found.status, headers, data[: len(data) // 2] if is_cut else data)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            if name.lower() not in {"server", "date", "connection"}:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one  # noqa: N815 - names of the server's


@contextmanager
def run_front(behind: str) -> Iterator[Front]:
    """Run a server in front of an object store."""
    with Front(behind) as front:
        thread = threading.Thread(target=front.serve_forever)
        thread.start()
        try:
            yield front
        finally:
            front.shutdown()
            thread.join()
