"""The change feed of one datasource: the rows that a commit brought, and whether it took some back.

A rewrite keeps the data, so it brings nothing. Rows that a deletion by predicate or a revert enters anew were there
before.
"""

from __future__ import annotations

from dataclasses import dataclass

from carnac.core.log.commits import Commit, CommitKind
from carnac.core.log.entries import come_and_gone, shown_by
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import EMPTY, IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """The part of a commit in the feed.

    Attributes:
        new: Segments whose rows are new, and their visible instants.
        is_change: Rows that were there went out of sight, or some came back.
    """

    new: tuple[tuple[Segment, IntervalSet], ...] = ()
    is_change: bool = False

    @property
    def rows(self) -> int:
        """How many rows are new, at most."""
        return sum(segment.rows for segment, _ in self.new)


NOTHING = Fed()
_WITHOUT_CHANGE = frozenset({CommitKind.REWRITE, CommitKind.LOOKUP, CommitKind.ERASE})


def feed_of(commit: Commit, datasource: str) -> Fed:
    """Return the part of a commit that followers of a datasource get."""
    change = next((one for one in commit.changes if one.datasource == datasource), None)
    if change is None or commit.kind in _WITHOUT_CHANGE:
        return NOTHING
    if commit.kind in {CommitKind.DELETE, CommitKind.REVERT}:
        return Fed(is_change=True)
    shown = shown_by(change.adds)
    _, gone = come_and_gone(shown_by(change.drops), shown)
    new = tuple((one, shown.get(one.segment_id, EMPTY)) for one in change.segments)
    return Fed(new=new, is_change=bool(gone))
