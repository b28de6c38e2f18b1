"""Who leads, and how this process is: what load balancers and dashboards ask first."""

from __future__ import annotations

import os
import resource
import sys
from http import HTTPStatus

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

import carnac
from carnac.api.services import Services
from carnac.api.shapes import Leading
from carnac.api.tasks import PREFIX
from carnac.errors import NotFound, Unavailable


def make_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/status", tags=["service"], summary="Return version and memory")
    def status() -> dict[str, object]:
        return {"version": carnac.__version__, "modules": [], "memory": _memory()}

    @router.get(
        "/status/health",
        tags=["service"],
        summary="Return true: the process answers, and all its loops turn; else 503",
    )
    def health() -> bool:
        troubles = [loop.trouble for loop in services.loops if loop.trouble is not None]
        if troubles:
            raise Unavailable(f"{'; '.join(troubles)}; restart this overlord")
        return True

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


def _memory() -> dict[str, int]:
    """Return bytes, under Druid's names: the machine's memory, and the most that this process had of it."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {
        "maxMemory": most,
        "totalMemory": most,
        "freeMemory": max(0, most - used),
        "usedMemory": used,
        "directMemory": 0,
    }
