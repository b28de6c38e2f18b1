"""A coordinator put together from settings, over HTTP, and real historicals behind Arrow Flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from carnac.bootstrap.serving.process import ServingProcess, open_process
from carnac.bootstrap.store import open_files, open_records, open_store
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.flight import FlightServer
from carnac.historical import Historical
from carnac.ports.serving import Role, ServerRecord
from tests.e2e.cli import append_rows, make_store
from tests.support.historicals import open_historical
from tests.waiting import until

pytestmark = pytest.mark.http

V1 = "/druid/coordinator/v1"
RESTART_GRACE_MS = 500
"""Not the minute that is usual: what comes after it is tested here."""


class Cluster:
    """A coordinator and historicals of one store."""

    def __init__(self, folder: Path, steps: ExitStack) -> None:
        make_store(folder / "store")
        self.settings = Settings(
            store=str(folder / "store"), lease_ttl_ms=2_000, restart_grace_ms=RESTART_GRACE_MS
        )
        self.metadata = open_records(settings=self.settings, clock=SystemClock())
        steps.callback(self.metadata.close)
        self._folder, self._steps = folder, steps
        self.coordinator = self.start()

    def start(self) -> ServingProcess:
        process = open_process({Role.COORDINATOR}, settings=self.settings, host="127.0.0.1", port=0)
        self._steps.callback(process.close)
        process.start()
        return process

    def join(self, name: str) -> tuple[Historical, FlightServer]:
        historical = open_historical(
            self._folder / name, open_files(self.metadata, self.settings), capacity_bytes=1 << 30
        )
        self._steps.callback(historical.close)
        flight = FlightServer(historical, host="127.0.0.1", port=0)
        self._steps.callback(flight.close)
        self.metadata.put_server(
            ServerRecord(
                server_id=historical.server_id,
                role=Role.HISTORICAL,
                url=f"grpc+tcp://127.0.0.1:{flight.port}",
                holder=name,
                tier="_default_tier",
                capacity_bytes=1 << 30,
                started_at_ms=1,
                lease_ms=600_000,
            )
        )
        return historical, flight

    def get(self, path: str) -> Any:
        answer = httpx.get(f"{self.coordinator.url}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def copies(self) -> int:
        """Return how many copies there are of all segments."""
        sums = self.get(f"{V1}/datasources?simple")[0]["properties"]
        return sum(
            one["segmentCount"] and round(one["replicatedSize"] / one["size"], 3)
            for one in sums["tiers"].values()
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as steps:
        yield Cluster(tmp_path, steps)


def test_what_is_published_is_loaded_by_real_historicals_and_told(cluster: Cluster) -> None:
    for name in ("h1", "h2"):
        cluster.join(name)
    until(lambda: cluster.copies() == 2.0, "two copies of everything")
    until(lambda: cluster.metadata.told() is not None, "a revision that is told")
    revision = append_rows(
        cluster._folder / "store", [{"__time": "2013-02-01T10:00:00Z", "carrier": "UA", "delay": 1}]
    )
    until(lambda: (told := cluster.metadata.told()) and told.revision == revision, "it told")
    assert cluster.get(f"{V1}/loadstatus") == {"flights": 100.0}
    until(lambda: cluster.get(f"{V1}/loadstatus?full") == {"_default_tier": {"flights": 0}}, "all")
    metrics = httpx.get(f"{cluster.coordinator.url}/metrics").text
    assert "carnac_coordinator_is_leader 1.0" in metrics
    assert "carnac_coordinator_servers 2.0" in metrics
    assert f"carnac_coordinator_told_revision {revision}.0" in metrics


def test_when_a_historical_dies_its_copies_are_made_elsewhere(cluster: Cluster) -> None:
    first, flight = cluster.join("h1")
    cluster.join("h2")
    until(lambda: cluster.copies() == 2.0, "two copies of everything")
    flight.close()
    cluster.metadata.remove_server(first.server_id)
    until(lambda: cluster.copies() == 1.0, "one server")
    cluster.join("h3")
    until(lambda: cluster.copies() == 2.0, "two copies again")


def test_another_coordinator_goes_on_when_the_first_one_ends(cluster: Cluster) -> None:
    cluster.join("h1")
    until(lambda: cluster.copies() == 1.0, "a copy of everything")
    second = cluster.start()
    assert httpx.get(f"{second.url}{V1}/isLeader").status_code == 404
    assert httpx.get(f"{second.url}{V1}/leader").text == cluster.coordinator.url
    cluster.coordinator.close()
    until(lambda: httpx.get(f"{second.url}{V1}/isLeader").status_code == 200, "the second leads")
    cluster.coordinator = second
    revision = append_rows(
        cluster._folder / "store", [{"__time": "2013-02-01T10:00:00Z", "carrier": "UA", "delay": 1}]
    )
    until(lambda: (told := cluster.metadata.told()) and told.revision == revision, "it told")


def test_a_drop_rule_deletes_in_a_commit_that_a_revert_takes_back(cluster: Cluster) -> None:
    rules = [{"type": "dropByInterval", "interval": "2013-01-01/2013-01-02"}]
    answer = httpx.post(f"{cluster.coordinator.url}{V1}/rules/flights", json=rules)
    assert answer.status_code == 200, answer.text
    until(lambda: cluster.metadata.head().revision == 4, "the deletion")
    assert cluster.metadata.log(limit=1)[0].message.startswith(
        "drop rule dropByInterval 2013-01-01"
    )
    httpx.post(f"{cluster.coordinator.url}{V1}/rules/flights", json=[])
    with open_store(settings=cluster.settings) as store:
        store.revert(4)
        assert store.sql("SELECT count(DISTINCT date_trunc('day', __time)) n FROM flights").rows()[
            0
        ] == {"n": 3}
