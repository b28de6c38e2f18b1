"""A historical after restarts, crashes, rot and on a full disk: what was promised is there, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.deep_storage import open_deep_storage
from carnac.errors import (
    Conflict,
    Invalid,
    Revoked,
    Unavailable,
)
from carnac.historical.server import ID_NAME, JOURNAL_NAME, LOADING_FOLDER, SEGMENTS_FOLDER
from carnac.ports import DeepStorage
from carnac.query.intact import IntactFiles
from tests.support.historicals import (
    open_historical,
    request_of,
    rows_of,
    settled,
    states,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> DeepStorage:
    return (
        MemoryDeepStorage() if request.param == "memory" else open_deep_storage(f"{tmp_path}/deep")
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "historical"


def test_a_restart_keeps_files_id_and_fence(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 5)
    server = open_historical(folder, storage)
    server.assign(segments, fence=7, number=0)
    server.unassign([segments[0].segment_id], fence=7, number=0)
    before = settled(server)
    server.close()
    again = open_historical(folder, MemoryDeepStorage())  # nothing could be loaded anew
    after = again.inventory(epoch=before.epoch, since=before.number)
    assert after.is_whole
    assert after.epoch != before.epoch
    assert (after.server_id, after.holdings) == (before.server_id, before.holdings)
    assert after.used_bytes == sum(one.size_bytes for one in segments[1:])
    assert rows_of(again, request_of(segments[1:]))[0] == [
        {"rows": 40, "total": sum(range(10, 50))}
    ]
    with pytest.raises(Revoked, match="fence 7"):
        again.assign(segments, fence=6, number=0)
    with pytest.raises(Revoked, match="fence 6"):
        again.unassign([segments[1].segment_id], fence=6, number=0)
    again.close()


def test_a_restart_keeps_the_number_of_an_order_that_changed_nothing(
    folder: Path, storage: DeepStorage
) -> None:
    """An older one may be on its way yet, and would unload what the newer one has asked for."""
    segments = write_hours(storage, 1)
    server = open_historical(folder, storage)
    server.assign(segments, fence=7, number=1)
    server.assign(segments, fence=7, number=3)
    settled(server)
    server.close()
    again = open_historical(folder, storage)
    with pytest.raises(Conflict, match="order 2 of fence 7 comes after order 3"):
        again.unassign([segments[0].segment_id], fence=7, number=2)
    assert again.segments == 1
    again.close()


def test_two_historicals_do_not_share_a_folder(folder: Path, storage: DeepStorage) -> None:
    server = open_historical(folder, storage)
    with pytest.raises(Invalid, match="a folder of its own"):
        open_historical(folder, storage)
    server.close()
    open_historical(folder, storage).close()


@pytest.mark.parametrize("name", [LOADING_FOLDER, SEGMENTS_FOLDER, JOURNAL_NAME, ID_NAME])
def test_a_folder_that_cannot_be_used_is_free_once_it_can(folder: Path, name: str) -> None:
    """Its lock was kept, and the error was no one's."""
    folder.mkdir()
    place = folder / name
    if name in {LOADING_FOLDER, SEGMENTS_FOLDER}:
        place.touch()
    else:
        place.with_suffix(".new").mkdir()
    files = open_files()
    with pytest.raises(Unavailable, match=r"^cannot (use|read) .*historical"):
        open_historical(folder, MemoryDeepStorage())
    assert open_files() == files
    place.unlink() if place.exists() else place.with_suffix(".new").rmdir()
    open_historical(folder, MemoryDeepStorage()).close()


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_half_written_files_are_never_believed(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 3)
    server = open_historical(folder, storage)
    server.assign(segments, fence=1, number=0)
    settled(server)
    server.close()
    places = sorted((folder / "segments").iterdir())
    places[0].write_bytes(places[0].read_bytes()[:-1])
    places[1].unlink()
    (folder / "segments" / "stranger.parquet").write_bytes(b"?")
    (folder / "loading" / "left.tmp").write_bytes(b"?")
    again = open_historical(folder, storage)
    assert set(states(settled(again)).values()) == {"loaded"}
    assert sorted((folder / "segments").iterdir()) == places
    assert list((folder / "loading").iterdir()) == []
    rows, report = rows_of(again, request_of(segments))
    assert (rows, report.cold) == ([{"rows": 30, "total": sum(range(30))}], 1)  # the one cut short
    assert set(states(settled(again)).values()) == {"loaded"}
    assert rows_of(again, request_of(segments))[1].cold == 0
    again.close()


def test_a_file_that_rots_is_read_elsewhere_and_loaded_again(
    folder: Path, storage: DeepStorage
) -> None:
    (segment,) = write_hours(storage, 1)
    server = open_historical(folder, storage)
    server.assign([segment], fence=1, number=0)
    settled(server)
    server.close()
    (place,) = (folder / "segments").iterdir()
    right = place.read_bytes()
    place.write_bytes(right[:20] + bytes([right[20] ^ 1]) + right[21:])
    again = open_historical(folder, storage)
    rows, report = rows_of(again, request_of([segment]))
    assert (rows, report.cold) == ([{"rows": 10, "total": 45}], 1)
    assert set(states(settled(again)).values()) == {"loaded"}
    assert place.read_bytes() == right
    assert rows_of(again, request_of([segment]))[1].cold == 0
    again.close()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_neither_read_nor_waited_for(
    folder: Path, storage: DeepStorage, kind: str, is_restarted: bool
) -> None:
    """A link led the engine out of its folders, a pipe kept a thread that loads, and with it the end, for ever."""
    (segment,) = write_hours(storage, 1)
    server = open_historical(folder, storage)
    server.assign([segment], fence=1, number=0)
    settled(server)
    (place,) = (folder / "segments").iterdir()
    right = place.read_bytes()
    if is_restarted:
        server.close()
    replace_by(kind, place)
    if is_restarted:
        server = open_historical(folder, storage)
    rows, _ = rows_of(server, request_of([segment]))
    assert rows == [{"rows": 10, "total": 45}]
    (held,) = settled(server).holdings
    if kind == "folder":  # its files are somebody's
        assert (
            held.error
            == f"cannot write to {place} of this historical: is a directory (tried 8 times)"
        )
    else:
        assert (held.state, place.read_bytes(), place.is_symlink()) == ("loaded", right, False)
        replace_by(kind, place)
        server.scrub(1 << 30)
        assert states(settled(server)) == {segment.segment_id: "loaded"}
        assert (place.read_bytes(), place.is_symlink()) == (right, False)
    server.close()


