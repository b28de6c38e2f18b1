"""The local cache of segment files: within its size, safe while queries run, never a wrong file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval
from carnac.errors import Corrupt, Unavailable
from carnac.ports.storage import OWNER_FILE
from carnac.query.cache import LOCK_NAME, FileCache
from carnac.query.intact import IntactFiles
from tests.support.memory_storage import MemoryDeepStorage

NEVER = threading.Event()


def segment(number: int, size_bytes: int = 100) -> Segment:
    return Segment(
        segment_id=f"s{number}",
        datasource="d",
        chunk=Interval(0, 1),
        path=f"d/s{number}",
        size_bytes=size_bytes,
        rows=1,
        input_rows=1,
        min_time_ms=0,
        max_time_ms=0,
        columns=(),
        checksum=f"sha256:{hashlib.sha256(bytes([number]) * 100).hexdigest()}",
    )


class CountingStorage(MemoryDeepStorage):
    """Memory storage that remembers what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        for number in range(10):
            self.write(f"d/s{number}", bytes([number]) * 100)

    def open_read(self, path: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
        self.opened.append(path)
        return super().open_read(path)


def files(folder: Path) -> list[str]:
    """What is cached, without the lock file."""
    return sorted(place.name for place in folder.iterdir() if place.name != LOCK_NAME)


def use(cache: FileCache, folder: Path, *numbers: int, at_s: int) -> None:
    """Hold the segments for a moment, as of a given second, so that their order of use is certain."""
    with cache.held([segment(number) for number in numbers], NEVER) as paths:
        for number in numbers:
            assert paths[f"s{number}"].read_bytes() == bytes([number]) * 100
            os.utime(folder / f"s{number}.parquet", (at_s, at_s))


def test_a_file_is_fetched_once(tmp_path: Path) -> None:
    storage = CountingStorage()
    cache = FileCache(storage, tmp_path, 10_000)
    use(cache, tmp_path, 1, 2, at_s=1)
    use(cache, tmp_path, 2, 3, at_s=2)
    use(FileCache(storage, tmp_path, 10_000), tmp_path, 3, at_s=3)
    assert sorted(storage.opened) == ["d/s1", "d/s2", "d/s3"]


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    cache = FileCache(CountingStorage(), tmp_path, 300)
    for at_s, number in enumerate([1, 2, 3, 1, 4]):
        use(cache, tmp_path, number, at_s=at_s + 1)
    assert files(tmp_path) == ["s1.parquet", "s3.parquet", "s4.parquet"]


def test_files_of_a_running_query_stay_even_beyond_the_size(tmp_path: Path) -> None:
    cache = FileCache(CountingStorage(), tmp_path, 250)
    with cache.held([segment(number) for number in range(4)], NEVER) as paths:
        with cache.held([segment(5)], NEVER):
            assert all(path.exists() for path in paths.values())
        assert all(path.exists() for path in paths.values())
    assert len(files(tmp_path)) == 2


def test_files_that_another_process_reads_stay(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.unit.query.test_cache import *\n"
        f"with FileCache(CountingStorage(), Path({str(tmp_path)!r}), 0).held([segment(1)], NEVER):\n"
        "    print('held', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        cache = FileCache(CountingStorage(), tmp_path, 0)
        use(cache, tmp_path, 1, 2, at_s=1)
        assert files(tmp_path) == ["s1.parquet"]
        other.kill()
        other.wait()
        use(cache, tmp_path, 2, at_s=2)
        assert files(tmp_path) == []


def test_what_a_killed_process_has_fetched_half_goes_and_what_is_being_fetched_stays(
    tmp_path: Path,
) -> None:
    program = (
        "import os, sys; from tests.unit.query.test_cache import *\n"
        "class Hanging(CountingStorage):\n"
        "    def open_read(self, path):\n"
        "        print('fetching', flush=True); sys.stdin.readline()\n"
        f"with FileCache(Hanging(), Path({str(tmp_path)!r}), 300).held([segment(1)], NEVER): pass"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "fetching\n"
        cache = FileCache(CountingStorage(), tmp_path, 300)
        use(cache, tmp_path, 2, at_s=1)
        [part, whole] = files(tmp_path)
        assert (part.startswith("s1.parquet."), whole) == (True, "s2.parquet")
        other.kill()
        other.wait()
        use(cache, tmp_path, 2, at_s=2)
        assert files(tmp_path) == ["s2.parquet"]


def test_two_caches_on_one_folder_keep_the_files_of_each_other(tmp_path: Path) -> None:
    first, second = (FileCache(CountingStorage(), tmp_path, 0) for _ in range(2))
    with first.held([segment(1)], NEVER):
        use(second, tmp_path, 1, 2, at_s=1)
        assert files(tmp_path) == ["s1.parquet"]
    assert files(tmp_path) == []


@pytest.mark.slow
def test_many_queries_at_once_see_whole_files(tmp_path: Path) -> None:
    cache = FileCache(CountingStorage(), tmp_path, 350)
    failures: list[BaseException] = []

    def run(first: int) -> None:
        try:
            for step in range(20):
                numbers = [(first + step + extra) % 10 for extra in range(3)]
                with cache.held([segment(number) for number in numbers], NEVER) as paths:
                    for number in numbers:
                        assert paths[f"s{number}"].read_bytes() == bytes([number]) * 100
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(place.stat().st_size for place in tmp_path.iterdir()) <= 350


def test_a_file_of_another_size_than_recorded_is_corrupt_and_not_kept(tmp_path: Path) -> None:
    storage = CountingStorage()
    cache = FileCache(storage, tmp_path, 10_000)
    with (
        pytest.raises(Corrupt, match=r"s1 .*has 100 bytes, recorded are 101"),
        cache.held([segment(1, 101)], NEVER),
    ):
        pass
    with (
        pytest.raises(Unavailable, match="not mounted, or emptied"),
        cache.held([segment(99)], NEVER),
    ):
        pass
    storage.write(OWNER_FILE, b"mine")
    with pytest.raises(Corrupt, match="d/s99"), cache.held([segment(99)], NEVER):
        pass
    assert files(tmp_path) == []


def test_a_cut_off_file_is_fetched_again(tmp_path: Path) -> None:
    storage = CountingStorage()
    cache = FileCache(storage, tmp_path, 10_000)
    use(cache, tmp_path, 1, at_s=1)
    (tmp_path / "s1.parquet").write_bytes(b"half")
    use(cache, tmp_path, 1, at_s=2)
    assert storage.opened == ["d/s1", "d/s1"]


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FileCache(CountingStorage(), tmp_path / "file" / "cache", 10_000)
    with (
        pytest.raises(Unavailable, match=r"cannot use the cache folder .* not a directory"),
        cache.held([segment(1)], NEVER),
    ):
        pass


def test_ids_cannot_leave_the_folder(tmp_path: Path) -> None:
    cache = FileCache(CountingStorage(), tmp_path / "cache", 10_000)
    odd = replace(segment(1), segment_id="../../etc/x")
    with cache.held([odd], NEVER) as paths:
        assert paths["../../etc/x"].parent == tmp_path / "cache"


def test_another_file_of_the_same_size_in_deep_storage_is_corrupt_and_not_kept(
    tmp_path: Path,
) -> None:
    storage = CountingStorage()
    storage.write("d/s1", bytes([2]) * 100)
    cache = FileCache(storage, tmp_path, 10_000)
    with (
        pytest.raises(Corrupt, match=r"s1 .*its bytes are not those that were written"),
        cache.held([segment(1)], NEVER),
    ):
        pass
    assert files(tmp_path) == []


def test_a_cached_file_that_was_damaged_since_is_fetched_again(tmp_path: Path) -> None:
    storage, intact = CountingStorage(), IntactFiles()
    cache = FileCache(storage, tmp_path, 10_000, intact)
    use(cache, tmp_path, 1, at_s=1)
    (tmp_path / "s1.parquet").write_bytes(bytes([2]) * 100)
    use(cache, tmp_path, 1, at_s=2)
    use(cache, tmp_path, 1, at_s=3)
    assert storage.opened == ["d/s1", "d/s1"]


def test_the_use_of_a_cached_file_does_not_have_it_read_again(tmp_path: Path) -> None:
    cache = FileCache(CountingStorage(), tmp_path, 10_000, IntactFiles())
    with cache.held([segment(1)], NEVER) as paths:
        before = paths["s1"].stat()
    with cache.held([segment(1)], NEVER) as paths:
        after = paths["s1"].stat()
    assert before.st_mtime_ns == after.st_mtime_ns
