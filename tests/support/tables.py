"""PyIceberg as a client of the catalog, without a socket; and tables of a store, as each process of it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import StaticTable
from requests.adapters import BaseAdapter

from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.iceberg.routes import make_router
from carnac.bootstrap.serving.broker import open_broker
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.errors import NotFound
from carnac.iceberg import LoadedTable, Tables
from carnac.ports import DeepStorage, Head
from carnac.store import Store
from tests.unit.api.conftest import InProcessClient

URL = "http://one:8090"


class _Wire(BaseAdapter):
    """Carries requests of the client to the application in this process."""

    def __init__(self, client: InProcessClient) -> None:
        super().__init__()
        self._client = client

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        """Return the answer."""
        path = request.url.removeprefix(URL)
        headers = {"content-type": "application/json", **request.headers}
        found = self._client.request(
            request.method, path, headers=headers, content=request.body or b""
        )
        answer = requests.Response()
        answer.status_code, answer.request, answer.url = found.status_code, request, request.url
        answer.headers.update(found.headers)
        answer._content = found.content
        return answer

    def close(self) -> None:
        """Do nothing."""


class Catalog(RestCatalog):
    """PyIceberg's catalog over such a wire."""

    def __init__(self, client: InProcessClient) -> None:
        self.client = client
        super().__init__("carnac", uri=f"{URL}/iceberg")

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.mount(URL, _Wire(self.client))
        return session


@contextmanager
def open_catalog(store: Path) -> Iterator[Catalog]:
    """Yield a client of a broker of a store."""
    values = Settings(store=str(store), query_log_limit_bytes=0)
    with open_broker(values, StoreClock()) as broker:
        app = make_app([make_router(broker.tables)], hosts=hosts_of("one"))
        yield Catalog(InProcessClient(app))


def tables_of(store: Store, storage: DeepStorage | None = None) -> Tables:
    """Return the tables of a store, as a process that begins now has them."""

    @contextmanager
    def reading() -> Iterator[Head]:
        with store._leases.reading(None) as found:
            yield found.head

    return Tables(store._metadata, storage or store.deep_storage, reading)


def opened(table: LoadedTable) -> StaticTable:
    """Return a table as PyIceberg reads it by its file of metadata."""
    return StaticTable.from_metadata(table.location.removeprefix("file://"))


def rows_by_sql(store: Store, datasource: str, at: int | str | None = None) -> list[str]:
    """Return the rows of a datasource by SQL, as comparable texts in one order."""
    try:
        found = store.sql(f'SELECT * FROM "{datasource}"', at=at)
    except NotFound as error:
        if error.ids.get("datasource") != datasource:
            raise
        return []
    return as_texts(found.arrow())


def as_texts(rows: Any) -> list[str]:
    """Return the rows of an Arrow table as comparable texts in one order."""
    return sorted(str({key: _plain(one[key]) for key in sorted(one)}) for one in rows.to_pylist())


def _plain(value: Any) -> Any:
    return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
