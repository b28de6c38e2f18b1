"""The end of a Flight server, which waits for its clients itself, without an end."""

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

CLOSE_MAX_MS = 5_000
"""For clients that are being answered."""
_INTERNET = {socket.AF_INET, socket.AF_INET6}

_log = logging.getLogger(__name__)


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
