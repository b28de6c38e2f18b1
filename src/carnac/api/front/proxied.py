"""`/proxy…`: how Druid's web console asks an overlord and a coordinator through a router.

The console shows tasks, rules, compaction and services only where `/proxy/enabled` is answered, and sends all that it
asks to one address. So a process that has both roles says that it is such a router; one that lacks a role refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

BEGINNINGS: Mapping[str, str] = {
    "/proxy/overlord": "/druid/indexer/v1/",
    "/proxy/coordinator": "/druid/coordinator/v1/",
}
"""Paths before those of a role, and where the paths of the role begin."""


def find_proxied(paths: Collection[str]) -> tuple[str, ...]:
    """Return what stands before paths of the roles that a process has.

    Args:
        paths: All that it answers.
    """
    return tuple(
        before
        for before, own in BEGINNINGS.items()
        if any(path.startswith(own) for path in paths)
    )  # fmt: skip


def make_router() -> APIRouter:
    """Return the route of a process that has both roles."""
    router = APIRouter(prefix="/proxy", tags=["service"])

    @router.get("/enabled", summary="Return true: this process is overlord and coordinator in one")
    def enabled() -> dict[str, bool]:
        return {"enabled": True}

    return router


class Proxied:
    """Takes `/proxy/overlord/status` for `/status` where the overlord is this process, and so for coordinators."""

    def __init__(self, app: ASGIApp, befores: Collection[str]) -> None:
        self._app = app
        self._befores = tuple(f"{before}/" for before in befores)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        if scope["type"] == "http" and scope["path"].startswith(self._befores):
            before = next(one for one in self._befores if scope["path"].startswith(one))
            scope = {**scope, "path": scope["path"][len(before) - 1 :]}
        await self._app(scope, receive, send)
