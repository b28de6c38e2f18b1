"""The entries of a log's naive oracle, from the commit that added each to the one that dropped it."""

from __future__ import annotations

from dataclasses import dataclass

from carnac.core.log.entries import Entry


@dataclass
class Life:
    """An entry from the commit that added it to the one that dropped it (None: it lives)."""

    datasource: str
    entry: Entry
    dropped: int | None = None

    def is_seen_at(self, revision: int) -> bool:
        return self.entry.added_revision <= revision and not self.is_dropped_by(revision)

    def is_dropped_by(self, revision: int) -> bool:
        return self.dropped is not None and self.dropped <= revision
