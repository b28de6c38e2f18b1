"""HTTP/1.1 of the server: uvicorn's, with limits on connections, on heads, and on how slowly they may come."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from carnac.api.problems import body_of_problem

CONNECTIONS_MAX = 512
"""At a time; who comes later is told to come again."""
HEAD_TIMEOUT_S = 10.0
"""A head that is not whole by then, and a body that nobody reads, end their connection."""
HEAD_MAX_BYTES = 64 << 10
_TRAILERS = "carnac_trailers"
"""Under which name the state of a request has the trailers of its answer."""
_log = logging.getLogger(__name__)


class _Connection(h11.Connection):
    """Ends chunked answers with the trailers that somebody left here; uvicorn knows none over HTTP/1.1."""

    def __init__(self, our_role: Any, head_max_bytes: int) -> None:
        super().__init__(our_role, head_max_bytes)
        self.trailers: list[tuple[bytes, bytes]] = []

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        """Return the bytes of an event."""
        if isinstance(event, h11.EndOfMessage) and self.trailers:
            event = h11.EndOfMessage(headers=list(self.trailers))
            self.trailers.clear()
        return super().send(event)


class BoundedProtocol(H11Protocol):
    """One connection."""

    connections_max = CONNECTIONS_MAX
    head_timeout_s = HEAD_TIMEOUT_S
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.conn = _Connection(h11.SERVER, HEAD_MAX_BYTES)
        self.app_state = {**self.app_state, _TRAILERS: self.conn.trailers}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"there are {self.connections_max} connections already; ask again later",
            )
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._unwatch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no HTTP; the caller has logged it."""
        del msg
        self._refuse(
            HTTPStatus.BAD_REQUEST,
            f"this is not a request of HTTP/1.1, or its head is longer than {HEAD_MAX_BYTES} bytes",
            is_logged=True,
        )

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The request that came last; None if none has."""
        return self.cycle

    def _watch(self) -> None:
        """Give the client so long for what it owes: a head, or the rest of a body that nobody waits for."""
        is_answered = self._request is None or self._request.response_complete
        owes = self.conn.their_state in {h11.IDLE, h11.SEND_BODY} and is_answered
        if not owes or self.transport.is_closing():
            self._unwatch()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the request was not whole after {self.head_timeout_s:g} seconds",
        )

    def _refuse(self, status: HTTPStatus, message: str, *, is_logged: bool = False) -> None:
        """End the connection, with a sentence if no answer is under way."""
        self._unwatch()
        if self.transport.is_closing():
            return
        if not is_logged:
            _log.warning("%s: %s", self.client[0] if self.client else "a client", message)
        is_free = self._request is None or not self._request.response_started
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE} and is_free:
            body = json.dumps(body_of_problem(status, message, kind="refused")).encode()
            self.transport.write(_head(status, len(body)) + body)
        if self._request is not None:
            self._request.disconnected = True
        self.transport.close()


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
    return {
        "http": BoundedProtocol,
        "h11_max_incomplete_event_size": HEAD_MAX_BYTES,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
    }


def trailers_of(scope: Mapping[str, Any]) -> list[tuple[bytes, bytes]] | None:
    """Return the list to which trailers of a chunked answer are added before its end; None: it can have none."""
    if scope.get("http_version") != "1.1":
        return None
    found: list[tuple[bytes, bytes]] | None = scope.get("state", {}).get(_TRAILERS)
    return found
