"""Leadership: Druid's two paths, which overlords and coordinators answer alike."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from carnac.api.shapes import Leading
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView
    from carnac.overlord.tasks import TaskService


def make_router(
    prefix: str,
    what: str,
    *,
    tag: str,
    knows: TaskService | ClusterView,
    leads: Callable[[], bool],
) -> APIRouter:
    """Return the routes.

    Args:
        what: `overlord` or `coordinator`.
        knows: Service that knows which one leads.
        leads: Whether this one does.
    """
    router = APIRouter(prefix=prefix, tags=[tag])

    @router.get(
        "/leader",
        summary=f"Return the address of the {what} that leads",
        response_class=PlainTextResponse,
    )
    def leader() -> str:
        found = knows.leader()
        if found is None or not found.url:
            raise NotFound(f"no {what} has ever led here")
        return found.url

    @router.get(
        "/isLeader",
        summary=f"Say whether this {what} leads: 200 if it does, else 404",
        responses={HTTPStatus.NOT_FOUND: {"model": Leading}},
    )
    def is_leader(response: Response) -> Leading:
        is_it = leads()
        if not is_it:
            response.status_code = HTTPStatus.NOT_FOUND
        return Leading(leader=is_it)

    return router
