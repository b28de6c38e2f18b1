"""`serve`: answers queries and runs tasks over HTTP, all in one process or role by role, until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import RUN, command
from carnac.cli.options import option
from carnac.cli.serving import (
    LOOPBACK,
    AccessLog,
    Capacity,
    FlightPort,
    Folder,
    Host,
    LogsJson,
    Tier,
    TlsCertificate,
    TlsKey,
    Url,
    run_until_told,
)
from carnac.cli.session import Session
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.ports.serving import Role

PORT = 8888
"""Druid's port of routers, which clients ask for everything."""
CAPACITY_MIN_BYTES = 1 << 20
"""As the setting `historical_capacity_bytes` has it: a smaller number has lost its unit."""
PORTS = {"coordinator": 8081, "broker": 8082, "historical": 8083, "overlord": 8090}
"""Druid's ports of processes with one role."""


@command(
    "serve",
    panel=RUN,
    examples=[
        "carnac serve",
        "carnac serve --port 9000 --access-log",
        "carnac serve --role overlord --host 0.0.0.0",
        "carnac serve --role historical --folder h1 --capacity 50GB --tier hot",
    ],
    has_json=False,
)
def serve(
    session: Session,
    *,
    roles: Annotated[
        list[str] | None,
        option(
            "--role ROLE",
            "Role of this process; may be given several times. Default: all that one machine needs.",
        ),
    ] = None,
    host: Host = LOOPBACK,
    port: Annotated[
        int | None,
        option(
            "--port PORT",
            "0: any that is free. Default: 8888; with one role Druid's port of it.",
            min=0,
            max=65535,
        ),
    ] = None,
    url: Url = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    folder: Folder = None,
    capacity: Capacity = None,
    tier: Tier = None,
    flight_port: FlightPort = None,
    has_access_log: AccessLog = False,
    as_json: LogsJson = False,
) -> None:
    """Serve a store: SQL over HTTP under Druid's paths, tasks, and the upkeep of the store.

    One process does it all. On Ctrl-C, SIGTERM and SIGHUP it accepts nothing new, finishes running requests, and ends.
    """
    chosen = _roles(roles or [])
    settings = _with_historical(
        session.settings,
        chosen,
        historical_folder=folder,
        historical_capacity_bytes=_capacity_bytes(capacity),
        historical_tier=tier,
        flight_port=flight_port,
    )
    run_until_told(
        session,
        chosen,
        settings=settings,
        host=host,
        port=_port(chosen, is_told=bool(roles)) if port is None else port,
        url=url,
        tls=(tls_certificate, tls_key),
        has_access_log=has_access_log,
        logs_json=as_json,
    )


def _roles(names: list[str]) -> set[Role]:
    """Return the roles of those names; of none: all that one machine needs.

    Raises:
        Invalid: There is no such role.
    """
    from carnac.bootstrap.serving.process import ROLES
    from carnac.ports.serving import Role

    unknown = [name for name in names if name not in set(Role)]
    if unknown:
        raise Invalid(f"there is no role '{unknown[0]}'; there are {', '.join(Role)}")
    return {Role(name) for name in names} or set(ROLES)


def _capacity_bytes(text: str | None) -> int | None:
    """Return a capacity in bytes.

    Raises:
        Invalid: It is no size, or one that holds no segment.
    """
    if text is None:
        return None
    from carnac.core.words import parse_bytes

    try:
        size_bytes = parse_bytes(text)
    except ValueError as error:
        raise Invalid(f"--capacity: {error}") from error
    if size_bytes < CAPACITY_MIN_BYTES:
        raise Invalid(
            f"--capacity {text.strip()} is {size_bytes} bytes, and a historical needs 1MiB at least; "
            "write it with its unit, like 50GB"
        )
    return size_bytes


def _with_historical(settings: Settings, roles: set[Role], **given: str | int | None) -> Settings:
    """Return the settings with what the options of historicals say.

    Raises:
        Invalid: The process is no historical.
    """
    told = {name: value for name, value in given.items() if value is not None}
    if told and "historical" not in roles:
        raise Invalid(
            "--folder, --capacity, --tier and --flight-port are for historicals; add --role historical"
        )
    return settings.model_copy(update=told)


def _port(roles: set[Role], *, is_told: bool) -> int:
    return PORTS[min(roles)] if is_told and len(roles) == 1 else PORT
