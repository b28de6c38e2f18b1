"""Real processes on one store: writers of all kinds at once, readers beside a hasty collector, kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.store import Store
from tests.forking import FORK
from tests.integration.store import children
from tests.support.stores import open_local_store
from tests.unit.store.events import fast_folder, files_of, hour, ids, rows_of, spec
from tests.waiting import until

HASTY = {
    "retention_age_ms": 0,
    "retention_count": 1,
    "retention_daily": 0,
    "trash_period_ms": 0,
    "safety_period_ms": 0,
}
PATIENCE_S = 240
TTL_MS = 600_000
LEEWAY_MS = 300_000
"""More than what a test of this file takes."""
WRITERS, APPENDS, REPLACEMENTS, DELETIONS = 16, 4, 8, 3


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        yield Path(name)


def spawn(work: Callable[..., None], *args: Any) -> tuple[BaseProcess, Connection]:
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=work, args=(*args, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def answer_of(process: BaseProcess, pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE_S), f"process {process.pid} does not answer"
    answer = pipe.recv()
    process.join(PATIENCE_S)
    return answer


class Ahead(SystemClock):
    """The machine's clock, some time later."""

    by_ms = 0

    def now_ms(self) -> int:
        """Return the time."""
        return super().now_ms() + self.by_ms


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sixteen_append_while_one_replaces_and_one_deletes(folder: Path) -> None:
    with children.open_store(folder) as store:
        store.ingest(
            spec(granularity=children.GRANULARITY), rows_of([(-2, hour(24 * 6)), (-3, hour(200))])
        )
        workers = [
            spawn(children.append_rows, folder, number, APPENDS) for number in range(WRITERS)
        ]
        workers.append(spawn(children.replace_day, folder, REPLACEMENTS))
        workers.append(spawn(children.delete_rows, folder, DELETIONS))
        answers = [answer_of(process, pipe) for process, pipe in workers]
        assert answers == ["done"] * len(workers)
        store.delete("events", where=f"id = {children.POISON}")
        store.delete("events", interval=children.DAY_6)
        appended = range(WRITERS * APPENDS * 2)
        assert Counter(ids(store)) == Counter([*appended, -3, 1_000_000 + REPLACEMENTS - 1])
        kinds = Counter(str(summary.kind) for summary in store.log(limit=10_000))
        assert kinds["append"] == WRITERS * APPENDS + 1
        assert kinds["replace"] == REPLACEMENTS
        assert list(store.verify()) == []
        check_no_file_is_unknown(store, folder)


def check_no_file_is_unknown(store: Store, folder: Path) -> None:
    """Every writer that was refused has removed its files."""
    assert files_of(folder) == set(store._metadata.known_paths())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_read_while_everything_else_is_collected(folder: Path) -> None:
    with children.open_store(folder, **HASTY) as store:

        def write(number: int) -> None:
            rows = rows_of([(number, hour(24 * day)) for day in range(3)])
            store.ingest(spec(mode="replace"), rows)

        write(0)
        readers = [spawn(children.read_rows, folder) for _ in range(3)]
        deleted = 0
        for number in range(1, 30):
            write(number)
            deleted += sum(action.action == "delete" for action in store.gc().actions)
        for _, pipe in readers:
            pipe.send("stop")
        answers = [answer_of(process, pipe) for process, pipe in readers]
        assert all(isinstance(answer, int) for answer in answers), answers
        assert deleted > 0
        assert list(store.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["reader", "writer"])
def test_a_killed_process_frees_its_files_within_one_ttl(folder: Path, holder: str) -> None:
    clock, settings = Ahead(), Settings(store=str(folder), **HASTY)
    with open_local_store(folder, clock=clock, ids=RandomIds(), settings=settings) as store:
        store.ingest(spec(), rows_of([(1, hour(1))]))
        before = files_of(folder)
        if holder == "reader":
            process, pipe = spawn(children.hold_revision, folder, TTL_MS, 1)
        else:
            process, pipe = spawn(children.hold_files, folder, TTL_MS)
        assert pipe.poll(PATIENCE_S)
        assert pipe.recv() == "holding"
        store.ingest(spec(mode="replace"), rows_of([(3, hour(1))]))
        store._leases.release_idle()
        live = {item.segment.path for item in store.segments("events")}
        held = before if holder == "reader" else files_of(folder) - before - live
        assert len(held) == 1

        def end_ms() -> int:
            (lease,) = store.leases()
            return lease.expires_at_ms

        first_ms = end_ms()
        until(lambda: end_ms() > first_ms, "a lease that is renewed")
        process.kill()
        process.join()
        clock.by_ms = end_ms() - SystemClock().now_ms() - LEEWAY_MS
        collect(store)
        assert held <= files_of(folder), "its lease is not over"
        clock.by_ms += LEEWAY_MS
        collect(store)
        assert files_of(folder) == live
        assert (ids(store), list(store.verify())) == ([3], [])


def collect(store: Store) -> None:
    """Have garbage collected: what is found is doomed, then deleted."""
    store.gc()
    store.gc()