def replace_by(kind: str, place: Path) -> None:
    """Put something else in the place of a file."""
    if kind == "link":
        place.symlink_to(place.replace(place.parents[2] / f"{place.name}.elsewhere"))
        return
    place.unlink()
    os.mkfifo(place) if kind == "pipe" else place.mkdir()


def flip(place: Path) -> None:
    """Change a byte as a disk does that rots: nothing says so."""
    before = place.stat()
    with place.open("r+b") as file:
        file.seek(20)
        old = file.read(1)
        file.seek(20)
        file.write(bytes([old[0] ^ 1]))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_scrubbing_finds_what_rots_and_loads_it_again(folder: Path, storage: DeepStorage) -> None:
    segments = write_hours(storage, 4)
    server = open_historical(folder, storage)
    server.assign(segments, fence=1, number=0)
    settled(server)
    places = [folder / "segments" / f"{one.segment_id}.parquet" for one in segments]
    right = [place.read_bytes() for place in places]
    flip(places[2])
    places[3].unlink()
    before = server.inventory()
    server.scrub(0)
    server.scrub(2 * segments[0].size_bytes)
    assert server.inventory().number == before.number  # the first two are as they were
    server.scrub(1 << 30)
    assert set(states(settled(server)).values()) == {"loaded"}
    assert [place.read_bytes() for place in places] == right
    changed = server.inventory(epoch=before.epoch, since=before.number)
    assert sorted(states(changed)) == [one.segment_id for one in segments[2:]]
    server.close()


def test_a_restart_reads_no_file_that_nobody_has_written_to(
    folder: Path, storage: DeepStorage
) -> None:
    segments = write_hours(storage, 2)
    server = open_historical(folder, storage)
    server.assign(segments, fence=1, number=0)
    settled(server)
    server.close()
    copied = folder.with_name("copied")
    shutil.copytree(folder, copied)
    for place, hashed in ((folder, 0), (copied, 2), (copied, 0)):
        checks = Counting()
        again = open_historical(place, storage, checks=checks)
        assert rows_of(again, request_of(segments))[1].cold == 0
        assert len(checks.looked_at) == hashed
        again.close()


def test_a_file_that_is_written_to_while_its_server_runs_is_read_before_it_is_believed(
    folder: Path, storage: DeepStorage
) -> None:
    (segment,) = write_hours(storage, 1)
    checks = Counting()
    server = open_historical(folder, storage, checks=checks)
    server.assign([segment], fence=1, number=0)
    settled(server)
    (place,) = (folder / "segments").iterdir()
    flip(place)
    os.utime(place)
    rows, report = rows_of(server, request_of([segment]))
    assert (rows, report.cold) == ([{"rows": 10, "total": 45}], 1)
    assert place in checks.looked_at
    assert set(states(settled(server)).values()) == {"loaded"}
    assert rows_of(server, request_of([segment]))[1].cold == 0
    server.close()


class Counting(IntactFiles):
    """Checks files, and remembers which."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[Path] = []

    def find_damaged(self, files, stop):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.looked_at += [place for _, place in files]
        return super().find_damaged(files, stop)


def test_a_file_that_was_put_in_place_before_a_crash_is_not_fetched_again(
    folder: Path, storage: DeepStorage
) -> None:
    (segment,) = write_hours(storage, 1)
    server = open_historical(folder, storage)
    server.assign([segment], fence=1, number=0)
    settled(server)
    server.close()
    lines = (folder / "journal").read_bytes().splitlines(keepends=True)
    assert b"loaded" in lines[-1]
    (folder / "journal").write_bytes(b"".join(lines[:-1]))
    again = open_historical(folder, MemoryDeepStorage())
    assert states(settled(again)) == {segment.segment_id: "loaded"}
    again.close()


FULL_DISK = """
import resource, sys
from pathlib import Path
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.historicals import open_historical, request_of, rows_of, settled, write_hours

storage = MemoryDeepStorage()
(segment,) = write_hours(storage, 1, rows=9000)
server = open_historical(Path(sys.argv[1]), storage)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (segment.size_bytes // 2, most))
server.assign([segment], fence=1, number=0)
found = settled(server)
print(found.holdings[0].state, found.used_bytes, found.holdings[0].error)
print(rows_of(server, request_of([segment]))[0][0]["rows"])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
server.assign([segment], fence=1, number=0)
print(settled(server).holdings[0].state, list((Path(sys.argv[1]) / "loading").iterdir()))
server.close()
"""


@pytest.mark.slow
def test_a_full_disk_is_told_and_hurts_no_answer(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    failed, answered, later = done.stdout.splitlines()
    assert failed.startswith("failed 0 the disk of ")
    assert failed.endswith("is full; make room, or give it a smaller capacity (tried 8 times)")
    assert (answered, later) == ("9000", "loaded []")
