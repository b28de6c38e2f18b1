"""`loadstatus`, `handoffComplete`: is it loaded?"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response

from carnac.api.coordinator.shapes import (
    PREFIX,
    DatasourceName,
    Full,
    Simple,
    interval_of,
)
from carnac.core.log.identifiers import version_text
from carnac.core.texts import WHOLE_MAX
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView, LoadStatus

Limited = Annotated[
    str | None,
    Query(
        alias="computeUsingClusterView",
        description="Count no more copies as wanted than there are servers.",
    ),
]


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["loading"])
    _add_statuses(router, view)
    _add_handoff(router, view)
    return router


def _add_statuses(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/loadstatus",
        summary="Say how much of each datasource is loaded: in percent, missing segments, or missing copies by tier",
        response_model=None,
    )
    def every(simple: Simple = None, full: Full = None, limited: Limited = None) -> dict[str, Any]:
        found = {
            info.name: view.load_status(view.segments(info.name), by_servers=limited is not None)
            for info in view.datasources()
        }
        return _shown(found, simple=simple is not None, full=full is not None)

    @router.get(
        "/datasources/{datasource}/loadstatus",
        summary="Say how much of a datasource is loaded; 204 if there is nothing of it in the interval",
        response_model=None,
    )
    def one(
        *,
        datasource: DatasourceName,
        refresh: Annotated[
            str | None,
            Query(
                alias="forceMetadataRefresh",
                description="Required, as in Druid; the answer is always current.",
            ),
        ] = None,
        interval: Annotated[
            str | None, Query(description="Only time chunks that overlap it. Default: all.")
        ] = None,
        simple: Simple = None,
        full: Full = None,
        limited: Limited = None,
    ) -> dict[str, Any] | Response:
        if refresh is None:
            raise Invalid("Invalid request. forceMetadataRefresh must be specified")
        within = None if interval is None else interval_of(interval)
        segments = view.segments(datasource, within)
        if not segments:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        status = view.load_status(segments, by_servers=limited is not None)
        return _shown({datasource: status}, simple=simple is not None, full=full is not None)


def _shown(found: dict[str, LoadStatus], *, simple: bool, full: bool) -> dict[str, Any]:
    if simple:
        return {name: status.missing for name, status in found.items()}
    if full:
        tiers: dict[str, dict[str, int]] = {}
        for name, status in found.items():
            for tier, lacking in status.lacking.items():
                tiers.setdefault(tier, {})[name] = lacking
        return tiers
    return {name: _percent(status) for name, status in found.items()}


def _percent(status: LoadStatus) -> float:
    return 100.0 * (status.wanted - status.missing) / status.wanted if status.wanted else 100.0


def _add_handoff(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/datasources/{datasource}/handoffComplete",
        summary="Say whether a segment, or what replaced it, is loaded, or never will be by the rules",
    )
    def handoff(
        datasource: DatasourceName,
        interval: Annotated[str, Query(description="Time chunk of the segment.")],
        partition: Annotated[
            int,
            Query(
                alias="partitionNumber",
                ge=0,
                le=WHOLE_MAX,
                description="Its number in the time chunk, from 0.",
            ),
        ],
        version: Annotated[str, Query(description="Version of the segment.")],
    ) -> bool:
        within = interval_of(interval)
        items = [
            item
            for item in view.visible(datasource, within)
            if item.entry.chunk.start_ms <= within.start_ms
            and within.end_ms <= item.entry.chunk.end_ms
        ]
        if not items:
            return False
        if not view.load_status(view.segments(datasource, within)).wanted:
            return True
        servers = view.servers()
        for item in items:
            found = version_text(item.entry.version)
            is_it = found > version or (found == version and item.entry.partition_id == partition)
            if is_it and any(item.segment.segment_id in one.loaded for one in servers):
                return True
        return False
