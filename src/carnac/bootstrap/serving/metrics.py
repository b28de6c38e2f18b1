"""What every process that serves shows of itself: its version, its roles, whether its loops turn, memory and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client import Gauge, Info, ProcessCollector

import carnac

if TYPE_CHECKING:
    from carnac.api.services import Turns
    from carnac.bootstrap.serving.assembly import Assembly


def add(assembly: Assembly) -> None:
    """Add what all roles have in common, and the route; called when all roles are there."""
    from carnac.api.metrics import make_router

    registry = assembly.registry
    ProcessCollector(registry=registry)
    Info("carnac_process", "The version of this process.", registry=registry).info(
        {"version": carnac.__version__}
    )
    roles = Gauge("carnac_role", "1 for each role of this process.", ["role"], registry=registry)
    for role in assembly.roles:
        roles.labels(role.value).set(1)
    turning = Gauge(
        "carnac_loop_turning", "Whether a loop of this process turns.", ["loop"], registry=registry
    )
    for loop in assembly.loops:
        turning.labels(loop.name).set_function(_turns(loop))
    assembly.routers.append(make_router(registry))


def _turns(loop: Turns) -> Callable[[], float]:
    return lambda: float(loop.trouble is None)
