"""`/metrics`: what a process counts, in the text form that Prometheus collects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def make_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route over a registry."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["service"],
        summary="Return what the process counts, as Prometheus reads it",
        response_class=Response,
    )
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
