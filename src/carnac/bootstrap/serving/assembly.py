"""A process that serves, while its roles are put together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

if TYPE_CHECKING:
    from fastapi import APIRouter

    from carnac.api.access import Access
    from carnac.api.server import Certificate
    from carnac.broker import Broker
    from carnac.clock import StoreClock
    from carnac.config import Settings
    from carnac.ports.loops import Loop
    from carnac.ports.serving import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts that roles are given, and those that they add.

    A role pushes things that it opens to `steps`, which are closed in the opposite order. When the process ends, first
    all roles take their `leaves`: a leader resigns, a registered server says goodbye, so that others may take over
    while the rest ends. Then the HTTP interface answers pending requests and takes no more. Then come the `steps`.

    Attributes:
        settings: Settings of the store, and of this process.
        roles: All roles of the process.
        host: Address at which it listens.
        url: URL of its HTTP interface for others.
        clock: Clock for all roles; it follows the store's.
        access: Tells the user of each request.
        certificate: Certificate that encrypts all interfaces; None: they are not encrypted.
        steps: Things to close at the end.
        brokers: Broker that answers statements in the process; at most one, and none until that role is added.
        routers: Routers of its HTTP interface.
        loops: Loops that must turn for the process to be healthy.
        starts: Functions that are called in order once all roles are there and HTTP is answered.
        leaves: Steps that are taken at the end before anything else, the last one first.
        registry: Metrics that `/metrics` shows; of this process alone.
    """

    settings: Settings
    roles: Collection[Role]
    host: str
    url: str
    clock: StoreClock
    access: Access
    certificate: Certificate | None = None
    steps: ExitStack = field(default_factory=ExitStack)
    brokers: list[Broker] = field(default_factory=list)
    routers: list[APIRouter] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    starts: list[Callable[[], object]] = field(default_factory=list)
    leaves: ExitStack = field(default_factory=ExitStack)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
