"""A process that serves: its roles, and the one port at which they answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING

from carnac.bootstrap.serving.assembly import Assembly
from carnac.clock import StoreClock, new_secret
from carnac.ports.serving import Role
from carnac.store.upkeep.users import KEY_BYTES

if TYPE_CHECKING:
    from carnac.api.access import Access
    from carnac.api.server import Certificate
    from carnac.config import Settings

ROLES = (Role.OVERLORD, Role.COORDINATOR, Role.BROKER)
"""Roles of a process for which none are given."""

_log = logging.getLogger(__name__)


class ServingProcess:
    """A process that was put together: it listens at its address, and does nothing before `start`.

    Attributes:
        url: URL at which others reach its HTTP interface.
        example: Command line of a request to it.
        is_open: Whether others than this machine reach it, and the store has no users.
    """

    def __init__(
        self,
        url: str,
        example: str,
        start: Callable[[], None],
        steps: ExitStack,
        *,
        is_open: bool,
    ) -> None:
        self.url = url
        self.is_open = is_open
        self.example = example
        self.start = start
        self._steps = steps

    def close(self) -> None:
        """Resign, answer what was asked, and leave what can outlive this process to itself. Idempotent."""
        self._steps.close()


def open_process(
    roles: Collection[Role],
    *,
    settings: Settings,
    host: str,
    port: int,
    url: str | None = None,
    has_access_log: bool = False,
    certificate: Certificate | None = None,
) -> ServingProcess:
    """Put a process together that serves the store of the settings.

    Args:
        roles: Roles of the process; at least one.
        host: Address to listen at.
        port: Port to listen at; 0: one that is free.
        url: URL for others; None: `host` and `port`, or this machine's name.
        has_access_log: Whether each request is logged.
        certificate: Certificate that encrypts requests and answers; None: they are not encrypted.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`; or the address is taken, or a role cannot work.
    """
    from carnac.api.app import make_app
    from carnac.api.hosts import hosts_of, is_loopback
    from carnac.api.server import HttpServer
    from carnac.bootstrap.serving import metrics
    from carnac.bootstrap.store import require_writable

    require_writable(settings.store.get_secret_value())  # servers tell others that they are there
    # opened parts are closed in the opposite order, also if the rest fails
    with ExitStack() as steps:
        server = HttpServer(host, port, certificate=certificate)
        steps.callback(server.stop)
        url = url or server.url
        assembly = _begin(
            steps, settings=settings, roles=roles, host=host, url=url, certificate=certificate
        )
        named = [role for role in Role if role in roles]  # in one order, whoever was named first
        for role in named:
            _add(role, assembly)
        metrics.add(assembly)
        app = make_app(
            assembly.routers,
            loops=assembly.loops,
            hosts=hosts_of(host, url=url, more=settings.http_hosts),
            access=assembly.access,
        )
        steps.callback(server.stop)
        steps.callback(assembly.leaves.close)  # others may take over while the rest ends

        def start() -> None:
            server.start(app, has_access_log=has_access_log)
            for begin in assembly.starts:
                begin()
            _log.info("listening at %s, roles %s", url, ", ".join(named))

        is_open = not (is_loopback(host) or assembly.access.accounts().users)
        example = _example(url, roles, assembly.access)
        return ServingProcess(url, example, start, steps.pop_all(), is_open=is_open)


def _begin(
    steps: ExitStack,
    *,
    settings: Settings,
    roles: Collection[Role],
    host: str,
    url: str,
    certificate: Certificate | None,
) -> Assembly:
    """Return a process without roles yet, and have it closed."""
    clock = StoreClock()
    access = _access(settings, clock, steps)
    assembly = Assembly(
        settings=settings,
        roles=roles,
        host=host,
        url=url,
        clock=clock,
        access=access,
        certificate=certificate,
    )
    steps.enter_context(assembly.steps)
    steps.enter_context(assembly.leaves)
    return assembly


def _access(settings: Settings, clock: StoreClock, steps: ExitStack) -> Access:
    """Return what tells who asks; processes of the cluster know one another from now on.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.api.access import Access
    from carnac.bootstrap.store import open_records

    records = steps.enter_context(open_records(settings=settings, clock=clock))
    if not records.accounts().key:
        records.keep_access_key(new_secret(KEY_BYTES))
    return Access(records.accounts, clock, new_secret(KEY_BYTES))


def _example(url: str, roles: Collection[Role], access: Access) -> str:
    user = next(iter(access.accounts().users), None)
    curl = f"curl -u {user} {url}" if user else f"curl {url}"
    if Role.BROKER not in roles:
        return f"{curl}/status"
    query = json.dumps({"query": "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES"})
    return f"{curl}/druid/v2/sql -H 'Content-Type: application/json' -d '{query}'"


def _add(role: Role, assembly: Assembly) -> None:
    """Add a role; a process loads what its own roles need."""
    match role:
        case Role.OVERLORD:
            from carnac.bootstrap.serving import overlord

            overlord.add(assembly)
        case Role.COORDINATOR:
            from carnac.bootstrap.serving import coordinator

            coordinator.add(assembly)
        case Role.BROKER:
            from carnac.bootstrap.serving import broker

            broker.add(assembly)
        case Role.HISTORICAL:
            from carnac.bootstrap.serving import historical

            historical.add(assembly)
