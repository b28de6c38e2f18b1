"""Compaction by processes that are killed at any step: started again, it goes on, and nobody has to repair anything."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from carnac.bootstrap.store import make_lockbox, open_records
from carnac.bootstrap.tasks import open_tasks
from carnac.clock import RandomIds
from carnac.overlord.compactor.service import CompactionService
from tests.forking import FORK
from tests.integration import compaction_children as children
from tests.nightly import IS_NIGHTLY, by_day
from tests.support.clock import FakeClock
from tests.support.faulty import Faults
from tests.support.stores import open_local_store
from tests.unit.store.events import NOW_MS, Rows, append, fast_folder, files_of, read

pytestmark = pytest.mark.slow
CHUNKS, SEGMENTS = 3, 3
STEPS_ELSE = 8
"""How many steps are tried of each way where the nightly profile tries all: such as write, evenly spread."""
READS = {
    "settings",
    "tasks",
    "head",
    "chunks",
    "visible",
    "changes",
    "resolve",
    "live_attempts",
    "find_task",
    "leases",
}
LATER_MS = 3_600_000
"""After which every lease is over."""


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """A store with chunks of too many segments, that is to be compacted by itself."""
    with fast_folder() as name:
        folder = Path(name) / "store"
        clock = FakeClock(NOW_MS)
        with open_local_store(folder, clock=clock, ids=RandomIds()) as store:
            for number in range(SEGMENTS):
                append(store, *((number * CHUNKS + day, day * 24) for day in range(CHUNKS)))
        metadata = open_records(settings=children.settings_of(folder), clock=clock)
        with CompactionService(metadata, clock) as service:
            service.put_spec(
                {
                    "dataSource": children.NAME,
                    "granularitySpec": {"segmentGranularity": "day"},
                    "maxTaskBytes": 1,
                    "smallTaskBytes": 0,
                }
            )
        yield folder


@pytest.mark.parametrize("way", by_day(sorted(children.WAYS), 2))
def test_killed_at_any_step_it_goes_on_without_a_hand(filled: Path, way: str) -> None:
    before = rows_of(filled)
    calls = calls_of(filled, way)
    assert {"publish", "put_compaction_states", "hand_over"} <= set(calls)
    for step, after in steps_of(calls):
        with fast_folder() as name:
            folder = Path(shutil.copytree(filled, Path(name) / "store"))
            kill_at(folder, way, step, after=after)
            check_goes_on(folder, way, before)


def steps_of(calls: Sequence[str]) -> list[tuple[int, bool]]:
    """Return which steps are tried: their number, and whether they have done their work then."""
    if IS_NIGHTLY:
        return [(step, after) for step in range(1, len(calls) + 1) for after in (False, True)]
    writes = [step for step, name in enumerate(calls, start=1) if name not in READS]
    chosen = [writes[place * len(writes) // STEPS_ELSE] for place in range(STEPS_ELSE)]
    return [(step, place % 2 == 1) for place, step in enumerate(chosen)]


def rows_of(folder: Path) -> Rows:
    with open_local_store(folder, clock=FakeClock(NOW_MS), ids=RandomIds()) as store:
        return read(store)


def calls_of(filled: Path, way: str) -> list[str]:
    """Return the steps of an undisturbed run."""
    with fast_folder() as name:
        folder = Path(shutil.copytree(filled, Path(name) / "store"))
        faults = Faults()
        children.WAYS[way](folder, NOW_MS, faults)
        return faults.calls


def kill_at(folder: Path, way: str, step: int, *, after: bool) -> None:
    args = (way, str(folder), NOW_MS, step, after)
    child = FORK.Process(target=children.keep_and_die, args=args)
    child.start()
    child.join(120)
    assert child.exitcode in {-signal.SIGKILL, children.KILLED_NOWHERE}, f"step {step}"


def check_goes_on(folder: Path, way: str, before: Rows) -> None:
    """Another process takes over: chunks become stable, rows are there once, and nothing is left behind."""
    later_ms = NOW_MS + LATER_MS
    assert rows_of(folder) == before, "what was killed has lost or doubled rows"
    children.WAYS[way](folder, later_ms, Faults())
    clock = FakeClock(later_ms + 100 * LATER_MS)
    settings = children.settings_of(folder, safety_period_ms=0)
    with open_local_store(folder, clock=clock, ids=RandomIds(), settings=settings) as store:
        assert [chunk.entries for chunk in store.chunks(children.NAME)] == [1] * CHUNKS
        assert read(store) == before
        store.gc()
        store.gc()
        assert list(store.verify()) == []
        live = {item.segment.path for item in store.segments(children.NAME)}
        assert files_of(folder) == live, "files of the killed process are gone"
    with open_tasks(settings=settings, runners={}, clock=clock) as tasks:
        assert not tasks.live_attempts()
        assert all(task.state.is_over for task in tasks.list())
    metadata = open_records(settings=settings, clock=clock)
    assert children.is_in_order(metadata), "what is known of the chunks is what they are"
    with make_lockbox(metadata, settings, clock) as lockbox:
        assert lockbox.explain() == ()
