"""Errors over the wire: kind, message and ids arrive as they were raised; gRPC's own become Unavailable."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from carnac import errors
from carnac.errors import Busy, CarnacError, InvariantError, TimedOut, Unavailable
from carnac.flight.grpc import ENCRYPTED
from carnac.ports.loops import log_failure, reason_of

if TYPE_CHECKING:
    import pyarrow.flight as fl

MESSAGE_MAX_BYTES = 3_000
"""Maximum size of a message: an error travels in a header, of which gRPC takes 8 kB."""
IDS_MAX_BYTES = 1_500
BUSY_AGAIN_S = 1

_KINDS: Mapping[str, type[CarnacError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, CarnacError)
}

_ARGUMENTS = {"self", "message", "retry_after_s"}
"""Arguments of errors that are not ids."""

_log = logging.getLogger(__name__)


class _Failure(Struct, kw_only=True, omit_defaults=True):
    kind: str
    message: str
    ids: dict[str, object] = {}
    retry_after_s: int = 0


_ENCODER = Encoder(enc_hook=str)
_DECODER = Decoder(_Failure)


def to_flight(error: Exception, what: str) -> fl.FlightError:
    """Return what a Flight server raises in place of an error.

    Args:
        what: Name of the request, for the log and the message if the error is a bug.
    """
    import pyarrow.flight as fl

    if not isinstance(error, CarnacError):
        log_failure(_log, what, error)
        error = InvariantError(f"{what} failed at the server: {reason_of(error)}")
    kind = next(one for one in type(error).__mro__ if _KINDS.get(one.__name__) is one)
    ids = error.ids if len(_ENCODER.encode(error.ids)) <= IDS_MAX_BYTES else {}
    body = _ENCODER.encode(
        _Failure(
            kind=kind.__name__,
            message=_cut(error.message),
            ids=ids,
            retry_after_s=error.retry_after_s if isinstance(error, Busy) else 0,
        )
    )
    raised = fl.FlightUnavailableError if issubclass(kind, Unavailable) else fl.FlightServerError
    return raised(_cut(error.message)[:200], extra_info=body)


def from_flight(error: Exception, *, url: str, server_id: str, timeout_s: float) -> CarnacError:
    """Return the error that a server raised; of one that is gRPC's own, what to do about it."""
    import pyarrow.flight as fl

    told = getattr(error, "extra_info", None)
    if told:
        try:
            failure = _DECODER.decode(told)
        except MsgspecError:
            pass
        else:
            return _rebuilt(failure)
    ids = {"server_id": server_id, "url": url}
    name = f"historical {server_id or 'of unknown id'} at {url}"
    match error:
        case fl.FlightTimedOutError():
            return TimedOut(f"{name} did not answer within {timeout_s:g} s; ask another one", **ids)
        case fl.FlightCancelledError():
            return errors.Cancelled(f"the request to {name} was cancelled", **ids)
        case fl.FlightUnavailableError() if url.startswith(ENCRYPTED) and _is_distrust(error):
            return Unavailable(
                f"{name} shows no certificate that is trusted here: name the file of those to trust in SSL_CERT_FILE; "
                "its own must be made for that host",
                **ids,
            )
        case fl.FlightUnavailableError():
            return Unavailable(f"{name} cannot be reached; ask another one", **ids)
        case _:
            first_line = str(error).partition("\n")[0].partition(" gRPC client debug")[0]
            return Unavailable(
                f"{name} broke off, or what answers there is no historical: {first_line}", **ids
            )


def _is_distrust(error: Exception) -> bool:
    """Whether a server was reached whose certificate is none, of others, or of another host; or none is trusted."""
    said = str(error)
    return any(words in said for words in ("certificate", "empty address list"))


def _rebuilt(failure: _Failure) -> CarnacError:
    kind = _KINDS.get(failure.kind, CarnacError)
    ids = {name: one for name, one in failure.ids.items() if name not in _ARGUMENTS}
    if kind is Busy:
        return Busy(failure.message, retry_after_s=max(failure.retry_after_s, BUSY_AGAIN_S), **ids)
    return kind(failure.message, **ids)


def _cut(message: str) -> str:
    """Return a message that is not too long for a header: its beginning and its end."""
    text = message.encode()
    if len(text) <= MESSAGE_MAX_BYTES:
        return message
    half = MESSAGE_MAX_BYTES // 2
    begin, end = text[:half].decode(errors="ignore"), text[-half:].decode(errors="ignore")
    return f"{begin} … {end}"
