"""What does a coordinator answer over HTTP? Druid's paths below `/druid/coordinator/v1`, and our own for what goes on.

`datasources` tells what there is, `loading` whether it is loaded, `servers` who holds what and what is on its way,
`rules` which copies are wanted, `config` which servers are to be emptied, `orders` deletes, `leading` who leads.
`shapes` has the objects that clients read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.api.coordinator import config, datasources, leading, loading, orders, rules, servers

if TYPE_CHECKING:
    from fastapi import APIRouter

    from carnac.coordinator.view import ClusterView


def make_routers(view: ClusterView) -> list[APIRouter]:
    """Return the routes."""
    return [
        leading.make_router(view),
        loading.make_router(view),
        datasources.make_router(view),
        servers.make_router(view),
        rules.make_router(view),
        config.make_router(view),
        orders.make_router(view),
    ]
