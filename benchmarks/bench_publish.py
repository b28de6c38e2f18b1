"""Durable publishing: commits a second with 1, 4 and 16 processes, and what the log costs over plain SQL.

Each process appends one segment (eight columns with statistics) to one datasource, commit after commit, each with a
`(writer, batch)` of its own. SQLite syncs every commit (`synchronous=FULL`); PostgreSQL runs with its defaults.

In the same run the same rows are written by plain SQL: one transaction of seven INSERTs with a driver's cursor, no
reading, no deciding. On SQLite with several processes that is what an application does by itself: `BEGIN IMMEDIATE`
and SQLite's own waiting, which is not fair: so with sixteen processes plain SQL is measured in the store's turns as
well. The ratio of the two rates is the overhead of the log. How often the disk syncs at all bounds
what one process can do that publishes one commit after another. Commits of threads that come at the same time share
transactions, as in a server.

    python -m benchmarks.bench_publish [--seconds 3] [--runs 5] [--only sqlite]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.bench_million_segments import segment
from benchmarks.support.harness import (
    RUNS,
    medians,
    percentiles_ms,
    ratio,
    read_figures,
    run_processes,
    write_results,
)
from carnac.clock import RandomIds, SystemClock
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.metadata import open_metadata
from carnac.metadata.backends.writer_queue import WriterQueue
from tests.support.postgresql import run_postgresql

PROCESSES = (1, 4, 16)
THREADS = (8, 32)
WARM_UP = 20
LOGGED_BYTES = 1 << 16
"""Of one commit in SQLite's log: at most 15 pages of 4 KiB, six as a rule."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--only", choices=["sqlite", "postgresql"])
    chosen = options.parse_args()
    figures: dict[str, object] = read_figures("publish") if chosen.only else {}
    figures |= {"aims": {"sqlite_1_per_s": 3000, "sqlite_16_per_s": 1500, "p99_ms": 50}}
    figures["disk"] = {"synced_writes_of_64_kib_per_s": measure_syncs(chosen.seconds, chosen.runs)}
    if chosen.only != "postgresql":
        figures["sqlite"] = measure_all(new_sqlite, chosen.seconds, chosen.runs)
    if chosen.only != "sqlite":
        with run_postgresql() as server:

            @contextlib.contextmanager
            def new_postgresql() -> Iterator[str]:
                yield server.create_database("bench")

            figures["postgresql"] = measure_all(new_postgresql, chosen.seconds, chosen.runs)
    write_results("publish", figures, packages=("psycopg",))


def measure_syncs(secs: float, runs: int) -> float:
    """How often a second the disk makes about the bytes of one commit durable: the ceiling of one commit after another.

    The file is overwritten from its start now and then, as SQLite does with its log, so that its size stays.
    """
    found = []
    for _ in range(runs):
        with tempfile.TemporaryFile(buffering=0) as file:
            count, end = 0, time.perf_counter() + secs
            while time.perf_counter() < end:
                file.seek(count % 128 * LOGGED_BYTES)
                file.write(b"x" * LOGGED_BYTES)
                os.fdatasync(file.fileno())
                count += 1
        found.append(count / secs)
    return statistics.median(found)


@contextlib.contextmanager
def new_sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/metadata.db"


def measure_all(
    new_store: Callable[[], contextlib.AbstractContextManager[str]], secs: float, runs: int
) -> Mapping[str, object]:
    found: dict[str, dict[str, object]] = {}
    for count in PROCESSES:
        pairs = [
            (
                one_run(new_store, publish_for, count, secs),
                one_run(new_store, plain_for, count, secs),
            )
            for _ in range(runs)
        ]
        ours, theirs = medians([one for one, _ in pairs]), medians([one for _, one in pairs])
        found[f"{count}_processes"] = {
            "carnac": ours,
            "plain_sql": theirs,
            "rate_of_plain_sql": ratio(ours["per_s"], theirs["per_s"]),
        }
        if count == PROCESSES[-1] and new_store is new_sqlite:
            fair = functools.partial(plain_for, in_turns=True)
            theirs = medians([one_run(new_store, fair, count, secs) for _ in range(runs)])
            found[f"{count}_processes"] |= {
                "plain_sql_in_turns": theirs,
                "rate_of_plain_sql_in_turns": ratio(ours["per_s"], theirs["per_s"]),
            }
        print(count, found[f"{count}_processes"], file=sys.stderr)
    for threads in THREADS:
        work = functools.partial(publish_in_threads, count=threads)
        found[f"1_process_{threads}_threads"] = {
            "carnac": medians([one_run(new_store, work, 1, secs) for _ in range(runs)])
        }
        print(threads, found[f"1_process_{threads}_threads"], file=sys.stderr)
    return found


def one_run(
    new_store: Callable[[], contextlib.AbstractContextManager[str]],
    work: Callable[..., None],
    count: int,
    secs: float,
) -> dict[str, float]:
    """Run `work` in `count` processes for some seconds; return the rate and the latencies of all."""
    with new_store() as url:
        open_metadata(url, clock=SystemClock(), ids=RandomIds()).close()
        latencies: list[list[float]] = run_processes(
            work, [(url, f"w{n}", secs) for n in range(count)]
        )
        done = [len(one) for one in latencies]
        if work is not plain_for and getattr(work, "func", None) is not plain_for:
            verify(url, sum(done) + WARM_UP * count)
        flat = [latency for one in latencies for latency in one]
        return {
            "per_s": sum(done) / secs,
            **percentiles_ms(flat),
            "slowest_process_share": min(done) * count / sum(done),
        }


