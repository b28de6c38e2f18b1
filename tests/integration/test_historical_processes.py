"""Historicals as processes: killed while they load and while they answer, stopped while others ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records, open_store
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.errors import CarnacError, Unavailable
from carnac.flight import FlightSegmentServer
from carnac.metadata.records.server_records import ServerRecords
from carnac.ports.serving import Inventory, Role, ServerRecord
from tests.support.historicals import request_of, rows_of, settled, states, write_hours
from tests.waiting import until

pytestmark = [pytest.mark.http, pytest.mark.slow]

HOURS = 30
ROWS = 2_000
TOTAL = [{"rows": HOURS * ROWS, "total": sum(range(HOURS * ROWS))}]


class Cluster:
    """A store with a segment for each hour, and processes that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.steps = ExitStack()
        with open_store(self.store, create=True) as store:
            self.segments = write_hours(store.deep_storage, HOURS, ROWS)
            change = Change(datasource="events", adds=tuple(self.segments))
            store._metadata.publish(
                Publication(kind=CommitKind.APPEND, changes=(change,), message="hours")
            )
        self.records: ServerRecords = open_records(
            settings=Settings(store=str(self.store)), clock=StoreClock()
        )

    def start(self, name: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a historical over a folder of that name."""
        command = [sys.executable, "-m", "carnac", "serve", "--role", "historical", "--port", "0"]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--store", str(self.store), "--folder", str(self.folder / name)],
                env={**os.environ, "CARNAC_LEASE_TTL_MS": "5000", **environ},
                stderr=log,
            )
        self.steps.callback(process.wait)
        self.steps.callback(process.kill)
        return process

    def server_of(self, process: subprocess.Popen[bytes]) -> FlightSegmentServer:
        """Return what reaches a process once it has made itself known."""

        def find() -> ServerRecord | None:
            found = self.records.servers(Role.HISTORICAL)
            holder = f"process {process.pid} on"
            return next((one for one in found if holder in one.holder), None)

        record = until(find, "a historical that makes itself known")
        client = FlightSegmentServer(record.url, record.server_id)
        self.steps.callback(client.close)
        return client


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    with made.steps:
        yield made


def files_of(folder: Path) -> dict[str, int]:
    """Return the files that were put in their places, by name, with their inodes."""
    return {one.name: one.stat().st_ino for one in (folder / "segments").iterdir()}


def test_a_folder_of_another_store_is_refused_and_left_as_it_is(cluster: Cluster) -> None:
    server = cluster.server_of(process := cluster.start("h1"))
    server.assign(cluster.segments, fence=1, number=0)
    settled(server)
    process.terminate()
    assert process.wait() == 0
    before = files_of(cluster.folder / "h1")
    was = cluster.records.store_id
    cluster.store = cluster.folder / "other"
    open_store(cluster.store, create=True).close()
    assert cluster.start("h1").wait() == 2
    said = (cluster.folder / "h1.log").read_text()
    assert f"/h1 has segments of store {was}, and this historical serves store " in said
    assert files_of(cluster.folder / "h1") == before


def test_what_was_loaded_before_a_kill_is_there_after_it(cluster: Cluster) -> None:
    size_bytes = sum(one.size_bytes for one in cluster.segments)
    slow = {"CARNAC_LOAD_BYTES_PER_S": str(size_bytes // 8), "CARNAC_LOAD_THREADS": "2"}
    process = cluster.start("h1", **slow)
    server = cluster.server_of(process)
    server.assign(cluster.segments, fence=3, number=0)

    def some() -> Inventory | None:
        found = server.inventory()
        loaded = [one for one in found.holdings if one.state == "loaded"]
        return found if len(loaded) >= 5 else None

    before = until(some, "some loaded segments", period_s=0.01)
    process.kill()
    process.wait()
    with pytest.raises(Unavailable, match="cannot be reached"):
        server.inventory()
    kept = files_of(cluster.folder / "h1")
    assert 5 <= len(kept) < HOURS
    again = cluster.server_of(cluster.start("h1"))
    after = settled(again)
    assert (after.server_id, after.epoch != before.epoch) == (before.server_id, True)
    assert states(after) == {one.segment_id: "loaded" for one in cluster.segments}
    assert kept.items() <= files_of(cluster.folder / "h1").items()  # not fetched again
    assert list((cluster.folder / "h1" / "loading").iterdir()) == []
    rows, report = rows_of(again, request_of(cluster.segments))
    assert (rows, report.cold, report.is_whole) == (TOTAL, 0, True)
    with pytest.raises(CarnacError, match="fence 3 leads"):
        again.assign([], fence=2, number=0)


def test_an_answer_that_a_kill_cuts_short_is_never_whole(cluster: Cluster) -> None:
    process = cluster.start("h1")
    server = cluster.server_of(process)
    server.assign(cluster.segments[:3], fence=1, number=0)
    settled(server)
    request = request_of(cluster.segments[:3], "SELECT a.n FROM v a, v b")
    batches, report = server.run(request)
    next(batches)
    process.kill()
    with pytest.raises(Unavailable, match=r"ask another one|broke off"):
        list(batches)
    assert not report.is_whole
    again = cluster.server_of(cluster.start("h1"))
    assert rows_of(again, request_of(cluster.segments))[0] == TOTAL


def test_a_historical_that_is_told_to_end_fails_no_query(cluster: Cluster) -> None:
    first, second = cluster.start("h1"), cluster.start("h2")
    servers = [cluster.server_of(first), cluster.server_of(second)]
    for server in servers:
        server.assign(cluster.segments, fence=1, number=0)
        settled(server)
    stop, wrong, answered = threading.Event(), [], []

    def ask(number: int) -> None:
        turn = number
        while not stop.is_set():
            turn += 1
            for server in (servers[turn % 2], servers[(turn + 1) % 2]):
                try:
                    rows, report = rows_of(server, request_of(cluster.segments))
                except Unavailable:  # the other one, then
                    continue
                if rows != TOTAL or not report.is_whole:
                    wrong.append((rows, report))
                answered.append(server.server_id)
                break
            else:
                wrong.append("nobody answered")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    streaming = request_of(cluster.segments[:1], "SELECT a.n FROM v a, v b")
    batches, report = servers[0].run(streaming)
    rows = next(batches).num_rows  # type: ignore[attr-defined]
    first.send_signal(signal.SIGTERM)

    def draining() -> bool:
        found = cluster.records.servers(Role.HISTORICAL)
        return any(one.is_draining and one.server_id == servers[0].server_id for one in found)

    until(draining, "a historical that says that it drains")
    rows += sum(batch.num_rows for batch in batches)  # type: ignore[attr-defined]
    assert (rows, report.is_whole) == (ROWS * ROWS, True)
    assert first.wait(60) == 0
    seen = len(answered)
    until(lambda: len(answered) > seen + 3, "answers of the one that is left")
    stop.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert set(answered) == {one.server_id for one in servers}
    left = {one.server_id for one in cluster.records.servers(Role.HISTORICAL)}
    assert left == {servers[1].server_id}  # it has said goodbye


def test_two_processes_do_not_serve_from_one_folder(cluster: Cluster) -> None:
    cluster.server_of(cluster.start("h1"))
    other = cluster.start("h1")
    assert other.wait(60) == 2
    assert "give this one a folder of its own" in (cluster.folder / "h1.log").read_text()


def test_files_of_another_disk_are_limited_and_damage_is_told(cluster: Cluster) -> None:
    capacity = sum(one.size_bytes for one in cluster.segments[:4])
    process = cluster.start("h1", CARNAC_HISTORICAL_CAPACITY_BYTES=str(capacity))
    server = cluster.server_of(process)
    spoiled = cluster.segments[1]
    place = cluster.store / "deep-storage" / spoiled.path
    data = place.read_bytes()
    place.write_bytes(data[:50] + b"??" + data[52:])
    server.assign(cluster.segments[:6], fence=1, number=0)
    found = settled(server)
    errors = {one.segment_id: one.error for one in found.holdings}
    assert "is damaged" in errors[spoiled.segment_id]
    assert sorted(states(found).values()).count("failed") == 3
    assert "may hold 0 are free" in errors[cluster.segments[5].segment_id]
    with pytest.raises(CarnacError, match="is damaged") as caught:
        rows_of(server, request_of(cluster.segments[:6]))
    assert caught.value.kind == "corrupt"
    rows, report = rows_of(server, request_of(cluster.segments[:6], skips_missing=True))
    assert (rows[0]["rows"], list(report.missing)) == (5 * ROWS, [spoiled.segment_id])
