"""`overlord`: dispatches tasks and answers over HTTP, until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import RUN, command
from carnac.cli.options import option
from carnac.cli.serving import (
    LOOPBACK,
    AccessLog,
    Host,
    LogsJson,
    TlsCertificate,
    TlsKey,
    Url,
    run_until_told,
)
from carnac.cli.session import Session
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.config import Settings

PORT = 8090
"""Druid's port of overlords."""
RUNNERS = ("process", "spark_submit", "in_process")


@command(
    "overlord",
    panel=RUN,
    examples=["carnac overlord", "carnac overlord --host 0.0.0.0 --runner spark_submit --json"],
    has_json=False,
)
def overlord(
    session: Session,
    *,
    host: Host = LOOPBACK,
    port: Annotated[int, option("--port PORT", "0: any that is free.", min=0, max=65535)] = PORT,
    url: Url = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    runner: Annotated[
        str | None,
        option(
            "--runner NAME",
            "Runner of tasks: process, spark_submit or in_process. Default: the setting task_runner.",
        ),
    ] = None,
    has_access_log: AccessLog = False,
    as_json: LogsJson = False,
) -> None:
    """Run an overlord: it starts submitted tasks, finds dead ones, and answers under Druid's paths.

    Several may run on one store, on one machine or on many: one leads, and when it is gone another takes over within a
    lease. Tasks that run as processes of their own continue without an overlord. Ends on Ctrl-C, SIGTERM and SIGHUP.
    """
    from carnac.ports.serving import Role

    run_until_told(
        session,
        {Role.OVERLORD},
        settings=_with_runner(session.settings, runner),
        host=host,
        port=port,
        url=url,
        tls=(tls_certificate, tls_key),
        has_access_log=has_access_log,
        logs_json=as_json,
    )


def _with_runner(settings: Settings, runner: str | None) -> Settings:
    if runner is None:
        return settings
    if runner not in RUNNERS:
        raise Invalid(f"there is no runner '{runner}'; there are {', '.join(RUNNERS)}")
    return settings.model_copy(update={"task_runner": runner})
