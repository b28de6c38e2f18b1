"""The services behind a store's methods, each loaded when it is first needed: a cold query needs none of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from carnac.store.reading import StoreReading

if TYPE_CHECKING:
    from carnac.ports import Clock, DeepStorage
    from carnac.ports.places import Allocator
    from carnac.store.compacting.store_view import CompactionStore
    from carnac.store.upkeep.maintenance import Maintenance
    from carnac.store.writing.erasing import Eraser
    from carnac.store.writing.writer import Writer


class StoreServices(StoreReading):
    """A store that reads, with what the other half of a `Store` needs."""

    _deep_storage: DeepStorage
    _clock: Clock
    _allocator: Allocator | None

    @cached_property
    def _writer(self) -> Writer:
        from carnac.store.writing.writer import Writer

        return Writer(
            self._metadata,
            self._deep_storage,
            self._pipeline,
            self._leases,
            self._allocator,
            engine=self._engine,
        )

    @cached_property
    def _compacting(self) -> CompactionStore:
        from carnac.store.compacting.store_view import CompactionStore

        return CompactionStore(
            metadata=self._metadata,
            deep_storage=self._deep_storage,
            pipeline=self._pipeline,
            leases=self._leases,
            clock=self._clock,
            segment_granularity=self._writer.segment_granularity,
        )

    @cached_property
    def _maintenance(self) -> Maintenance:
        from carnac.store.upkeep.maintenance import Maintenance

        return Maintenance(self._metadata, self._deep_storage, self._clock, self.settings)

    @cached_property
    def _eraser(self) -> Eraser:
        from carnac.store.writing.erasing import Eraser

        return Eraser(
            self._metadata,
            self._deep_storage,
            self._leases,
            self._clock,
            pipeline=self._pipeline,
            engine=self._engine,
            writer=self._writer,
            maintenance=self._maintenance,
        )
