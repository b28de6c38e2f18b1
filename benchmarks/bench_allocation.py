"""Segment allocation: places a second, by 16 clients.

*service*: 16 threads of one process ask the store for one place at a time, as the threads of an overlord do. Threads
that ask while a transaction is made share the next one. *http*: 16 connections from another process to a server in a
process of its own, for one place a request and for 16 (`http_by_16`). *bulk*: one client asks for 500 at a time, as
perfect rollup does. Each runs on a chunk with segments in it (`live`), on a chunk that does not exist yet (`founded`,
the number that counts, as it writes more), and with the owner's lock asked for in the same transaction (`locked`).
Every place is written durably (`synchronous=FULL`; PostgreSQL's defaults), and no two are the same; the benchmark
checks that. A latency is that of a request, however many places it is for. `cpu_us` is the processor time of one place
in the process of the service (its clients' threads included) or of the server.

    python -m benchmarks.bench_allocation [--seconds 3] [--runs 3] [--only sqlite|postgresql]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bench_publish import new_sqlite
from benchmarks.support.harness import RESULTS, medians, percentiles_ms, write_results
from carnac.clock import RandomIds, SystemClock
from carnac.core.locks.model import LockGranularity, LockType
from carnac.core.log.allocation import AllocationLock, AllocationRequest, PendingSegment
from carnac.core.log.allocation_records import read_reply, request_to_json
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval
from carnac.metadata import open_metadata
from tests.support.postgresql import run_postgresql

SPAWN = multiprocessing.get_context("spawn")
CLIENTS = 16
BULK = 500
DAY_MS = 86_400_000
AIMS = {"sqlite_service_founded_per_s": 5_000}
PARTS = ("sqlite", "postgresql")
LOCK = AllocationLock(
    group_id="g",
    type=LockType.EXCLUSIVE,
    granularity=LockGranularity.SEGMENT,
    priority=50,
    timeout_ms=300_000,
    lease_ms=60_000,
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--only", choices=PARTS)
    chosen = options.parse_args()
    figures: dict[str, object] = {**figures_before(), "aims": AIMS, "clients": CLIENTS}
    if chosen.only in {None, "sqlite"}:
        figures["sqlite"] = measure(new_sqlite, chosen.seconds, chosen.runs)
    if chosen.only in {None, "postgresql"}:
        with run_postgresql() as server:

            @contextlib.contextmanager
            def new_postgresql() -> Iterator[str]:
                yield server.create_database("bench")

            figures["postgresql"] = measure(new_postgresql, chosen.seconds, chosen.runs)
    write_results("allocation", figures, packages=("fastapi", "psycopg", "sqlalchemy", "uvicorn"))


def figures_before() -> dict[str, object]:
    """Return what was measured before, so that one part can be measured alone."""
    path = RESULTS / "allocation.json"
    return dict(json.loads(path.read_text())["figures"]) if path.is_file() else {}


def measure(
    new_store: Callable[[], contextlib.AbstractContextManager[str]], secs: float, runs: int
) -> dict[str, object]:
    def run(work: Callable[[str, float], dict[str, float]], *, is_live: bool) -> dict[str, float]:
        found = []
        for _ in range(runs):
            with new_store() as url:
                prepare(url, is_live=is_live)
                found.append(work(url, secs))
                check(url)
        return medians(found)

    return {
        "service_founded": run(by_service, is_live=False),
        "service_live": run(by_service, is_live=True),
        "service_locked": run(by_service_locked, is_live=True),
        "http_live": run(by_http, is_live=True),
        "http_by_16_live": run(by_http_many, is_live=True),
        "bulk_live": run(in_bulk, is_live=True),
    }


def prepare(url: str, *, is_live: bool) -> None:
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    if is_live:
        change = Change(datasource="events", adds=(first_segment(),))
        store.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    store.close()


def first_segment() -> Segment:
    return Segment(
        segment_id="first",
        datasource="events",
        chunk=Interval(0, DAY_MS),
        path="segments/first.parquet",
        size_bytes=1,
        rows=1,
        input_rows=1,
        min_time_ms=0,
        max_time_ms=DAY_MS - 1,
        columns=(),
    )


def check(url: str) -> None:
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    pending = store.pending_segments()
    if len({(one.chunk, one.partition_id) for one in pending}) != len(pending):
        raise ValueError("two places are the same")
    store.close()


def request(
    client: int, previous_id: str = "", lock: AllocationLock | None = None
) -> AllocationRequest:
    return AllocationRequest(
        datasource="events",
        at_ms=client,
        segment_granularity="day",
        sequence=f"s{client}",
        owner=f"task{client}",
        previous_id=previous_id,
        lock=lock,
    )


def for_a_while(secs: float, ask: Callable[[int], Callable[[], None]]) -> dict[str, float]:
    """Let all clients ask for some seconds; return places a second and the latency of each."""
    found: list[float] = []

    def work(client: int) -> None:
        once, latencies = ask(client), []
        end = time.perf_counter() + secs
        while (start := time.perf_counter()) < end:
            once()
            latencies.append(time.perf_counter() - start)
        found.extend(latencies)

    threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"per_s": len(found) / secs, **percentiles_ms(found)}


def by_service(url: str, secs: float, lock: AllocationLock | None = None) -> dict[str, float]:
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())

    def ask(client: int) -> Callable[[], None]:
        previous = ""

        def once() -> None:
            nonlocal previous
            (reply,) = store.allocate([request(client, previous, lock)])
            if not isinstance(reply, PendingSegment):
                raise TypeError(reply)
            previous = reply.pending_id

        return once

    start = time.process_time()
    figures = for_a_while(secs, ask)
    spent = time.process_time() - start
    store.close()
    return {**figures, "cpu_us": spent / (figures["per_s"] * secs) * 1e6}


def by_service_locked(url: str, secs: float) -> dict[str, float]:
    return by_service(url, secs, LOCK)


def in_bulk(url: str, secs: float) -> dict[str, float]:
    """One client; the figures are of places, the latencies of 500 of them."""
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    found: list[float] = []
    end = time.perf_counter() + secs
    while (start := time.perf_counter()) < end:
        first = request(0)
        store.allocate(
            [replace(first, sequence=f"{len(found)}/{number}") for number in range(BULK)]
        )
        found.append(time.perf_counter() - start)
    store.close()
    return {"per_s": len(found) * BULK / secs, **percentiles_ms(found)}


def by_http(url: str, secs: float, places: int = 1) -> dict[str, float]:
    """The server has a process of its own; the clients are threads of this one."""
    told, stop = SPAWN.SimpleQueue(), SPAWN.Event()
    server = SPAWN.Process(target=serve_until, args=(url, told, stop))
    server.start()
    parts = urlsplit(told.get())
    headers = {"Content-Type": "application/json"}

    def ask(client: int) -> Callable[[], None]:
        link = http.client.HTTPConnection(parts.hostname or "", parts.port)
        template = request_to_json(request(client))
        previous = [""] * places

        def once() -> None:
            asked = [
                {**template, "sequence": f"s{client}/{at}", "previous_id": previous_id}
                for at, previous_id in enumerate(previous)
            ]
            link.request("POST", parts.path, json.dumps(asked).encode(), headers)
            replies = json.loads(link.getresponse().read())
            previous[:] = [read_reply(reply) or "" for reply in replies]

        return once

    figures = for_a_while(secs, ask)
    stop.set()
    spent = told.get()
    server.join()
    figures["per_s"] *= places
    return {**figures, "cpu_us": spent / (figures["per_s"] * secs) * 1e6}


def by_http_many(url: str, secs: float) -> dict[str, float]:
    return by_http(url, secs, places=CLIENTS)


def serve_until(url: str, told: Any, stop: Any) -> None:
    from carnac.api.allocation import serve

    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    with serve(store) as address:
        start = time.process_time()
        told.put(address)
        stop.wait()
        told.put(time.process_time() - start)
    store.close()


if __name__ == "__main__":
    main()
