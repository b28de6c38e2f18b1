"""What a query may see: one revision, read from the metadata store as far as it is needed; and running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from carnac.errors import Corrupt, NotFound

if TYPE_CHECKING:
    from carnac.core.log.entries import VisibleSegment
    from carnac.core.segments.segment import ColumnType
    from carnac.core.time.intervals import IntervalSet
    from carnac.ports import MetadataStore, QueryEngine, QueryResult
    from carnac.store.leases import LeaseKeeper

T = TypeVar("T")

READ_ATTEMPTS_MAX = 3
"""How often a query is run when its lease runs out meanwhile, as it does when the machine sleeps."""


class RevisionCatalog:
    """The `Catalog` port over a metadata store, at one revision."""

    def __init__(self, metadata: MetadataStore, revision: int) -> None:
        self.revision = revision
        self._metadata = metadata

    def datasource_names(self) -> Sequence[str]:
        """Return the datasources of the revision, by name."""
        return [info.name for info in self._metadata.datasources(self.revision)]

    def visible(self, datasource: str, intervals: IntervalSet | None) -> Sequence[VisibleSegment]:
        """Return the entries whose visible instants overlap `intervals` (None: all)."""
        return self._metadata.visible(datasource, revision=self.revision, intervals=intervals)

    def columns(self, datasource: str) -> Mapping[str, ColumnType]:
        """Return the united schema at the revision, without `__time`."""
        return self._metadata.columns(datasource, revision=self.revision)

    def count_segments(self, datasource: str) -> int:
        """Return the number of visible entries."""
        return self._metadata.count_visible(datasource, revision=self.revision)

    def lookups(self) -> Mapping[str, Mapping[str, str]]:
        """Return the lookups of the revision."""
        return self._metadata.lookups(self.revision)


def run_query(
    engine: QueryEngine,
    metadata: MetadataStore,
    leases: LeaseKeeper,
    text: str,
    *,
    at: int | str | None,
    parameters: Sequence[object] | Mapping[str, object],
) -> QueryResult:
    """Run a statement over one revision, under a reader's lease."""
    return under_lease(
        metadata, leases, at, lambda catalog: engine.run_query(text, catalog, parameters=parameters)
    )


def under_lease(
    metadata: MetadataStore,
    leases: LeaseKeeper,
    at: int | str | None,
    work: Callable[[RevisionCatalog], T],
    *,
    attempts_max: int = READ_ATTEMPTS_MAX,
) -> T:
    """Do something over one revision, again if its lease ran out meanwhile."""
    for attempt in range(1, attempts_max + 1):
        with leases.reading(at) as reading:
            try:
                return work(RevisionCatalog(metadata, reading.head.revision))
            except (Corrupt, NotFound):
                # Without a gap in the lease this is what it says; with one, gc may have been faster.
                if reading.is_held() or attempt == attempts_max:
                    raise
    raise AssertionError("unreachable")
