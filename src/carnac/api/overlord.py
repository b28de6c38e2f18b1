"""The paths of an overlord: tasks, locks, and who leads."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from carnac.api import locks, own, tasks
from carnac.api.services import Services
from carnac.api.shapes import Leading
from carnac.api.tasks import PREFIX
from carnac.errors import NotFound


def make_routers(services: Services) -> list[APIRouter]:
    """Return the routes."""
    return [
        tasks.make_router(services),
        locks.make_router(services.locks),
        _leading(services),
        own.make_router(services.tasks),
    ]


def _leading(services: Services) -> APIRouter:
    router = APIRouter()

    @router.get(
        f"{PREFIX}/leader",
        tags=["leadership"],
        summary="Return the address of the overlord that leads",
        response_class=PlainTextResponse,
    )
    def leader() -> str:
        found = services.tasks.leader()
        if found is None or not found.url:
            raise NotFound("no overlord has ever led here")
        return found.url

    @router.get(
        f"{PREFIX}/isLeader",
        tags=["leadership"],
        summary="Say whether this overlord leads: 200 if it does, else 404",
        responses={HTTPStatus.NOT_FOUND: {"model": Leading}},
    )
    def is_leader(response: Response) -> Leading:
        leads = services.loop.is_leader
        if not leads:
            response.status_code = HTTPStatus.NOT_FOUND
        return Leading(leader=leads)

    return router
