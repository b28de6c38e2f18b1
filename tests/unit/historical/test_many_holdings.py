"""A restart over many segments reads one journal and lists one folder, and hashes nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from carnac.historical.journal import Assigned, Journal, Loaded
from tests.nightly import IS_NIGHTLY
from tests.support.historicals import STORE_ID, open_historical
from tests.support.memory_storage import MemoryDeepStorage

SEGMENTS = 100_000 if IS_NIGHTLY else 3_000


def test_a_restart_over_many_segments_knows_them_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "historical"
    (folder / "segments").mkdir(parents=True)
    body = b"?" * 64
    checksum = f"sha256:{hashlib.sha256(body).hexdigest()}"
    records = [
        Assigned(f"{i:026d}", f"events{i % 7}", f"segments/events/{i:026d}.parquet", 64, checksum)
        for i in range(SEGMENTS)
    ]
    for record in records:
        (folder / "segments" / f"{record.segment_id}.parquet").write_bytes(body)
    journal = Journal(folder / "journal", STORE_ID)
    journal.append([*records, *(Loaded(one.segment_id) for one in records)])
    journal.close()
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    server = open_historical(folder, MemoryDeepStorage())
    found = server.inventory()
    record_property("restart_s", time.perf_counter() - begin_s)
    record_property("restart_cpu_s", time.process_time() - begin_cpu_s)
    assert {one.state.value for one in found.holdings} == {"loaded"}
    assert (len(found.holdings), found.used_bytes) == (SEGMENTS, 64 * SEGMENTS)
    assert found.is_whole
    server.close()
