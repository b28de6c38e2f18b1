"""What the processes of `test_store_processes` do. They are forked from one that has nothing of a test's."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import carnac
from carnac.clock import RandomIds, SystemClock
from carnac.errors import Conflict
from carnac.ports import DeepStorage, JobResult
from carnac.store import Store
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import DAY_MS, START_MS, hour, ids, rows_of, spec

GRANULARITY = "month"
"""All of the test's rows share one time chunk, so everybody is in everybody's way."""
ATTEMPTS_MAX = 200
DAY_5 = f"{carnac.Interval(START_MS + 5 * DAY_MS, START_MS + 6 * DAY_MS)}"
DAY_6 = f"{carnac.Interval(START_MS + 6 * DAY_MS, START_MS + 7 * DAY_MS)}"
POISON = -1
"""Id of rows that are to be deleted; each append brings one."""


def local_pipeline(storage: DeepStorage) -> LocalPipeline:
    return LocalPipeline(storage, clock=SystemClock(), ids=RandomIds())


def open_store(path: Path, **settings: object) -> Store:
    return carnac.open(path, create=True, pipeline=local_pipeline, **settings)


def append_rows(path: Path, number: int, appends: int, out: Connection) -> None:
    """Append two rows and a poisoned one at a time; an append may not fail, so it is tried once."""
    try:
        with open_store(path) as store:
            for round_ in range(appends):
                first = (number * appends + round_) * 2
                pairs = [(first, hour(number)), (first + 1, hour(24 * 9)), (POISON, hour(number))]
                store.ingest(spec(granularity=GRANULARITY), rows_of(pairs))
        out.send("done")
    except BaseException as error:
        out.send(repr(error))


def replace_day(path: Path, times: int, out: Connection) -> None:
    """Replace one day again and again; whoever is overtaken reads again."""
    try:
        with open_store(path) as store:
            for number in range(times):
                how = spec(granularity=GRANULARITY, mode="replace", intervals=[DAY_5])
                rows = rows_of([(1_000_000 + number, hour(24 * 5 + 1))])
                _retry(lambda how=how, rows=rows: store.ingest(how, rows))
        out.send("done")
    except BaseException as error:
        out.send(repr(error))


def delete_rows(path: Path, times: int, out: Connection) -> None:
    """Delete what is poisoned, and a day, again and again."""
    try:
        with open_store(path) as store:
            for _ in range(times):
                _retry(lambda: store.delete("events", where=f"id = {POISON}"))
                _retry(lambda: store.delete("events", interval=DAY_6))
        out.send("done")
    except BaseException as error:
        out.send(repr(error))


def read_rows(path: Path, out: Connection) -> None:
    """Read until told to stop: every revision has three rows with one number."""
    reads = 0
    try:
        while not out.poll():
            with open_store(path) as store:
                for _ in range(5):
                    found = ids(store)
                    assert len(found) == 3, found
                    assert len(set(found)) == 1, found
                    reads += 1
        out.send(reads)
    except BaseException as error:
        out.send(repr(error))


def renew_often(store: Store) -> None:
    """Have a store renew its leases ten times a second, however long they are."""
    loop = store._leases._loop
    loop._wait = lambda _s: loop._wait_for_bell(0.1)


def hold_revision(path: Path, ttl_ms: int, revision: int, out: Connection) -> None:
    """Pin a revision, say so, and never come back."""
    with open_store(path, lease_ttl_ms=ttl_ms) as store:
        renew_often(store)
        store._leases.pin(revision)
        out.send("holding")
        out.recv()


def hold_files(path: Path, ttl_ms: int, out: Connection) -> None:
    """Write the files of an append, say so, and never publish them."""

    class Stuck(LocalPipeline):
        def run_ingest(self, *args: Any, **more: Any) -> JobResult:
            result = super().run_ingest(*args, **more)
            out.send("holding")
            out.recv()
            return result

    def stuck(storage: DeepStorage) -> Stuck:
        return Stuck(storage, clock=SystemClock(), ids=RandomIds())

    with carnac.open(path, pipeline=stuck, lease_ttl_ms=ttl_ms) as store:
        renew_often(store)
        store.ingest(spec(), rows_of([(2, hour(1))]))


def _retry(work: Any) -> None:
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            work()
        except Conflict:
            if attempt == ATTEMPTS_MAX:
                raise
        else:
            return
