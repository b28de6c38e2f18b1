"""Garbage collection where the metadata store has no room to write: it makes some, and never at a wrong file's cost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from carnac.errors import DiskFull, Invalid, Unavailable
from carnac.metadata.backends.sqlite_driver import translate
from carnac.ports.storage import OWNER_FILE
from carnac.store import Store
from carnac.store.compacting.reports import GroupOutcome
from tests.support.clock import FakeClock
from tests.support.faulty import Faults
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import append, files_of, ids
from tests.unit.store.test_gc import actions, leave_orphan, replace


class FullDisk(Faults):
    """The next `left` attempts to trim find the disk full; each attempt notes which files were there."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.left = 0
        self.seen: list[set[str]] = []
        self._folder = folder

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        if name == "trim":
            self.seen.append(files_of(self._folder))
            if self.left:
                self.left -= 1
                raise DiskFull("the disk of the metadata store x is full; make room")
        return super().run(name, work)


@pytest.fixture
def disk(folder: Path) -> FullDisk:
    return FullDisk(folder)


@pytest.fixture
def store(open_store: OpenStore, disk: FullDisk, clock: FakeClock) -> Store:
    """Two revisions; the files of the first are in the trash, due in five seconds."""
    store = open_store(faults=disk, settings={"trash_period_ms": 5000})
    append(store, (1, 1))
    append(store, (2, 30))
    replace(store, 3)
    clock.advance_ms(1)
    store.gc()
    disk.seen.clear()
    return store


def visible(store: Store) -> set[str]:
    return {item.segment.path for item in store.segments("events")}


def test_what_is_doomed_goes_first_and_is_reported_as_ever(
    store: Store, disk: FullDisk, folder: Path, clock: FakeClock
) -> None:
    trashed = files_of(folder) - visible(store)
    assert len(trashed) == 1
    orphan = leave_orphan(folder)
    clock.advance_ms(5000)
    disk.left = 1
    report = store.gc()
    assert disk.seen == [visible(store) | trashed | {orphan}, visible(store)]
    assert set(actions(report, "delete")) == trashed | {orphan}
    assert files_of(folder) == visible(store)
    assert list(store.verify()) == []
    assert not actions(store.gc(), "delete")


def test_nothing_goes_that_is_not_doomed_yet(
    store: Store, disk: FullDisk, folder: Path, clock: FakeClock
) -> None:
    clock.advance_ms(4999)
    before = files_of(folder)
    disk.left = 1
    with pytest.raises(
        DiskFull,
        match=r"store x is full, and nothing may be deleted before that is written down: make a megabyte of room there",
    ):
        store.gc()
    assert files_of(folder) == before
    assert len(disk.seen) == 1
    clock.advance_ms(1)
    assert len(actions(store.gc(), "delete")) == 1


def test_a_disk_that_stays_full_leaves_a_store_that_the_next_collection_tidies(
    store: Store, disk: FullDisk, folder: Path, clock: FakeClock
) -> None:
    trashed = files_of(folder) - visible(store)
    clock.advance_ms(5000)
    disk.left = 2
    with pytest.raises(DiskFull, match="to delete 1 file of garbage was not enough: make a mega"):
        store.gc()
    assert files_of(folder) == visible(store)
    assert set(actions(store.gc(), "delete")) == trashed
    assert list(store.verify()) == []


def test_a_file_that_a_live_writer_may_still_publish_is_no_room(
    store: Store, disk: FullDisk, folder: Path, clock: FakeClock
) -> None:
    with store._leases.writing():
        orphan = leave_orphan(folder)
        recent = clock.now_ms() / 1000 - 30
        os.utime(folder / "deep-storage" / orphan, (recent, recent))
        disk.left = 1
        with pytest.raises(DiskFull, match="nothing may be deleted"):
            store.gc()
    assert orphan in files_of(folder)


def test_a_file_that_may_be_another_store_s_is_no_room(
    store: Store, disk: FullDisk, folder: Path, clock: FakeClock
) -> None:
    leave_orphan(folder)
    (folder / "deep-storage" / OWNER_FILE).write_text("another")
    clock.advance_ms(5000)
    before = files_of(folder)
    disk.left = 1
    with pytest.raises(Invalid, match="belongs to store another"):
        store.gc()
    assert files_of(folder) == before


def test_kill_makes_room_with_what_it_was_asked_to_delete(
    store: Store, disk: FullDisk, folder: Path
) -> None:
    trashed = files_of(folder) - visible(store)
    disk.left = 1
    report = store.kill("events")
    assert set(actions(report, "delete")) == trashed
    assert disk.seen == [visible(store) | trashed, visible(store)]


def test_reading_needs_no_lease_on_a_full_disk(open_store: OpenStore, folder: Path) -> None:
    faults = Faults(lambda _: DiskFull("the disk is full"))
    store = open_store(faults=faults)
    append(store, (1, 1))
    store._leases.release_idle()
    faults.arm(1, only={"acquire_lease"})
    assert ids(store) == [1]
    assert not store.leases()


def test_what_finds_no_room_for_its_commit_leaves_no_file(
    open_store: OpenStore, folder: Path
) -> None:
    faults = Faults(lambda _: DiskFull("the disk is full"))
    store = open_store(faults=faults)
    append(store, (1, 1), (2, 30))
    append(store, (3, 1), (4, 30))
    before = files_of(folder)
    faults.arm(1, only={"publish"})
    report = store.compact_interval("events")
    failed, done = sorted(report.groups, key=lambda one: one.outcome, reverse=True)
    assert (failed.outcome, done.outcome) == (GroupOutcome.FAILED, GroupOutcome.COMMITTED)
    assert isinstance(failed.error, DiskFull)
    assert failed.bytes_wasted > 0
    assert len(files_of(folder) - before) == done.segments_out == 1
    before = files_of(folder)
    for work in (
        lambda: append(store, (5, 1)),
        lambda: replace(store, 6),
        lambda: store.delete("events", where="id = 2"),
    ):
        faults.arm(1, only={"publish"})
        with pytest.raises(DiskFull):
            work()
        assert files_of(folder) == before
    assert ids(store) == [1, 2, 3, 4]


@pytest.mark.parametrize("code", [apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC])
def test_a_commit_that_may_be_there_is_not_told_as_one_that_found_no_room(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_WRITE
    assert isinstance(translate(error, tmp_path / "x.db"), DiskFull)
    error.extendedresult = code
    found = translate(error, tmp_path / "x.db")
    assert isinstance(found, Unavailable)
    assert not isinstance(found, DiskFull)


def test_sqlite_says_that_it_has_no_room(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with closing(apsw.Connection(str(path))) as link:
        link.execute("CREATE TABLE t (a)")
        link.execute("PRAGMA max_page_count = 2")
        with pytest.raises(apsw.Error) as caught:
            link.execute("INSERT INTO t VALUES (zeroblob(100000))")
        with pytest.raises(apsw.Error) as other:
            link.execute("SELECT * FROM nothing")
    assert isinstance(translate(caught.value, path), DiskFull)
    assert not isinstance(translate(other.value, path), DiskFull)


def test_what_was_read_is_not_spoiled_by_a_lease_that_cannot_be_returned(
    open_store: OpenStore,
) -> None:
    faults = Faults(lambda _: DiskFull("the disk is full"))
    store = open_store(faults=faults)
    append(store, (1, 1))
    assert ids(store) == [1]
    store._leases.release_idle()
    assert ids(store) == [1]
    faults.arm(1, only={"release_lease"})
    store.close()
