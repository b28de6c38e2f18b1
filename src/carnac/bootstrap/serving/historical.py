"""The composition root of a historical: its folder, its engine, its Flight server and its heartbeats."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carnac.bootstrap.engines import make_engine, make_ready
from carnac.bootstrap.serving.metrics import show_gauges, show_kept
from carnac.bootstrap.store import open_files, open_records, process_name
from carnac.clock import RandomIds
from carnac.flight import FlightServer
from carnac.flight.grpc import url_of
from carnac.historical import Historical
from carnac.historical.presence import Presence
from carnac.historical.server import SEGMENTS_FOLDER
from carnac.ports.loops import Loop
from carnac.ports.serving import Role, ServerRecord
from carnac.query.intact import IntactFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from carnac.bootstrap.serving.assembly import Assembly
    from carnac.config import Settings
    from carnac.ports import Clock, DeepStorage
    from carnac.query.engine import QueryEngine

SCRUB_PERIOD_MS = 10_000
"""Pause between two rounds of reading files that are held, each of which reads its share of the rate."""
SCRUB_STALE_MS = 1_800_000
"""How long such a round may take: a file that is large, on a slow disk."""

_log = logging.getLogger(__name__)


def add(assembly: Assembly) -> Historical:
    """Add a historical to a process; it loads from now on, and is known to others once the process starts.

    Raises:
        NotFound, Invalid, Unavailable: As `carnac.open`; or its folder or its port is another process's.
    """
    settings, clock, steps = assembly.settings, assembly.clock, assembly.steps
    metadata = open_records(settings=settings, clock=clock)
    steps.callback(metadata.close)
    storage = open_files(metadata, settings)
    engine = make_engine(storage, settings, folders=[_folder(settings) / SEGMENTS_FOLDER])
    steps.callback(engine.close)
    historical = open_historical(settings, storage, metadata.store_id, engine=engine, clock=clock)
    # statements and clients that wait for news end first, then the server that answers them
    flight = FlightServer(
        historical,
        host=assembly.host,
        port=settings.flight_port,
        store_id=metadata.store_id,
        is_own=assembly.access.is_server,
        certificate=None if assembly.certificate is None else assembly.certificate.read(),
    )
    steps.callback(flight.close)
    steps.callback(historical.close)
    record = ServerRecord(
        server_id=historical.server_id,
        role=Role.HISTORICAL,
        url=url_of(  # at the host of the HTTP interface
            urlsplit(assembly.url).hostname or "",
            flight.port,
            is_encrypted=assembly.certificate is not None,
        ),
        holder=process_name(),
        tier=settings.historical_tier,
        capacity_bytes=settings.historical_capacity_bytes,
        started_at_ms=clock.now_ms(),
        lease_ms=settings.lease_ttl_ms,
    )
    presence = Presence(historical, record, metadata, clock, grace_ms=settings.historical_grace_ms)
    scrub = _scrub_loop(historical, settings, clock)
    steps.callback(scrub.stop)
    assembly.leaves.callback(presence.leave)
    assembly.loops.extend([presence.loop, scrub])
    assembly.starts.extend([presence.say, presence.loop.start, scrub.start])
    assembly.starts.append(
        lambda: _log.info("historical %s answers at %s", record.server_id, record.url)
    )
    assembly.starts.append(lambda: make_ready(engine, metadata, steps))
    _show(assembly.registry, historical)
    show_kept(assembly.registry, Role.HISTORICAL, engine.kept.counts)
    return historical


def _scrub_loop(historical: Historical, settings: Settings, clock: Clock) -> Loop:
    """Return the rounds of reading all files that are held again and again, slowly."""
    share_bytes = settings.scrub_bytes_per_s * SCRUB_PERIOD_MS // 1000
    return Loop(
        "held-files",
        lambda: historical.scrub(share_bytes),
        log=_log,
        period_ms=SCRUB_PERIOD_MS,
        clock=clock,
        stale_ms=SCRUB_STALE_MS,
    )


def open_historical(
    settings: Settings, storage: DeepStorage, store_id: str, *, engine: QueryEngine, clock: Clock
) -> Historical:
    """Open the historical of the settings' folder; the caller closes it.

    Raises:
        Invalid, Corrupt, Unavailable: As `Historical`.
    """
    return Historical(
        _folder(settings),
        storage,
        engine,
        clock=clock,
        ids=RandomIds(),
        store_id=store_id,
        capacity_bytes=settings.historical_capacity_bytes,
        checks=IntactFiles(threads=settings.query_threads)
        if settings.verify_reads == "once"
        else None,
        load_threads=settings.load_threads,
        load_bytes_per_s=settings.load_bytes_per_s,
    )


def _folder(settings: Settings) -> Path:
    return Path(settings.historical_folder).expanduser().absolute()


def _show(registry: CollectorRegistry, historical: Historical) -> None:
    shown: dict[str, tuple[str, Callable[[], float]]] = {
        "used_bytes": (
            "Bytes of segments on this historical's disk, what is loading included.",
            lambda: historical.used_bytes,
        ),
        "capacity_bytes": (
            "Bytes that this historical may hold.",
            lambda: historical.capacity_bytes,
        ),
        "segments": ("Segments that are assigned to this historical.", lambda: historical.segments),
        "running": ("Leaf statements that run.", lambda: historical.running),
    }
    show_gauges(registry, "carnac_historical", shown)
