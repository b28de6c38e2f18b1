"""Whoever writes pages of a store's file writes their checksums, whatever else goes on; else nothing is written."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import apsw
import pytest

from carnac.errors import CarnacError, Corrupt
from carnac.metadata import open_metadata
from carnac.metadata.backends.sqlite import WRITER_PRAGMAS, SqliteDatabase
from carnac.metadata.backends.sqlite_driver import READER_PRAGMAS, connect
from carnac.metadata.sql import statements as s
from carnac.metadata.store import MetadataStore
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database, wrong_pages
from tests.unit.store.events import fast_folder

SEED = 23
ROUNDS = 500 if IS_NIGHTLY else 5 if IS_FAST else 20
STEPS = 30
LOG_FRAMES = 2_000
"""With so many, the log is moved into the file and begun anew."""
RESERVE_AT = 20
"""Where the first page says how many bytes each keeps for a checksum."""


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield Path(folder) / "metadata.db"


def open_store(path: Path) -> MetadataStore:
    return open_metadata(f"sqlite:///{path}", clock=FakeClock(), ids=SequentialIds())


def test_the_connection_that_found_an_empty_file_spoils_nothing_when_it_closes_last(
    path: Path,
) -> None:
    """It was opened on an empty file, read the first page from the log alone, and moved the log into the file."""
    store = open_store(path)
    database = store._database
    assert isinstance(database, SqliteDatabase)
    first, second = database.read(), database.read()
    for reading in (first, second):
        reading.__enter__().rows(s.SETTINGS)
    for reading in (
        first,
        second,
    ):  # whoever comes back first lies below: lent no more, closed last
        reading.__exit__(None, None, None)
    for number in range(LOG_FRAMES + 500):
        store.put_settings({"name": f"{number:05}"})
    store.close()
    assert wrong_pages(path) == []
    with closing(open_store(path)) as again:
        assert again.settings()["name"] == f"{LOG_FRAMES + 499:05}"


def test_a_file_is_made_by_many_at_once(path: Path) -> None:
    """Whoever opened it too early verifies what it reads all the same."""
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(open_store, [path] * 4))
    for store in stores:
        assert isinstance(store._database, SqliteDatabase)
        with store._database._readers.lend() as connection:
            assert connection.pragma("checksum_verification") == "1"
        store.close()
    assert wrong_pages(path) == []


@pytest.mark.parametrize("bit", range(8))
def test_a_store_at_work_does_not_believe_that_there_are_no_checksums(path: Path, bit: int) -> None:
    """A bit flips where the first page says that it has one: all who read it again stop to verify, and to make any."""
    lay_database(path, created_at_ms=0)
    with ExitStack() as stack:
        store = open_store(path)
        other = open_store(path)
        stack.callback(other.close)
        stack.callback(store.close)
        store.put_settings({"name": "before"})
        assert other.settings() == store.settings()
        flip(path, bit)
        # This one's first page is still that of before; others read theirs again after it.
        store.put_settings({"name": "after"})
        with pytest.raises(Corrupt, match="restore it from a backup"):
            other.settings()
        with pytest.raises(Corrupt, match="restore it from a backup"):
            other.put_settings({"name": "after"})
    assert wrong_pages(path) == [1]


@pytest.mark.parametrize("pragmas", [READER_PRAGMAS, WRITER_PRAGMAS])
def test_who_opens_a_file_waits_for_whoever_has_it_alone(
    path: Path, pragmas: tuple[str, ...]
) -> None:
    """The last to close has, and whoever reads a log again after a crash."""
    lay_database(path, created_at_ms=0)
    alone = connect(path, ("BEGIN EXCLUSIVE", "COMMIT"), is_alone=True)
    ends = threading.Timer(0.05, alone.close)
    ends.start()
    try:
        connect(path, pragmas).close()
    finally:
        ends.join()


def flip(path: Path, bit: int) -> None:
    """Flip one bit of the first page in the file, under a store at work; SQLite's own file keeps its locks."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile("unix", str(path), flags)
    held = file.xRead(1, RESERVE_AT)
    file.xWrite(bytes([held[0] ^ 1 << bit]), RESERVE_AT)
    file.xClose()


class Storm:
    """Threads that open, read, write, interrupt, move the log into the file and close, all over one file.

    Attributes:
        failures: What no thread may see.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._seed = seed
        rng = random.Random(seed)  # some storms do more of one thing, some of another
        self._reads, self._reopens = rng.choice([0.05, 0.3]), rng.choice([0.0, 0.05])
        self._large, self._moves = rng.choice([0.0, 0.1]), rng.choice([0.03, 0.2])
        self.failures: list[str] = []

    def run(self) -> None:
        """Let all go on at once, until all are done."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/{number}")
        try:
            store = open_store(self._path)
            for step in range(STEPS):
                self._step(store, rng, f"{number}/{step}")
                if rng.random() < self._reopens:
                    self._close(store)
                    store = open_store(self._path)
            self._close(store)
        except CarnacError as error:
            self.failures.append(f"thread {number}: {error}")

    def _close(self, store: MetadataStore) -> None:
        database = store._database
        assert isinstance(database, SqliteDatabase)
        kept = [*database._readers._idle, *([database._writer] if database._writer else [])]
        if any(link.pragma("checksum_verification") != "1" for link in kept):
            self.failures.append("a connection does not know of checksums")
        store.close()

    def _step(self, store: MetadataStore, rng: random.Random, text: str) -> None:
        database = store._database
        assert isinstance(database, SqliteDatabase)
        deed = rng.random()
        if (
            deed < self._reads
        ):  # the order in which connections come back is the order in which they are lent and closed
            readings = [database.read() for _ in range(rng.choice([1, 1, 1, 1, 1, 1, 2, 3]))]
            for reading in readings:
                reading.__enter__().rows(s.SETTINGS)
            rng.shuffle(readings)
            for reading in readings:
                reading.__exit__(None, None, None)
        elif deed > 0.95:
            self._interrupted(database, rng)
        elif deed > 0.95 - self._moves:
            self._move(rng)
        else:
            size = 5_000 if rng.random() < self._large else 10
            store.put_settings({f"name {rng.randrange(4)}": text * size})

    def _interrupted(self, database: SqliteDatabase, rng: random.Random) -> None:
        """Begin a write that is interrupted in the middle of its changes."""
        with suppress(apsw.InterruptError), database.write() as session:
            writer = database._writer
            assert writer is not None
            writer.set_progress_handler(lambda: rng.random() < 0.2, 20)
            try:
                session.run(s.PUT_SETTING, name="lost", value="x" * 20_000)
                for name in range(20):
                    session.run(s.PUT_SETTING, name=f"name {name}", value="lost")
            finally:
                writer.set_progress_handler(None)

    def _move(self, rng: random.Random) -> None:
        """Move the log into the file, from a connection of our own; now and then that is interrupted."""
        with suppress(apsw.Error), closing(connect(self._path, ())) as link:
            timer = threading.Timer(rng.random() / 500, link.interrupt)
            timer.start()
            try:
                link.pragma("wal_checkpoint", rng.choice(["PASSIVE", "RESTART", "TRUNCATE"]))
            finally:
                timer.cancel()
                timer.join()


@pytest.mark.slow
def test_a_storm_leaves_right_checksums(path: Path) -> None:
    for number in range(ROUNDS):
        storm = Storm(path, SEED + number)
        storm.run()
        assert storm.failures == [], f"round {number}"
        assert wrong_pages(path) == [], f"round {number}"
        with closing(connect(path, READER_PRAGMAS)) as link:
            assert link.pragma("integrity_check") == "ok", f"round {number}"
        path.unlink()
