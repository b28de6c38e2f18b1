"""Requests that delete data: `markUnused`, and `DELETE` of a datasource. Each is a commit that can be reverted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.coordinator.shapes import PREFIX, DatasourceName
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, parse_interval
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView

NEWER_PREFIX = "/druid/indexer/v1"
"""Where Druid has the same since overlords mark segments."""


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes, each under both prefixes."""
    router = APIRouter(tags=["datasources"])
    for prefix in (PREFIX, NEWER_PREFIX):
        _add_mark_unused(router, view, prefix)
        _add_delete(router, view, prefix)
    return router


def _add_mark_unused(router: APIRouter, view: ClusterView, prefix: str) -> None:
    @router.post(
        f"{prefix}/datasources/{{datasource}}/markUnused",
        summary="Delete the whole time chunks within an interval, in a commit that can be reverted",
        openapi_extra=body_shown("object", {"interval": "2024-01-01/2024-02-01"}),
    )
    def mark_unused(datasource: DatasourceName, body: JsonObject) -> dict[str, Any]:
        text = body.get("interval")
        if not isinstance(text, str) or body.keys() - {"interval"}:
            raise Invalid(
                'the body must be {"interval": "…/…"}: segments are not marked one by one here; give the '
                "interval to delete"
            )
        within = parse_interval(text)
        return _changed(view.delete(datasource, within, f"markUnused {within}"))


def _add_delete(router: APIRouter, view: ClusterView, prefix: str) -> None:
    @router.delete(
        f"{prefix}/datasources/{{datasource}}",
        summary="Delete all of a datasource, in a commit that can be reverted",
    )
    def delete(datasource: DatasourceName) -> dict[str, Any]:
        return _changed(view.delete(datasource, Interval(MIN_MS, MAX_MS), f"delete {datasource}"))


def _changed(count: int) -> dict[str, Any]:
    return {"numChangedSegments": count, "segmentStateChanged": count > 0}
