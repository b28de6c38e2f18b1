"""Tables in an object store: clients open what the catalog names, with credentials of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from carnac import open as open_real
from tests.support.object_store import named_object_store
from tests.support.tables import as_texts, rows_by_sql, tables_of

pytestmark = pytest.mark.http


def test_pyiceberg_reads_a_clipped_table_from_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with named_object_store(monkeypatch) as files:
        files.mkdir("tables")
        access = {
            "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        read_clipped(tmp_path / "store", access)


def read_clipped(folder: Path, access: dict[str, str]) -> None:
    with open_real(folder, create=True, deep_storage="s3://tables/a b") as store:
        rows = [{"t": f"2024-01-01T0{hour}:00:00Z", "n": hour} for hour in range(6)]
        store.append("my.events", rows, time="t")
        store.delete("my.events", interval="2024-01-01T02:00Z/PT2H")
        found = tables_of(store).load("my.events")
        assert found.location.startswith("s3://tables/a b/iceberg/my%2Eevents/metadata/2-")
        table = StaticTable.from_metadata(found.location, access)
        assert as_texts(table.scan().to_arrow()) == rows_by_sql(store, "my.events")
        first = table.scan(snapshot_id=1).to_arrow()
        assert as_texts(first) == rows_by_sql(store, "my.events", 1)
