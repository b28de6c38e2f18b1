"""The kinds of failure, by what the caller should do about them.

Every error that Carnac raises on purpose is one of these. The message is one clear sentence: lower-case start, what
failed, which ids, what to do, no final full stop. `exit_code` is what the command line exits with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

MESSAGE_MAX = 10_000
"""Characters of a message."""
_END = 1_000


def _in_one_line(message: str) -> str:
    if len(message) > MESSAGE_MAX:
        message = f"{message[: MESSAGE_MAX - _END]} … {message[-_END:]}"
    if message.isprintable():
        return message
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in message)


class CarnacError(Exception):
    """Base of all errors that Carnac raises on purpose.

    Args:
        message: One sentence for a person. It may repeat any text of a request, so control characters are written as
            escapes, and of a text that is longer than `MESSAGE_MAX` the beginning and the end are kept.
        ids: The things the message is about, for programs (`--json`, HTTP bodies).
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **ids: object) -> None:
        self.message = _in_one_line(message)
        super().__init__(self.message)
        self.ids = ids


class Conflict(CarnacError):
    """Somebody else changed what this writer read: read again and retry."""

    kind = "conflict"
    exit_code = 3
    retryable = True


class Unavailable(CarnacError):
    """Something the store needs does not answer: retry later."""

    kind = "unavailable"
    exit_code = 4
    retryable = True


class Busy(Unavailable):
    """Too many others wait already: ask again later.

    Args:
        retry_after_s: In how many seconds it is worth trying again, > 0.
    """

    def __init__(self, message: str, *, retry_after_s: int, **ids: object) -> None:
        super().__init__(message, **ids)
        self.retry_after_s = retry_after_s


class TimedOut(Unavailable):
    """A request took longer than it may, and was stopped."""


class TooLarge(Unavailable):
    """A query needs more memory than it may use."""


class Cancelled(Unavailable):
    """Somebody asked for it to be stopped."""


class DiskFull(Unavailable):
    """There is no room to write down what was asked for: make some, then retry."""


class Invalid(CarnacError):
    """The request is wrong: fix it."""

    kind = "invalid"
    exit_code = 2


class ReadOnly(Invalid):
    """The store can be read but not written from here: write where it can be."""


class AllRejected(Invalid):
    """No row of a load could be read, so nothing was published: mend the rows, or give a spec that reads them."""

    kind = "all_rejected"
    exit_code = 9


class NotFound(CarnacError):
    """The requested thing does not exist, or not any more."""

    kind = "not_found"
    exit_code = 5


class Revoked(CarnacError):
    """The right to do this was taken away: stop."""

    kind = "revoked"
    exit_code = 6


class Corrupt(CarnacError):
    """Stored data is not what the store recorded: call an operator."""

    kind = "corrupt"
    exit_code = 7


class InvariantError(CarnacError):
    """A law of the house does not hold: a bug in Carnac."""

    kind = "bug"
    exit_code = 8


def gravest(errors: Iterable[CarnacError]) -> CarnacError:
    """Return what to say of a whole of which several parts failed: damage counts most, what others took away least."""
    return max(
        errors,
        key=lambda error: (
            isinstance(error, Corrupt | InvariantError),
            not isinstance(error, Conflict),
        ),
    )
