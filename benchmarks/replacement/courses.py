"""The answers of queries in each second of a replacement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class AnswerKind(StrEnum):
    """The kind of an answer."""

    OLD = "old, whole"
    NEW = "new, whole"
    COLD = "whole, partly cold"
    """Old or new: some of it is read from deep storage."""
    REFUSED = "an error"
    SHORT = "rows missing, status 200"

    @property
    def is_whole(self) -> bool:
        """Whether each row of one revision is seen once."""
        return self in {AnswerKind.OLD, AnswerKind.NEW, AnswerKind.COLD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The answer to a query of one second.

    Attributes:
        share: Share of all rows that the answer has, 0 to 1; 0 for an error.
        is_new: Whether the query reads the new segments, or would if they could be read.
    """

    kind: AnswerKind
    share: float = 1.0
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One replacement from the first second to the last. None: it has not happened.

    Attributes:
        way: How queries are answered, in words.
        death: When a server dies, in words; empty: none does.
        seconds: One after the other, from 0 on.
        published_s: When the new segments are committed.
        switched_s: The first second in which queries see the new segments as a whole, or would if they could be read.
        dropped_s: The first second in which no server has an old one.
        died_s: The first second in which the server is dead.
        noticed_s: The first second in which that is known.
    """

    way: str
    death: str
    seconds: Sequence[Second]
    published_s: int | None = None
    switched_s: int | None = None
    dropped_s: int | None = None
    died_s: int | None = None
    noticed_s: int | None = None

    @property
    def counts(self) -> Mapping[AnswerKind, int]:
        """How many seconds show what."""
        found = Counter(second.kind for second in self.seconds)
        return {kind: found[kind] for kind in AnswerKind}

    @property
    def least_share(self) -> float:
        """The least share of rows that an answer without an error has; 1 if there is none."""
        return min(
            (one.share for one in self.seconds if one.kind is not AnswerKind.REFUSED), default=1
        )
