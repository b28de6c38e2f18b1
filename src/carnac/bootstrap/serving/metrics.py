"""Metrics of every serving process: its version, its roles, whether its loops turn, memory and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client import Gauge, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

import carnac

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.ports.loops import Loop
    from carnac.ports.serving import Role
    from carnac.query.keeping.store import KeptCounts


def add(assembly: Assembly) -> None:
    """Add what all roles have in common, and the route; called when all roles are there."""
    registry = assembly.registry
    ProcessCollector(registry=registry)
    Info("carnac_process", "The version of this process.", registry=registry).info(
        {"version": carnac.__version__}
    )
    roles = Gauge("carnac_role", "1 for each role of this process.", ["role"], registry=registry)
    for role in assembly.roles:
        roles.labels(role.value).set(1)
    turning = Gauge(
        "carnac_loop_turning", "Whether a loop of this process turns.", ["loop"], registry=registry
    )
    for loop in assembly.loops:
        turning.labels(loop.name).set_function(_turns(loop))
    assembly.routers.append(make_router(registry))


def show_gauges(
    registry: CollectorRegistry, prefix: str, shown: Mapping[str, tuple[str, Callable[[], float]]]
) -> None:
    """Show values of now, each by the end of its name with what it is for people."""
    for name, (help_text, value) in shown.items():
        Gauge(f"{prefix}_{name}", help_text, registry=registry).set_function(value)


def show_kept(registry: CollectorRegistry, role: Role, counts: KeptCounts) -> None:
    """Show what is kept of statements by a role's query engine, and how often it is taken."""
    registry.register(_Kept(f"carnac_{role.value}_kept", counts))


class _Kept(Collector):
    def __init__(self, name: str, counts: KeptCounts) -> None:
        self._name, self._counts = name, counts

    def collect(self) -> Iterator[Metric]:
        """Yield the counts of now."""
        name, counts = self._name, self._counts
        yield CounterMetricFamily(
            f"{name}_hits", "Segments whose part of a result was kept.", value=counts.hits
        )
        yield CounterMetricFamily(
            f"{name}_misses",
            "Segments that were read, though their part of a result may be kept.",
            value=counts.misses,
        )
        yield GaugeMetricFamily(
            f"{name}_bytes", "Bytes of partial results that are kept.", value=counts.size_bytes
        )
        yield GaugeMetricFamily(
            f"{name}_results", "Partial results that are kept.", value=counts.results
        )


def _turns(loop: Loop) -> Callable[[], float]:
    return lambda: float(loop.trouble is None)


def make_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route over a registry."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["service"],
        summary="Return what the process counts, as Prometheus reads it",
        response_class=Response,
    )
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
