"""Common parts of tests of SQL over HTTP: a door in front of a store, and answers of a real Druid."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter

from carnac.api.app import make_app
from carnac.api.avatica.routes import make_router as make_avatica_router
from carnac.api.avatica.service import Avatica
from carnac.api.hosts import hosts_of
from carnac.api.iceberg.routes import make_router as make_iceberg_router
from carnac.api.native.routes import make_router as make_native_router
from carnac.api.sql.routes import make_router
from carnac.bootstrap.serving.broker import BrokerHandle, open_broker, open_connections
from carnac.bootstrap.store import open_store
from carnac.clock import RandomIds, StoreClock
from carnac.config import Settings
from carnac.ports.threads import DaemonThreads
from tests.e2e.cli import make_store
from tests.unit.api.conftest import InProcessClient

SHARED_DATA = Path(__file__).parents[2].parent / "shared" / "data"
"""Beside the checkout; may be missing."""
WIKIPEDIA = SHARED_DATA / "wikiticker-2015-09-12-sampled.json.gz"
RECORDED = SHARED_DATA / "druid-recorded"


def need(file: Path) -> Path:
    """Return a file of the shared data, or skip the test."""
    if not file.exists():
        pytest.skip(f"there is no {file.name} in shared/data beside the checkout")
    return file


def recorded(name: str) -> list[dict[str, Any]]:
    """Return what a real Druid answered, request by request."""
    lines = need(RECORDED / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def wikipedia_rows() -> list[dict[str, Any]]:
    """Return the rows of Druid's sample of a day of Wikipedia."""
    with gzip.open(need(WIKIPEDIA), "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def druid_spec(datasource: str) -> Mapping[str, Any]:
    """Return the spec that the recorded Druid had for a datasource, appending."""
    specs = json.loads(need(RECORDED / "specs.json").read_text(encoding="utf-8"))
    schema = specs[datasource]["spec"]["dataSchema"]
    io = {"type": "index_parallel", "appendToExisting": True}
    return {"type": "index_parallel", "spec": {"dataSchema": schema, "ioConfig": io}}


def load_recorded(folder: Path) -> Path:
    """Make a store with the datasources `wikipedia` and `mixed` and the lookup `country` of the recorded Druid."""
    specs = json.loads(need(RECORDED / "specs.json").read_text(encoding="utf-8"))
    rows = folder / "mixed.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in specs["mixed_rows"]))
    with open_store(folder / "store", create=True) as opened:
        opened.append("wikipedia", wikipedia_rows(), spec=druid_spec("wikipedia"))
        opened.append("mixed", str(rows), spec=druid_spec("mixed"))
        opened.set_lookup("country", {"FR": "Fra", "DE": "Deu", "US": "Usa"})
    return folder / "store"


@contextmanager
def open_door(store: Path, **settings: object) -> Iterator[InProcessClient]:
    """Yield a client of an application with nothing but the doors for SQL and native queries, without a socket."""
    values = Settings(store=str(store), query_log_limit_bytes=0, **settings)  # type: ignore[arg-type]
    with open_broker(values, StoreClock()) as broker:
        yield door_of(broker, values)


@contextmanager
def open_door_over(
    folder: Path, datasource: str, rows: object, spec: Mapping[str, Any]
) -> Iterator[InProcessClient]:
    """Yield a client of the doors of a store with flights and some rows."""
    make_store(folder / "store")
    with open_store(folder / "store") as opened:
        opened.append(datasource, rows, spec=spec)
    with open_door(folder / "store") as client:
        yield client


def door_of(broker: BrokerHandle, values: Settings | None = None) -> InProcessClient:
    """Return a client of the doors of a broker."""
    return InProcessClient(make_app(doors_of(broker, values), hosts=hosts_of("one")))


def doors_of(broker: BrokerHandle, values: Settings | None = None) -> list[APIRouter]:
    """Return the routes of a broker."""
    threads, new_id = DaemonThreads("query"), RandomIds().new_id
    native = make_native_router(broker.queries, broker.open_catalog, new_id=new_id, threads=threads)
    sql = make_router(broker.queries, new_id=new_id, threads=threads)
    connections = open_connections(broker, values or Settings(), StoreClock(), new_id)
    avatica = Avatica(broker.queries, connections, new_id)
    jdbc = make_avatica_router(avatica, threads=threads, clients=None)
    return [sql, native, jdbc, make_iceberg_router(broker.tables)]
