"""Errors as Flight sends them: by the status that a client of gRPC knows, in one sentence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from carnac.core.texts import one_line
from carnac.errors import Busy, Cancelled, CarnacError, Invalid, NotFound, TimedOut, Unavailable
from carnac.ports.loops import log_failure, reason_of

if TYPE_CHECKING:
    import pyarrow.flight as fl

MESSAGE_MAX = 3_000
"""Characters of a message: it travels in a header, of which gRPC takes 8 kB."""
_log = logging.getLogger(__name__)


def to_status(error: Exception) -> fl.FlightError:
    """Return what is raised in place of an error, so that Flight sends the status of its kind."""
    import pyarrow.flight as fl

    if isinstance(error, fl.FlightError):
        return error
    if not isinstance(error, CarnacError):
        log_failure(_log, "a call of Flight SQL", error)
        return fl.FlightInternalError(f"the server failed: {reason_of(error)}"[:MESSAGE_MAX])
    message = one_line(error.message)[:MESSAGE_MAX]
    match error:
        case Busy():
            return fl.FlightUnavailableError(f"{message} (again in {error.retry_after_s} s)")
        case TimedOut():
            return fl.FlightTimedOutError(message)
        case Cancelled():
            return fl.FlightCancelledError(message)
        case Unavailable():
            return fl.FlightUnavailableError(message)
        case (
            Invalid() | NotFound()
        ):  # to errors of Arrow, which have more kinds, pyarrow adds a traceback
            return fl.FlightServerError(message)
    return fl.FlightInternalError(message)
