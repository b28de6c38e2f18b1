"""`/druid/indexer/v1/supervisor…`: supervisors of streams, under Druid's paths and in its words.

Source: Druid's documentation of its supervisor API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.shapes import sendable
from carnac.api.tasks import PREFIX
from carnac.core.redaction import show_submitted
from carnac.core.streams.supervisors import SupervisorVersion
from carnac.errors import Invalid
from carnac.overlord.supervisors.shown import (
    history_shown,
    partition_key,
    state_shown,
    stats_shown,
)

if TYPE_CHECKING:
    from carnac.api.admission import Admission
    from carnac.overlord.supervisors.service import SupervisorService

_SPEC = {
    "type": "kafka",
    "spec": {
        "dataSchema": {
            "dataSource": "clicks",
            "timestampSpec": {"column": "ts", "format": "auto"},
            "dimensionsSpec": {"dimensions": ["page", "user"]},
            "granularitySpec": {"segmentGranularity": "hour", "rollup": False},
        },
        "ioConfig": {
            "topic": "clicks",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "localhost:9092"},
            "useEarliestOffset": True,
        },
    },
}
_OFFSETS = {
    "type": "kafka",
    "partitions": {"type": "end", "stream": "clicks", "partitionOffsetMap": {"0": 100}},
}

SupervisorId = Annotated[
    str, Path(description="The supervisor's id, as its submission was answered.")
]


def make_router(service: SupervisorService, admission: Admission) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=f"{PREFIX}/supervisor", tags=["supervisors"])
    _add_whole(router, service, admission)
    _add_looks(router, service)
    _add_orders(router, service)
    return router


def _add_whole(router: APIRouter, service: SupervisorService, admission: Admission) -> None:
    @router.post(
        "",
        summary="Submit a supervisor spec; it takes the place of the one of the same id",
        openapi_extra=body_shown("object", _SPEC),
    )
    def submit(body: JsonObject) -> dict[str, str]:
        admission.admit_supervisor(body)
        return {"id": service.submit_spec(body)}

    @router.get("", summary="List supervisors: their ids, or how they stand")
    def every(
        full: Annotated[str | None, Query(description="Given: with specs and states.")] = None,
        state: Annotated[bool, Query(description="True: with states.")] = False,
    ) -> list[Any]:
        if full is None and not state:
            return list(service.ids())
        shown = []
        for view in service.views():
            one = state_shown(view)
            if full is not None:
                one["spec"] = _spec(view.spec)
            shown.append(one)
        return shown

    @router.get("/history", summary="Return every spec that was set, by id, the newest first")
    def histories() -> dict[str, Any]:
        return {name: history_shown(some) for name, some in service.history().items()}

    def add_for_all(name: str, summary: str) -> None:
        @router.post(f"/{name}All", summary=summary)
        def do() -> dict[str, str]:
            for supervisor_id in service.ids():
                getattr(service, name)(supervisor_id)
            return {"status": "success"}

    add_for_all("suspend", "Suspend all supervisors")
    add_for_all("resume", "Resume all supervisors")
    add_for_all("terminate", "End all supervisors")


def _add_looks(router: APIRouter, service: SupervisorService) -> None:
    @router.get("/{supervisor_id}", summary="Return a spec as it was submitted")
    def spec(supervisor_id: SupervisorId) -> dict[str, Any]:
        return _spec(service.spec(supervisor_id))

    @router.get(
        "/{supervisor_id}/status", summary="Say how a supervisor stands: tasks, offsets, lag"
    )
    def status(supervisor_id: SupervisorId) -> dict[str, Any]:
        return sendable(service.status(supervisor_id))

    @router.get("/{supervisor_id}/stats", summary="Return what the running tasks have read")
    def stats(supervisor_id: SupervisorId) -> dict[str, Any]:
        return stats_shown(service.view(supervisor_id, asks=False))

    @router.get(
        "/{supervisor_id}/health",
        summary="Say whether a supervisor is healthy",
        responses={HTTPStatus.SERVICE_UNAVAILABLE: {"description": "It is not."}},
    )
    def health(supervisor_id: SupervisorId) -> Response:
        is_healthy = service.view(supervisor_id).standing.state.is_healthy
        code = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse({"healthy": is_healthy}, code)

    @router.get(
        "/{supervisor_id}/history", summary="Return every spec that was set, the newest first"
    )
    def history(supervisor_id: SupervisorId) -> list[Any]:
        found: Mapping[str, Sequence[SupervisorVersion]] = service.history()
        if supervisor_id not in found:
            service.version(supervisor_id)  # says that there is none
        return history_shown(found[supervisor_id])


def _add_orders(router: APIRouter, service: SupervisorService) -> None:
    @router.post("/{supervisor_id}/suspend", summary="Read nothing until it is resumed")
    def suspend(supervisor_id: SupervisorId) -> dict[str, Any]:
        return _spec(service.suspend(supervisor_id))

    @router.post("/{supervisor_id}/resume", summary="Read on from the position")
    def resume(supervisor_id: SupervisorId) -> dict[str, Any]:
        return _spec(service.resume(supervisor_id))

    @router.post("/{supervisor_id}/reset", summary="Forget the position, and begin anew")
    def reset(supervisor_id: SupervisorId) -> dict[str, str]:
        service.reset(supervisor_id)
        return {"id": supervisor_id}

    @router.post(
        "/{supervisor_id}/resetOffsets",
        summary="Set the position in some partitions",
        openapi_extra=body_shown("object", _OFFSETS),
    )
    def reset_offsets(supervisor_id: SupervisorId, body: JsonObject) -> dict[str, str]:
        service.version(supervisor_id)
        service.reset_offsets(supervisor_id, dict(_offsets(body)))
        return {"id": supervisor_id}

    def add_end(name: str, summary: str) -> None:
        @router.post(f"/{{supervisor_id}}/{name}", summary=summary)
        def end(supervisor_id: SupervisorId) -> dict[str, str]:
            service.terminate(supervisor_id)
            return {"id": supervisor_id}

    add_end("terminate", "End a supervisor; its position stays")
    add_end("shutdown", "The same as terminate")


def _spec(spec: Mapping[str, object]) -> dict[str, Any]:
    """Return a spec as it may be shown."""
    return sendable(show_submitted(spec))


def _offsets(body: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield partition and offset of a request, in Druid's form.

    Raises:
        Invalid: It is another one.
    """
    told = body.get("partitions")
    stream = told.get("stream") if isinstance(told, Mapping) else None
    offsets = told.get("partitionOffsetMap") if isinstance(told, Mapping) else None
    if not isinstance(stream, str) or not isinstance(offsets, Mapping) or not offsets:
        raise Invalid(
            'partitions is required, as {"type": "end", "stream": "topic", "partitionOffsetMap": {"0": 100}}'
        )
    for name, offset in offsets.items():
        yield partition_key(str(name), stream), offset
