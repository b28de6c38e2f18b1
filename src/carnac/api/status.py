"""How this process is: what load balancers and dashboards ask first."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence

from fastapi import APIRouter

import carnac
from carnac.api.services import Turns
from carnac.errors import Unavailable


def make_router(loops: Sequence[Turns]) -> APIRouter:
    """Return the routes.

    Args:
        loops: What must turn for the process to be healthy.
    """
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
        troubles = [loop.trouble for loop in loops if loop.trouble is not None]
        if troubles:
            raise Unavailable(f"{'; '.join(troubles)}; restart this process")
        return True

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
