"""A historical over an object store: cold segments are read by ranges, loads are whole, and a stop is a clean one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records, open_store
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.core.segments.segment import Segment
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError
from carnac.flight import FlightSegmentServer
from carnac.ports.serving import Role
from tests.support.historicals import hour_rows, request_of, rows_of, settled
from tests.support.object_store import named_object_store
from tests.support.segments import write_segment
from tests.waiting import until

pytestmark = [pytest.mark.http, pytest.mark.slow]

ROWS = 20_000
LONG = "SELECT a.n FROM v a, v b WHERE a.n < 1000"
"""80 million rows."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Start an S3 that the environment names, as it would name a real one."""
    with named_object_store(monkeypatch) as files:
        files.makedirs("shelf", exist_ok=True)
        yield f"s3://shelf/{tmp_path.name}"


@pytest.fixture
def segments(bucket: str, tmp_path: Path) -> list[Segment]:
    """Make a store over the bucket, and files of segments there."""
    open_store(tmp_path / "store", create=True, deep_storage=bucket).close()
    storage, chance = open_deep_storage(bucket), random.Random(1)
    return [
        write_segment(
            storage,
            [{**row, "ballast": f"{chance.getrandbits(128):x}"} for row in hour_rows(hour, ROWS)],
        )
        for hour in range(4)
    ]


def start(store: Path, folder: Path, **environ: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "carnac", "serve", "--role", "historical", "--port", "0"]
    return subprocess.Popen(
        [*command, "--store", str(store), "--folder", str(folder)],
        env={**os.environ, "CARNAC_LEASE_TTL_MS": "5000", **environ},
        stderr=subprocess.PIPE,
        text=True,
    )


def reached(store: Path) -> FlightSegmentServer:
    with closing(open_records(settings=Settings(store=str(store)), clock=StoreClock())) as records:
        (record,) = until(
            lambda: records.servers(Role.HISTORICAL), "a historical that makes itself known"
        )
    return FlightSegmentServer(record.url, record.server_id)


@pytest.mark.parametrize(
    "grace_ms",
    ["0", pytest.param("30000", marks=pytest.mark.nightly("starts two processes once more"))],
)
def test_cold_then_loaded_then_stopped(
    segments: list[Segment], tmp_path: Path, grace_ms: str
) -> None:
    store = tmp_path / "store"
    process = start(store, tmp_path / "h", CARNAC_HISTORICAL_GRACE_MS=grace_ms)
    try:
        with closing(reached(store)) as server:
            total = [{"rows": 4 * ROWS, "total": sum(range(4 * ROWS))}]
            cold, report = rows_of(server, request_of(segments))
            assert (cold, report.cold, report.is_whole) == (total, 4, True)
            server.assign(segments[:2], fence=1, number=0)
            assert {one.state for one in settled(server).holdings} == {"loaded"}
            mixed, report = rows_of(server, request_of(segments))
            assert (mixed, report.cold) == (total, 2)
            batches, report = server.run(request_of(segments, LONG))
            next(batches)
            process.send_signal(signal.SIGTERM)
            if grace_ms == "0":
                with pytest.raises(CarnacError) as caught:
                    list(batches)
                assert caught.value.retryable
            else:
                batches.close()  # type: ignore[attr-defined]
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "Traceback" not in said
    finally:
        process.kill()
        process.communicate()
