"""Which transactions wait for the disk: all but those of leases, which mean nothing once the machine was off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from tests.logs import append_of, day, segment

NORMAL, FULL = 1, 2


def test_only_leases_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    levels: list[int] = []

    def look(text: str) -> None:
        if text == "COMMIT":
            levels.append(database._writer.execute("PRAGMA synchronous").fetchone()[0])

    url = f"sqlite:///{tmp_path}/metadata.db"
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds(), on_statement=look)
    assert isinstance(store, MetadataStore)
    database: Any = store._database
    lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=60_000)
    store.renew_lease(lease.lease_id, ttl_ms=60_000)
    store.publish(append_of(segment("a", day(1))))
    store.release_lease(lease.lease_id)
    store.put_tag("first", 1)
    store.close()
    assert levels == [NORMAL, NORMAL, FULL, NORMAL, FULL]
