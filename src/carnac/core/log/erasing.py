"""Erasures as data: rows that are taken out of every revision, not only of the newest.

An erasure changes what history names. A segment that only earlier revisions show is replaced by one without the rows,
wherever it is named: entries keep their ids, chunks, versions and partition ids, so every other row of every revision
stays where it was. A segment of which no row is left is named no more.

What the newest revision shows is changed by a deletion before, a commit like any other, so that readers, compactions
and the feed of changes need no rule for it. The old files go as soon as no reader holds them that came before.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from carnac.core.segments.segment import Segment
from carnac.core.texts import MESSAGE_MAX, check_text
from carnac.core.time.intervals import IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """A segment that no visible entry names, and the one that takes its place in history.

    Attributes:
        new: None: all its rows are erased.
    """

    old: Segment
    new: Segment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A request to erase: all of it in one transaction, or nothing.

    Attributes:
        segments: At most one for a segment.
        searched: Ids of all other segments that hold no such row: files of them do not change, so that holds for good.
        base_revision: Of the state in which segments were looked for. What is appended afterwards need not be searched.
        spans: The spans of all segments that held such rows. Bounds of range partitions go that may be values of one.
        texts: Texts that are taken out of messages of commits, as earlier deletions quote their conditions, and out of
            bounds of range partitions.
        message: For people reading the log.
        lease_id: The writer's lease that keeps the new files from garbage collection.
    """

    datasource: str
    segments: tuple[Erased, ...]
    searched: Set[str]
    base_revision: int
    spans: IntervalSet
    texts: tuple[str, ...]
    message: str
    lease_id: str

    def __post_init__(self) -> None:
        """Refuse a text that the log would have for good."""
        check_text(self.message, "the message of a commit", limit=MESSAGE_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFile:
    """A file whose rows were erased, which readers that came before may still have open.

    Attributes:
        path: In deep storage.
        revision: Of the erasure. A reader of this or a later one does not read it.
        at_ms: When it was erased, epoch milliseconds.
    """

    path: str
    revision: int
    at_ms: int


def may_read(file: ErasedFile, *, revision: int, acquired_at_ms: int) -> bool:
    """Whether the holder of a reader's lease may still read an erased file.

    Args:
        revision: The oldest that the lease protects.
    """
    return revision < file.revision and acquired_at_ms <= file.at_ms
