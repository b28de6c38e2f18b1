"""`/druid/coordinator/v1/datasources…`, `/metadata…`, `/intervals…`: the data, by datasource and by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response

from carnac.api.coordinator.shapes import (
    PREFIX,
    DatasourceName,
    Full,
    IntervalInPath,
    SegmentId,
    Simple,
    data_segments,
    interval_of,
    server_in_view,
)
from carnac.core.log.identifiers import identifier_of
from carnac.core.texts import short
from carnac.core.time.intervals import Interval, format_ms
from carnac.errors import NotFound

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView, ServerState
    from carnac.core.balancing.live.picture import LiveSegment
    from carnac.core.log.entries import VisibleSegment

Partial = Annotated[bool, Query(description="Also time chunks that the interval cuts.")]


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["datasources"])
    _add_lists(router, view)
    _add_one(router, view)
    _add_intervals(router, view)
    _add_segments(router, view)
    _add_metadata(router, view)
    return router


def _nothing() -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _add_lists(router: APIRouter, view: ClusterView) -> None:
    @router.get("/datasources", summary="List datasources", response_model=None)
    def datasources(simple: Simple = None, full: Full = None) -> list[Any]:
        names = [info.name for info in view.datasources()]
        if simple is not None:
            servers = view.servers()
            return [
                {"name": name, "properties": _sums(view.segments(name), servers)} for name in names
            ]
        if full is not None:
            return [_whole(name, view.visible(name)) for name in names]
        return names

    @router.get("/intervals", summary="List time chunks with what they hold", response_model=None)
    def intervals() -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for info in view.datasources():
            for chunk, sums in _by_chunk(view.visible(info.name)).items():
                found.setdefault(chunk, {})[info.name] = sums
        return dict(sorted(found.items(), reverse=True))

    @router.get(
        "/intervals/{interval}",
        summary="Say what the time chunks within an interval hold: in all, of each chunk, or by datasource",
        response_model=None,
    )
    def within(interval: IntervalInPath, simple: Simple = None, full: Full = None) -> Any:
        asked = interval_of(interval)
        found: dict[str, dict[str, dict[str, int]]] = {}
        for info in view.datasources():
            for chunk, sums in _by_chunk(_inside(view, info.name, asked, is_partial=False)).items():
                found.setdefault(chunk, {})[info.name] = sums
        if full is not None:
            return dict(sorted(found.items(), reverse=True))
        by_chunk = {chunk: _added(found[chunk].values()) for chunk in sorted(found, reverse=True)}
        return by_chunk if simple is not None else _added(by_chunk.values())


def _add_one(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/datasources/{datasource}",
        summary="Return a datasource in numbers, or with its segments; 204 if there is none",
        response_model=None,
    )
    def one(datasource: DatasourceName, full: Full = None) -> dict[str, Any] | Response:
        segments = view.segments(datasource)
        if not segments:
            return _nothing()
        if full is not None:
            return _whole(datasource, view.visible(datasource))
        return _sums(segments, view.servers())

    @router.get("/datasources/{datasource}/tiers", summary="List the tiers that hold some of it")
    def tiers(datasource: DatasourceName) -> list[str]:
        ids = [one.segment_id for one in view.segments(datasource)]
        return sorted({one.tier for one in view.servers() if any(key in one.loaded for key in ids)})


def _add_intervals(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/datasources/{datasource}/intervals",
        summary="List its time chunks, the newest first; 204 if there is none",
        response_model=None,
    )
    def intervals(datasource: DatasourceName, simple: Simple = None, full: Full = None) -> Any:
        items = view.visible(datasource)
        if not items:
            return _nothing()
        if full is not None:
            return _with_servers(datasource, items, view.servers())
        sums = _by_chunk(items)
        return sums if simple is not None else list(sums)

    @router.get(
        "/datasources/{datasource}/intervals/{interval}",
        summary="List the segments of the time chunks within an interval",
        response_model=None,
    )
    def within(
        datasource: DatasourceName,
        interval: IntervalInPath,
        simple: Simple = None,
        full: Full = None,
    ) -> Any:
        items = _inside(view, datasource, interval_of(interval), is_partial=False)
        if full is not None:
            return _with_servers(datasource, items, view.servers())
        if simple is not None:
            return _by_chunk(items)
        return [identifier_of(datasource, item.entry) for item in items]

    @router.get(
        "/datasources/{datasource}/intervals/{interval}/serverview",
        summary="List the segments of time chunks within an interval with the servers that have them loaded",
    )
    def server_view(
        datasource: DatasourceName, interval: IntervalInPath, partial: Partial = False
    ) -> list[dict[str, Any]]:
        items = _inside(view, datasource, interval_of(interval), is_partial=partial)
        servers = view.servers()
        return [
            {
                "segment": segment,
                "servers": [server_in_view(one) for one in _homes(item, servers)],
            }
            for item, segment in zip(items, data_segments(datasource, items), strict=True)
        ]


def _add_segments(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/datasources/{datasource}/segments",
        summary="List its segments; 204 if there is none",
        response_model=None,
    )
    def segments(datasource: DatasourceName, full: Full = None) -> list[Any] | Response:
        items = view.visible(datasource)
        return _listed(datasource, items, full) if items else _nothing()

    @router.get(
        "/datasources/{datasource}/segments/{segment_id}",
        summary="Return a segment and its servers; 204 if there is none of that id",
        response_model=None,
    )
    def segment(datasource: DatasourceName, segment_id: SegmentId) -> dict[str, Any] | Response:
        items = view.visible(datasource)
        for item, found in zip(items, data_segments(datasource, items), strict=True):
            if found["identifier"] == segment_id:
                homes = [one.name for one in _homes(item, view.servers())]
                return {"metadata": found, "servers": homes}
        return _nothing()


def _add_metadata(router: APIRouter, view: ClusterView) -> None:
    @router.get(
        "/metadata/datasources",
        summary="List datasources as the log has them",
        response_model=None,
    )
    def datasources(full: Full = None) -> list[Any]:
        names = [info.name for info in view.datasources()]
        return names if full is None else [_whole(name, view.visible(name)) for name in names]

    @router.get(
        "/metadata/datasources/{datasource}",
        summary="Return a datasource with its segments as the log has them",
    )
    def one(datasource: DatasourceName) -> dict[str, Any]:
        items = view.visible(datasource)
        if not items:
            raise NotFound(f"there is no datasource '{datasource}'", datasource=datasource)
        return _whole(datasource, items)

    @router.get(
        "/metadata/segments", summary="List the segments of all datasources, or of those named"
    )
    def all_segments(
        datasources: Annotated[list[str] | None, Query(description="Only of these.")] = None,
    ) -> list[dict[str, Any]]:
        names = [info.name for info in view.datasources()]
        wanted = [name for name in names if datasources is None or name in datasources]
        return [one for name in wanted for one in data_segments(name, view.visible(name))]

    @router.get(
        "/metadata/datasources/{datasource}/segments",
        summary="List the segments of a datasource as the log has them",
        response_model=None,
    )
    def segments(datasource: DatasourceName, full: Full = None) -> list[Any]:
        items = view.visible(datasource)
        if not items:
            raise NotFound(f"there is no datasource '{datasource}'", datasource=datasource)
        return _listed(datasource, items, full)

    @router.get(
        "/metadata/datasources/{datasource}/segments/{segment_id}",
        summary="Return a segment as the log has it",
    )
    def segment(datasource: DatasourceName, segment_id: SegmentId) -> dict[str, Any]:
        for found in data_segments(datasource, view.visible(datasource)):
            if found["identifier"] == segment_id:
                return found
        raise NotFound(
            f"{datasource} has no segment {short(segment_id)} that is visible",
            datasource=datasource,
        )


def _listed(datasource: str, items: Sequence[VisibleSegment], full: str | None) -> list[Any]:
    if full is not None:
        return data_segments(datasource, items)
    return [identifier_of(datasource, item.entry) for item in items]


def _inside(
    view: ClusterView, datasource: str, within: Interval, *, is_partial: bool
) -> list[VisibleSegment]:
    """Return the entries of time chunks that lie in an interval, or that it cuts."""
    return [
        item
        for item in view.visible(datasource, within)
        if is_partial
        or (
            within.start_ms <= item.entry.chunk.start_ms
            and item.entry.chunk.end_ms <= within.end_ms
        )
    ]


def _homes(item: VisibleSegment, servers: Iterable[ServerState]) -> list[ServerState]:
    return [one for one in servers if item.segment.segment_id in one.loaded]


def _whole(datasource: str, items: Iterable[VisibleSegment]) -> dict[str, Any]:
    return {"name": datasource, "properties": {}, "segments": data_segments(datasource, items)}


def _by_chunk(items: Iterable[VisibleSegment]) -> dict[str, dict[str, int]]:
    """Return size and number of segments of each time chunk, the newest first."""
    found: dict[Interval, dict[str, int]] = {}
    for item in items:
        sums = found.setdefault(item.entry.chunk, {"size": 0, "count": 0})
        sums["size"] += item.segment.size_bytes
        sums["count"] += 1
    return {str(chunk): found[chunk] for chunk in sorted(found, reverse=True)}


def _added(sums: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = list(sums)
    return {name: sum(one[name] for one in found) for name in ("size", "count")}


def _with_servers(
    datasource: str, items: Sequence[VisibleSegment], servers: Sequence[ServerState]
) -> dict[str, Any]:
    found: dict[Interval, dict[str, Any]] = {}
    for item, segment in zip(items, data_segments(datasource, items), strict=True):
        found.setdefault(item.entry.chunk, {})[segment["identifier"]] = {
            "metadata": segment,
            "servers": [one.name for one in _homes(item, servers)],
        }
    return {str(chunk): found[chunk] for chunk in sorted(found, reverse=True)}


def _sums(segments: Sequence[LiveSegment], servers: Sequence[ServerState]) -> dict[str, Any]:
    """Return a datasource in numbers: its segments, and the copies of them that each tier holds."""
    sizes = {one.segment_id: one.size_bytes for one in segments}
    tiers: dict[str, dict[str, int]] = {}
    seen: dict[str, set[str]] = {}
    for server in servers:
        here = [one for one in sizes if one in server.loaded]
        if not here:
            continue
        tier = tiers.setdefault(server.tier, {"size": 0, "replicatedSize": 0, "segmentCount": 0})
        known = seen.setdefault(server.tier, set())
        tier["replicatedSize"] += sum(sizes[one] for one in here)
        tier["size"] += sum(sizes[one] for one in here if one not in known)
        known.update(here)
        tier["segmentCount"] = len(known)
    return {
        "tiers": tiers,
        "segments": {
            "count": len(sizes),
            "size": sum(sizes.values()),
            "replicatedSize": sum(tier["replicatedSize"] for tier in tiers.values()),
            "minTime": format_ms(min(one.chunk.start_ms for one in segments)),
            "maxTime": format_ms(max(one.chunk.end_ms for one in segments)),
        },
    }
