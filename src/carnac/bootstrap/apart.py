"""A store in a process that only begins or ends loads, which others run: no Spark, no engine, no renewed lease."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from carnac.bootstrap.store import open_files, open_records, process_name
from carnac.clock import RandomIds, StoreClock
from carnac.config import Settings, load_settings
from carnac.errors import Invalid
from carnac.ports import DeepStorage
from carnac.store.leases import LeaseKeeper
from carnac.store.writing.apart import LoadsApart

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreApart:
    """A store that is open in such a process.

    Attributes:
        holder: Name of this process in leases.
    """

    metadata: MetadataStore
    clock: StoreClock
    deep_storage: DeepStorage
    settings: Settings
    holder: str

    def files_url(self) -> str:
        """Return the root of deep storage, which other processes reach.

        Raises:
            Invalid: Other processes do not reach it.
        """
        if self.deep_storage.url.startswith("memory:"):
            raise Invalid(
                "Spark's processes cannot reach deep storage in memory; use a directory or an object store"
            )
        return self.deep_storage.url

    @contextmanager
    def loads(self) -> Iterator[LoadsApart]:
        """Yield the service that begins and ends loads."""
        keeper = LeaseKeeper(
            self.metadata,
            clock=self.clock,
            holder=self.holder,
            ttl_ms=self.settings.lease_ttl_ms,
        )
        with closing(keeper):
            yield LoadsApart(
                self.metadata, self.deep_storage, _elsewhere, keeper, engine=_elsewhere
            )


def _elsewhere() -> NoReturn:
    raise TypeError("nothing runs in a process that only begins and ends loads")


def open_apart(store: str | None) -> StoreApart:
    """Open a store that is there; the caller closes its metadata.

    Args:
        store: As of `open_store`.

    Raises:
        NotFound, Invalid, Unavailable: As `open_store`.
    """
    settings = load_settings(os.environ, directory=Path.cwd(), overrides={"store": store})
    clock = StoreClock()
    metadata = open_records(settings=settings, clock=clock, ids=RandomIds())
    try:
        files = open_files(metadata, settings)
    except BaseException:
        metadata.close()
        raise
    holder = f"format carnac of Spark, {process_name()}"
    return StoreApart(
        metadata=metadata, clock=clock, deep_storage=files, settings=settings, holder=holder
    )


@contextmanager
def opened_apart(store: str | None) -> Iterator[StoreApart]:
    """Open a store for the block; see `open_apart`."""
    found = open_apart(store)
    with found.metadata:
        yield found
