"""A request of HTTP/1.1 and its answer, as an application of ASGI sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from carnac.api.problems import shown_path

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope
    from uvicorn.protocols.http.flow_control import FlowControl

Headers = list[tuple[bytes, bytes]]

BODY_HELD_MAX_BYTES = 64 << 10
"""As much of a body waits here for its reader; then the client waits."""
_TRAILERS = "carnac_trailers"
"""Under which name the state of a request has the trailers of its answer."""
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_log = logging.getLogger(__name__)
_access = logging.getLogger("uvicorn.access")


class Exchange:
    """A request and its answer.

    Args:
        scope: The request, as ASGI has it.
        transport, flow: Where the answer goes, and whether the client takes it.
        is_kept: Whether the client goes on with the connection afterwards.
        default_headers: Headers of every answer.
        on_read: Called when the pieces of its body that have come are read.
        on_over: Called when it is answered, or will never be.

    Attributes:
        is_whole: All of its body has come.
        is_started: A part of its answer was written.
        is_over: It is answered, or nobody waits for that.
        is_kept: The connection goes on after it.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        transport: asyncio.Transport,
        flow: FlowControl,
        is_kept: bool,
        default_headers: Headers,
        is_logged: bool,
        on_read: Callable[[], None],
        on_over: Callable[[], None],
    ) -> None:
        self.is_whole = self.is_started = self.is_over = False
        self.is_kept = is_kept
        self._scope = scope
        self._trailers: Headers = []
        scope["state"] = {_TRAILERS: self._trailers}
        self._transport = transport
        self._flow = flow
        self._default_headers = default_headers
        self._is_logged = is_logged
        self._on_read = on_read
        self._on_over = on_over
        self._body = bytearray()
        self._is_read = False
        self._news = asyncio.Event()
        self._is_awaited = scope["http_version"] == "1.1" and any(
            name == b"expect" and value.lower() == b"100-continue"
            for name, value in scope["headers"]
        )
        self._start: Message = {}
        self._is_chunked = False

    def take(self, piece: bytes) -> None:
        """Take a piece of the body."""
        if self.is_over:
            return
        self._is_awaited = False
        self._body += piece
        if len(self._body) > BODY_HELD_MAX_BYTES:
            self._flow.pause_reading()
        self._news.set()

    def end(self) -> None:
        """Note that the body is whole."""
        self.is_whole = True
        self._is_awaited = False
        self._news.set()

    def leave(self) -> None:
        """Note that nobody waits for the answer."""
        self.is_over = True
        self._news.set()

    async def run(self, app: ASGIApp) -> None:
        """Have it answered."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception as error:
            if not self.is_over:
                _log.error("%s: broken off", shown_path(self._scope), exc_info=error)
        finally:
            # without the end of the answer, so that no client takes a part for the whole
            if not self.is_over:
                self.is_kept = False
                self._close()

    async def receive(self) -> Message:
        """Return the next piece of the body, or that nobody waits for the answer any more."""
        while not self.is_over:
            if self._body or (self.is_whole and not self._is_read):
                self._is_read = self.is_whole
                piece, self._body = bytes(self._body), bytearray()
                self._on_read()
                return {"type": "http.request", "body": piece, "more_body": not self.is_whole}
            if self._is_awaited:
                self._is_awaited = False
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._news.clear()
            await self._news.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Write a part of the answer; its head goes with the first piece of its body."""
        if self._flow.write_paused and not self.is_over:
            await self._flow.drain()
        if self.is_over:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        has_more = message.get("more_body", False)
        head = b"" if self.is_started else self._head()
        self._transport.write(head + self._framed(message.get("body", b""), has_more=has_more))
        if not has_more:
            self._close()

    def _close(self) -> None:
        self.leave()
        self._on_over()

    def _head(self) -> bytes:
        """Return status and headers."""
        self.is_started = True
        status, headers = self._start["status"], [*self._default_headers, *self._start["headers"]]
        if self._is_awaited:
            self.is_kept = False  # whether the body still comes nobody knows
        if not any(name == b"content-length" for name, _ in headers) and self._has_body(status):
            self._is_chunked = self._scope["http_version"] == "1.1"
            if self._is_chunked:
                headers.append((b"transfer-encoding", b"chunked"))
            else:
                self.is_kept = False
        if not self.is_kept:
            headers.append((b"connection", b"close"))
        if self._is_logged:
            self._log_access(status)
        return _status_line(status) + _lines(headers)

    def _has_body(self, status: int) -> bool:
        return status not in _BODILESS and self._scope["method"] != "HEAD"

    def _framed(self, body: bytes, *, has_more: bool) -> bytes:
        if self._scope["method"] == "HEAD":
            return b""
        if not self._is_chunked:
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk if has_more else b"%b0\r\n%b" % (chunk, _lines(self._trailers))

    def _log_access(self, status: int) -> None:
        scope, query = self._scope, self._scope["query_string"].decode("ascii", "replace")
        _access.info(
            '%s - "%s %s HTTP/%s" %d',
            ":".join(map(str, scope["client"] or ())),
            scope["method"],
            f"{shown_path(scope)}?{query}" if query else shown_path(scope),
            scope["http_version"],
            status,
        )


@lru_cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


def _lines(headers: Headers) -> bytes:
    """Return headers as they are sent, with the empty line at their end.

    Raises:
        ValueError: One of them holds the end of a line.
    """
    text = b"".join([b"%b: %b\r\n" % header for header in headers])
    if not text.count(b"\r") == text.count(b"\n") == len(headers):
        raise ValueError("a header holds the end of a line")
    return text + b"\r\n"


def trailers_of(scope: Mapping[str, Any]) -> Headers | None:
    """Return the list to which trailers of a chunked answer are added before its end; None: it can have none."""
    if scope.get("http_version") != "1.1":
        return None
    found: Headers | None = scope.get("state", {}).get(_TRAILERS)
    return found
