"""A historical in this process: what it holds over crashes and restarts, and what it answers."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.errors import (
    Cancelled,
    CarnacError,
    Corrupt,
    Invalid,
    NotFound,
    Unavailable,
)
from carnac.ports import DeepStorage
from carnac.ports.serving import HoldState
from carnac.ports.storage import OWNER_FILE
from tests.support.clock import ClockSetBack
from tests.support.faulty import Faults, FaultyDeepStorage
from tests.support.historicals import (
    PlainEngine,
    RangedStorage,
    hour_rows,
    open_historical,
    request_of,
    rows_of,
    settled,
    states,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import without_file, write_segment
from tests.waiting import until


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> DeepStorage:
    return (
        MemoryDeepStorage() if request.param == "memory" else open_deep_storage(f"{tmp_path}/deep")
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "historical"


TEN_HOURS = {"rows": 100, "total": sum(range(100))}


def test_any_segment_of_the_log_is_answered_for_loaded_or_not(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 10)
    server = open_historical(folder, storage)
    server.assign(segments[:4], fence=1, number=0)
    settled(server)
    rows, report = rows_of(server, request_of(segments))
    assert rows == [TEN_HOURS]
    assert (report.cold, report.rows, report.is_whole, report.missing) == (6, 1, True, {})
    assert sorted(one for one, _ in report.slices) == sorted(one.segment_id for one in segments)
    assert report.server_id == server.server_id
    server.close()


def test_clips_are_kept_cold_and_loaded(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 2)
    start_ms = segments[0].min_time_ms
    clip = IntervalSet((Interval(start_ms + 3000, start_ms + 5000),))
    server = open_historical(folder, storage)
    assert rows_of(server, request_of(segments, clip=clip))[0] == [{"rows": 2, "total": 7}]
    server.assign(segments, fence=1, number=0)
    settled(server)
    rows, report = rows_of(server, request_of(segments, clip=clip))
    assert rows == [{"rows": 2, "total": 7}]
    assert report.cold == 0
    server.close()


def test_no_rows_are_an_empty_batch_with_columns(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 1)
    server = open_historical(folder, storage)
    batches, report = server.run(request_of(segments, "SELECT n, word FROM v WHERE n < 0"))
    (batch,) = batches
    assert (batch.num_rows, batch.schema.names) == (0, ["n", "word"])  # type: ignore[attr-defined]
    assert report.is_whole
    server.close()


def test_what_exceeds_the_capacity_fails_alone_and_fits_later(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 3)
    capacity = segments[0].size_bytes + segments[1].size_bytes
    server = open_historical(folder, storage, capacity_bytes=capacity)
    server.assign(segments, fence=1, number=0)
    found = settled(server)
    assert [one.state for one in found.holdings].count(HoldState.FAILED) == 1
    (failed,) = [one for one in found.holdings if one.state is HoldState.FAILED]
    assert failed.segment_id == segments[2].segment_id
    assert f"of the {capacity:,} bytes that this historical may hold 0 are free" in failed.error
    assert (found.used_bytes, found.capacity_bytes) == (capacity, capacity)
    server.unassign([segments[0].segment_id], fence=1, number=0)
    server.assign([segments[2]], fence=1, number=0)
    assert states(settled(server)) == {one.segment_id: "loaded" for one in segments[1:]}
    server.close()


def test_what_deep_storage_has_lost_or_damaged_fails_with_its_reason(
    folder: Path, storage: DeepStorage
) -> None:
    lost, damaged, whole = write_hours(storage, 3)
    without_file(storage, lost)
    with storage.open_read(damaged.path) as file:
        storage.write(damaged.path, file.read()[:-1] + b"?")
    server = open_historical(folder, storage)
    server.assign([lost, damaged, whole], fence=1, number=0)
    errors = {one.segment_id: one.error for one in settled(server).holdings}
    assert "no such file" in errors[lost.segment_id]
    assert "its bytes are not those that were written" in errors[damaged.segment_id]
    assert errors[whole.segment_id] == ""
    assert server.inventory().used_bytes == whole.size_bytes
    server.close()


def test_a_storage_is_asked_again_though_the_clock_was_set_back(
    folder: Path, storage: DeepStorage
) -> None:
    segments, clock = write_hours(storage, 1), ClockSetBack()
    faults = Faults(lambda name: Unavailable(f"cannot {name} now"))
    faulty = FaultyDeepStorage(storage, faults)
    server = open_historical(folder, faulty, clock=clock, back_off_ms=200)
    faults.arm(1, only=["open_read"])
    server.assign(segments, fence=1, number=0)
    until(lambda: "open_read" in faults.calls, "a load that fails")
    clock.back_ms = 3_600_000
    assert set(states(settled(server)).values()) == {"loaded"}


def test_a_storage_that_does_not_answer_is_asked_again_a_few_times(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 2)
    faults = Faults(lambda name: Unavailable(f"cannot {name} now"))
    server = open_historical(folder, FaultyDeepStorage(storage, faults), load_threads=1)
    faults.arm(1)
    server.assign(segments, fence=1, number=0)
    assert set(states(settled(server)).values()) == {"loaded"}
    server.unassign([one.segment_id for one in segments], fence=1, number=0)
    faults.arm(1, dies=True)
    server.assign(segments[:1], fence=1, number=0)
    (failed,) = settled(server).holdings
    assert failed.error == "cannot open_read now (tried 8 times)"
    faults.disarm()
    server.assign(segments[:1], fence=1, number=0)
    assert set(states(settled(server)).values()) == {"loaded"}
    server.close()


def test_missing_segments_are_errors_or_reported(folder: Path, storage: DeepStorage) -> None:
    storage.write(OWNER_FILE, b"mine")
    segments = write_hours(storage, 3)
    without_file(storage, segments[1])
    server = open_historical(folder, storage)
    with pytest.raises(CarnacError) as caught:
        rows_of(server, request_of(segments))
    assert isinstance(caught.value, NotFound | Corrupt)
    assert segments[1].path.rpartition("/")[2] in caught.value.message
    rows, report = rows_of(server, request_of(segments, skips_missing=True))
    assert rows == [{"rows": 20, "total": sum(range(10)) + sum(range(20, 30))}]
    assert list(report.missing) == [segments[1].segment_id]
    assert segments[1].segment_id not in dict(report.slices)
    assert report.is_whole
    assert server.running == 0
    server.close()


def test_a_damaged_file_in_deep_storage_is_named(folder: Path, storage: DeepStorage) -> None:
    segment = write_segment(storage, hour_rows(0, 5000))
    with storage.open_read(segment.path) as file:
        data = file.read()
    for begin, end in ((4, 4000), (len(data) - 60, len(data))):
        storage.write(segment.path, data[:begin] + b"\xff" * (end - begin) + data[end:])
        server = open_historical(folder, storage)
        with pytest.raises(Corrupt, match=f"segment {segment.segment_id}"):
            rows_of(server, request_of([segment], "SELECT * FROM v"))
        server.close()


@pytest.mark.slow
def test_cold_reads_fetch_what_the_query_needs_and_no_more(folder: Path) -> None:
    storage = RangedStorage()
    chance = random.Random(1)
    rows = [{**row, "ballast": f"{chance.getrandbits(256):x}"} for row in hour_rows(0, 120_000)]
    segment = write_segment(storage, rows)
    server = open_historical(folder, storage)
    assert rows_of(server, request_of([segment], "SELECT count(n) AS c FROM v"))[0] == [
        {"c": 120_000}
    ]
    read = sum(end - start for _, start, end in storage.ranges)
    assert read < segment.size_bytes / 4
    storage.ranges.clear()
    rows_of(server, request_of([segment], "SELECT * FROM v"))
    spans = sorted((start, end) for _, start, end in storage.ranges[1:])
    # one run for each row group, from its first column to its last, and the footer
    assert len(spans) <= 4
    assert max(end - start for start, end in spans) <= 64 << 20
    server.close()


@pytest.mark.slow
def test_bits_that_have_turned_in_cold_files_are_noticed(folder: Path) -> None:
    """A part of a file is believed for what is read of it alone: an answer is right, or says which file is damaged."""
    storage, chance = RangedStorage(), random.Random(7)
    rows = [{**row, "ballast": f"{chance.getrandbits(128):x}"} for row in hour_rows(0, 30_000)]
    segment = write_segment(storage, rows)
    good = storage.read_range(segment.path, 0, segment.size_bytes)
    server = open_historical(folder, storage)
    statements = [
        "SELECT sum(n) AS s, count(*) AS c FROM v",
        "SELECT count(*) AS c, max(word) AS w FROM v WHERE n BETWEEN 100 AND 2000",
    ]
    right = [rows_of(server, request_of([segment], sql))[0] for sql in statements]
    noticed = 0
    for number in range(45):
        at = chance.randrange(len(good)) if number % 3 else len(good) - 1 - chance.randrange(3_000)
        bad = bytearray(good)
        bad[at] ^= 1 << chance.randrange(8)
        storage.write(segment.path, bytes(bad))
        sql = chance.randrange(len(statements))
        try:
            found, _ = rows_of(server, request_of([segment], statements[sql]))
        except Corrupt as error:
            noticed += segment.segment_id in error.message
        else:
            assert found == right[sql], f"byte {at}"
    assert 15 <= noticed < 45
    server.close()


def test_a_held_file_of_another_record_is_not_read(folder: Path, storage: DeepStorage) -> None:
    held, other = write_hours(storage, 2)
    server = open_historical(folder, storage)
    server.assign([held], fence=1, number=0)
    settled(server)
    wanted, _ = rows_of(server, request_of([other]))
    found, report = rows_of(server, request_of([replace(other, segment_id=held.segment_id)]))
    assert (found, report.cold) == (wanted, 1)
    server.close()


def test_unassigned_files_stay_while_they_are_read(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 2)
    engine = PlainEngine()
    server = open_historical(folder, storage, engine=engine)
    server.assign(segments, fence=1, number=0)
    settled(server)
    batches, _ = server.run(request_of(segments))
    server.unassign([one.segment_id for one in segments], fence=1, number=0)
    found = server.inventory()
    assert (found.holdings, found.running) == ([], 1)
    assert found.used_bytes > 0
    assert len(list((folder / "segments").iterdir())) == 2
    server.assign(segments[:1], fence=1, number=0)  # its file is still there
    assert states(server.inventory()) == {segments[0].segment_id: "loaded"}
    assert len(list(batches)) == 1
    found = server.inventory()
    assert (found.running, found.used_bytes) == (0, segments[0].size_bytes)
    assert len(list((folder / "segments").iterdir())) == 1
    server.close()


def test_a_statement_that_is_thrown_away_lets_go_of_its_files(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 1)
    server = open_historical(folder, storage)
    server.assign(segments, fence=1, number=0)
    settled(server)
    batches, _ = server.run(request_of(segments))
    server.unassign([segments[0].segment_id], fence=1, number=0)
    del batches
    server.drain()
    assert server.wait_until_idle(10_000)
    assert server.inventory().used_bytes == 0
    server.close()


def test_an_inventory_says_what_has_changed(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 3)
    server = open_historical(folder, storage)
    server.assign(segments, fence=1, number=0)
    first = settled(server)
    assert first.is_whole
    same = server.inventory(epoch=first.epoch, since=first.number)
    assert (same.is_whole, same.holdings, same.removed) == (False, [], [])
    server.unassign([segments[1].segment_id], fence=1, number=0)
    changed = server.inventory(epoch=first.epoch, since=first.number)
    assert (changed.holdings, changed.removed) == ([], [segments[1].segment_id])
    server.assign([segments[1]], fence=1, number=0)
    settled(server)
    changed = server.inventory(epoch=first.epoch, since=first.number)
    assert (states(changed), changed.removed) == ({segments[1].segment_id: "loaded"}, [])
    assert server.inventory(epoch="another", since=first.number).is_whole
    assert server.inventory(epoch=first.epoch, since=10**9).is_whole
    server.close()


def test_who_waits_for_a_change_is_told(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 1)
    server = open_historical(folder, storage)
    before = server.inventory()
    told: list[int] = []

    def wait() -> None:
        found = server.inventory(epoch=before.epoch, since=before.number, wait_ms=60_000)
        told.append(len(found.holdings))

    waiter = threading.Thread(target=wait)
    waiter.start()
    server.assign(segments, fence=1, number=0)
    waiter.join(60)
    assert told == [1]
    number = settled(server).number
    waiter = threading.Thread(
        target=lambda: server.inventory(epoch=before.epoch, since=number, wait_ms=60_000)
    )
    waiter.start()
    server.close()
    waiter.join(60)
    assert not waiter.is_alive()


def test_draining_refuses_what_is_new_and_ends_what_runs(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 2)
    server = open_historical(folder, storage)
    batches, report = server.run(request_of(segments))
    server.drain()
    with pytest.raises(Unavailable, match="ask another one") as caught:
        server.run(request_of(segments))
    assert caught.value.retryable
    with pytest.raises(Unavailable):
        server.assign(segments, fence=1, number=0)
    assert not server.wait_until_idle(1)
    assert sum(batch.num_rows for batch in batches) == 1  # type: ignore[attr-defined]
    assert report.is_whole
    assert server.wait_until_idle(10_000)
    server.close()


def test_a_query_is_cancelled_by_its_id(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 2, rows=3000)
    server = open_historical(folder, storage)
    batches, report = server.run(request_of(segments, "SELECT n FROM v", query_id="mine"))
    others, _ = server.run(request_of(segments, "SELECT n FROM v", query_id="theirs"))
    server.cancel("mine")
    server.cancel("nobody's")
    with pytest.raises(Cancelled):
        list(batches)
    assert not report.is_whole
    assert sum(batch.num_rows for batch in others) == 6000  # type: ignore[attr-defined]
    assert server.running == 0
    server.close()


def test_a_request_that_leaves_deep_storage_is_refused(folder: Path, storage: DeepStorage) -> None:
    import dataclasses

    (segment,) = write_hours(storage, 1)
    server = open_historical(folder, storage)
    for path in ("../x", "/etc/passwd", "a//b", ""):
        hostile = dataclasses.replace(segment, path=path, segment_id="other")
        with pytest.raises(Invalid, match="not a path inside deep storage"):
            rows_of(server, request_of([hostile]))
    server.assign(
        [dataclasses.replace(segment, path="../x", segment_id="../../x")], fence=1, number=0
    )
    (failed,) = settled(server).holdings
    assert "not a path inside deep storage" in failed.error
    with pytest.raises(Invalid, match="each segment once"):
        rows_of(server, request_of([segment, segment]))
    assert server.running == 0
    server.close()


def test_small_tables_come_along(folder: Path, storage: DeepStorage) -> None:
    import pyarrow as pa

    segments = write_hours(storage, 1)
    server = open_historical(folder, storage)
    names = pa.table({"k": ["w0", "w1"], "v": ["zero", "one"]})
    sql = "SELECT t.v, count(*) AS c FROM v JOIN names t ON v.word = t.k GROUP BY 1 ORDER BY 1"
    rows, _ = rows_of(server, request_of(segments, sql, tables={"names": names}))
    assert rows == [{"v": "one", "c": 3}, {"v": "zero", "c": 4}]
    server.close()


def test_ids_make_no_paths(folder: Path, storage: DeepStorage) -> None:
    segment = write_segment(storage, hour_rows(0), segment_id="odd id")
    server = open_historical(folder, storage)
    server.assign([segment], fence=1, number=0)
    assert states(settled(server)) == {"odd id": "loaded"}
    (place,) = (folder / "segments").iterdir()
    assert place.stem.isalnum()
    server.close()
