"""Segment files of an object store, fetched to a local folder that stays within a size."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from carnac.core.segments.segment import Segment
from carnac.errors import NotFound, Unavailable
from carnac.ports import DeepStorage
from carnac.ports.segment_files import NOT_THERE, blocks_of, check_file, damaged, local_name
from carnac.ports.storage import require_there
from carnac.ports.temporary import own_folder
from carnac.query.intact import IntactFiles

FETCH_THREADS = 8
LOCK_NAME = "cache.lock"
PART = ".tmp"
"""Ends the name of a file that is being fetched; it begins with the name that the file will have."""


class _Holds:
    """The users of each file of a folder: the threads of this process by a count, other processes by a shared lock.

    The locks are on bytes of one file, a byte for each name, so that a query over thousands of files needs one handle.
    They belong to the process and end with it, and closing the file anywhere in the process would end them, too: so
    there is one of these for each folder, and the file stays open.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in_use: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._file: int | None = None

    def hold(self, names: Iterable[str]) -> None:
        """Keep the files, whether they are there yet or not."""
        held: list[str] = []
        try:
            with self._mutex:
                for name in names:
                    if not self._in_use[name]:
                        self._lock(name, fcntl.LOCK_SH)
                    self._in_use[name] += 1
                    held.append(name)
        except OSError as error:
            self.let_go(held)
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"cannot use the cache folder {self._folder}: {reason}") from error

    def let_go(self, names: Iterable[str]) -> None:
        """End what `hold` began."""
        with self._mutex:
            for name in names:
                self._in_use[name] -= 1
                if not self._in_use[name]:
                    del self._in_use[name]
                    self._lock(name, fcntl.LOCK_UN)

    def remove(self, name: str, part: str | None = None) -> bool:
        """Remove a file, or a part of it that was fetched; return False if somebody uses the file, or fetches it."""
        with self._mutex:
            if self._in_use.get(name):
                return False
            try:
                self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            try:
                (self._folder / (part or name)).unlink(missing_ok=True)
            finally:
                self._lock(name, fcntl.LOCK_UN)
            return True

    def _lock(self, name: str, how: int) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.lockf(self._file, how, 1, _lock_place(name))


@cache
def _holds_of(folder: Path) -> _Holds:
    return _Holds(folder)


def spill_folder() -> Path | None:
    """Return a new folder for data that does not fit into memory; None: there is no room, and nothing is spilt."""
    with suppress(Unavailable, OSError):
        return Path(tempfile.mkdtemp(dir=own_folder("spill")))
    return None


def default_cache_folder(url: str) -> Path:
    """Return a folder that no other user can write to, and that no other deep storage shares."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "carnac" / "segments" / hashlib.sha256(url.encode()).hexdigest()[:16]


class FileCache:
    """A folder of fetched segment files, named by their ids. Each fetched file is checked against its record.

    Several processes may share the folder. The files of running queries of all processes stay; of the other files,
    those that were used longest ago go first when `max_bytes` is exceeded.

    Args:
        folder: Created when it is first needed.
        intact: Checks the files that are there already, once in this process; damaged files are fetched again. None:
            only the size of a file is checked.

    Attributes:
        folder: Where the files are.
    """

    def __init__(
        self,
        storage: DeepStorage,
        folder: Path,
        max_bytes: int,
        intact: IntactFiles | None = None,
    ) -> None:
        self._storage = storage
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - absolute, without following links
        self._max_bytes = max_bytes
        self._intact = intact
        self._holds = _holds_of(self.folder)

    @contextmanager
    def held(
        self, segments: Iterable[Segment], stop: threading.Event
    ) -> Iterator[Mapping[str, Path]]:
        """Fetch what is missing; give the place of each file by segment id, and keep them there meanwhile.

        Args:
            stop: Ends the checking of files when it is set.

        Raises:
            Unavailable: Deep storage or the local disk does not do its part.
            Corrupt: A file in deep storage is not there, or not what was recorded.
            Interrupted: `stop` was set.
        """
        wanted = {segment.segment_id: segment for segment in segments}
        names = {segment_id: local_name(segment_id) for segment_id in wanted}
        self._holds.hold(names.values())
        try:
            there = {one for one in wanted if self._is_there(names[one], wanted[one])}
            missing = [wanted[one] for one in wanted if one not in there]
            if self._intact is not None:
                present = [(wanted[one], self.folder / names[one]) for one in there]
                damaged = self._intact.find_damaged(present, stop)
                missing += [segment for (segment, _), _ in damaged]
            if missing:
                self._make_room(sum(one.size_bytes for one in missing))
                with ThreadPoolExecutor(FETCH_THREADS) as pool:
                    list(pool.map(self._fetch, missing))
            yield {segment_id: self.folder / name for segment_id, name in names.items()}
        finally:
            self._holds.let_go(names.values())
            self._make_room(0)

    def forget(self, segment_ids: Iterable[str]) -> None:
        """Remove the files of segments, but for those that somebody uses."""
        if self.folder.is_dir():
            for segment_id in segment_ids:
                self._holds.remove(local_name(segment_id))

    def _is_there(self, name: str, segment: Segment) -> bool:
        place = self.folder / name
        with suppress(OSError):
            status = place.stat()
            if status.st_size == segment.size_bytes:
                os.utime(
                    place
                )  # sets the time of the last use, and that of the last change, which is put back
                os.utime(place, ns=(place.stat().st_atime_ns, status.st_mtime_ns))
                return True
        return False

    def _fetch(self, segment: Segment) -> None:
        place = self.folder / local_name(segment.segment_id)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(
                prefix=f"{place.name}.", suffix=PART, dir=self.folder
            )
            try:
                with (
                    os.fdopen(handle, "wb") as file,
                    self._storage.open_read(segment.path) as source,
                ):
                    check_file(segment, _copied(blocks_of(source), file))
                Path(temporary).replace(place)
                if self._intact is not None:
                    self._intact.remember(segment, place)
            finally:
                Path(temporary).unlink(missing_ok=True)
        except NotFound as error:
            require_there(self._storage)
            raise damaged(segment, NOT_THERE) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(
                f"cannot fetch segment {segment.segment_id} into {self.folder}: {reason}"
            ) from error

    def _make_room(self, wanted_bytes: int) -> None:
        files = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for place in self.folder.iterdir():
                with suppress(FileNotFoundError):
                    status = place.stat()
                    files.append((status.st_atime_ns, status.st_size, place))
        excess = sum(size for _, size, _ in files) + wanted_bytes - self._max_bytes
        for _, size, place in sorted(files):
            if place.suffix == PART:  # of a process that was killed, unless somebody fetches it
                if self._holds.remove(place.name.rsplit(".", 2)[0], place.name):
                    excess -= size
            elif excess > 0 and place.suffix == ".parquet" and self._holds.remove(place.name):
                excess -= size


def _copied(blocks: Iterable[bytes], file: BinaryIO) -> Iterator[bytes]:
    for block in blocks:
        file.write(block)
        yield block


def _lock_place(name: str) -> int:
    """Return the byte of the lock file that stands for a cached file."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big")
