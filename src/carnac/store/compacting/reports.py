"""Reports of a compaction, group by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from carnac.core.arguments import checked
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.showing import Listing, Shown, facts_table
from carnac.core.words import bytes_text, number_text
from carnac.errors import CarnacError


class GroupOutcome(StrEnum):
    """How a group ended.

    `COMMITTED`: its rewrite is published. `UNCHANGED`: there was nothing to rewrite, or it was published before.
    `CONFLICT`: an input was replaced or deleted meanwhile; plan again. `FAILED`: see its error.
    """

    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupReport(Shown):
    """The outcome of a group.

    Attributes:
        group: Group as it was given.
        outcome: End of the group.
        revision: Revision of its commit; None if there is none.
        segments_in: Inputs that were read.
        segments_out: Segments published.
        rows_in: Rows that the inputs showed, as far as they were read; 0 if they were not.
        rows_out: Rows published.
        bytes_in: Size of the inputs' files, hidden parts included.
        bytes_out: Size of the published files.
        bytes_wasted: Size of files and staged parts that were written and then removed because the group did not
            commit.
        error: Reason why it did not commit; None if it did, or if there was nothing to do.
    """

    group: CompactionGroup
    outcome: GroupOutcome
    revision: int | None = None
    segments_in: int = 0
    segments_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_wasted: int = 0
    error: CarnacError | None = None

    def _facts(self) -> Mapping[str, str]:
        return {
            "group": self.group.group_id,
            "outcome": self.outcome.value,
            "revision": "" if self.revision is None else f"{self.revision}",
            "segments": f"{self.segments_in:,} to {self.segments_out:,}",
            "rows": number_text(self.rows_out),
            "size": f"{bytes_text(self.bytes_in)} to {bytes_text(self.bytes_out)}",
            "error": "" if self.error is None else self.error.message,
        }


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionReport(Shown):
    """The report of a compaction, group by group, in the order in which the groups were given.

    Attributes:
        groups: Reports of all groups, those that failed included.
        seconds: Time of the whole compaction, by the clock on the wall.
    """

    groups: tuple[GroupReport, ...]
    seconds: float

    def _facts(self) -> Mapping[str, str]:
        ended = {outcome.value: self.count(outcome) for outcome in GroupOutcome}
        return {
            "groups": number_text(len(self.groups)),
            **{word: number_text(count) for word, count in ended.items() if count},
            "written": bytes_text(self.bytes_out),
            "seconds": f"{self.seconds:.2f}",
        }

    def _repr_html_(self) -> str:
        """Return what it came to, and its groups, as tables for a notebook."""
        return facts_table(self._facts()) + Listing(self.groups)._repr_html_()

    def count(self, outcome: GroupOutcome) -> int:
        """Return how many groups ended so."""
        return sum(group.outcome is outcome for group in self.groups)

    @property
    def bytes_wasted(self) -> int:
        """Bytes written for nothing."""
        return sum(group.bytes_wasted for group in self.groups)

    @property
    def bytes_out(self) -> int:
        """Bytes of the segments published."""
        return sum(group.bytes_out for group in self.groups)

    @property
    def bytes_in(self) -> int:
        """Bytes of the segments that the committed groups replaced."""
        return sum(
            group.bytes_in for group in self.groups if group.outcome is GroupOutcome.COMMITTED
        )
