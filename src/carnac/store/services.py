"""The services of a store, each loaded when it is first needed: a cold query needs none of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.core.time.intervals import Interval
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, DataPipeline, DeepStorage, WriteGuard
    from carnac.ports.places import Allocator
    from carnac.store.compacting.compactor import Compactor
    from carnac.store.history import History
    from carnac.store.leases import LeaseKeeper
    from carnac.store.upkeep.maintenance import Maintenance
    from carnac.store.writing.outcome import WriteOutcome
    from carnac.store.writing.writer import Writer


class StoreServices:
    """The services behind one store."""

    def __init__(
        self,
        *,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        pipeline: Callable[[], DataPipeline],
        leases: LeaseKeeper,
        clock: Clock,
        settings: Settings,
        allocator: Allocator | None,
    ) -> None:
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._pipeline = pipeline
        self._leases = leases
        self._clock = clock
        self._settings = settings
        self._allocator = allocator

    @cached_property
    def writer(self) -> Writer:
        """Ingests and deletes."""
        from carnac.store.writing.writer import Writer

        return Writer(
            self._metadata, self._deep_storage, self._pipeline, self._leases, self._allocator
        )

    def clean(
        self, datasource: str, interval: Interval | None, guard: WriteGuard | None
    ) -> WriteOutcome:
        """Fold the overshadow history; see `carnac.store.writing.cleaning`."""
        from carnac.store.writing.cleaning import clean

        granularity = self.writer.segment_granularity(datasource)
        return clean(
            self._metadata, datasource, interval, segment_granularity=granularity, guard=guard
        )

    @cached_property
    def compactor(self) -> Compactor:
        """Rewrites segments."""
        from carnac.store.compacting.compactor import Compactor
        from carnac.store.compacting.store_view import CompactionStore

        store = CompactionStore(
            metadata=self._metadata,
            deep_storage=self._deep_storage,
            leases=self._leases,
            clock=self._clock,
            segment_granularity=self.writer.segment_granularity,
        )
        return Compactor(store, self._pipeline)

    @cached_property
    def history(self) -> History:
        """Compares revisions and takes commits back."""
        from carnac.store.history import History

        return History(self._metadata, self.writer.segment_granularity)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Collects garbage and verifies."""
        from carnac.core.log.retention import RetentionRules
        from carnac.store.upkeep.maintenance import Maintenance

        settings = self._settings
        return Maintenance(
            self._metadata,
            self._deep_storage,
            self._clock,
            rules=RetentionRules(
                age_ms=settings.retention_age_ms,
                count=settings.retention_count,
                daily=settings.retention_daily,
            ),
            trash_period_ms=settings.trash_period_ms,
            safety_period_ms=settings.safety_period_ms,
            quarantine_period_ms=settings.quarantine_period_ms,
            batch_retention_ms=settings.batch_retention_ms,
        )
