"""How does a coordinator answer over HTTP? Under Druid's paths below `/druid/coordinator/v1`, and our own for progress.

`datasources` shows the data, `loading` whether it is loaded, `servers` the segments that each server holds and will
load, `rules` the copies that are wanted, `config` the servers that are to be emptied. `orders` deletes, `lookups` sets
names. `shapes` has the objects that clients read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from carnac.api import leading
from carnac.api.coordinator import config, datasources, loading, orders, rules, servers
from carnac.api.coordinator.shapes import PREFIX

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView


def make_routers(view: ClusterView) -> list[APIRouter]:
    """Return the routes."""
    return [
        leading.make_router(
            PREFIX,
            "coordinator",
            tag="coordinator",
            knows=view,
            leads=lambda: view.is_leader,
        ),
        _activity(view),
        loading.make_router(view),
        datasources.make_router(view),
        servers.make_router(view),
        rules.make_router(view),
        config.make_router(view),
        orders.make_router(view),
    ]


def _activity(view: ClusterView) -> APIRouter:
    router = APIRouter(tags=["coordinator"])

    @router.get(
        "/carnac/v1/coordinator",
        summary="Say what the coordinator does: what is told, loading and why, how long still, and what keeps it",
    )
    def activity() -> dict[str, Any]:
        return view.activity()

    return router
