"""What commands that serve over HTTP have in common: options, and running until somebody wants the end."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from carnac.cli.signals import hearing

if TYPE_CHECKING:
    from carnac.cli.session import Session
    from carnac.config import Settings
    from carnac.ports.serving import Role

Host: TypeAlias = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Where to listen. There is no password: mind who can reach it.",
    ),
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Where others reach it, if not at --host and --port."
    ),
]
AccessLog: TypeAlias = Annotated[
    bool, typer.Option("--access-log", help="Log each request.", metavar="")
]
LogsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Log one JSON object a line.", metavar="")
]
Folder: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="Where a historical keeps its segments. Default: the setting historical_folder.",
    ),
]
Capacity: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--capacity",
        metavar="SIZE",
        help="What a historical may hold: 50GB, 512MiB, or bytes. Default: the setting historical_capacity_bytes.",
    ),
]
Tier: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="NAME",
        help="The tier of a historical. Default: the setting historical_tier.",
    ),
]
FlightPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--flight-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Where a historical listens for Arrow Flight. Default: the setting flight_port.",
    ),
]
LOOPBACK = "127.0.0.1"


def run_until_told(
    session: Session,
    roles: Collection[Role],
    *,
    settings: Settings,
    host: str,
    port: int,
    url: str | None,
    has_access_log: bool,
    logs_json: bool,
) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; then answer what was asked.

    Raises:
        NotFound, Invalid, Unavailable: As `open_process`.
    """
    from carnac.bootstrap.serving.process import open_process
    from carnac.cli.logs import start_logging

    start_logging(is_json=logs_json, level=logging.DEBUG if session.is_debug else logging.INFO)
    with hearing() as told:
        opened = open_process(
            roles, settings=settings, host=host, port=port, url=url, has_access_log=has_access_log
        )
        try:
            opened.start()
            if not logs_json:
                session.output.note(f"store {session.shown_store} is served at {opened.url}; try:")
                session.output.note(opened.example)
            told.get()
        finally:
            opened.close()
    logging.getLogger("carnac.serving").info("stopped")
