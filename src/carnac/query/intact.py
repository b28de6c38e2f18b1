"""Files that were found to be what their records say: a process reads all bytes of each once before it believes them.

DuckDB checks no checksum of a page, so a flipped bit in a segment file could change an answer, and another segment's
file of the same size could give its rows. A file is read anew when its inode, size or time of change is another one
than when it was checked. `carnac verify` and the overlord's scrubbing find bytes that change on the disk without that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from carnac.core.segments.segment import Segment
from carnac.errors import Unavailable
from carnac.ports.segment_files import (
    NOT_THERE,
    blocks_of,
    damaged,
    find_damage,
    require_file,
    require_storage,
)

FILES_MAX = 1 << 18
"""Remembered at most, about 50 MB; beyond, those that were found first are forgotten."""

Located = tuple[Segment, Path]


class Interrupted(Unavailable):
    """The query for which files were read is not wanted any more."""


class IntactFiles:
    """Remembers which files were found intact. Safe for threads.

    Args:
        threads: That read and hash at a time; None: one for each core.
    """

    def __init__(self, *, threads: int | None = None, files_max: int = FILES_MAX) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._files_max = files_max
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()

    def check(self, files: Iterable[Located], stop: threading.Event) -> None:
        """Refuse files that are not what the records of their segments say.

        Args:
            stop: Ends the reading when it is set.

        Raises:
            Corrupt: One is not, or is not there; names its segment.
            Unavailable: One cannot be read.
            Interrupted: `stop` was set.
        """
        for (segment, _), detail in self.find_damaged(files, stop):
            raise damaged(segment, detail)

    def find_damaged(
        self, files: Iterable[Located], stop: threading.Event
    ) -> list[tuple[Located, str]]:
        """Return the files that differ from their records, each with the difference.

        Raises:
            Unavailable, Interrupted: As `check`.
        """
        unknown = [one for one in files if not self._is_known(*one)]
        found = self._read_all(unknown, stop)
        return [(one, detail) for one, detail in zip(unknown, found, strict=True) if detail]

    def remember(self, segment: Segment, place: Path) -> None:
        """Note that the file was found intact."""
        self._remember(segment, place, place.stat())

    def _is_known(self, segment: Segment, place: Path) -> bool:
        path = str(place)
        known = self._known.get(path)
        if known is None:
            return False
        try:
            return known == _identity(segment, os.stat(path))  # noqa: PTH116 - in half the time
        except OSError:
            return False

    def _read_all(self, files: Sequence[Located], stop: threading.Event) -> list[str | None]:
        if len(files) <= 1 or self._threads == 1:
            return [self._read(segment, place, stop) for segment, place in files]
        with ThreadPoolExecutor(min(self._threads, len(files))) as pool:
            return list(pool.map(lambda one: self._read(one[0], one[1], stop), files))

    def _read(self, segment: Segment, place: Path, stop: threading.Event) -> str | None:
        """Read a file and return what is wrong with it."""
        try:
            with require_file(place).open("rb", buffering=0) as file:
                before = os.fstat(file.fileno())
                damage = find_damage(segment, _until(stop, blocks_of(file)))
                after = os.fstat(file.fileno())
        except FileNotFoundError:
            require_storage(segment, place)
            return NOT_THERE
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(
                f"file {place} of segment {segment.segment_id} cannot be read: {reason}",
                segment_id=segment.segment_id,
            ) from error
        if damage is not None:
            return damage.detail
        if _identity(segment, before) == _identity(segment, after):
            self._remember(segment, place, after)
        return None

    def _remember(self, segment: Segment, place: Path, status: os.stat_result) -> None:
        with self._lock:
            self._known.pop(str(place), None)
            while len(self._known) >= self._files_max:
                del self._known[next(iter(self._known))]
            self._known[str(place)] = _identity(segment, status)


def _identity(segment: Segment, status: os.stat_result) -> int:
    return hash((segment.checksum, status.st_ino, status.st_size, status.st_mtime_ns))


def _until(stop: threading.Event, blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if stop.is_set():
            raise Interrupted("the query was interrupted")
        yield block
