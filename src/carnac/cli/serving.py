"""The common part of commands that serve over HTTP: options, and running until they are stopped."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit

from carnac.cli.options import flag, option
from carnac.cli.signals import hearing
from carnac.core.redaction import show_url
from carnac.errors import Invalid, NotFound

if TYPE_CHECKING:
    from carnac.api.server import Certificate
    from carnac.bootstrap.serving.cluster_status import ClusterStatus
    from carnac.cli.session import Session
    from carnac.config import Settings
    from carnac.core.balancing.live.picture import ServerView
    from carnac.core.tasks.leadership import Leadership
    from carnac.ports.serving import Role

Host: TypeAlias = Annotated[
    str,
    option(
        "--host ADDRESS",
        "Address to listen on. While there are no users (`carnac users`), mind who can reach it.",
    ),
]
Url: TypeAlias = Annotated[
    str | None,
    option(
        "--url URL", "URL at which others reach it, if not --host and --port: http://node1:8090."
    ),
]
TlsCertificate: TypeAlias = Annotated[
    Path | None,
    option(
        "--tls-certificate FILE",
        "Encrypt what is sent to it and what it sends back (TLS): its certificate and the chain, in PEM.",
    ),
]
TlsKey: TypeAlias = Annotated[
    Path | None, option("--tls-key FILE", "The key of the certificate, in PEM, without a password.")
]
AccessLog: TypeAlias = Annotated[bool, flag("--access-log", "Log each request.")]
LogsJson: TypeAlias = Annotated[bool, flag("--json", "Log one JSON object a line.")]
Folder: TypeAlias = Annotated[
    str | None,
    option(
        "--folder DIR",
        "Folder in which a historical keeps its segments. Default: the setting historical_folder.",
    ),
]
Capacity: TypeAlias = Annotated[
    str | None,
    option(
        "--capacity SIZE",
        "Capacity of a historical: 50GB, 512MiB, or bytes. Default: the setting historical_capacity_bytes.",
    ),
]
Tier: TypeAlias = Annotated[
    str | None,
    option("--tier NAME", "The tier of a historical. Default: the setting historical_tier."),
]
FlightPort: TypeAlias = Annotated[
    int | None,
    option(
        "--flight-port PORT",
        "Port at which a historical listens for Arrow Flight. Default: the setting flight_port.",
        min=0,
        max=65535,
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
    tls: tuple[Path | None, Path | None],
    has_access_log: bool,
    logs_json: bool,
) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; then answer what was asked, and end at once if told again meanwhile.

    Args:
        tls: Files of a certificate and its key; both or neither.

    Raises:
        NotFound, Invalid, Unavailable: As `open_process`.
    """
    from carnac.bootstrap.serving.process import open_process
    from carnac.cli.logs import logging_to_stderr
    from carnac.ports.loops import LEAVING

    level = logging.DEBUG if session.is_debug else logging.INFO
    if url is not None:
        _check_own_url(url)
    with logging_to_stderr(is_json=logs_json, level=level), hearing() as told:
        opened = open_process(
            roles,
            settings=settings,
            host=host,
            port=port,
            url=url,
            has_access_log=has_access_log,
            certificate=_certificate(*tls),
        )
        try:
            opened.start()
            if not logs_json:
                session.output.note(f"store {session.shown_store} is served at {opened.url}; try:")
                session.output.note(opened.example)
                if opened.is_open:
                    session.output.warning(OPEN)
            told.wait()
            told.end_at_once_when_told_again()
            LEAVING.set()
        finally:
            opened.close()
        logging.getLogger("carnac.serving").info("stopped")


def _check_own_url(url: str) -> None:
    """Refuse a URL under which others would not find this process.

    Raises:
        Invalid: It has no scheme of HTTP, or no host, or a port that is none.
    """
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise Invalid(
            f"--url {show_url(url)} is no URL of a server; write it like http://node1:8090"
        )


def _certificate(chain: Path | None, key: Path | None) -> Certificate | None:
    from carnac.api.server import Certificate

    if chain is not None and key is not None:
        return Certificate(chain, key)
    if chain is not None or key is not None:
        raise Invalid("a certificate goes with its key: give both --tls-certificate and --tls-key")
    return None


NO_OVERLORD = "no overlord leads now; carnac overlord starts one"
OPEN = (
    "the store has no users, so whoever reaches this address may read and write; add one with: "
    "carnac users set NAME --may read"
)


def note_without_overlord(session: Session, leader: Leadership | None) -> None:
    """Say so if no overlord leads: submitted tasks and specs are kept then, and nobody works on them."""
    if leader is None:
        session.output.note(NO_OVERLORD)


@contextmanager
def listing(command: str, missing: str, instead: str | None = None, **ids: str) -> Iterator[None]:
    """Let the error about a thing that is not there name the command that lists those there are.

    Args:
        missing: Beginning of the error's message; other errors stay.
        instead: Message in its place, where the service has Druid's words; None: its own.
        ids: Of the thing, for programs.
    """
    try:
        yield
    except NotFound as error:
        if not error.message.startswith(missing):
            raise
        said = instead or error.message
        raise NotFound(f"{said}; {command} shows those there are", **ids) from None


def look_at_cluster(session: Session, so: str) -> tuple[ClusterStatus, list[ServerView]]:
    """Return a cluster and its historicals, after a warning for each that did not answer.

    Args:
        so: Consequence for the message if there is no historical.

    Raises:
        NotFound: There is no historical.
    """
    from carnac.bootstrap.serving.cluster_status import load_cluster_status

    status = load_cluster_status(session.settings, session.clock)
    for one in status.servers:
        if one.trouble:
            session.output.warning(f"{one.record.server_id} is left out: {one.trouble}")
    views = status.views()
    if not views:
        raise NotFound(
            f"no historical serves this store, so {so}; start one with carnac serve --role historical, or give a table"
        )
    return status, views
