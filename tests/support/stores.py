"""A whole store on a directory without Spark, with seams for faults, for tests of the store service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from carnac.bootstrap.store import DEEP_STORAGE_FOLDER, DEEP_STORAGE_KEY
from carnac.config import Settings
from carnac.deep_storage import open_deep_storage
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.ports import Clock, DeepStorage, IdSource
from carnac.ports.storage import METADATA_FILE
from carnac.query import QueryEngine
from carnac.store import Store
from carnac.store.upkeep.owner import take_ownership
from tests.support.databases import lay_database
from tests.support.faulty import Faults, FaultyDeepStorage, faulty_metadata
from tests.support.pipeline import LocalPipeline


def open_local_store(
    folder: Path,
    *,
    clock: Clock,
    ids: IdSource,
    settings: Settings | None = None,
    faults: Faults | None = None,
    on_statement: Callable[[str], None] | None = None,
    pipeline: Callable[[DeepStorage], Any] | None = None,
) -> Store:
    """Open the store in `folder`, made if there is none: SQLite, local files, jobs in this process, DuckDB.

    `carnac.open` opens the same folder.

    Args:
        faults: Decides which calls of metadata store and deep storage fail; None: none do.
        on_statement: Called with each SQL statement of a write before it runs.
        pipeline: Default: `LocalPipeline`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    url = lay_database(folder / METADATA_FILE, created_at_ms=clock.now_ms())
    metadata: MetadataStore = open_metadata(url, clock=clock, ids=ids, on_statement=on_statement)
    deep_storage: DeepStorage = open_deep_storage(str(folder / DEEP_STORAGE_FOLDER))
    try:
        if DEEP_STORAGE_KEY not in metadata.settings():
            metadata.put_settings({DEEP_STORAGE_KEY: DEEP_STORAGE_FOLDER})
            take_ownership(deep_storage, metadata.store_id)
    except BaseException:
        metadata.close()
        raise
    if faults is not None:
        metadata = faulty_metadata(metadata, faults)
        deep_storage = FaultyDeepStorage(deep_storage, faults)
    jobs = (
        LocalPipeline(deep_storage, clock=clock, ids=ids)
        if pipeline is None
        else pipeline(deep_storage)
    )
    settings = settings or Settings()
    engine = QueryEngine(deep_storage, threads=1, verify_reads=settings.verify_reads == "once")

    def close_all() -> None:
        jobs_close = getattr(jobs, "close", None)
        if jobs_close is not None:
            jobs_close()
        engine.close()

    return Store(
        metadata=metadata,
        deep_storage=deep_storage,
        pipeline=lambda: jobs,
        engine=lambda: engine,
        clock=clock,
        settings=settings,
        holder="test",
        on_close=close_all,
    )
