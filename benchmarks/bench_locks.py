"""The lockbox: operations a second in the core and in the databases, and interleavings a second in simulation.

*Core.* An operation is a request or a release that is decided and written down in memory, while others hold locks on
10,000 other hours. `free`: nobody is in the way. `contended`: 100 tasks want one of the same 20 hours each, so that
most requests wait and each release looks at a queue. `entangled`: they want several while they hold others, so that
most requests must be shown to close no circle of waits, and many do.

*Durable.* The same, one transaction an operation, synced to disk (`synchronous=FULL`; PostgreSQL's defaults), by one
process alone, by 8 threads of one process, which share transactions, and by 8 processes.

    python -m benchmarks.bench_locks [--seconds 2] [--runs 5] [--only core|sqlite|postgresql|simulation]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from benchmarks.bench_publish import new_sqlite
from benchmarks.support.harness import (
    RESULTS,
    RUNS,
    cpu_seconds,
    medians,
    percentiles_ms,
    run_processes,
    write_results,
)
from carnac.clock import RandomIds, SystemClock
from carnac.core.locks.events import LockEvent, LockReply, ReleaseLocks, RequestLock
from carnac.core.locks.machine import decide
from carnac.core.locks.model import LockType
from carnac.core.time.intervals import Interval
from carnac.metadata import open_metadata
from tests.support.lock_table import LockTable
from tests.support.postgresql import run_postgresql
from tests.support.same_hour import Mode, run_interleaving

HOUR_MS = 3_600_000
HELD = 10_000
OPERATIONS = 20_000
WRITERS = 8
INTERLEAVINGS = 10_000
PARTS = ("core", "sqlite", "postgresql", "simulation")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--only", choices=PARTS)
    options.add_argument("--interleavings", type=int, default=INTERLEAVINGS)
    chosen = options.parse_args()
    parts = PARTS if chosen.only is None else (chosen.only,)
    aims = {"core_per_s": 10_000, "interleavings_10000_s": 60}
    figures: dict[str, object] = {**({} if chosen.only is None else figures_before()), "aims": aims}
    if "core" in parts:
        figures["core"] = measure_core(chosen.runs)
    if "sqlite" in parts:
        figures["sqlite"] = measure_durable(new_sqlite, chosen.seconds, chosen.runs)
    if "postgresql" in parts:
        with run_postgresql() as server:

            @contextlib.contextmanager
            def new_postgresql() -> Iterator[str]:
                yield server.create_database("bench")

            figures["postgresql"] = measure_durable(new_postgresql, chosen.seconds, chosen.runs)
    if "simulation" in parts:
        figures["simulation"] = measure_simulation(chosen.interleavings)
    write_results("locks", figures, packages=("sqlalchemy", "psycopg"))


def figures_before() -> dict[str, object]:
    """Return what was measured before, so that one part can be measured alone."""
    path = RESULTS / "locks.json"
    return dict(json.loads(path.read_text())["figures"]) if path.is_file() else {}


def request(task: str, hour: int, priority: int = 50) -> RequestLock:
    return RequestLock(
        task_id=task,
        group_id=task,
        datasource="events",
        interval=Interval(hour * HOUR_MS, (hour + 1) * HOUR_MS),
        partitions=None,
        type=LockType.EXCLUSIVE,
        priority=priority,
        timeout_ms=300_000,
        lease_ms=60_000,
    )


# --------------------------------------------------------------------------------------------------- the core


def measure_core(runs: int) -> dict[str, object]:
    return {
        name: medians([{"per_s": OPERATIONS / cpu_seconds(work())[0]} for _ in range(runs)])
        for name, work in (
            ("free", free_work),
            ("contended", partial(wanted_work, most=1)),
            ("entangled", partial(wanted_work, most=20)),
        )
    }


def table_of(held: int) -> tuple[LockTable, Callable[[LockEvent], LockReply]]:
    table = LockTable()

    def send(event: LockEvent) -> LockReply:
        decision = decide(table, event, at_ms=0)
        table.apply(decision)
        return decision.reply

    for hour in range(held):
        send(request(f"holder{hour % 500}", hour))
    return table, send


def free_work() -> Callable[[], None]:
    _, send = table_of(HELD)
    rng = random.Random(1)
    events: list[LockEvent] = []
    for number in range(OPERATIONS // 2):
        task = f"t{number}"
        events += [request(task, HELD + rng.randrange(HELD)), ReleaseLocks(task_id=task)]
    return lambda: run_all(send, events)


def wanted_work(most: int) -> Callable[[], None]:
    """100 tasks want the same 20 hours, each at most so many of them at once."""
    _, send = table_of(HELD)
    rng = random.Random(1)
    wanted = {f"t{number}": 0 for number in range(100)}
    events: list[LockEvent] = []
    for _ in range(OPERATIONS):
        task = rng.choice(list(wanted))
        if wanted[task] < most and rng.random() < max(0.5, 2 - most):
            wanted[task] += 1
            events.append(request(task, HELD + rng.randrange(20), rng.choice([25, 50, 75])))
        else:
            wanted[task] = 0
            events.append(ReleaseLocks(task_id=task))
    return lambda: run_all(send, events)


def run_all(send: Callable[[LockEvent], LockReply], events: list[LockEvent]) -> None:
    for event in events:
        send(event)


# ------------------------------------------------------------------------------------------------- durable


def measure_durable(
    new_store: Callable[[], contextlib.AbstractContextManager[str]], secs: float, runs: int
) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, count, threads in (
        ("1_process", 1, 1),
        (f"1_process_{WRITERS}_threads", 1, WRITERS),
        (f"{WRITERS}_processes", WRITERS, 1),
    ):
        found[name] = medians([one_run(new_store, count, threads, secs) for _ in range(runs)])
        print(name, found[name], file=sys.stderr)
    return found


def one_run(
    new_store: Callable[[], contextlib.AbstractContextManager[str]],
    count: int,
    threads: int,
    secs: float,
) -> dict[str, float]:
    """Request and release for some seconds; return operations a second and their latencies."""
    with new_store() as url:
        open_metadata(url, clock=SystemClock(), ids=RandomIds()).close()
        found = run_processes(lock_for, [(url, (n, threads), secs) for n in range(count)])
        latencies = [latency for one in found for latency in one]
        return {"per_s": len(latencies) / secs, **percentiles_ms(latencies)}


def lock_for(url: str, place: tuple[int, int], secs: float, barrier: Barrier, answers: Any) -> None:
    number, threads = place
    store = open_metadata(url, clock=SystemClock(), ids=RandomIds())
    found: list[float] = []

    def work(thread: int) -> None:
        task, rng = f"t{number}.{thread}", random.Random(thread)
        end = time.perf_counter() + secs
        while time.perf_counter() < end:
            hour = 1_000 * (number * threads + thread) + rng.randrange(1_000)
            for event in (request(task, hour), ReleaseLocks(task_id=task)):
                start = time.perf_counter()
                store.change_locks(event)
                found.append(time.perf_counter() - start)

    store.change_locks(request("warm up", number))
    store.change_locks(ReleaseLocks(task_id="warm up"))
    barrier.wait()
    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    answers.put(found)
    store.close()


# ---------------------------------------------------------------------------------------------- simulation


def measure_simulation(count: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for mode, faults, runs in (
        (Mode.DEFAULT, 0.0, count),
        (Mode.SEGMENT, 0.0, count),
        (Mode.DEFAULT, 0.03, count // 10),
        (Mode.TIME_CHUNK, 0.0, count // 10),
    ):

        def work(mode: Mode = mode, faults: float = faults, runs: int = runs) -> int:
            outcomes = (run_interleaving(seed, mode=mode, faults=faults) for seed in range(runs))
            return sum(outcome.rows != outcome.rows_expected for outcome in outcomes)

        took, wrong = cpu_seconds(work)
        name = f"{mode}_with_faults" if faults else str(mode)
        found[name] = {"interleavings": runs, "seconds": round(took, 1), "wrong": wrong}
        print(name, found[name], file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
