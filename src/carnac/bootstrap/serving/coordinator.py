"""The composition root of a coordinator: metadata, historicals, what deletes for drop rules, and its HTTP routes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from carnac.api.coordinator import make_routers
from carnac.bootstrap.store import open_records, open_store, process_name
from carnac.clock import RandomIds
from carnac.coordinator.coordinator import Coordinator, CoordinatorSettings
from carnac.coordinator.view import ClusterView
from carnac.ports.closing import Closing
from carnac.ports.serving import Role

if TYPE_CHECKING:
    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.config import Settings
    from carnac.core.time.intervals import Interval
    from carnac.flight import FlightSegmentServer
    from carnac.ports import Clock
    from carnac.ports.serving import ServerRecord
    from carnac.store import Store


def add(assembly: Assembly) -> None:
    """Add a coordinator: its rounds, and what it answers.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    settings, clock = assembly.settings, assembly.clock
    metadata = open_records(settings=settings, clock=clock)
    assembly.steps.callback(metadata.close)
    deleting = Deleting(settings, clock)
    assembly.steps.callback(deleting.close)
    coordinator = Coordinator(
        metadata,
        clock,
        leader_id=f"coordinator-{RandomIds().new_id()}",
        holder=process_name(),
        connect=connect,
        disconnect=lambda server: cast("FlightSegmentServer", server).close(),
        settings=settings_of(settings, url=assembly.url),
        delete=deleting.delete,
    )
    view = ClusterView(
        metadata,
        coordinator,
        url=assembly.url,
        serves_itself=Role.BROKER in assembly.roles,
        delete=deleting.delete,
    )
    assembly.leaves.callback(coordinator.stop)
    assembly.routers.extend(make_routers(view))
    assembly.loops.extend(coordinator.loops)
    assembly.starts.append(coordinator.start)


def settings_of(settings: Settings, *, url: str) -> CoordinatorSettings:
    """Return how a coordinator works."""
    return CoordinatorSettings(
        lease_ms=settings.lease_ttl_ms,
        url=url,
        tier_aliases=settings.tier_aliases,
        patience_ms=settings.load_patience_ms,
    )


def connect(record: ServerRecord) -> FlightSegmentServer:
    """Return what reaches a historical; to be closed."""
    from carnac.flight import FlightSegmentServer

    return FlightSegmentServer(record.url, record.server_id)


class Deleting(Closing):
    """Deletes by interval; the store is opened for the first deletion. Safe for threads."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._mutex = threading.Lock()
        self._store: Store | None = None

    def delete(self, datasource: str, interval: Interval, message: str) -> int | None:
        """Delete what is visible in the interval; return the revision, None if there was nothing.

        Raises:
            CarnacError: As `Store.delete`.
        """
        with self._mutex:
            if self._store is None:
                self._store = open_store(settings=self._settings, clock=self._clock)
            store = self._store
        return store.delete(datasource, interval=interval, message=message).revision

    def close(self) -> None:
        """Close the store, if it was opened."""
        with self._mutex:
            store, self._store = self._store, None
        if store is not None:
            store.close()
