"""What does a coordinator answer over HTTP? Druid's paths below `/druid/coordinator/v1`, and our own for what goes on.

`datasources` tells what there is, `loading` whether it is loaded, `servers` which one holds what and what is to come,
`rules` which copies are wanted, `config` which servers are to be emptied, `orders` deletes, `lookups` sets names.
`shapes` has the objects that clients read.
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
