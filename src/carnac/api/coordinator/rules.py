"""`rules…`: which copies are wanted, and the changes of that with their authors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from carnac.api.bodies import body_shown, read_json
from carnac.api.coordinator.shapes import (
    PREFIX,
    Author,
    Comment,
    DatasourceName,
    Full,
    interval_of,
)
from carnac.coordinator.rules import DEFAULT
from carnac.core.time.intervals import ETERNITY, format_ms

if TYPE_CHECKING:
    from carnac.coordinator.view import ClusterView

HISTORY_MAX = 1_000
HISTORY_DEFAULT = 25
_EXAMPLE = [
    {"type": "loadByPeriod", "period": "P1M", "tieredReplicants": {"_default_tier": 2}},
    {"type": "dropForever"},
]

Count = Annotated[
    int,
    Query(ge=1, le=HISTORY_MAX, description="Maximum number of changes to return, newest first."),
]
Within = Annotated[
    str | None, Query(alias="interval", description="Only changes within: ISO 8601.")
]


def make_router(view: ClusterView) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["rules"])

    @router.get("/rules", summary="Return the rules of all datasources, and `_default`")
    def every() -> dict[str, Any]:
        return dict(view.rules())

    @router.get("/rules/history", summary="List changes of rules, the newest first")
    def history(count: Count = HISTORY_DEFAULT, within: Within = None) -> list[dict[str, Any]]:
        return _changes(view, None, count, within)

    @router.get("/rules/{datasource}/history", summary="List changes of a datasource's rules")
    def history_of(
        datasource: DatasourceName, count: Count = HISTORY_DEFAULT, within: Within = None
    ) -> list[dict[str, Any]]:
        return _changes(view, datasource, count, within)

    @router.get(
        "/rules/{datasource}",
        summary="Return the rules of a datasource; with `full`, also those that are tried after them",
    )
    def rules(datasource: DatasourceName, full: Full = None) -> list[Any]:
        found = view.rules()
        own = list(found.get(datasource, ()))
        return [*own, *found[DEFAULT]] if full is not None and datasource != DEFAULT else own

    @router.post(
        "/rules/{datasource}",
        summary="Set the rules of a datasource, or of `_default`; an empty list: it has none of its own",
        openapi_extra=body_shown("array", _EXAMPLE),
    )
    def put_rules(
        datasource: DatasourceName,
        body: Annotated[object, Depends(read_json)],
        author: Author = "",
        comment: Comment = "",
    ) -> Response:
        view.put_rules(datasource, body, author=author, comment=comment)
        return Response(media_type="application/json")

    return router


def _changes(
    view: ClusterView, datasource: str | None, limit: int, within: str | None
) -> list[dict[str, Any]]:
    interval = ETERNITY if within is None else interval_of(within)
    return [
        {
            "key": one.datasource,
            "type": "rules",
            "auditInfo": {"author": one.author, "identity": "", "comment": one.comment, "ip": ""},
            "payload": one.rules,
            "auditTime": format_ms(one.at_ms),
        }
        for one in view.rule_history(datasource, limit=limit, within=interval)
    ]
