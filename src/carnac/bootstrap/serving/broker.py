"""The composition root of a broker: metadata, engine, historicals, queue and query log joined to a `Broker`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from carnac.bootstrap.engines import make_engine, make_ready
from carnac.bootstrap.serving.coordinator import connect
from carnac.bootstrap.serving.metrics import show_gauges, show_kept
from carnac.bootstrap.spark import make_spark_pipeline, write_notice
from carnac.bootstrap.store import (
    Once,
    beside_store,
    open_files,
    open_records,
    process_name,
)
from carnac.broker import Broker
from carnac.broker.cluster import Cluster, Member
from carnac.broker.distributed import PREVIOUS_MAX, DistributedExecutor, Tools
from carnac.broker.embedded import EmbeddedExecutor
from carnac.broker.execution import Either
from carnac.broker.log import QueryLog
from carnac.broker.membership import Membership
from carnac.broker.spark import SparkExecutor
from carnac.broker.waiting import QueryQueue
from carnac.clock import RandomIds
from carnac.core.answers.admission import Limits
from carnac.iceberg import Tables
from carnac.ports.closing import Closing
from carnac.ports.loops import safely
from carnac.ports.serving import Role, ServerRecord
from carnac.ports.temporary import own_folder
from carnac.ports.threads import DaemonThreads
from carnac.store.leases import LeaseKeeper
from carnac.store.querying import RevisionCatalog

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from carnac.api.avatica.connections import Connections
    from carnac.api.native.runs import OpenCatalog
    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.broker.distributed import Planned
    from carnac.broker.execution import Executor
    from carnac.broker.record import QueryRecord
    from carnac.config import Settings
    from carnac.historical import Historical
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Catalog, Clock, DeepStorage, Head
    from carnac.ports.answers import Statement
    from carnac.ports.loops import Loop
    from carnac.ports.serving import SegmentServer
    from carnac.query import QueryEngine

_log = logging.getLogger(__name__)
QUERY_LOG_FILE = "query-log.jsonl"
WHY_EMBEDDED = "this process reads the segment files itself: no historical serves the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHost:
    """The process that a broker runs in, as the cluster knows it.

    Attributes:
        url: URL at which others reach it.
        is_alone: Whether its process is one of many that serve the store: then historicals answer, and nobody else.
        on_leave: Called with what is done at the end before anything else.
        connect: Reaches a historical; given the store's id, its record, and the clock by name.
    """

    url: str
    is_alone: bool
    on_leave: Callable[[Callable[[], object]], object]
    connect: Callable[..., SegmentServer] = connect


@dataclass(frozen=True, slots=True)
class BrokerHandle(Closing):
    """A broker that was opened.

    Attributes:
        queries: Broker that answers statements.
        queue: Queue in which statements wait.
        open_catalog: Opens the revision that a query is planned on.
        tables: Datasources as tables of Iceberg.
        loops: Loops that must turn for the broker to be healthy.
        make_ready: See `engines`.
        steps: Things to close at the end.
    """

    queries: Broker
    queue: QueryQueue
    open_catalog: OpenCatalog
    tables: Tables
    loops: Sequence[Loop]
    make_ready: Callable[[ExitStack], None]
    steps: ExitStack

    def close(self) -> None:
        """Stop all statements, and let go of leases, files and connections. Idempotent."""
        self.steps.close()


def add(assembly: Assembly) -> None:
    """Add a broker to a process, and what answers statements over HTTP.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    from carnac.api.avatica.clients import Clients
    from carnac.api.avatica.routes import make_router as make_avatica_router
    from carnac.api.avatica.service import Avatica
    from carnac.api.iceberg.routes import make_router as make_iceberg_router
    from carnac.api.native.routes import make_router as make_native_router
    from carnac.api.sql.routes import make_router

    # ended after the broker, which stops what they wait for
    threads = DaemonThreads("query")
    assembly.steps.callback(threads.wait)
    host = BrokerHost(
        url=assembly.url,
        is_alone=Role.COORDINATOR not in assembly.roles,
        on_leave=assembly.leaves.callback,
        connect=partial(connect, token=assembly.access.server_token),
    )
    opened = assembly.steps.enter_context(
        open_broker(assembly.settings, assembly.clock, host=host, registry=assembly.registry)
    )
    assembly.brokers.append(opened.queries)
    assembly.loops.extend(opened.loops)
    assembly.starts.append(lambda: opened.make_ready(assembly.steps))
    new_id = RandomIds().new_id
    native = make_native_router(opened.queries, opened.open_catalog, new_id=new_id, threads=threads)
    router = make_router(opened.queries, new_id=new_id, threads=threads)
    assembly.routers.append(make_iceberg_router(opened.tables))
    assembly.routers[:0] = [router, native]  # routes are tried in order, and none is asked as often
    connections = open_connections(opened, assembly.settings, assembly.clock, new_id)
    avatica = Avatica(opened.queries, connections, new_id)
    clients = Clients(assembly.access, connections)
    assembly.routers.append(make_avatica_router(avatica, threads=threads, clients=clients))
    if assembly.settings.flight_sql_port is not None:
        _add_flight_sql(assembly, opened.queries, assembly.settings.flight_sql_port)


