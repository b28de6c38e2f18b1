"""What there is: segments, time chunks, late rows, commits. Nothing is written and no file is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.segments.sql_columns import HIDDEN_PREFIX
from carnac.core.time.intervals import IntervalSet
from carnac.ports import SegmentInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from carnac.core.log.commits import CommitSummary
    from carnac.core.log.entries import Chunk, VisibleSegment
    from carnac.core.log.late_ledger import LateLedger
    from carnac.core.time.intervals import Interval
    from carnac.metadata.store import MetadataStore


class StoreCatalog:
    """What a store's metadata say of a datasource; one that has no rows there is `NotFound`."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    def segments(
        self, datasource: str, revision: int, within: Interval | None
    ) -> Sequence[VisibleSegment]:
        """Return the visible segments with their entries, in order of time chunk and partition id."""
        where = None if within is None else IntervalSet((within,))
        found = self._metadata.visible(datasource, revision=revision, intervals=where)
        if not found:
            self._metadata.require_datasource(datasource, revision)
        return found

    def inputs(
        self, datasource: str, revision: int, within: Interval | None
    ) -> Sequence[SegmentInput]:
        """Return the visible segments as a job reads them: each with the instants of it that count."""
        where = None if within is None else IntervalSet((within,))
        return [
            SegmentInput(
                segment=item.segment,
                visible=item.entry.visible
                if where is None
                else item.entry.visible.intersect(where),
            )
            for item in self.segments(datasource, revision, within)
        ]

    def columns(self, datasource: str, at: int | str | None) -> Mapping[str, str]:
        """Return the columns that a user sees, besides `__time`."""
        revision = self._metadata.resolve(at).revision
        found = self._metadata.columns(datasource, revision=revision)
        if not found:
            self._metadata.require_datasource(datasource, revision)
        return {
            name: kind.value for name, kind in found.items() if not name.startswith(HIDDEN_PREFIX)
        }

    def chunks(self, datasource: str) -> tuple[Chunk, ...]:
        """Return the live time chunks, in order of time."""
        found = self._metadata.chunks(datasource)
        if not found:
            self._metadata.require_datasource(datasource, self._metadata.head().revision)
        return found

    def late(self, datasource: str, at: int | str | None, within: Interval | None) -> LateLedger:
        """Return the late ledger of a revision."""
        from carnac.core.log.late_ledger import draw_up_ledger

        head = self._metadata.resolve(at)
        where = None if within is None else IntervalSet((within,))
        found = self._metadata.visible_late(datasource, revision=head.revision, intervals=where)
        if not found:
            self._metadata.require_datasource(datasource, head.revision)
        return draw_up_ledger(
            found, datasource=datasource, revision=head.revision, at_ms=head.at_ms, within=within
        )

    def log(
        self, datasource: str | None, before: int | None, limit: int
    ) -> tuple[CommitSummary, ...]:
        """Return the newest commits, newest first."""
        found = self._metadata.log(datasource=datasource, before=before, limit=limit)
        if datasource is not None and not found:
            is_known = limit == 0 or before is not None
            if not (is_known and self._metadata.log(datasource=datasource, limit=1)):
                self._metadata.require_datasource(datasource)
        return found
