"""The HTTP application of a process that serves: one door for all its roles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

import carnac
from carnac.api.avatica.routes import AVATICA_PATH
from carnac.api.front import proxied, status
from carnac.api.gate import Gate
from carnac.api.hosts import Hosts
from carnac.api.iceberg.errors import failed
from carnac.api.iceberg.routes import PREFIX as ICEBERG_PATH
from carnac.api.native.routes import NATIVE_PATH
from carnac.api.page import render_page
from carnac.api.problems import PROBLEM, Refused, add_handlers, problem_of
from carnac.api.sql.routes import SQL_PATH
from carnac.errors import CarnacError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from carnac.api.access import Access
    from carnac.ports.loops import Loop


_DESCRIPTION = """\
Paths below `/druid` are those of Apache Druid's API, with its names and status codes, so that its clients work. Paths
below `/carnac` are Carnac's own. Below `/iceberg` is a catalog of Apache Iceberg.

A store without users answers whoever reaches this address. One with users (`carnac users`) asks for a name and a
password (HTTP Basic), or for a bearer token. A user may `read`, `write` or, as `admin`, also set rules and
configurations.

A body needs the header `Content-Type: application/json`. An error is an object with one sentence that says what to do:
in `errorMessage`, below `/iceberg` in `error.message`. Tasks read files below `http_input_roots` alone.
"""


def make_app(
    routers: Iterable[APIRouter],
    *,
    loops: Sequence[Loop] = (),
    hosts: Hosts | None = None,
    access: Access | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        routers: Routes of the roles of the process.
        loops: Loops that must turn for the process to be healthy.
        hosts: The names under which it may be asked; None: those of the loopback interface.
        access: Tells who asks, and whether they may; None: everybody may.
    """
    app = FastAPI(
        title="Carnac",
        version=carnac.__version__,
        description=_DESCRIPTION,
        docs_url=None,  # its pages load scripts from elsewhere; ours is below
        redoc_url=None,
        redirect_slashes=False,
    )
    routers = [*routers, status.make_router(loops)]
    befores = proxied.find_proxied({route.path for one in routers for route in _routes(one)})
    if len(befores) == len(proxied.BEGINNINGS):
        routers.append(proxied.make_router())
    add_handlers(app)
    app.add_middleware(proxied.Proxied, befores=befores)
    app.add_middleware(TrailingSlashes)
    app.add_middleware(
        Gate,
        hosts=hosts or Hosts(),
        text_paths=[SQL_PATH],
        bytes_paths=[AVATICA_PATH],
        own_paths=[AVATICA_PATH],
        shortcuts={("POST", path): app for path, app in _shortcuts(routers)},
        access=access,
        forms={ICEBERG_PATH: failed},
    )
    for router in routers:
        app.include_router(router)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(render_page(app.openapi()))

    _describe_problems(app)
    return app


def _shortcuts(routers: Iterable[APIRouter]) -> Iterator[tuple[str, ASGIApp]]:
    """Yield what answers queries without the framework, whose way to the same function takes twice as long."""
    for route in (route for router in routers for route in _routes(router)):
        if route.path in {SQL_PATH, NATIVE_PATH}:
            yield route.path, _calling(route.endpoint)


def _routes(router: APIRouter) -> list[APIRoute]:
    return [route for route in router.routes if isinstance(route, APIRoute)]


def _calling(function: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await function(request)
        except (CarnacError, Refused) as error:
            response = await problem_of(request, error)
        await response(scope, receive, send)

    return answer


def _describe_problems(app: FastAPI) -> None:
    """Let the description say how failures look here, in place of what the framework would answer."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        whole = describe()
        components = whole.setdefault("components", {})  # a historical has none
        schemas = components.setdefault("schemas", {})
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
