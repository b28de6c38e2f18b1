"""Which transactions wait for the disk: all but those of leases, which mean nothing once the machine was off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from tests.logs import append_of, day, segment
from tests.support.behind import called_behind

NORMAL, FULL = 1, 2


@pytest.fixture
def levels() -> list[int]:
    """How each transaction waited."""
    return []


@pytest.fixture
def store(tmp_path: Path, levels: list[int]) -> Iterator[MetadataStore]:
    def look(text: str) -> None:
        if text == "COMMIT":
            levels.append(database._writer.execute("PRAGMA synchronous").fetchone()[0])

    url = f"sqlite:///{tmp_path}/metadata.db"
    opened = open_metadata(url, clock=SystemClock(), ids=RandomIds(), on_statement=look)
    assert isinstance(opened, MetadataStore)
    database: Any = opened._database
    yield opened
    opened.close()


def test_only_leases_do_not_wait_for_the_disk(store: MetadataStore, levels: list[int]) -> None:
    lease = store.acquire_lease(LeaseKind.WRITER, holder="test", ttl_ms=60_000)
    store.renew_lease(lease.lease_id, ttl_ms=60_000)
    store.publish(append_of(segment("a", day(1))))
    store.release_lease(lease.lease_id)
    store.put_tag("first", 1)
    assert levels == [NORMAL, NORMAL, FULL, NORMAL, FULL]


def test_who_shares_a_transaction_with_what_must_last_waits_too(
    store: MetadataStore, levels: list[int]
) -> None:
    lease = partial(store.acquire_lease, LeaseKind.WRITER, holder="test", ttl_ms=60_000)
    publish = partial(store.publish, append_of(segment("a", day(1))))
    for one in called_behind(store, [lease, publish]):
        one.result()
    assert levels == [FULL]
