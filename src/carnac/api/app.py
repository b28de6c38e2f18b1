"""The HTTP application of an overlord."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

import carnac
from carnac.api import locks, own, status, tasks
from carnac.api.gate import Gate
from carnac.api.hosts import Hosts
from carnac.api.page import render_page
from carnac.api.problems import PROBLEM, add_handlers
from carnac.api.services import Services

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_DESCRIPTION = """\
The overlord of a store. What is below `/druid` has the paths, the names and the status codes of Apache Druid's
API, so that its clients work; what is below `/carnac` is Carnac's own. Errors are objects; `error` is one sentence.
There is no authentication: whoever reaches this address may submit, cancel and read tasks. Every request but GET
needs the header `Content-Type: application/json`, without a body too. Tasks read files below `http_input_roots` alone.
"""


def make_app(
    services: Services, routers: Iterable[APIRouter] = (), *, hosts: Hosts | None = None
) -> FastAPI:
    """Return the application.

    Args:
        hosts: The names under which it may be asked; None: those of the loopback interface.
        routers: Further ones, such as that of allocation.
    """
    app = FastAPI(
        title="Carnac overlord",
        version=carnac.__version__,
        description=_DESCRIPTION,
        docs_url=None,  # its pages load scripts from elsewhere; ours is below
        redoc_url=None,
        redirect_slashes=False,
    )
    add_handlers(app)
    app.add_middleware(TrailingSlashes)
    app.add_middleware(Gate, hosts=hosts or Hosts())
    for router in (
        tasks.make_router(services),
        locks.make_router(services.locks),
        status.make_router(services),
        own.make_router(services.tasks),
        *routers,
    ):
        app.include_router(router)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(render_page(app.openapi()))

    _describe_problems(app)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Let the description say how failures look here, in place of what the framework would answer."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        whole = describe()
        schemas = whole["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = PROBLEM
        reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
        for methods in whole["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = {
                    "description": "What is wrong, in one sentence.",
                    "content": {"application/json": reference},
                }
        return whole

    app.openapi = openapi  # type: ignore[method-assign]  # the framework's own way to do it


class TrailingSlashes:
    """Takes `/tasks/` for `/tasks`: some clients write it so, and do not repeat a POST that is redirected."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        if scope["type"] == "http" and scope["path"].endswith("/") and scope["path"] != "/":
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await self._app(scope, receive, send)
