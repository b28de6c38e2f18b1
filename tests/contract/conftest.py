"""The metadata stores that the behaviour suite runs on, each empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest

from carnac.metadata import open_metadata
from carnac.metadata.sql.columns import TABLES
from carnac.metadata.store import MetadataStore
from tests.support.clock import DEFAULT_START_MS, FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.support.postgresql import PostgreSQLServer

STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.sql)]

Store = MetadataStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def shared_postgresql_url(postgresql_server: PostgreSQLServer) -> str:
    """A store in one database for the whole suite: emptying it is much faster than making another."""
    url = postgresql_server.create_database("metadata")
    open_metadata(url, clock=FakeClock(), ids=SequentialIds()).close()
    return url


@pytest.fixture(params=STORES)
def metadata_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return lay_database(tmp_path / "metadata.db", created_at_ms=DEFAULT_START_MS)
    url: str = request.getfixturevalue("shared_postgresql_url")
    with psycopg.connect(url) as link:
        link.execute(cast("LiteralString", f"TRUNCATE {', '.join(TABLES)}"))
        link.execute("INSERT INTO origin VALUES (1, %s, 'shared')", [DEFAULT_START_MS])
    return url


@pytest.fixture
def store(metadata_url: str, clock: FakeClock) -> Iterator[Store]:
    opened = open_metadata(metadata_url, clock=clock, ids=SequentialIds())
    yield opened
    assert opened.check() == ()
    opened.close()
