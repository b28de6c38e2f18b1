"""`/carnac/v1/allocations`: places for segments, for the writers of these; and a small server with nothing else.

A Spark job without an overlord nearby serves its own executors: any process that reaches the metadata store can.
Requests that come together share a transaction: the queue of the metadata store sees to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from carnac.api.bodies import body_shown, read_list
from carnac.api.gate import Gate
from carnac.api.hosts import hosts_of
from carnac.api.problems import add_handlers
from carnac.api.server import HttpServer
from carnac.core.log.allocation_records import reply_to_json, request_from_json
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

PATH = "/carnac/v1/allocations"
REQUEST_LIMIT = 500
"""Places in one request; bounds how long other writers wait for it."""
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


def make_router(metadata: MetadataStore) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["allocation"])

    @router.post(
        PATH,
        summary="Keep places for segments; asked again, the answers are the same",
        response_model=list[dict[str, object]],
        openapi_extra=body_shown("array", _EXAMPLE),
    )
    async def allocate(request: Request) -> JSONResponse:
        body = await read_list(request)
        if len(body) > REQUEST_LIMIT:
            raise Invalid(
                f"{len(body)} places were asked for at once; ask for at most {REQUEST_LIMIT}"
            )
        wanted = [request_from_json(value) for value in body]
        replies = await run_in_threadpool(metadata.allocate, wanted)
        return JSONResponse([reply_to_json(reply) for reply in replies])

    @router.get(PATH, summary="Return the places that are kept and not published yet")
    def pending(
        owner: Annotated[
            str | None, Query(description="Only those of an attempt: `task/number`.")
        ] = None,
        datasource: Annotated[str | None, Query(description="Only those of a datasource.")] = None,
    ) -> list[dict[str, object]]:
        return [
            reply_to_json(one)
            for one in metadata.pending_segments(owner=owner, datasource=datasource)
        ]

    return router


def make_app(metadata: MetadataStore, *, host: str) -> FastAPI:
    """Return an application with these routes only, for a server that listens at `host`."""
    app = FastAPI(title="Carnac allocation", docs_url=None, redoc_url=None, openapi_url=None)
    add_handlers(app)
    app.add_middleware(Gate, hosts=hosts_of(host))
    app.include_router(make_router(metadata))
    return app


@contextmanager
def serve(metadata: MetadataStore, *, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve these routes from a thread until the block ends; yields the URL to ask.

    Args:
        host: As others reach this machine; the server listens on it alone, at a free port.

    Raises:
        Unavailable: The address cannot be listened on.
    """
    server = HttpServer(host, 0)
    server.start(make_app(metadata, host=host))
    try:
        yield f"{server.url}{PATH}"
    finally:
        server.stop()
