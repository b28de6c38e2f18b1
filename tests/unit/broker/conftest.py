"""A store of a few appends, and a broker over it as a process opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import carnac
from carnac.bootstrap.serving.broker import BrokerHandle, open_broker
from carnac.broker.answer import BrokerAnswer
from carnac.clock import StoreClock
from carnac.config import SecretUrl, Settings
from carnac.ports.answers import ANYBODY, Statement

OpenBroker = Callable[..., BrokerHandle]
SPEC = {
    "dataSource": "events",
    "timestampSpec": {"column": "__time", "format": "iso"},
    "dimensions": ["kind", {"name": "n", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "none"},
}


def day_of(day: int, rows: int = 24) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "__time": datetime(2013, 1, day, hour % 24, tzinfo=UTC),
                "kind": "ab"[hour % 2],
                "n": hour,
            }
            for hour in range(rows)
        ]
    )


def append_day(store: carnac.Store, day: int, rows: int = 24) -> None:
    """Append with a spec to typed rows: to find one out, or what is in texts, takes ten times as long."""
    store.append("events", day_of(day, rows), spec=SPEC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[carnac.Store]:
    """Give a store with three days of events, one append each, and a lookup."""
    with carnac.open(tmp_path / "store", create=True) as store:
        for day in (1, 2, 3):
            append_day(store, day)
        store.set_lookup("names", {"a": "Ann", "b": "Bob"})
        yield store


@pytest.fixture
def settings(store: carnac.Store, tmp_path: Path) -> Settings:
    return Settings(store=SecretUrl(str(tmp_path / "store")), query_threads=1)


@pytest.fixture
def open_one(settings: Settings) -> Iterator[OpenBroker]:
    opened: list[BrokerHandle] = []

    def open_it(**changes: object) -> BrokerHandle:
        handle = open_broker(settings.model_copy(update=changes), StoreClock())
        opened.append(handle)
        return handle

    yield open_it
    for handle in opened:
        handle.close()


def statement(sql: str, query_id: str = "q", **more: object) -> Statement:
    return Statement(**{"sql": sql, "query_id": query_id, "client": ANYBODY, **more})  # type: ignore[arg-type]


def rows_of(answer: BrokerAnswer | None) -> list[dict[str, object]]:
    assert answer is not None
    rows: list[dict[str, object]] = []
    for batch in answer.batches():
        rows += batch.to_pylist()  # type: ignore[attr-defined]
    return rows
