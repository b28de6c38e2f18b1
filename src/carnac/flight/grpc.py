"""gRPC below Flight: where a server of ours listens and how it ends, and what gRPC writes of its own."""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ENCRYPTED = "grpc+tls"
"""The scheme of a server's URL if what is sent to it is encrypted; else it is `grpc+tcp`."""
CLOSE_MAX_MS = 5_000
"""How long a server that ends waits for clients that are being answered."""
_INTERNET = {socket.AF_INET, socket.AF_INET6}

_log = logging.getLogger(__name__)


def url_of(host: str, port: int, *, is_encrypted: bool) -> str:
    """Return the URL of a server at a host, which may be an address of IPv6."""
    scheme = ENCRYPTED if is_encrypted else "grpc+tcp"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def silence_grpc() -> None:
    """Have gRPC write nothing to stderr that it tells as an error, too, unless `GRPC_VERBOSITY` says otherwise.

    To be called before the first client or server of a process is made.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def shut_down(service: Any, port: int, *, stop: Callable[[], object] | None = None) -> None:
    """Let a server take nothing new, and wait for running calls, `CLOSE_MAX_MS` at most. Idempotent.

    Clients that have asked and do not read lose their connections.

    Args:
        service: A `pyarrow.flight.FlightServerBase`.
        stop: Ends calls that still run after that time; their clients get an error, if they read.
    """
    ending = threading.Thread(target=service.shutdown, name="carnac-flight-end", daemon=True)
    ending.start()
    ending.join(CLOSE_MAX_MS / 1000)
    if ending.is_alive() and stop is not None:
        stop()
        ending.join(CLOSE_MAX_MS / 1000)
    if ending.is_alive():
        _log.warning("a client does not read its answer: connections are closed")
        _break_off(port)
        ending.join(CLOSE_MAX_MS / 1000)


def _break_off(port: int) -> None:
    """End the connections to a port of this process, as nobody else can: Flight does not name them."""
    for path in Path("/dev/fd").iterdir():
        with suppress(OSError):  # gone by now
            handle = int(path.name)
            if not stat.S_ISSOCK(os.fstat(handle).st_mode):
                continue
            with socket.socket(fileno=os.dup(handle)) as one:
                if one.family in _INTERNET and one.getsockname()[1] == port:
                    one.shutdown(socket.SHUT_RDWR)
