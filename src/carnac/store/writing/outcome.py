"""The outcome of a write, as its caller is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carnac.core.showing import Shown
from carnac.core.words import number_text
from carnac.ports import JobReport


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteOutcome(Shown):
    """The outcome of a write.

    Attributes:
        revision: Revision of its commit, or of the first commit of the same `(writer, batch)`; None if there was
            nothing to publish.
        is_replay: Whether the batch had been published before, so that nothing was done.
        report: Report of the job; None for deletions by interval and replays.
        segments_added: New segments.
        segments_dropped: Segments of which rows were taken out of sight.
        rows_deleted: Rows that a predicate delete took out; None for other writes.
    """

    revision: int | None
    is_replay: bool = False
    report: JobReport | None = None
    segments_added: int = 0
    segments_dropped: int = 0
    rows_deleted: int | None = None

    def _facts(self) -> Mapping[str, str]:
        rows = None if self.report is None else self.report.rows_written
        rejected = 0 if self.report is None else self.report.rejected.count
        return {
            "revision": "none" if self.revision is None else f"{self.revision}",
            "rows": "" if rows is None else number_text(rows),
            "rejected": number_text(rejected) if rejected else "",
            "segments": f"+{self.segments_added:,} -{self.segments_dropped:,}",
            "deleted": "" if self.rows_deleted is None else number_text(self.rows_deleted),
            "before": "yes" if self.is_replay else "",
        }