def open_connections(
    opened: BrokerHandle, settings: Settings, clock: Clock, new_id: Callable[[], str]
) -> Connections:
    """Return the connections of JDBC's drivers, which are closed with the broker."""
    from carnac.api.avatica.connections import AvaticaLimits, Connections

    limits = AvaticaLimits(
        connections=settings.avatica_connections_max,
        statements=settings.avatica_statements_max,
        idle_ms=settings.avatica_idle_ms,
    )
    connections = Connections(limits, clock, first_id=lambda: crc32(new_id().encode()) >> 2)
    opened.steps.callback(connections.close)
    return connections


def _add_flight_sql(assembly: Assembly, queries: Broker, port: int) -> None:
    """Answer Flight SQL, at a port of its own, until the process leaves."""
    from carnac.api.flight_sql.server import FlightSqlServer

    new_id = RandomIds().new_id
    server = FlightSqlServer(
        queries,
        host=assembly.host,
        port=port,
        new_id=new_id,
        clock=assembly.clock,
        access=assembly.access,
        certificate=assembly.certificate,
    )
    assembly.steps.callback(server.close)
    assembly.starts.append(lambda: _log.info("Flight SQL is answered at %s", server.url))


def open_broker(
    settings: Settings,
    clock: Clock,
    *,
    host: BrokerHost | None = None,
    registry: CollectorRegistry | None = None,
) -> BrokerHandle:
    """Open a broker of the store that the settings name.

    Args:
        host: Process of the broker; None: it is in no cluster, and answers everything itself.
        registry: Registry that shows its metrics; None: none does.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`.
    """
    with ExitStack() as steps:
        metadata = steps.enter_context(open_records(settings=settings, clock=clock))
        leases = _leases(metadata, settings, clock, steps)
        files = open_files(metadata, settings)
        engine = steps.enter_context(closing(make_engine(files, settings)))
        if registry is not None:
            show_kept(registry, Role.BROKER, engine.kept.counts)
        loops: list[Loop] = []
        planning, planned = _head_of(metadata), _planned(leases)
        embedded = partial(EmbeddedExecutor, lambda: engine, why=WHY_EMBEDDED)
        executor: Executor = embedded(leases.reading, catalog=partial(RevisionCatalog, metadata))
        if host is not None:
            record = _record_of(host, settings, clock)
            membership = Membership(metadata, leases.reading, record, clock)
            _enter(membership, host, steps)
            cold = Once(partial(_cold_reader, files, engine, metadata.store_id, settings, clock))
            steps.callback(cold.close)
            connected = partial(host.connect, metadata.store_id, clock=clock)
            cluster = Cluster(metadata, connected, make_own=lambda: Member(record, cold()))
            steps.callback(cluster.close)
            cluster.start()
            tools = tools_of(engine, metadata, membership, cluster, settings.query_part_bytes)
            catalog = partial(RevisionCatalog, metadata, held=cluster.held)
            alone = embedded(membership.reading, catalog=catalog)
            executor = Either(DistributedExecutor(tools), alone, _asks_historicals(host, cluster))
            loops = [membership.loop, cluster.loop]
            planning, planned = membership.planning, membership.planned
        runner = steps.enter_context(closing(_spark_of(files, settings, clock)))
        spark = _spark(settings, engine, runner, planned, metadata)
        queue = QueryQueue(limits_of(settings))
        broker = Broker(
            store_id=metadata.store_id,
            executor=executor,
            queue=queue,
            clock=clock,
            timeout_ms=settings.query_timeout_ms,
            spark=spark,
            is_spark_auto=settings.query_spark == "auto",
            listeners=_listeners(settings, registry, queue, planning, steps),
        )
        steps.callback(broker.close)
        tables = Tables(metadata, files, partial(_newest, leases))
        catalogs, ready = _catalogs(metadata, planned), partial(make_ready, engine, metadata)
        return BrokerHandle(broker, queue, catalogs, tables, loops, ready, steps.pop_all())


@contextmanager
def _newest(leases: LeaseKeeper) -> Iterator[Head]:
    with leases.reading(None) as reading:
        yield reading.head


def _catalogs(metadata: MetadataStore, planned: Planned) -> OpenCatalog:
    @contextmanager
    def open_catalog(statement: Statement) -> Iterator[Catalog]:
        with planned(statement.at) as revision:
            yield RevisionCatalog(metadata, revision, statement.client.datasources)

    return open_catalog


def _enter(membership: Membership, host: BrokerHost, steps: ExitStack) -> None:
    """Announce the broker, until its process leaves."""
    membership.start()
    steps.callback(membership.close)
    host.on_leave(membership.close)


