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

    What a role opens it pushes to `steps`, which are closed in the opposite order. When the process ends, first all
    roles take their `leaves`: a leader resigns, a registered server says goodbye, so that others may take over while
    the rest ends. Then the HTTP interface answers what was asked and takes nothing more. Then come the `steps`.

    Attributes:
        settings: Of the store, and of this process.
        roles: All that the process has.
        host: Address at which it listens.
        url: Where others reach its HTTP interface.
        clock: One for all: it follows the store's.
        access: Tells who asks.
        certificate: By which all doors are encrypted; None: they are not.
        steps: What is to be closed at the end.
        brokers: What answers statements in the process; at most one, and none until that role is added.
        routers: What the process answers over HTTP.
        loops: What must turn for it to be healthy.
        starts: Called in order once all roles are there and HTTP is answered.
        leaves: What is done at the end before anything else, the last one first.
        registry: What `/metrics` shows; of this process alone.
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
