"""`/status…`: how a process is."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter

import carnac
from carnac.errors import Unavailable

if TYPE_CHECKING:
    from carnac.ports.loops import Loop

DRUID_VERSION = "33.0.0"
"""The Druid whose API this is: clients decide by its version what to send, and refuse one before 0.14."""
PROPERTIES = {
    "druid.router.managementProxy.enabled": "true",
    "file.encoding": "UTF-8",
    "user.timezone": "UTC",
}
"""The properties of Druid's that clients look at; they are the same for every process."""


def make_router(loops: Sequence[Loop]) -> APIRouter:
    """Return the routes that load balancers and dashboards ask first.

    Args:
        loops: Loops that must turn for the process to be healthy.
    """
    router = APIRouter(prefix="/status", tags=["service"])

    def check() -> None:
        troubles = [loop.trouble for loop in loops if loop.trouble is not None]
        if troubles:
            raise Unavailable(f"{'; '.join(troubles)}; restart this process")

    @router.get("", summary="Return versions and memory")
    def status() -> dict[str, object]:
        return {
            "version": DRUID_VERSION,
            "carnacVersion": carnac.__version__,
            "modules": [],
            "memory": _memory(),
        }

    @router.get(
        "/health",
        summary="Return true: the process answers, and all its loops turn; else 503",
    )
    def health() -> bool:
        check()
        return True

    @router.get("/selfDiscovered", summary="Answer 200 if the process is healthy, else 503")
    @router.get("/selfDiscovered/status", summary="Return whether the process is there; else 503")
    def discovered() -> dict[str, bool]:
        check()
        return {"selfDiscovered": True}

    @router.get("/properties", summary="Return the properties of Druid that clients look at")
    def properties() -> dict[str, str]:
        return PROPERTIES

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
