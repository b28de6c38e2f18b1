"""The paths of an overlord: tasks, locks, and who leads."""

from __future__ import annotations

from fastapi import APIRouter

from carnac.api import leading, locks, own, tasks
from carnac.api.services import Services


def make_routers(services: Services) -> list[APIRouter]:
    """Return the routes."""
    return [
        tasks.make_router(services),
        locks.make_router(services.locks),
        leading.make_router(
            tasks.PREFIX,
            "overlord",
            tag="leadership",
            knows=services.tasks,
            leads=lambda: services.loop.is_leader,
        ),
        own.make_router(services.tasks),
    ]
