"""Compaction that runs by itself, under Druid's paths of overlords and its older ones of coordinators.

The specs are those of `carnac compaction set`. Values for all datasources together are settings of a process: they are
shown, and the refusal to change one names the setting. Source: Druid's documentation of its HTTP API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response

from carnac.api.bodies import JsonObject, body_shown
from carnac.api.coordinator.shapes import PREFIX as COORDINATOR_PREFIX
from carnac.api.coordinator.shapes import DatasourceName
from carnac.api.tasks import PREFIX as OVERLORD_PREFIX
from carnac.core.texts import WHOLE_MAX, short
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.api.admission import Admission
    from carnac.core.compaction.control.progress import Progress
    from carnac.overlord.compactor.service import CompactionService

SLOTS = "maxCompactionTaskSlots"
RATIO = "compactionTaskSlotRatio"
FIXED: Mapping[str, str] = {
    RATIO: "tasks of compaction have slots of their own, the setting compaction_task_slots",
    "compactionPolicy": "the planner chooses by benefit per cost",
    "useSupervisors": "the overlord that leads compacts by itself",
    "engine": "Spark does the work",
}
"""Values of Druid's that cannot be set for all datasources, and why."""
_TAG = "compaction"
_EXAMPLE = {
    "dataSource": "flights",
    "skipOffsetFromLatest": "P1D",
    "granularitySpec": {"segmentGranularity": "DAY"},
}

Named = Annotated[
    str | None, Query(alias="dataSource", description="Only this datasource, which has a spec.")
]


