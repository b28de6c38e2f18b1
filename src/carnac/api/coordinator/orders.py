"""Requests that delete data: `markUnused`, and `DELETE` of a datasource. Each is a commit that can be reverted.

Segments are not deleted one by one, because a time chunk is what a commit of a deletion takes away. A client that names
segments is told which interval has them.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from fastapi import APIRouter, Query

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.coordinator.shapes import PREFIX, DatasourceName, SegmentId
from carnac.core.log.identifiers import identifier_of
from carnac.core.texts import short
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, parse_interval
from carnac.core.words import counted
from carnac.errors import Invalid, NotFound
from carnac.specs.druid.elsewhere import KILL

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView

NEWER_PREFIX = "/druid/indexer/v1"
"""Where Druid has the same since overlords mark segments."""
_NOT_ONE_BY_ONE = "segments are not marked one by one here; mark the interval of their time chunks"


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
        given = {key: value for key, value in body.items() if value is not None}
        text, segment_ids = given.get("interval"), given.get("segmentIds")
        if isinstance(segment_ids, list):
            _refuse(view, datasource, {str(one) for one in segment_ids})
        if not isinstance(text, str) or given.keys() - {"interval"}:
            raise Invalid(f'the body must be {{"interval": "…/…"}}: {_NOT_ONE_BY_ONE}')
        within = parse_interval(text)
        return _changed(view.delete(datasource, within, f"markUnused {within}"))


def _add_delete(router: APIRouter, view: ClusterView, prefix: str) -> None:
    @router.delete(
        f"{prefix}/datasources/{{datasource}}",
        summary="Delete all of a datasource, in a commit that can be reverted",
    )
    def delete(
        datasource: DatasourceName,
        kill: Annotated[
            str | None,
            Query(description="`true`, by which Druid removes what was deleted before: refused."),
        ] = None,
    ) -> dict[str, Any]:
        if (kill or "").lower() == "true":
            raise Invalid(f"nothing was deleted: {KILL}", datasource=datasource)
        return _changed(view.delete(datasource, Interval(MIN_MS, MAX_MS), f"delete {datasource}"))

    @router.delete(
        f"{prefix}/datasources/{{datasource}}/segments/{{segment_id}}",
        summary="Refuse to delete one segment, and say which interval to mark",
        response_model=None,
    )
    def delete_segment(datasource: DatasourceName, segment_id: SegmentId) -> dict[str, Any]:
        _refuse(view, datasource, {segment_id})


def _refuse(view: ClusterView, datasource: str, segment_ids: Set[str]) -> NoReturn:
    """Say which time chunks have the segments.

    Raises:
        NotFound: None of them is visible.
        Invalid: Else.
    """
    counts: dict[Interval, int] = {}
    named: set[Interval] = set()
    for item in view.visible(datasource):
        chunk = item.entry.chunk
        counts[chunk] = counts.get(chunk, 0) + 1
        if segment_ids & {identifier_of(datasource, item.entry), item.segment.segment_id}:
            named.add(chunk)
    if not named:
        raise NotFound(
            f"{datasource} has no segment {short(min(segment_ids, default=''))} that is visible",
            datasource=datasource,
        )
    first = min(named)
    more = f"; the others are in {counted(len(named) - 1, 'other time chunk')}" * (len(named) > 1)
    raise Invalid(
        f'{_NOT_ONE_BY_ONE}: {{"interval": "{first}"}} deletes {counted(counts[first], "segment")}{more}',
        datasource=datasource,
    )


def _changed(count: int) -> dict[str, Any]:
    return {"numChangedSegments": count, "segmentStateChanged": count > 0}
