"""The composition root of a coordinator: metadata, historicals, what deletes for drop rules, and its HTTP routes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from carnac.api.admission import Admission
from carnac.api.coordinator import make_routers
from carnac.api.coordinator.lookups import make_router as lookups_router
from carnac.api.overlord.compaction import make_older_router as compaction_router
from carnac.bootstrap.serving.metrics import show_gauges
from carnac.bootstrap.store import Once, open_records, open_store, process_name
from carnac.clock import RandomIds
from carnac.coordinator.coordinator import Coordinator, CoordinatorSettings
from carnac.coordinator.lookups import Lookups
from carnac.coordinator.view import ClusterView
from carnac.core.balancing.plan.limits import Throttles
from carnac.core.log.commits import LookupChange
from carnac.overlord.compactor.service import CompactionService
from carnac.ports.serving import Role
from carnac.store.history import History

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry

    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.config import Settings
    from carnac.core.time.intervals import Interval
    from carnac.flight import FlightSegmentServer
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock
    from carnac.ports.serving import ServerRecord


def add(assembly: Assembly) -> None:
    """Add a coordinator: its rounds, and what it answers.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    settings, clock = assembly.settings, assembly.clock
    metadata = open_records(settings=settings, clock=clock)
    assembly.steps.callback(metadata.close)
    store = Once(partial(open_store, settings=settings, clock=clock))  # for the first deletion
    assembly.steps.callback(store.close)

    def delete(datasource: str, interval: Interval, message: str) -> int | None:
        return store().delete(datasource, interval=interval, message=message).revision

    coordinator = Coordinator(
        metadata,
        clock,
        leader_id=f"coordinator-{RandomIds().new_id()}",
        holder=process_name(),
        connect=partial(connect, metadata.store_id, token=assembly.access.server_token),
        disconnect=lambda server: cast("FlightSegmentServer", server).close(),
        settings=settings_of(settings, url=assembly.url),
        delete=delete,
    )
    view = ClusterView(
        metadata,
        coordinator,
        url=assembly.url,
        serves_itself=Role.BROKER in assembly.roles,
        delete=delete,
    )
    assembly.leaves.callback(coordinator.stop)
    specs = compaction_router(
        CompactionService(metadata, clock),
        admission=Admission(input_roots=(), spark_settings=settings.http_spark_conf),
        task_slots=settings.compaction_task_slots,
    )
    lookups = lookups_router(Lookups(metadata, partial(publish_lookups, metadata)))
    assembly.routers.extend([*make_routers(view), specs, lookups])
    assembly.loops.extend(coordinator.loops)
    assembly.starts.append(coordinator.start)
    _show(assembly.registry, coordinator, view)


def publish_lookups(
    metadata: MetadataStore, mappings: Mapping[str, Mapping[str, str] | None], message: str
) -> None:
    """Set lookups, or remove them (None), in one commit; raises as `Store.set_lookup`."""
    changes = [LookupChange(name=name, mapping=one) for name, one in mappings.items()]
    History(metadata).set_lookups(changes, message=message)


def settings_of(settings: Settings, *, url: str) -> CoordinatorSettings:
    """Return how a coordinator works."""
    return CoordinatorSettings(
        lease_ms=settings.lease_ttl_ms,
        url=url,
        tier_aliases=settings.tier_aliases,
        patience_ms=settings.load_patience_ms,
        restart_grace_ms=settings.restart_grace_ms,
        throttles=throttles_of(settings),
    )


def throttles_of(settings: Settings) -> Throttles:
    """Return how much runs of the planner may do."""
    return Throttles(
        max_moves=settings.moves_max,
        max_queue=settings.load_queue_max,
        max_replicas=settings.load_replicas_max,
    )


def connect(
    store_id: str,
    record: ServerRecord,
    clock: Clock | None = None,
    token: Callable[[], str] | None = None,
) -> FlightSegmentServer:
    """Return what reaches a historical of a store; to be closed.

    Args:
        clock, token: See `FlightSegmentServer`.
    """
    from carnac.flight import FlightSegmentServer

    return FlightSegmentServer(record.url, record.server_id, store_id, clock=clock, token=token)


def _show(registry: CollectorRegistry, coordinator: Coordinator, view: ClusterView) -> None:
    shown: dict[str, tuple[str, Callable[[], float]]] = {
        "is_leader": ("1 if this coordinator leads.", lambda: coordinator.is_leader),
        "servers": ("Historicals that are alive.", lambda: len(coordinator.fleet)),
        "told_revision": (
            "The revision that brokers are told; 0 if none or not the leader.",
            lambda: (coordinator.rolling.told or 0) if coordinator.is_leader else 0,
        ),
        "waited_for": (
            "Segments that keep a later revision from being told.",
            lambda: view.counts().waiting,
        ),
        "loading": ("Segments on their way to servers.", lambda: view.counts().loading),
        "loading_bytes": ("Bytes of them.", lambda: view.counts().loading_bytes),
        "failed": ("Loads that failed.", lambda: view.counts().failed),
        "moving": ("Segments that move.", lambda: view.counts().moving),
        "unplaced": ("Segments that no server can take.", lambda: view.counts().unplaced),
        "failing_duties": ("Duties that came to nothing.", lambda: len(coordinator.failures)),
    }
    show_gauges(registry, "carnac_coordinator", shown)
