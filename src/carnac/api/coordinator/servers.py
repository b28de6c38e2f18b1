"""`servers`, `tiers`, `loadqueue`: the segments that each server holds, and those that are on their way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from carnac.api.coordinator.shapes import (
    PREFIX,
    Full,
    ServerName,
    Simple,
    TierName,
    data_segments,
    server_head,
)
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView, LoadingSegment, ServerState


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["servers"])
    _add_servers(router, view)
    _add_queues(router, view)
    return router


def _add_servers(router: APIRouter, view: ClusterView) -> None:
    @router.get("/servers", summary="List the servers that hold segments", response_model=None)
    def servers(simple: Simple = None, full: Full = None) -> list[Any]:
        found = view.servers()
        if full is not None:
            return [_with_segments(view, one) for one in found]
        return (
            [server_head(one) for one in found]
            if simple is not None
            else [one.name for one in found]
        )

    @router.get("/servers/{name}", summary="Return a server and what it has loaded")
    def server(name: ServerName, simple: Simple = None) -> dict[str, Any]:
        found = _find(view, name)
        return server_head(found) if simple is not None else _with_segments(view, found)

    @router.get(
        "/servers/{name}/segments", summary="List what a server has loaded", response_model=None
    )
    def segments(name: ServerName, full: Full = None) -> list[Any]:
        found = _segments_of(view, _find(view, name))
        return list(found.values()) if full is not None else list(found)

    @router.get("/tiers", summary="List tiers, or how full they are", response_model=None)
    def tiers(simple: Simple = None) -> Any:
        found: dict[str, dict[str, int]] = {}
        for one in view.servers():
            sums = found.setdefault(one.tier, {"currSize": 0, "maxSize": 0})
            sums["currSize"] += one.used_bytes
            sums["maxSize"] += one.capacity_bytes
        return found if simple is not None else sorted(found)

    @router.get("/tiers/{tier}", summary="List the datasources of which a tier has something")
    def tier(tier: TierName) -> list[str]:
        hosts = [one for one in view.servers() if one.tier == tier]
        return [
            info.name
            for info in view.datasources()
            if any(
                one.segment_id in host.loaded for one in view.segments(info.name) for host in hosts
            )
        ]


def _add_queues(router: APIRouter, view: ClusterView) -> None:
    @router.get("/loadqueue", summary="Say what each server is to load and to drop")
    def load_queue(simple: Simple = None, full: Full = None) -> dict[str, Any]:
        found = view.servers()
        if simple is not None:
            return {one.name: _queue_sums(one) for one in found}
        return {
            one.name: {
                "segmentsToLoad": [
                    _loading(item) if full is not None else item.segment_id for item in one.loading
                ],
                "segmentsToDrop": list(one.unloading),
            }
            for one in found
        }


def _queue_sums(server: ServerState) -> dict[str, int]:
    return {
        "segmentsToLoad": len(server.loading),
        "segmentsToDrop": len(server.unloading),
        "segmentsToLoadSize": sum(one.size_bytes for one in server.loading),
        "segmentsToDropSize": 0,
        "expectedLoadTimeMillis": server.left_ms or 0,
    }


def _loading(item: LoadingSegment) -> dict[str, Any]:
    return {
        "segmentId": item.segment_id,
        "dataSource": item.datasource,
        "size": item.size_bytes,
        "reason": item.why,
        "since": item.since_ms,
    }


def _find(view: ClusterView, name: str) -> ServerState:
    for one in view.servers():
        if name in {one.name, one.server_id}:
            return one
    known = ", ".join(one.name for one in view.servers())
    raise NotFound(f"there is no server '{name}'; there are {known or 'none'}", server=name)


def _with_segments(view: ClusterView, server: ServerState) -> dict[str, Any]:
    return {**server_head(server), "segments": _segments_of(view, server)}


def _segments_of(view: ClusterView, server: ServerState) -> dict[str, Any]:
    """Return what a server has loaded of what the log needs, by the id that Druid's clients know."""
    found: dict[str, Any] = {}
    for info in view.datasources():
        items = view.visible(info.name)
        shown: Iterable[dict[str, Any]] = data_segments(info.name, items)
        found |= {
            segment["identifier"]: segment
            for item, segment in zip(items, shown, strict=True)
            if item.segment.segment_id in server.loaded
        }
    return found
