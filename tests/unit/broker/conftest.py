"""A store of a few appends, and a broker over it as a process opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import carnac
from carnac.bootstrap.serving.broker import BrokerHandle, open_broker
from carnac.clock import StoreClock
from carnac.config import SecretUrl, Settings
from carnac.ports.answers import Answer, Statement

OpenBroker = Callable[..., BrokerHandle]


def day_of(day: int, rows: int = 24) -> list[dict[str, object]]:
    return [
        {"__time": f"2013-01-{day:02d}T{hour % 24:02d}:00:00Z", "kind": "ab"[hour % 2], "n": hour}
        for hour in range(rows)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[carnac.Store]:
    """Give a store with three days of events, one append each, and a lookup."""
    with carnac.open(tmp_path / "store", create=True) as store:
        for day in (1, 2, 3):
            store.append("events", day_of(day))
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
    return Statement(sql=sql, query_id=query_id, **more)  # type: ignore[arg-type]


def rows_of(answer: Answer | None) -> list[dict[str, object]]:
    assert answer is not None
    rows: list[dict[str, object]] = []
    for batch in answer.batches():
        rows += batch.to_pylist()  # type: ignore[attr-defined]
    return rows
