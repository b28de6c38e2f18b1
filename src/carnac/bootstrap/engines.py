"""The query engine of a process, by its settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from carnac.ports.distributed import GatherLimit
from carnac.ports.loops import safely

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.metadata.store import MetadataStore
    from carnac.ports import DeepStorage
    from carnac.query import QueryEngine
    from carnac.query.keeping.store import KeptResults

_log = logging.getLogger(__name__)


def make_engine(
    deep_storage: DeepStorage, settings: Settings, *, folders: Sequence[Path] = ()
) -> QueryEngine:
    """Return the query engine over the segment files, and those of other folders; the caller closes it."""
    from carnac.query import QueryEngine

    return QueryEngine(
        deep_storage,
        threads=settings.query_threads,
        memory_limit_bytes=settings.query_memory_limit_bytes,
        timeout_ms=settings.query_timeout_ms or None,
        verify_reads=settings.verify_reads == "once",
        gather_limit=GatherLimit(
            rows=settings.query_gather_rows, size_bytes=settings.query_gather_bytes
        ),
        folders=folders,
        hot_bytes=settings.query_hot_bytes,
        kept=_kept_by(settings),
    )


def _kept_by(settings: Settings) -> KeptResults:
    from carnac.query.keeping.store import MEMORY_SHARE, KeptResults

    bytes_max = settings.query_kept_bytes
    if settings.query_memory_limit_bytes is not None:
        bytes_max = min(bytes_max, settings.query_memory_limit_bytes // MEMORY_SHARE)
    return KeptResults(bytes_max, settings.query_kept_result_bytes)


def make_ready(engine: QueryEngine, metadata: MetadataStore, steps: ExitStack) -> None:
    """Have a thread do what an engine's first statement would wait for, such as loading DuckDB; returns at once.

    Args:
        steps: Waits for the thread, before the engine is closed: none in DuckDB may outlive Python.
    """
    from carnac.store.querying import RevisionCatalog

    thread = Thread(
        target=lambda: safely(
            _log,
            "making the query engine ready",
            lambda: engine.run_query("SELECT 1", RevisionCatalog(metadata, 0)),
        ),
        name="carnac-ready",
        daemon=True,
    )
    thread.start()
    steps.callback(thread.join)
