"""A small store of files, a catalog over it, and an engine, made once for all tests of queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carnac.core.segments.segment import ColumnType
from carnac.deep_storage import open_deep_storage
from carnac.ports import DeepStorage
from carnac.query import QueryEngine
from tests.support.segments import MemoryCatalog, build_catalog, write_segment

AIRLINES = {"AA": "American", "UA": "United", "B6": "JetBlue"}


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> DeepStorage:
    return open_deep_storage(str(tmp_path_factory.mktemp("deep")))


@pytest.fixture(scope="session")
def engine(storage: DeepStorage) -> Iterator[QueryEngine]:
    engine = QueryEngine(storage, threads=1)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def catalog(storage: DeepStorage) -> MemoryCatalog:
    """Return ten days of flights, one segment a day, 24 rows each; and their airlines."""
    carriers = list(AIRLINES)
    days = [
        [
            {
                "__time": f"2013-01-{day:02d}T{hour:02d}:00:00Z",
                "carrier": carriers[hour % 3],
                "delay": None if hour == 5 else day * 100 + hour,
                "distance": hour / 2,
            }
            for hour in range(24)
        ]
        for day in range(1, 11)
    ]
    airlines = [
        {"__time": "2013-01-01", "carrier": code, "name": name} for code, name in AIRLINES.items()
    ]
    catalog = build_catalog(storage, {"flights": days, "airlines": [airlines]}, revision=7)
    evolved = [{"__time": "2013-02-01", "a": "x", "__at_a": 1}]
    types = {"a": ColumnType.STRING, "__at_a": ColumnType.LONG}
    catalog.add(write_segment(storage, evolved, datasource="latest", types=types))
    catalog.named_lookups["names"] = AIRLINES
    return catalog
