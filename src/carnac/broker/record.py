"""The record of a finished statement: for the query log and for metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from carnac.errors import (
    Busy,
    Cancelled,
    CarnacError,
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
)
from carnac.ports.answers import AnswerFacts, Statement


class Outcome(StrEnum):
    """How a statement ended."""

    OK = "ok"
    """All rows were handed over."""
    NOT_MODIFIED = "not_modified"
    """The asker has the answer already."""
    ABANDONED = "abandoned"
    """The asker went before all rows were handed over."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    BUSY = "busy"
    """The queue was full."""
    INVALID = "invalid"
    NOT_FOUND = "not_found"
    UNAVAILABLE = "unavailable"
    CORRUPT = "corrupt"
    BUG = "bug"


_KINDS: tuple[tuple[type[BaseException], Outcome], ...] = (
    (GeneratorExit, Outcome.ABANDONED),
    (KeyboardInterrupt, Outcome.ABANDONED),
    (Busy, Outcome.BUSY),
    (TimedOut, Outcome.TIMED_OUT),
    (Cancelled, Outcome.CANCELLED),
    (Unavailable, Outcome.UNAVAILABLE),
    (Invalid, Outcome.INVALID),
    (Conflict, Outcome.INVALID),
    (NotFound, Outcome.NOT_FOUND),
    (Corrupt, Outcome.CORRUPT),
)


def outcome_of(error: BaseException | None) -> Outcome:
    """Return how a statement ended that ended by an error; None: by its last row."""
    if error is None:
        return Outcome.OK
    for kind, outcome in _KINDS:
        if isinstance(error, kind):
            return outcome
    return Outcome.BUG


def said(error: BaseException | None) -> str:
    """Return what an error says; empty of none, and of a client that went."""
    if error is None or isinstance(error, GeneratorExit):
        return ""
    return error.message if isinstance(error, CarnacError) else f"{type(error).__name__}: {error}"


@dataclass(slots=True, kw_only=True)
class QueryRecord:
    """A statement from its arrival to its end.

    Attributes:
        asked_at_ms: When it arrived, epoch milliseconds, UTC.
        waited_ms: Time in the queue.
        duration_ms: Time from its arrival to its end, waiting included.
        facts: Facts that its answer states; None: there was no answer.
        rows: Rows handed over.
        size_bytes: Size of these rows, as Arrow has them in memory.
        error: One sentence; empty if it did not fail.
    """

    statement: Statement
    asked_at_ms: int
    waited_ms: int = 0
    duration_ms: int = 0
    facts: AnswerFacts | None = None
    rows: int = 0
    size_bytes: int = 0
    outcome: Outcome = Outcome.OK
    error: str = field(default="")
