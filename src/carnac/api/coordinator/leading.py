"""The leader, and its current work."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from carnac.api.coordinator.shapes import PREFIX
from carnac.api.shapes import Leading
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["coordinator"])

    @router.get(
        f"{PREFIX}/leader",
        summary="Return the address of the coordinator that leads",
        response_class=PlainTextResponse,
    )
    def leader() -> str:
        found = view.leader()
        if found is None or not found.url:
            raise NotFound("no coordinator has ever led here")
        return found.url

    @router.get(
        f"{PREFIX}/isLeader",
        summary="Say whether this coordinator leads: 200 if it does, else 404",
        responses={HTTPStatus.NOT_FOUND: {"model": Leading}},
    )
    def is_leader(response: Response) -> Leading:
        leads = view.is_leader
        if not leads:
            response.status_code = HTTPStatus.NOT_FOUND
        return Leading(leader=leads)

    @router.get(
        "/carnac/v1/coordinator",
        summary="Say what the coordinator does: what is told, loading and why, how long still, and what keeps it",
    )
    def activity() -> dict[str, Any]:
        return view.activity()

    return router
