"""HTTP/1.1 of the server: read by httptools, within limits on connections, on heads, and on how slowly they may come.

uvicorn accepts connections and ends them; this module reads and answers their requests.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import FlowControl

from carnac.api.exchange import Exchange, Headers
from carnac.api.problems import body_of_problem

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

CONNECTIONS_MAX = 512
"""At a time; a client that comes later is told to come again."""
HEAD_TIMEOUT_S = 10.0
"""A head that is not whole by then, and a body that nobody reads, end their connection."""
KEEP_ALIVE_S = 5.0
"""A connection of which nothing has come for so long after an answer is closed."""
HEAD_MAX_BYTES = 64 << 10
"""Of a head, of trailers and of what stands between chunks."""
PIPELINED_MAX = 32
"""Requests on a connection that have come before the first of them was answered; more are not read."""


class _Unreadable(Exception):
    """A head that httptools takes and we do not."""


_log = logging.getLogger(__name__)


class BoundedProtocol(asyncio.Protocol):
    """One connection."""

    connections_max = CONNECTIONS_MAX
    head_timeout_s = HEAD_TIMEOUT_S

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        del app_state  # of a lifespan, which is off
        self._config = config
        self._server = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = None  # None: no more is read
        self._target = b""
        self._headers: Headers = []
        self._reading: Exchange | None = None
        """Exchange whose body is arriving."""
        self._exchanges: deque[Exchange] = deque()
        """Exchanges that are not answered yet; the first of them is at work."""
        self._pending_bytes = 0
        """Bytes that have come since the last head, piece of a body or end."""
        self._free_since_s = self._loop.time()
        self._is_idle = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are too many."""
        self._transport = transport
        self._flow = FlowControl(transport)
        self._client = (transport.get_extra_info("peername") or ())[:2] or None
        self._address = (transport.get_extra_info("sockname") or ())[:2] or None
        self._parser = httptools.HttpRequestParser(self)
        self._look()
        self._server.connections.add(self)  # type: ignore[arg-type]  # it names its own protocols
        if len(self._server.connections) > self.connections_max:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"there are {self.connections_max} connections already; ask again later",
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        del exc
        self._server.connections.discard(self)
        self._timer.cancel()
        self._parser = None
        for exchange in self._exchanges:
            exchange.leave()
        self._flow.resume_writing()

    def shutdown(self) -> None:
        """End the connection when its requests so far are answered."""
        if self._exchanges:
            self._exchanges[-1].is_kept = False
        else:
            self._transport.close()

    def pause_writing(self) -> None:
        """Let answers wait until the client has read more."""
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        """Let answers go on."""
        self._flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        if self._parser is None or self._transport.is_closing():
            return
        self._is_idle = False
        self._pending_bytes += len(data)  # which each event sets to 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            is_wrong = True
        else:
            is_wrong = self._pending_bytes > HEAD_MAX_BYTES
        if is_wrong:
            self._refuse(
                HTTPStatus.BAD_REQUEST,
                f"this is not a request of HTTP/1.1, or its head is longer than {HEAD_MAX_BYTES} bytes",
            )

    # ------------------------------------------------------------------------- what httptools calls

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._target, self._headers = b"", []

    def on_url(self, piece: bytes) -> None:
        """Take a piece of the target."""
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are passed over."""
        if self._reading is None:
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Have a request answered, when those before it are."""
        parser = self._parser
        assert parser is not None  # noqa: S101 - it calls
        self._pending_bytes = 0
        method, version = parser.get_method(), parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self._headers)
        if method == b"CONNECT" or (version, hosts) not in {("1.0", 0), ("1.0", 1), ("1.1", 1)}:
            raise _Unreadable
        if parser.should_upgrade():
            return
        if len(self._exchanges) == PIPELINED_MAX:
            raise _Unreadable
        url = httptools.parse_url(self._target)
        path = url.path or b"/"
        self._reading = Exchange(
            {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.3"},
                "http_version": version,
                "server": self._address,
                "client": self._client,
                "scheme": "http",
                "method": method.decode("ascii"),
                "root_path": "",
                "path": unquote(path.decode("ascii")),
                "raw_path": path,
                "query_string": url.query or b"",
                "headers": self._headers,
            },
            transport=self._transport,
            flow=self._flow,
            is_kept=version == "1.1" and parser.should_keep_alive(),
            default_headers=self._server.default_headers,
            is_logged=self._config.access_log,
            on_read=self._read_on,
            on_over=self._go_on,
        )
        self._exchanges.append(self._reading)
        if len(self._exchanges) == 1:
            self._begin()
        else:
            self._flow.pause_reading()

    def on_body(self, piece: bytes) -> None:
        """Take a piece of a body."""
        self._pending_bytes = 0
        if self._reading is not None:
            self._reading.take(piece)

    def on_message_complete(self) -> None:
        """End a request."""
        self._pending_bytes = 0
        if self._reading is not None:
            self._reading.end()
            self._reading = None

    # --------------------------------------------------------------------------------- what follows

    def _pass_over_upgrade(self, rest: bytes) -> None:
        """Read a request again without its wish for another protocol, for which httptools would leave its body out."""
        assert self._parser is not None  # noqa: S101 - it has raised
        first = (self._parser.get_method(), self._target, self._parser.get_http_version().encode())
        headers = [b"%b: %b" % one for one in self._headers if one[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([b"%b %b HTTP/%b" % first, *headers, b"", rest]))

    def _begin(self) -> None:
        """Have the first one answered."""
        task = self._loop.create_task(self._exchanges[0].run(self._config.loaded_app))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _read_on(self) -> None:
        """Read what comes, unless more has come already than can be answered now."""
        if self._parser is not None and len(self._exchanges) <= 1:
            self._flow.resume_reading()

    def _go_on(self) -> None:
        """Go on after the first one, which is answered."""
        if self._transport.is_closing():
            return
        exchange = self._exchanges.popleft()
        if not exchange.is_kept:
            self._transport.close()
        elif self._exchanges:
            self._begin()
        else:
            self._free_since_s, self._is_idle = self._loop.time(), self._reading is None
        self._read_on()

    def _look(self) -> None:
        """End the connection if it has owed a head, or the rest of a body that nobody waits for, too long."""
        left_s = limit_s = KEEP_ALIVE_S if self._is_idle else self.head_timeout_s
        if not self._exchanges:
            left_s += self._free_since_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(min(left_s, KEEP_ALIVE_S), self._look)
        elif self._is_idle:
            self._transport.close()
        else:
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT, f"the request was not whole after {limit_s:g} seconds"
            )

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Read no more, and end the connection: after the answers to what came before, or else with a sentence."""
        _log.warning("%s: %s", self._client[0] if self._client else "a client", message)
        self._parser = None
        broken, self._reading = self._reading, None
        if broken is not None and not broken.is_over:
            self._exchanges.remove(broken)
            broken.leave()
        if self._exchanges:
            self._exchanges[-1].is_kept = False
            self._flow.pause_reading()
            return
        if broken is None or not broken.is_started:
            body = json.dumps(body_of_problem(status, message, kind="refused")).encode()
            self._transport.write(_head(status, len(body)) + body)
        self._transport.close()


def _head(status: HTTPStatus, size_bytes: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "content-type: application/json",
        f"content-length: {size_bytes}",
        "connection: close",
        "\r\n",
    )
    return "\r\n".join(lines).encode()


def limits_of_server() -> dict[str, Any]:
    """Return how uvicorn is told of these limits."""
    return {"http": BoundedProtocol, "ws": "none", "lifespan": "off", "log_config": None}