def verify(url: str, commits: int) -> None:
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    head, visible = store.head().revision, store.count_visible("events")
    store.close()
    if (head, visible) != (commits, commits):
        raise RuntimeError(
            f"{commits} published, but the store has {head} commits, {visible} visible"
        )


def timed(secs: float, barrier: Barrier, act: Callable[[int], None]) -> list[float]:
    """Warm up, wait for the others, then act until the time is over; return the latencies."""
    for number in range(WARM_UP):
        act(-1 - number)
    barrier.wait()
    latencies: list[float] = []
    end = time.perf_counter() + secs
    while (start := time.perf_counter()) < end:
        act(len(latencies))
        latencies.append(time.perf_counter() - start)
    return latencies


def batch_of(ids: RandomIds, writer: str, number: int) -> Publication:
    change = Change(datasource="events", adds=(segment(ids, 0, number),))
    return Publication(kind=CommitKind.APPEND, changes=(change,), writer=writer, batch=str(number))


def publish_for(url: str, writer: str, secs: float, barrier: Barrier, answers: Any) -> None:
    store, ids = open_metadata(url, clock=SystemClock(), ids=RandomIds()), RandomIds()

    def act(number: int) -> None:
        store.publish(batch_of(ids, writer, number))

    answers.put(timed(secs, barrier, act))
    store.close()


def publish_in_threads(
    url: str, writer: str, secs: float, barrier: Barrier, answers: Any, *, count: int
) -> None:
    """Publish as a server does: many threads of one process share transactions."""
    store, ids = open_metadata(url, clock=SystemClock(), ids=RandomIds()), RandomIds()
    found: list[float] = []

    def run(thread: int, most: int) -> None:
        end = time.perf_counter() + secs
        number = 0
        while (start := time.perf_counter()) < end and number < most:
            store.publish(batch_of(ids, f"{writer}.{thread}", number))
            found.append(time.perf_counter() - start)
            number += 1

    run(count, WARM_UP)
    found.clear()
    barrier.wait()
    threads = [threading.Thread(target=run, args=(n, 10**9)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(found)
    store.close()


# -------------------------------------------------------------------------------------------------- plain SQL

TABLES = {
    "plain_commits": 7,
    "plain_changes": 8,
    "plain_batches": 4,
    "plain_segments": 9,
    "plain_entries": 17,
    "plain_chunks": 12,
    "plain_shapes": 7,
}


@contextlib.contextmanager
def turn_of(queue: WriterQueue | None) -> Iterator[None]:
    """Wait for a turn, if there is a queue, and end it."""
    if queue is None:
        yield
        return
    try:
        queue.enter()
        yield
    finally:
        queue.leave()


def plain_for(
    url: str, writer: str, secs: float, barrier: Barrier, answers: Any, *, in_turns: bool = False
) -> None:
    """The same seven rows in one transaction, with nothing read and nothing decided.

    Args:
        in_turns: Whether processes wait for one another as those of a store on SQLite do.
    """
    from carnac.core.segments.record import dump_segment

    is_sqlite = url.startswith("sqlite")
    link: Any
    queue: WriterQueue | None = None
    if is_sqlite:
        path = Path(url.removeprefix("sqlite:///"))
        link = sqlite3.connect(path, isolation_level=None, timeout=60)
        link.execute("PRAGMA synchronous=FULL")
        if in_turns:
            lock = Path(f"{path}.lock")
            queue = WriterQueue(lock, patience_ms=60_000, now_ms=SystemClock().now_ms)
    else:
        import psycopg

        link = psycopg.connect(url, autocommit=True)
    key = "INTEGER PRIMARY KEY" if is_sqlite else "BIGSERIAL PRIMARY KEY"
    mark = "?" if is_sqlite else "%s"
    begin = "BEGIN IMMEDIATE" if is_sqlite else "BEGIN"
    for name, width in TABLES.items():
        columns = ", ".join(f"c{n} TEXT" for n in range(width - 1))
        with contextlib.suppress(Exception):  # another process has made it at the same time
            link.execute(f"CREATE TABLE IF NOT EXISTS {name} (id {key}, {columns})")
    ids = RandomIds()
    inserts = [
        (
            f"INSERT INTO {name} ({', '.join(f'c{n}' for n in range(width - 1))}) "
            f"VALUES ({', '.join([mark] * (width - 1))})",
            width - 1,
        )
        for name, width in TABLES.items()
    ]

    def act(number: int) -> None:
        record = dump_segment(segment(ids, 0, number))
        with turn_of(queue):
            link.execute(begin)
            for place, (text, width) in enumerate(inserts):
                values = [writer, *(str(number) for _ in range(width - 1))]
                if place == 3:
                    values[1] = record
                link.execute(text, values)
            link.execute("COMMIT")

    answers.put(timed(secs, barrier, act))
    link.close()
    if queue is not None:
        queue.close()


if __name__ == "__main__":
    main()
