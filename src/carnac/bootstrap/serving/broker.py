"""The composition root of a broker: metadata, engine, queue and query log joined to a `QueryService`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.bootstrap.store import (
    locate_store,
    make_engine,
    name_of_store,
    open_files,
    open_records,
    process_name,
)
from carnac.broker import Broker
from carnac.broker.embedded import EmbeddedExecutor
from carnac.broker.log import QueryLog
from carnac.broker.waiting import QueryQueue
from carnac.clock import RandomIds
from carnac.core.answers.admission import Limits
from carnac.ports.closing import Closing
from carnac.ports.temporary import make_private
from carnac.store.leases import LeaseKeeper
from carnac.store.querying import RevisionCatalog

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.broker.record import QueryRecord
    from carnac.config import Settings
    from carnac.ports import Clock
    from carnac.ports.answers import QueryService

QUERY_LOG_FILE = "query-log.jsonl"
WHY_EMBEDDED = "this process reads the segment files itself: no historical serves the store"


class BrokerHandle(Closing):
    """A broker that was opened.

    Attributes:
        queries: Answers statements.
        queue: Where they wait.
    """

    def __init__(self, queries: QueryService, queue: QueryQueue, steps: ExitStack) -> None:
        self.queries = queries
        self.queue = queue
        self._steps = steps

    def close(self) -> None:
        """Stop all statements, and let go of leases, files and connections. Idempotent."""
        self._steps.close()


def add(assembly: Assembly) -> None:
    """Add a broker to a process, and what answers statements over HTTP.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.api.protocol import CONNECTIONS_MAX
    from carnac.api.sql.routes import make_router

    # ended after the broker, which stops what they wait for
    threads = assembly.steps.enter_context(
        ThreadPoolExecutor(CONNECTIONS_MAX, thread_name_prefix="carnac-query")
    )
    opened = assembly.steps.enter_context(
        open_broker(assembly.settings, assembly.clock, registry=assembly.registry)
    )
    assembly.routers.append(make_router(opened.queries, new_id=RandomIds().new_id, threads=threads))


def open_broker(
    settings: Settings, clock: Clock, *, registry: CollectorRegistry | None = None
) -> BrokerHandle:
    """Open a broker of the store that the settings name.

    Args:
        registry: Where its metrics are shown; None: nowhere.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    with ExitStack() as steps:
        metadata = open_records(settings=settings, clock=clock)
        steps.callback(metadata.close)
        leases = LeaseKeeper(
            metadata, clock=clock, holder=process_name(), ttl_ms=settings.lease_ttl_ms
        )
        steps.callback(leases.close)
        engine = make_engine(open_files(metadata, settings), settings)
        steps.callback(engine.close)
        queue = QueryQueue(limits_of(settings))
        listeners = _listeners(settings)
        if registry is not None:
            from carnac.broker.metrics import BrokerMetrics

            shown = BrokerMetrics(registry, queue, lambda: metadata.head().revision)
            listeners.append(shown.note)
        broker = Broker(
            executor=EmbeddedExecutor(
                lambda: engine,
                leases.reading,
                lambda revision: RevisionCatalog(metadata, revision),
                why=WHY_EMBEDDED,
            ),
            queue=queue,
            clock=clock,
            timeout_ms=settings.query_timeout_ms,
            listeners=listeners,
        )
        steps.callback(broker.close)
        return BrokerHandle(broker, queue, steps.pop_all())


def limits_of(settings: Settings) -> Limits:
    """Return how many queries run and wait."""
    return Limits(
        slots=settings.query_slots,
        queue_max=settings.query_queue_max,
        lanes=settings.query_lanes,
    )


def query_log_file(settings: Settings) -> Path:
    """Return where the query log is: where the settings say, beside the metadata file, or among temporary files."""
    if settings.query_log is not None:
        return Path(settings.query_log).expanduser().absolute()
    folder = locate_store(name_of_store(None, settings)).folder
    if folder is None:
        folder = make_private(Path(tempfile.gettempdir()) / f"carnac-{os.geteuid()}")
    return folder / QUERY_LOG_FILE


def _listeners(settings: Settings) -> list[Callable[[QueryRecord], None]]:
    if not settings.query_log_limit_bytes:
        return []
    return [QueryLog(query_log_file(settings), limit_bytes=settings.query_log_limit_bytes).note]
