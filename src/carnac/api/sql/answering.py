"""The answer to a request for SQL: a failure before the first row has a status, and rows stream.

A short answer is sent whole, with all its facts in headers. The headers of a long answer hold the facts that are known
before its rows; trailers hold those that are known only at their end. If a long answer fails on its way, the connection
is closed without the end of the body, so that no client takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from carnac.api.exchange import trailers_of
from carnac.api.sql.errors import Failure, failure_of
from carnac.api.sql.facts import ids_of, mark_of, said_first, said_last, same_etag, unmarked
from carnac.api.sql.runs import Run
from carnac.errors import Cancelled, CarnacError, Unavailable
from carnac.ports.threads import GRACE_MS, DaemonThreads, outlived

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from carnac.api.sql.requests import SqlRequest
    from carnac.broker import Broker
    from carnac.ports.answers import AnswerFacts

T = TypeVar("T")
Headers = Iterable[tuple[str, str]]

WHOLE_MAX_BYTES = 256 << 10
"""An answer of at most so many bytes is sent whole."""
PIECE_BYTES = 64 << 10
"""A longer one is sent in pieces of about this size."""
UNWATCHED_S = 0.05
"""Statements that take no longer run without checks whether their client is still there."""
_ENDING = Unavailable("this server ends, and the query was stopped; ask again, or another one")
_log = logging.getLogger(__name__)


class SqlAnswer(Response):
    """Runs a statement when it is to be sent.

    Args:
        threads: Threads that wait for the service.
        if_none_match: As the client sent it.
        run: Of a request that is more than a statement.
        mark: Of the form that this run gives the rows (`facts.mark_of`).
    """

    def __init__(
        self,
        service: Broker,
        request: SqlRequest,
        *,
        threads: DaemonThreads,
        media_type: str,
        if_none_match: str | None,
        run: Run | None = None,
        mark: str = "",
    ) -> None:
        self.background = None
        self._is_started = False
        self._watcher: asyncio.Task[None] | None = None
        self._threads = threads
        self._request = request
        self._limit_ms = service.limit_ms(request.statement)
        self._type = media_type
        self._mark = mark or mark_of(media_type, request)
        self._if_none_match = unmarked(if_none_match, self._mark)
        self._run = run or Run(service, request, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run it, and send what comes; stop it if the client leaves, the server ends, or its time is over."""
        loop = asyncio.get_running_loop()
        watching = loop.call_later(UNWATCHED_S, self._begin_to_watch, receive)
        try:
            async with asyncio.timeout(
                (self._limit_ms + GRACE_MS) / 1000 if self._limit_ms else None
            ):
                await self._answer(scope, send)
        except TimeoutError:
            await self._give_up(send)
        except asyncio.CancelledError:  # the server ends, and has waited as long as it does
            if not self._is_started:
                await _send_failure(send, failure_of(_ENDING), ids_of(self._request))
        finally:
            watching.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
            if not self._run.is_over:
                self._leave()

    async def _in_thread(self, do: Callable[[], T]) -> T:
        """Have a thread do what may take long; if the server ends meanwhile, nobody waits for the thread."""
        return await asyncio.wrap_future(self._threads.submit(do))

    async def _give_up(self, send: Send) -> None:
        error = outlived(self._limit_ms)
        self._log(error, "")
        if not self._is_started:
            await _send_failure(send, failure_of(error), ids_of(self._request))

    def _begin_to_watch(self, receive: Receive) -> None:
        self._watcher = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        """Have it stopped, which may take as long as one function does."""
        self._threads.submit(self._run.leave)

    async def _answer(self, scope: Scope, send: Send) -> None:
        try:
            facts, body, has_more = await self._in_thread(self._begin)
        except CarnacError as error:
            failure = failure_of(error)
            if failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._log(error, "")
            await _send_failure(send, failure, ids_of(self._request))
            return
        if facts is None:
            headers = [*ids_of(self._request), *same_etag(self._if_none_match, self._mark)]
            await _send(send, HTTPStatus.NOT_MODIFIED, headers, b"")
            return
        if has_more:
            await self._stream(scope, send, facts, body)
            return
        self._is_started = True
        headers = [*self._first(facts), *said_last(facts)]
        await _send(send, HTTPStatus.OK, headers, body)

    def _begin(self) -> tuple[AnswerFacts | None, bytes, bool]:
        """Have it run up to its first rows: a short answer occupies one thread once."""
        facts = self._run.open(self._if_none_match)
        return (None, b"", False) if facts is None else (facts, *self._run.take(WHOLE_MAX_BYTES))

    def _first(self, facts: AnswerFacts) -> list[tuple[str, str]]:
        return [
            *ids_of(self._request),
            ("Content-Type", self._type),
            *said_first(facts, self._mark),
        ]

    def _log(self, error: CarnacError, what: str) -> None:
        # clients may cancel a query or leave: no operator has to look at that
        level = logging.INFO if isinstance(error, Cancelled) else logging.ERROR
        _log.log(level, "query %s%s: %s", self._request.statement.query_id, what, error.message)

    async def _stream(self, scope: Scope, send: Send, facts: AnswerFacts, body: bytes) -> None:
        self._is_started = True
        trailers = trailers_of(scope)
        headers = self._first(facts)
        if trailers is not None:
            headers.append(("Trailer", ", ".join(name for name, _ in said_last(facts))))
        await send(_start(HTTPStatus.OK, headers))
        has_more = True
        while has_more:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            try:
                body, has_more = await self._in_thread(lambda: self._run.take(PIECE_BYTES))
            except CarnacError as error:
                self._log(error, " broke off amid its answer")
                return  # without the end of the body
        if trailers is not None:
            trailers.extend(_encoded(said_last(facts)))
        await send({"type": "http.response.body", "body": body, "more_body": False})


class FailedAnswer(Response):
    """Says what is wrong with a request, as Druid does."""

    def __init__(self, error: CarnacError) -> None:
        failure = failure_of(error)
        super().__init__(
            json.dumps(failure.body, ensure_ascii=False),
            status_code=failure.status,
            headers=dict(failure.headers),
            media_type="application/json",
        )


async def _send_failure(send: Send, failure: Failure, headers: Headers) -> None:
    body = json.dumps(failure.body, ensure_ascii=False).encode()
    said = [("Content-Type", "application/json"), *failure.headers.items(), *headers]
    await _send(send, failure.status, said, body)


async def _send(send: Send, status: HTTPStatus, headers: Headers, body: bytes) -> None:
    sized = [] if status is HTTPStatus.NOT_MODIFIED else [("Content-Length", str(len(body)))]
    await send(_start(status, [*headers, *sized]))
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _start(status: HTTPStatus, headers: Headers) -> dict[str, object]:
    return {
        "type": "http.response.start",
        "status": status.value,
        "headers": _encoded(headers),
    }


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]
