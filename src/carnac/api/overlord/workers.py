"""`/druid/indexer/v1/workers`, `/totalWorkerCapacity`: the leading overlord, which starts tasks itself, as a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter

from carnac.api.tasks import PREFIX

if TYPE_CHECKING:
    from carnac.api.services import Services

CATEGORY = "_default_worker_category"
NO_MORE = -1
"""Nothing adds workers by itself."""


def make_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["leadership"])

    @router.get(
        "/totalWorkerCapacity",
        summary="Return how many slots there are for tasks, by this process's settings, and how many are taken",
    )
    def capacity() -> dict[str, int]:
        return {
            "currentClusterCapacity": services.loop.capacity,
            "maximumCapacityWithAutoScale": NO_MORE,
            "usedClusterCapacity": sum(one.slots for one in services.tasks.live_attempts()),
        }

    @router.get("/workers", summary="Return the overlord that leads, as the only worker")
    def workers() -> list[dict[str, object]]:
        leader = services.tasks.leader()
        if leader is None or not leader.url or not leader.lease_ms:
            return []
        url = urlsplit(leader.url)
        live = services.tasks.live_attempts()
        worker = {
            "scheme": url.scheme,
            "host": url.netloc,
            "ip": url.hostname,
            "capacity": services.loop.capacity,
            "version": "0",
            "category": CATEGORY,
        }
        return [
            {
                "worker": worker,
                "currCapacityUsed": sum(one.slots for one in live),
                "currParallelIndexCapacityUsed": 0,
                "availabilityGroups": [],
                "runningTasks": sorted({one.task_id for one in live}),
                "lastCompletedTaskTime": None,
                "blacklistedUntil": None,
            }
        ]

    return router
