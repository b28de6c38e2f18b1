"""The shelf of a historical: segments that go and come back while their files are read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from carnac.historical.journal import Journal
from carnac.historical.loading import Throttle
from carnac.historical.shelf import Shelf
from carnac.ports.serving import HoldState
from tests.support.clock import FakeClock
from tests.support.historicals import STORE_ID, write_hours
from tests.support.memory_storage import MemoryDeepStorage


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_went_while_it_was_read_comes_back_as_it_was(tmp_path: Path, is_damaged: bool) -> None:
    """A file that was found to be damaged counted as loaded again."""
    segment, other = write_hours(MemoryDeepStorage(), 2)
    size_bytes = segment.size_bytes + other.size_bytes
    journal = Journal(tmp_path / "journal", STORE_ID)
    shelf = Shelf(
        tmp_path / "segments", journal, capacity_bytes=size_bytes, server_id="h", epoch="e"
    )
    [item] = shelf.assign([segment], fence=1, number=0)
    shelf.place_of(segment.segment_id).touch()
    assert shelf.commit_load(item, None)
    assert shelf.hold(segment.segment_id) is item
    if is_damaged:
        shelf.mistrust(item)
    shelf.unassign([segment.segment_id], fence=1, number=1)
    loading = shelf.assign([segment, other], fence=1, number=2)
    assert [one.record.segment_id for one in loading] == [
        one.segment_id for one in (segment, other)[not is_damaged :]
    ]
    assert shelf.used_bytes == size_bytes
    shelf.let_go([segment.segment_id])
    held = shelf.inventory(epoch="e", since=-1, wait_ms=0, running=0).holdings
    assert HoldState.FAILED not in {one.state for one in held}
    shelf.close()


def test_what_is_unassigned_makes_room_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal could not be written, so no file went, and the disk stayed full."""
    read, unread, kept = write_hours(MemoryDeepStorage(), 3)
    journal = Journal(tmp_path / "journal", STORE_ID)
    shelf = Shelf(tmp_path / "segments", journal, capacity_bytes=1 << 30, server_id="h", epoch="e")
    for item in shelf.assign([read, unread, kept], fence=1, number=0):
        shelf.place_of(item.record.segment_id).touch()
        assert shelf.commit_load(item, None)
    shelf.hold(read.segment_id)
    real = os.write

    def full(file: int, text: bytes) -> int:
        if shelf.place_of(unread.segment_id).exists():
            raise OSError(28, "No space left on device")
        return real(file, text)

    monkeypatch.setattr("carnac.historical.journal.os.write", full)
    shelf.unassign([read.segment_id, unread.segment_id], fence=1, number=1)
    found = shelf.inventory(epoch="e", since=-1, wait_ms=0, running=0)
    assert [one.segment_id for one in found.holdings] == [kept.segment_id]
    assert found.used_bytes == read.size_bytes + kept.size_bytes
    assert shelf.place_of(read.segment_id).exists(), "somebody reads it"
    shelf.let_go([read.segment_id])
    assert shelf.used_bytes == kept.size_bytes
    shelf.close()
    assert set(Journal(tmp_path / "journal", STORE_ID).contents.assigned) == {kept.segment_id}


def test_a_file_that_was_found_to_be_damaged_is_loaded_again_after_a_restart(
    tmp_path: Path,
) -> None:
    [segment] = write_hours(MemoryDeepStorage(), 1)
    for is_damaged in (False, True):
        journal = Journal(tmp_path / "journal", STORE_ID)
        shelf = Shelf(
            tmp_path / "segments", journal, capacity_bytes=1 << 30, server_id="h", epoch="e"
        )
        for item in shelf.assign([segment], fence=1, number=0):
            shelf.place_of(segment.segment_id).touch()
            assert shelf.commit_load(item, None)
        item = shelf.hold(segment.segment_id)
        assert item is not None, "it outlives a restart"
        if is_damaged:
            shelf.mistrust(item)
        shelf.close()
    journal = Journal(tmp_path / "journal", STORE_ID)
    shelf = Shelf(tmp_path / "segments", journal, capacity_bytes=1 << 30, server_id="h", epoch="e")
    assert [one.record.segment_id for one in shelf.loading()] == [segment.segment_id]
    shelf.close()


def test_who_asks_for_changes_after_more_removals_than_are_remembered_is_told_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.historical.shelf.REMOVED_MAX", 2)
    segments = write_hours(MemoryDeepStorage(), 4)
    journal = Journal(tmp_path / "journal", STORE_ID)
    shelf = Shelf(tmp_path / "segments", journal, capacity_bytes=1 << 30, server_id="h", epoch="e")
    shelf.assign(segments, fence=1, number=0)
    numbers = [shelf.inventory(epoch="e", since=-1, wait_ms=0, running=0).number]
    for order, one in enumerate(segments[:3], 1):
        shelf.unassign([one.segment_id], fence=1, number=order)
        numbers.append(shelf.inventory(epoch="e", since=-1, wait_ms=0, running=0).number)
    told = [shelf.inventory(epoch="e", since=one, wait_ms=0, running=0) for one in numbers]
    assert [one.is_whole for one in told] == [True, False, False, False]
    assert [len(one.removed) for one in told] == [0, 2, 1, 0]
    shelf.close()


def test_no_load_waits_for_a_time_from_before_the_clock_was_set_back() -> None:
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return False

    clock, stop = FakeClock(), Stop()
    throttle = Throttle(1_000, clock)
    for ahead_ms in (0, 500, -3_600_000):
        clock.advance_ms(ahead_ms)
        throttle.take(1_000, stop)
    assert waited == [0, 0.5, 60]
