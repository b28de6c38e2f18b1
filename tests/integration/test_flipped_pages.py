"""One bit of a store's metadata file flips: whoever reads gets the right answer, or is told that it is damaged."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from carnac.errors import Corrupt
from carnac.metadata import open_metadata
from carnac.store import Store
from tests.locks import hours
from tests.locks import wants as wants_lock
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.tasks import wants as wants_task
from tests.unit.store.events import append, fast_folder, hour, rows_of, spec

FLIPS = 20_000 if IS_NIGHTLY else 100 if IS_FAST else 400
SEED = 15
DAMAGED = "damaged; restore"
Door = Callable[[Store], object]


@contextmanager
def make_history(folder: Path) -> Iterator[Store]:
    """Live through all that leaves rows behind, with files."""
    with open_local_store(folder, clock=FakeClock(), ids=SequentialIds()) as store:
        for day in range(6):
            append(store, (day, 24 * day), (100 + day, 24 * day + 3))
            append(store, (200 + day, 24 * day + 1), datasource="others", granularity="hour")
        store.tag("kept")
        store.ingest(spec(mode="replace"), rows_of([(1_000, hour(25))]))
        store.delete("others", interval="2013-10-24/2013-10-26")
        store.revert(store.head().revision)
        store.set_lookup("names", {"a": "b"})
        metadata = store._metadata
        for number in range(6):
            metadata.change_locks(wants_lock(f"task-{number}", hours(number, number + 3)))
            metadata.change_tasks(wants_task(f"task-{number}", payload='{"a": "b"}'))
        yield store


DOORS: dict[str, Door] = {
    "head": lambda store: store.head(),
    "settings": lambda store: store._metadata.settings(),
    "log": lambda store: store.log(limit=100),
    "changes": lambda store: store.changes(after=0),
    "datasources": lambda store: store.datasources(),
    "past": lambda store: store.datasources(at="kept"),
    "segments": lambda store: [store.segments(name) for name in ("events", "others")],
    "chunks": lambda store: [store.chunks(name) for name in ("events", "others")],
    "diff": lambda store: store.diff("kept", store.head().revision),
    "lookups": lambda store: store.lookups(),
    "tags": lambda store: store.tags(),
    "locks": lambda store: store._metadata.locks(),
    "tasks": lambda store: store._metadata.tasks(),
    "trim": lambda store: store._metadata.trim(keep=lambda _: set(), dry_run=True),
    "check": lambda store: store.check(),
}
LONG_DOORS: dict[str, Door] = {
    "gc": lambda store: store.gc(dry_run=True),
    "sql": lambda store: store.sql("SELECT count(*), sum(id) FROM events").rows(),
    "verify": lambda store: list(store.verify()),
}


def told_of(error: Corrupt) -> str:
    """The answer of a door that says that the store is damaged, and what to do."""
    return DAMAGED if "restore it from a backup" in error.message else error.message


def told(door: Callable[[Any], object], store: object) -> object:
    """What a door says: values, which are compared whole."""
    try:
        return door(store)
    except Corrupt as error:
        return told_of(error)


def answers(folder: Path, doors: dict[str, Door]) -> dict[str, object]:
    """What each door says; that it is damaged is one of the answers."""
    found: dict[str, object] = {}
    try:
        with open_local_store(folder, clock=FakeClock(), ids=SequentialIds()) as store:
            found = {name: told(door, store) for name, door in doors.items()}
    except Corrupt as error:  # while it was opened, or a lease released
        damaged: dict[str, object] = dict.fromkeys(doors, told_of(error))
        return damaged | found
    return found


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        folder = Path(name)
        with make_history(folder):
            pass
        yield folder


def flipped(data: bytes, rng: random.Random) -> bytes:
    """A copy with one bit of one page flipped; every other time near the page's ends, where what it is made of lies."""
    damaged = bytearray(data)
    page = rng.randrange(len(data) // 4096) * 4096
    place = rng.choice([rng.randrange(4096), rng.randrange(40), 4095 - rng.randrange(16)])
    damaged[page + place] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def read_flipped(folder: Path, doors: dict[str, Door], flips: int) -> Counter[str]:
    """How often each kind of answer came; a wrong one names its door."""
    path = folder / "metadata.db"
    sound, rng = path.read_bytes(), random.Random(SEED)
    right = answers(folder, doors)
    assert DAMAGED not in right.values()
    kinds: Counter[str] = Counter()
    try:
        for number in range(flips):
            for rest in folder.glob("metadata.db-*"):  # of a store that could not be closed
                rest.unlink()
            path.write_bytes(flipped(sound, rng))
            for name, answer in answers(folder, doors).items():
                if answer == DAMAGED:
                    kinds["told"] += 1
                elif answer == right[name]:
                    kinds["right"] += 1
                else:
                    kinds[f"flip {number}: {name} is wrong"] += 1
    finally:
        path.write_bytes(sound)
    return kinds


@pytest.mark.slow
def test_no_flipped_bit_changes_an_answer(folder: Path) -> None:
    kinds = read_flipped(folder, DOORS, FLIPS)
    assert kinds.keys() == {"told", "right"}, kinds


@pytest.mark.slow
def test_nor_of_a_query_or_a_verification(folder: Path) -> None:
    kinds = read_flipped(folder, LONG_DOORS, FLIPS // 20)
    assert kinds.keys() == {"told", "right"}, kinds


@pytest.mark.slow
def test_no_flipped_bit_in_the_log_of_a_store_at_work_changes_an_answer() -> None:
    """Whoever has the store open, and whoever opens it meanwhile."""
    rng, kinds = random.Random(SEED), Counter[str]()
    with fast_folder() as name:
        folder, url = Path(name), f"sqlite:///{Path(name)}/metadata.db"
        with make_history(folder):  # what keeps the log is no store, which would renew its leases
            at_work = open_metadata(url, clock=FakeClock(), ids=SequentialIds())
        with closing(at_work):
            log = folder / "metadata.db-wal"
            right, sound = answers(folder, DOORS), log.read_bytes()
            assert DAMAGED not in right.values()
            for number in range(FLIPS):
                place = rng.randrange(rng.choice([len(sound), 1_000]))
                put(log, place, sound[place] ^ 1 << rng.randrange(8))
                found = answers(folder, DOORS)
                held = told(lambda _: at_work.settings(), None)
                put(log, place, sound[place])
                Path(f"{log}-damaged").unlink(missing_ok=True)
                for door, answer in [*found.items(), ("settings", held)]:
                    if answer == DAMAGED:
                        kinds["told"] += 1
                    elif answer == right[door]:
                        kinds["right"] += 1
                    else:
                        kinds[f"flip {number}: {door} is wrong"] += 1
            assert log.read_bytes() == sound
    assert kinds.keys() == {"told", "right"}, kinds


def put(path: Path, place: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))


def test_a_file_whose_pages_have_no_checksums_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE t (a)")
    with pytest.raises(Corrupt, match="its pages keep 0 bytes for a checksum"):
        open_metadata(f"sqlite:///{path}", clock=FakeClock(), ids=SequentialIds())
