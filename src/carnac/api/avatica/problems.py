"""Failures as Avatica's driver knows them: each becomes a `SQLException` with the sentence in it."""

from __future__ import annotations

from carnac.core.texts import one_line
from carnac.errors import Cancelled, CarnacError, Invalid, NotFound, TimedOut

UNKNOWN_CODE = -1
MISSING_CONNECTION_CODE = 1
"""By it the driver knows to open the connection again, if `transparent_reconnection` is true."""
NO_STATE = "00000"
_STATES: tuple[tuple[type[CarnacError], str], ...] = (
    (TimedOut, "HYT00"),
    (Cancelled, "HY008"),
    (Invalid, "42000"),
    (NotFound, "42000"),
)
"""States of SQL by kinds of error; Druid has none."""


class NoConnection(NotFound):
    """A connection that is not open here, or not any more."""


class NoStatement(NotFound):
    """A statement that its connection has not; the driver makes another one."""


def error_response(error: CarnacError) -> dict[str, object]:
    """Return what is wrong as the driver reads it."""
    message = one_line(error.message)
    is_missing = isinstance(error, NoConnection)
    state = next((state for kind, state in _STATES if isinstance(error, kind)), NO_STATE)
    return {
        "response": "error",
        "exceptions": [message],
        "errorMessage": message,
        "errorCode": MISSING_CONNECTION_CODE if is_missing else UNKNOWN_CODE,
        "sqlState": NO_STATE if is_missing else state,
        "severity": "ERROR" if is_missing else "UNKNOWN",
        "rpcMetadata": None,
    }