def _record_of(host: BrokerHost, settings: Settings, clock: Clock) -> ServerRecord:
    return ServerRecord(
        server_id=f"broker-{RandomIds().new_id()}",
        role=Role.BROKER,
        url=host.url,
        holder=process_name(),
        started_at_ms=clock.now_ms(),
        lease_ms=settings.lease_ttl_ms,
    )


def _cold_reader(
    files: DeepStorage, engine: QueryEngine, store_id: str, settings: Settings, clock: Clock
) -> Historical:
    """Return a historical of this process alone, which is assigned nothing: it reads all from deep storage."""
    from carnac.bootstrap.serving.historical import open_historical

    folder = str(own_folder("cold") / RandomIds().new_id())
    own = settings.model_copy(update={"historical_folder": folder, "load_threads": 1})
    return open_historical(own, files, store_id, engine=engine, clock=clock)


def _leases(
    metadata: MetadataStore, settings: Settings, clock: Clock, steps: ExitStack
) -> LeaseKeeper:
    ttl_ms = settings.lease_ttl_ms
    leases = LeaseKeeper(metadata, clock=clock, holder=process_name(), ttl_ms=ttl_ms)
    steps.callback(safely, _log, "releasing leases, which end by themselves,", leases.close)
    return leases


def _planned(leases: LeaseKeeper) -> Planned:
    @contextmanager
    def planned(at: int | str | None) -> Iterator[int]:
        with leases.reading(at) as reading:
            yield reading.head.revision

    return planned


def _spark_of(files: DeepStorage, settings: Settings, clock: Clock) -> Once[SparkPipeline]:
    return Once(lambda: make_spark_pipeline(files, settings, clock, RandomIds(), tell=write_notice))


def _spark(
    settings: Settings,
    engine: QueryEngine,
    runner: Callable[[], SparkPipeline],
    planned: Planned,
    metadata: MetadataStore,
) -> SparkExecutor | None:
    """Return what runs statements on Spark, if any are; started if it is to be warm."""
    if settings.query_spark == "never":
        return None
    if settings.query_spark_warm:
        runner().warm()
    return SparkExecutor(
        engine=engine,
        runner=runner,
        planned=planned,
        catalog=partial(RevisionCatalog, metadata),
    )


def _head_of(metadata: MetadataStore) -> Callable[[], int]:
    return lambda: metadata.head().revision


def _asks_historicals(host: BrokerHost, cluster: Cluster) -> Callable[[], bool]:
    """Return whether historicals answer: while any takes queries, or always if the broker is alone in its process."""
    return lambda: host.is_alone or cluster.serves


def tools_of(
    engine: QueryEngine,
    metadata: MetadataStore,
    membership: Membership,
    cluster: Cluster,
    part_bytes: int,
) -> Tools:
    """Return what statements over historicals are run with."""
    return Tools(
        engine=engine,
        cluster=cluster,
        planned=membership.planned,
        catalog=partial(RevisionCatalog, metadata, held=cluster.held),
        earlier=lambda revision, names: _earlier(metadata, revision, names),
        part_bytes=part_bytes,
    )


def _earlier(metadata: MetadataStore, revision: int, datasources: Sequence[str]) -> Iterator[int]:
    """Yield revisions before one, newest first, each the last before a commit that changed one of the datasources."""
    found = {
        commit.revision - 1
        for name in datasources
        for commit in metadata.log(datasource=name, before=revision + 1, limit=PREVIOUS_MAX)
    }
    yield from sorted(found, reverse=True)


def limits_of(settings: Settings) -> Limits:
    """Return how many queries run and wait."""
    return Limits(
        slots=settings.query_slots,
        queue_max=settings.query_queue_max,
        lanes=settings.query_lanes,
    )


def _listeners(
    settings: Settings,
    registry: CollectorRegistry | None,
    queue: QueryQueue,
    planning: Callable[[], int],
    steps: ExitStack,
) -> list[Callable[[QueryRecord], None]]:
    found: list[Callable[[QueryRecord], None]] = []
    if settings.query_log_limit_bytes:
        log = QueryLog(
            beside_store(settings.query_log, QUERY_LOG_FILE, settings),
            limit_bytes=settings.query_log_limit_bytes,
        )
        steps.callback(log.close)
        found.append(log.note)
    if registry is not None:
        from carnac.broker.metrics import BrokerMetrics

        shown: dict[str, tuple[str, Callable[[], float]]] = {
            "queries_running": ("Queries that run.", lambda: queue.running),
            "queries_waiting": ("Queries that wait for their turn.", lambda: queue.waiting),
            "planning_revision": ("The revision that new queries are planned on.", planning),
        }
        show_gauges(registry, "carnac", shown)
        found.append(BrokerMetrics(registry).note)
    return found
