"""A damaged page in the log of a store at work: nobody believes it, moves it into the file, or forgets it."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

import apsw
import pytest

from carnac.errors import Corrupt
from carnac.metadata import back_up, open_metadata
from carnac.metadata.backends import sqlite_log
from carnac.metadata.backends.sqlite import WRITER_PRAGMAS
from carnac.metadata.backends.sqlite_driver import READER_PRAGMAS, connect
from carnac.metadata.backends.sqlite_log import raise_interruption
from carnac.metadata.store import MetadataStore
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database, wrong_pages
from tests.unit.store.events import fast_folder

MARK = "metadata.db-wal-damaged"
SEED = 15
EVERY_S, RAISED = 0.000_05, 300
"""How often a signal comes, and how many shall interrupt the reading of a page."""


class Interruption(BaseException):
    """What a signal's handler raises."""


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield Path(folder) / "metadata.db"


def open_store(path: Path) -> MetadataStore:
    url = lay_database(path, created_at_ms=0)
    return open_metadata(url, clock=FakeClock(), ids=SequentialIds())


@pytest.fixture
def store(path: Path) -> Iterator[MetadataStore]:
    with closing(open_store(path)) as store:
        store.put_settings({"name": "value"})
        yield store


def damage_log(path: Path) -> None:
    """Change the last page in the log, which is that of the value written last."""
    log = Path(f"{path}-wal")
    data = bytearray(log.read_bytes())
    data[data.rindex(b"value")] ^= 1
    with log.open("r+b") as file:
        file.write(data)


def test_a_damaged_page_is_not_moved_into_the_file_and_is_not_forgotten(
    store: MetadataStore, path: Path
) -> None:
    assert store.settings() == {"name": "value"}
    damage_log(path)
    before = path.read_bytes()
    with closing(open_store(path)) as other, pytest.raises(Corrupt, match="restore it from a"):
        other.settings()
    assert (path.parent / MARK).exists()
    with pytest.raises(Corrupt, match=f"says {MARK}"):
        store.put_settings({"name": "another"})
    assert store.settings() == {"name": "value"}  # read before
    store.close()  # the last of all: SQLite moves the log into the file then
    assert path.read_bytes() == before
    with pytest.raises(Corrupt, match=f"says {MARK}"):
        open_store(path)


def test_what_is_found_when_the_log_is_moved_is_not_forgotten(
    store: MetadataStore, path: Path
) -> None:
    damage_log(path)
    before = path.read_bytes()
    store.close()
    assert path.read_bytes() == before
    with pytest.raises(Corrupt, match=f"says {MARK}"):
        open_store(path)


def test_damage_of_another_log_is_over(path: Path) -> None:
    with closing(open_store(path)) as store:
        store.put_settings({"name": "value"})
        (path.parent / MARK).write_bytes(bytes(sqlite_log.HEADER_BYTES))
        store.put_settings({"name": "another"})
    with closing(open_store(path)) as store:
        assert store.settings() == {"name": "another"}


def test_a_transaction_larger_than_its_cache_is_not_taken_for_damage(path: Path) -> None:
    """SQLite would write pages to the log before the end, and again, without right checksums."""
    lay_database(path, created_at_ms=0)
    rng = random.Random(SEED)
    with closing(connect(path, (*WRITER_PRAGMAS, "PRAGMA cache_size=10"))) as link:
        link.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        link.execute("BEGIN IMMEDIATE")
        for number in range(3_000):
            link.execute(
                "INSERT OR REPLACE INTO t VALUES (?, ?)", [rng.randrange(500), str(number) * 100]
            )
        assert link.execute("SELECT count(*) FROM t").get > 400
        link.execute("COMMIT")
    assert wrong_pages(path) == []


def test_what_interrupts_a_read_comes_out(
    store: MetadataStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's handler may raise while a page is verified, through which nothing passes."""

    def interrupt(*_: bytes) -> bool:
        raise Interruption

    with closing(open_store(path)) as other, monkeypatch.context() as patched:
        patched.setattr(sqlite_log, "chain_holds", interrupt)
        with pytest.raises(Interruption):
            other.settings()
        patched.undo()
        assert other.settings() == {"name": "value"}
    assert store.settings() == {"name": "value"}


def test_no_signal_has_an_unread_page_taken_for_one_that_was_read(
    store: MetadataStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a handler raises before the first line of what reads would be lost, and SQLite told of success."""
    for number in range(40):
        store.put_settings({f"name {number}": "value" * 200})
    raised, lost = list[Interruption](), list[object]()

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name == "read_verified":
            raised.append(Interruption())
            raise raised[-1]

    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    before = signal.signal(signal.SIGALRM, interrupt)
    found = set[str]()
    with closing(connect(path, READER_PRAGMAS)) as link:
        try:
            signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
            while len(raised) < RAISED and not lost:
                link.release_memory()
                try:
                    found.add(str(link.execute("SELECT count(value) FROM settings").get))
                except apsw.Error as error:
                    found.add(type(error).__name__)
                with suppress(Interruption):
                    raise_interruption()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(
                signal.SIGALRM, signal.SIG_IGN
            )  # one on its way would be taken for a timeout
            signal.signal(signal.SIGALRM, before)
    assert lost == []
    assert found - {"41"} == {"IOError"}


def test_a_backup_that_was_put_back_has_a_log(store: MetadataStore, path: Path) -> None:
    copy = path.with_name("copy.db")
    copy.touch()
    back_up(f"sqlite:///{path}", copy)
    with closing(connect(copy, READER_PRAGMAS)) as link:
        assert link.pragma("journal_mode") == "wal"
    with closing(open_metadata(f"sqlite:///{copy}", clock=FakeClock(), ids=SequentialIds())) as one:
        one.put_settings({"name": "another"})
        assert Path(f"{copy}-wal").exists()
