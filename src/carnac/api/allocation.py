"""`/carnac/v1/allocations`: places for segments, for those who write them; and a small server with nothing else.

A Spark job without an overlord nearby serves its own executors: any process that reaches the metadata store can.
Requests that come together go to the desk together, in one thread: one for each costs more than a place does.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Annotated, NamedTuple, Protocol

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import JSONResponse

from carnac.api.bodies import body_shown, read_list
from carnac.api.gate import Gate
from carnac.api.hosts import hosts_of
from carnac.api.problems import add_handlers
from carnac.api.protocol import limits_of_server
from carnac.api.server import make_listener
from carnac.core.log.allocation import AllocationReply, AllocationRequest, PendingSegment
from carnac.core.log.allocation_records import reply_to_json, request_from_json
from carnac.errors import Invalid, Unavailable

PATH = "/carnac/v1/allocations"
STOP_TIMEOUT_S = 10.0
GROUP_LIMIT = 500
"""Places that different clients ask for and that go to the desk together."""
WAITING_LIMIT = 2_000
"""Places that are asked for and not with the desk yet; who wants more is told to come again later."""
COMPANY_S = 0.001
"""How long a group waits for clients who were in the last one: the first of them is a moment before the others."""
_EXAMPLE = [
    {
        "datasource": "wikipedia",
        "at_ms": 1442016000000,
        "segment_granularity": "day",
        "sequence": "index_1_0",
        "previous_id": "",
        "owner": "index_1/1",
    }
]


class AllocationDesk(Protocol):
    """Places for segments, as `carnac.overlord.allocation.AllocationService` has them."""

    def allocate(self, requests: Sequence[AllocationRequest]) -> Sequence[AllocationReply]:
        """Return what becomes of each request, in order."""
        ...

    def pending(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> Sequence[PendingSegment]:
        """Return the places that are kept."""
        ...


def make_router(desk: AllocationDesk) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["allocation"])
    groups = Groups(desk)

    @router.post(
        PATH,
        summary="Keep places for segments; asked again, the answers are the same",
        response_model=list[dict[str, object]],
        openapi_extra=body_shown("array", _EXAMPLE),
    )
    async def allocate(request: Request) -> JSONResponse:
        body = await read_list(request)
        replies = await groups.allocate([request_from_json(value) for value in body])
        return JSONResponse([reply_to_json(reply) for reply in replies])

    @router.get(PATH, summary="Return the places that are kept and not published yet")
    def pending(
        owner: Annotated[
            str | None, Query(description="Only those of an attempt: `task/number`.")
        ] = None,
        datasource: Annotated[str | None, Query(description="Only those of a datasource.")] = None,
    ) -> list[dict[str, object]]:
        return [reply_to_json(one) for one in desk.pending(owner=owner, datasource=datasource)]

    return router


class _Asked(NamedTuple):
    """What one client asked for."""

    requests: Sequence[AllocationRequest]
    answer: asyncio.Future[Sequence[AllocationReply]]


class Groups:
    """Requests of many clients, handed on together; used by one event loop only.

    Attributes:
        waiting: Places that were asked for and are not with the desk yet.
    """

    def __init__(self, desk: AllocationDesk) -> None:
        self._desk = desk
        self._queue: deque[_Asked] = deque()
        self.waiting = 0
        self._last_size = 1
        self._work: asyncio.Task[None] | None = None
        self._company: asyncio.Future[None] | None = None

    async def allocate(self, requests: Sequence[AllocationRequest]) -> Sequence[AllocationReply]:
        """Return what becomes of each request, in order.

        Raises:
            Unavailable: Too many wait.
            CarnacError: As the desk.
        """
        if self.waiting and self.waiting + len(requests) > WAITING_LIMIT:
            raise Unavailable(f"{self.waiting} requests for places wait already; ask again later")
        loop = asyncio.get_running_loop()
        asked = _Asked(requests, loop.create_future())
        self._queue.append(asked)
        self.waiting += len(requests)
        if self._work is None:
            self._work = loop.create_task(self._hand_on())
        elif self._company is not None and len(self._queue) >= self._last_size:
            self._company.cancel()
        return await asked.answer

    async def _hand_on(self) -> None:
        """Ask the desk for group after group, until nobody waits."""
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                group = self._next_group()
                answers: list[Sequence[AllocationReply] | BaseException]
                try:
                    answers = await loop.run_in_executor(None, self._ask, group)
                except Exception as error:  # there is no thread to be had: who waits hears of it
                    answers = [error] * len(group)
                for asked, answer in zip(group, answers, strict=True):
                    if asked.answer.done():  # the client is gone
                        continue
                    if isinstance(answer, BaseException):
                        asked.answer.set_exception(answer)
                    else:
                        asked.answer.set_result(answer)
                await self._wait_for_company(loop)
        finally:
            self._work = None

    async def _wait_for_company(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until as many clients are here as were in the last group, but only a moment."""
        if self._last_size > 1:
            self._company = loop.create_future()
            await asyncio.wait([self._company], timeout=COMPANY_S)
            self._company = None

    def _next_group(self) -> list[_Asked]:
        group = [self._queue.popleft()]
        size = len(group[0].requests)
        while self._queue and size + len(self._queue[0].requests) <= GROUP_LIMIT:
            group.append(self._queue.popleft())
            size += len(group[-1].requests)
        self.waiting -= size
        self._last_size = len(group)
        return group

    def _ask(self, group: Sequence[_Asked]) -> list[Sequence[AllocationReply] | BaseException]:
        """Return an answer for each of a group; what is wrong with one is not told the others."""
        try:
            replies = self._desk.allocate([one for asked in group for one in asked.requests])
        except Invalid as error:
            if len(group) == 1:
                return [error]
            return [answer for asked in group for answer in self._ask([asked])]
        except Exception as error:
            return [error] * len(group)
        ends = list(accumulate(len(asked.requests) for asked in group))
        return [replies[start:end] for start, end in pairwise([0, *ends])]


def make_app(desk: AllocationDesk, *, host: str) -> FastAPI:
    """Return an application with these routes only, for a server that listens at `host`."""
    app = FastAPI(title="Carnac allocation", docs_url=None, redoc_url=None, openapi_url=None)
    add_handlers(app)
    app.add_middleware(Gate, hosts=hosts_of(host))
    app.include_router(make_router(desk))
    return app


@contextmanager
def serve(desk: AllocationDesk, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve these routes from a thread until the block ends; yields the URL to ask.

    Args:
        host: As others reach this machine; the server listens on it alone.
        port: 0: any free one.

    Raises:
        Unavailable: The address cannot be listened on.
    """
    import uvicorn

    try:
        listener = make_listener(host, port)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port} for allocation: {error.strerror}"
        ) from error
    app = make_app(desk, host=host)
    config = uvicorn.Config(app, access_log=False, **limits_of_server())
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="carnac-allocation", daemon=True
    )
    thread.start()
    try:
        bound_host, bound_port = listener.getsockname()[:2]
        yield f"http://{bound_host}:{bound_port}{PATH}"
    finally:
        server.should_exit = True
        thread.join(STOP_TIMEOUT_S)
        listener.close()