def make_router(service: CompactionService, *, admission: Admission, task_slots: int) -> APIRouter:
    """Return the routes of an overlord.

    Args:
        admission: Says which specs are taken.
        task_slots: How many tasks of compaction run at a time.
    """
    router = APIRouter(prefix=f"{OVERLORD_PREFIX}/compaction", tags=[_TAG])

    @router.get("/config/cluster", summary="Return what is true of all datasources, as settings")
    def cluster() -> dict[str, Any]:
        return _cluster(task_slots)

    @router.post(
        "/config/cluster",
        summary="Accept what is true of all datasources as it is; a change is refused with the setting's name",
        openapi_extra=body_shown("object", {SLOTS: 2}),
    )
    def put_cluster(body: JsonObject) -> dict[str, bool]:
        _check(body, task_slots)
        return {"success": True}

    @router.get("/config/datasources", summary="Return the specs of all datasources that have one")
    def every() -> dict[str, Any]:
        return {"compactionConfigs": _specs(service)}

    @router.get("/config/datasources/{datasource}", summary="Return the spec of a datasource")
    def one(datasource: DatasourceName) -> dict[str, Any]:
        return _spec(service, datasource)

    @router.post(
        "/config/datasources/{datasource}",
        summary="Have a datasource compacted by itself; takes Druid's configurations",
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    def put(datasource: DatasourceName, body: JsonObject) -> dict[str, bool]:
        spec = admission.admit_compaction({"dataSource": datasource, **body})
        if spec.datasource != datasource:  # also that of a supervisor's envelope
            named = f"the path names the datasource {short(datasource)}, the body"
            raise Invalid(f"{named} {short(spec.datasource)}")
        service.put_spec(spec)
        return {"success": True}

    @router.delete(
        "/config/datasources/{datasource}",
        summary="Compact a datasource by itself no more; running tasks continue",
    )
    def remove(datasource: DatasourceName) -> dict[str, bool]:
        service.remove_spec(datasource)
        return {"success": True}

    @router.get("/status/datasources", summary="Return how far compaction is, by datasource")
    def statuses() -> dict[str, Any]:
        return {"latestStatus": [_status(service, name) for name in service.specs()]}

    @router.get("/status/datasources/{datasource}", summary="Return how far compaction is")
    def status(datasource: DatasourceName) -> dict[str, Any]:
        return _status(service, datasource)

    return router


def make_older_router(
    service: CompactionService, *, admission: Admission, task_slots: int
) -> APIRouter:
    """Return the routes of a coordinator; arguments are those of `make_router`."""
    router = APIRouter(prefix=COORDINATOR_PREFIX, tags=[_TAG])

    @router.get("/config/compaction", summary="Return the specs of all datasources that have one")
    def every() -> dict[str, Any]:
        return {"compactionConfigs": _specs(service), **_cluster(task_slots)}

    @router.post(
        "/config/compaction",
        summary="Have a datasource compacted by itself; takes Druid's configurations",
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    def put(body: JsonObject) -> Response:
        service.put_spec(admission.admit_compaction(body))
        return Response(media_type="application/json")

    @router.post(
        "/config/compaction/taskslots",
        summary="Accept the number of slots as it is; a change is refused with the setting's name",
    )
    def put_slots(
        most: Annotated[
            int | None, Query(alias="max", ge=0, le=WHOLE_MAX, description="Number of slots.")
        ] = None,
        ratio: Annotated[
            float | None, Query(ge=0, le=1, description="Their part of all slots: 1.")
        ] = None,
    ) -> Response:
        _check({SLOTS: most, RATIO: ratio}, task_slots)
        return Response(media_type="application/json")

    @router.get("/config/compaction/{datasource}", summary="Return the spec of a datasource")
    def one(datasource: DatasourceName) -> dict[str, Any]:
        return _spec(service, datasource)

    @router.delete(
        "/config/compaction/{datasource}",
        summary="Compact a datasource by itself no more; running tasks continue",
    )
    def remove(datasource: DatasourceName) -> Response:
        service.remove_spec(datasource)
        return Response(media_type="application/json")

    @router.get("/compaction/status", summary="Return how far compaction is, by datasource")
    def statuses(datasource: Named = None) -> dict[str, Any]:
        names = list(service.specs()) if datasource is None else [datasource]
        return {"latestStatus": [_status(service, name) for name in names]}

    @router.get("/compaction/progress", summary="Return how many bytes wait to be compacted")
    def progress(
        datasource: Annotated[str, Query(alias="dataSource", description="Its name.")],
    ) -> dict[str, int]:
        return {"remainingSegmentSize": service.progress(datasource).waiting.size_bytes}

    return router


def _specs(service: CompactionService) -> list[dict[str, Any]]:
    return [spec.to_json_dict() for spec in service.specs().values()]


def _spec(service: CompactionService, datasource: str) -> dict[str, Any]:
    service.check_spec(datasource)
    return service.spec_of(datasource).to_json_dict()


def _cluster(task_slots: int) -> dict[str, Any]:
    return {
        RATIO: 1.0,
        SLOTS: task_slots,
        "compactionPolicy": None,
        "useSupervisors": False,
        "engine": "native",
    }


def _check(body: Mapping[str, object], task_slots: int) -> None:
    """Check that nothing is to be changed; null is as it is."""
    current = _cluster(task_slots)
    for name, value in body.items():
        if name not in current:
            raise Invalid(f"there is no {short(name)} here; there are {', '.join(current)}")
        if value is None or value == current[name]:
            continue
        if name == SLOTS:
            raise Invalid(
                f"{name} is {task_slots}, by the setting compaction_task_slots: start the overlords again with "
                f"CARNAC_COMPACTION_TASK_SLOTS={short(value)}"
            )
        raise Invalid(f"{name} cannot be changed: {FIXED[name]}")


def _status(service: CompactionService, datasource: str) -> dict[str, Any]:
    """Return a datasource's progress as Druid's snapshot of automatic compaction."""
    found: Progress = service.progress(datasource)
    parts = {
        "AwaitingCompaction": found.waiting,
        "Compacted": found.done,
        "Skipped": found.skipped,
    }
    return {
        "dataSource": datasource,
        "scheduleStatus": "RUNNING",
        "message": None,
        **{f"bytes{name}": one.size_bytes for name, one in parts.items()},
        **{f"segmentCount{name}": one.segments for name, one in parts.items()},
        **{f"intervalCount{name}": one.chunks for name, one in parts.items()},
    }
