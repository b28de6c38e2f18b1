"""`config`: Druid's dynamic configuration, as far as a cluster here has what it means.

Servers are decommissioned through it as through `carnac servers decommission`. Throttles are settings of the process:
they are shown, and a client that changes one is told its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.coordinator.shapes import PREFIX
from carnac.core.texts import short
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView

NODES = "decommissioningNodes"
SETTINGS: Mapping[str, str] = {
    "maxSegmentsToMove": "moves_max",
    "maxSegmentsInNodeLoadingQueue": "load_queue_max",
    "replicationThrottleLimit": "load_replicas_max",
}
"""Druid's names of throttles, and ours."""
FIXED: Mapping[str, str] = {
    "pauseCoordination": "a coordinator is paused by stopping it: queries continue",
    "smartSegmentLoading": "throttles are settings here",
}
"""Settings of Druid's that are always false, and why."""


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["servers"])

    @router.get(
        "/config",
        summary="Return the servers that are decommissioned, and the throttles, which are settings of this process",
    )
    def config() -> dict[str, Any]:
        return _config(view)

    @router.post(
        "/config",
        summary="Set which servers are decommissioned; a throttle may be given as it is",
        openapi_extra=body_shown("object", {NODES: ["10.0.0.7:8083"]}),
    )
    def put_config(body: JsonObject) -> Response:
        _check(body, _config(view))
        nodes = body.get(NODES)
        if nodes is not None:
            view.decommission_all(_names(nodes))
        return Response(media_type="application/json")

    return router


def _config(view: ClusterView) -> dict[str, Any]:
    limits = view.throttles()
    return {
        "maxSegmentsToMove": limits.moves.max_moves,
        "maxSegmentsInNodeLoadingQueue": limits.loads.max_queue,
        "replicationThrottleLimit": limits.loads.max_replicas,
        NODES: view.decommissioned(),
        **dict.fromkeys(FIXED, False),
    }


def _check(body: Mapping[str, object], current: Mapping[str, object]) -> None:
    """Check that nothing is to be changed but the servers that are decommissioned; null is as it is."""
    for name, value in body.items():
        if name not in current:
            raise Invalid(
                f"the dynamic configuration has no {short(name)} here; it has {', '.join(current)}"
            )
        if name == NODES or value is None or value == current[name]:
            continue
        if name in SETTINGS:
            setting = SETTINGS[name]
            raise Invalid(
                f"{name} is {current[name]}, by the setting {setting}: start the coordinators again with "
                f"CARNAC_{setting.upper()}={short(value)}"
            )
        raise Invalid(f"{name} is always false: {FIXED[name]}")


def _names(nodes: object) -> Sequence[str]:
    if not isinstance(nodes, list) or not all(isinstance(one, str) for one in nodes):
        raise Invalid(f"{NODES} must be a list of servers, as {PREFIX}/servers names them")
    return nodes
