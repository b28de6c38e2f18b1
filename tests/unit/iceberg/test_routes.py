"""The catalog over HTTP: what it says of itself, and failures as Iceberg's clients read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac import open as open_real
from tests.support.tables import Catalog, open_catalog
from tests.unit.api.conftest import InProcessClient
from tests.unit.store.events import fast_folder

EVENTS = "/iceberg/v1/namespaces/druid/tables/events"


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    with fast_folder() as name:
        folder = Path(name) / "store"
        with open_real(folder, create=True) as store:
            store.append("events", [{"t": "2024-01-01", "n": 1}], time="t")
        with open_catalog(folder) as found:
            yield found


@pytest.fixture
def client(catalog: Catalog) -> InProcessClient:
    return catalog.client


def test_a_client_finds_what_is_there(catalog: Catalog) -> None:
    assert catalog.list_namespaces() == [("druid",)]
    assert catalog.list_namespaces("druid") == []
    assert catalog.namespace_exists("druid")
    assert not catalog.namespace_exists("other")
    assert catalog.load_namespace_properties("druid") == {}
    assert catalog.list_tables("druid") == [("druid", "events")]
    assert catalog.table_exists("druid.events")
    assert not catalog.table_exists("druid.other")


def test_every_route_that_it_names_is_there(client: InProcessClient) -> None:
    named = client.get("/iceberg/v1/config?warehouse=x").json()["endpoints"]
    for one in named:
        method, path = one.split(" ")
        path = path.format(prefix="", namespace="druid", table="events").replace("//", "/")
        assert client.request(method, f"/iceberg{path}").status_code in {200, 204}, one


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/iceberg/v1/namespaces"),
        ("DELETE", "/iceberg/v1/namespaces/druid"),
        ("POST", "/iceberg/v1/namespaces/druid/properties"),
        ("POST", "/iceberg/v1/namespaces/druid/tables"),
        ("POST", "/iceberg/v1/namespaces/druid/register"),
        ("POST", EVENTS),
        ("DELETE", EVENTS),
        ("POST", f"{EVENTS}/metrics"),
        ("POST", "/iceberg/v1/tables/rename"),
        ("POST", "/iceberg/v1/transactions/commit"),
    ],
)
def test_who_writes_is_told_how_rows_are_written(
    client: InProcessClient, method: str, path: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 406
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("UnsupportedOperationException", 406)
    assert "rows are written by carnac append" in error["message"]


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/iceberg/v1/namespaces/other", 404, "NoSuchNamespaceException"),
        ("/iceberg/v1/namespaces/other/tables", 404, "NoSuchNamespaceException"),
        ("/iceberg/v1/namespaces?parent=other", 404, "NoSuchNamespaceException"),
        ("/iceberg/v1/namespaces/druid/tables/other", 404, "NoSuchTableException"),
        ("/iceberg/v1/namespaces/druid%1Fevents/tables/files", 404, "NoSuchTableException"),
        ("/iceberg/v1/namespaces/druid/views", 404, "NotFoundException"),
        (f"{EVENTS}?snapshots=some", 400, "BadRequestException"),
    ],
)
def test_failures_have_icebergs_form(
    client: InProcessClient, path: str, status: int, kind: str
) -> None:
    answer = client.get(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (status, status, kind)
    assert error["message"]
    assert "\n" not in error["message"]


def test_the_file_of_metadata_is_the_answer(client: InProcessClient) -> None:
    answer = client.get(EVENTS).json()
    place = Path(answer["metadata-location"].removeprefix("file://"))
    assert json.loads(place.read_text()) == answer["metadata"]
