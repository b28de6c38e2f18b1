"""The metadata stores that the behaviour suite runs on, each empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.metadata import open_metadata
from carnac.metadata.memory import MemoryMetadataStore
from carnac.metadata.store import SqlMetadataStore
from carnac.testing.clock import FakeClock, SequentialIds

STORES = ["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.sql)]

Store = MemoryMetadataStore | SqlMetadataStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def metadata_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def store(metadata_url: str, clock: FakeClock) -> Iterator[Store]:
    opened = open_metadata(metadata_url, clock=clock, ids=SequentialIds())
    yield opened
    assert opened.check() == ()
    opened.close()
