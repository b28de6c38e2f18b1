"""A historical that hangs (SIGSTOP) while others have its segments: queries go on before it is given up."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from carnac.errors import CarnacError
from carnac.ports.serving import Role
from tests.integration.test_historical_processes import TOTAL, Cluster
from tests.support.historicals import settled
from tests.support.serve_process import serving
from tests.waiting import until

pytestmark = [pytest.mark.http, pytest.mark.slow]

SQL = "SELECT count(*) AS rows, sum(n) AS total FROM events WHERE n > -{number}"
LEASE_MS = 600_000
"""Nobody counts as gone in this test."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    with made.steps:
        yield made


def ask(url: str, number: int) -> object:
    body = {"query": SQL.format(number=number), "context": {"useCache": False}}
    answer = httpx.post(f"{url}/druid/v2/sql", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Carnac-Complete"] == "true"
    return answer.json()


def servers_asked(store: Path) -> list[set[str]]:
    lines = (store / "query-log.jsonl").read_text().splitlines()
    return [set(json.loads(line)["servers"]) for line in lines]


def test_queries_go_on_before_one_that_hangs_is_given_up(cluster: Cluster) -> None:
    lease = {"CARNAC_LEASE_TTL_MS": str(LEASE_MS)}
    processes = [cluster.start(name, **lease) for name in ("h1", "h2")]
    servers = [cluster.server_of(one) for one in processes]
    for server in servers:
        server.assign(cluster.segments, fence=1, number=0)
    for server in servers:
        settled(server)
    names = {one.server_id for one in servers}
    with serving(cluster.store, "--role", "broker", CARNAC_QUERY_PART_BYTES="1", **lease) as broker:
        numbers = iter(range(1, 1_000))

        def both() -> bool:
            assert ask(broker.url, next(numbers)) == TOTAL
            return servers_asked(cluster.store)[-1] == names

        until(both, "a query that both servers have a part of")
        hung = servers[0]
        given_up = threading.Event()

        def wait_for_it() -> None:
            try:
                hung.inventory()
            except CarnacError:
                given_up.set()

        os.kill(processes[0].pid, signal.SIGSTOP)
        watch = threading.Thread(target=wait_for_it)
        watch.start()
        try:
            for _ in range(5):
                assert ask(broker.url, next(numbers)) == TOTAL
            assert not given_up.is_set(), "the queries waited for the one that hangs"
            assert servers_asked(cluster.store)[-1] == names - {hung.server_id}
            assert {one.server_id for one in cluster.records.servers(Role.HISTORICAL)} == names
        finally:
            os.kill(processes[0].pid, signal.SIGCONT)
        watch.join()
        until(both, "the one that hung being asked again")


def cold_answer(url: str, number: int, *, cold: int) -> bool:
    """Ask; return whether so many segments came from deep storage."""
    body = {"query": SQL.format(number=number), "context": {"useCache": False}}
    answer = httpx.post(f"{url}/druid/v2/sql", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.json() == TOTAL
    assert answer.headers["X-Carnac-Complete"] == "true"
    return int(answer.headers["X-Carnac-Segments-Cold"]) == cold


@pytest.mark.nightly("starts a cluster and waits for leases")
def test_without_a_historical_that_answers_the_broker_reads_deep_storage_itself(
    cluster: Cluster,
) -> None:
    lease = {"CARNAC_LEASE_TTL_MS": "5000"}
    numbers = iter(range(1, 1_000))
    every = len(cluster.segments)
    with serving(cluster.store, "--role", "broker", **lease) as broker:
        assert cold_answer(broker.url, next(numbers), cold=every), "none was started"
        process = cluster.start("h1", **lease)
        server = cluster.server_of(process)
        server.assign(cluster.segments, fence=1, number=0)
        settled(server)
        until(lambda: cold_answer(broker.url, next(numbers), cold=0), "an answer of the historical")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            assert cold_answer(broker.url, next(numbers), cold=every), "the only one hangs"
            assert cold_answer(broker.url, next(numbers), cold=every), "it hangs still"
        finally:
            os.kill(process.pid, signal.SIGCONT)
        until(lambda: cold_answer(broker.url, next(numbers), cold=0), "it is asked again")
        process.kill()
        assert cold_answer(broker.url, next(numbers), cold=every), "the last one was killed"


def test_where_deep_storage_is_away_too_a_query_is_told_to_come_again(cluster: Cluster) -> None:
    body = {"query": SQL.format(number=1), "context": {"useCache": False}}
    with serving(cluster.store, "--role", "broker") as broker:
        files = next(
            path
            for path in cluster.store.iterdir()
            if path.is_dir() and any(path.rglob("*.parquet"))
        )
        files.rename(away := files.with_name("away"))
        answer = httpx.post(f"{broker.url}/druid/v2/sql", json=body, timeout=120)
        away.rename(files)
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert "deep storage" in answer.json()["errorMessage"]
        assert cold_answer(broker.url, 1, cold=len(cluster.segments))
