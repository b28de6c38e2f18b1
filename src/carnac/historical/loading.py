"""Loading: threads that fetch what is assigned, in order, check it and put it on the shelf."""

from __future__ import annotations

import heapq
import logging
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from carnac.durable import make_folders
from carnac.errors import CarnacError, DiskFull, Unavailable
from carnac.historical.journal import FULL, cannot
from carnac.historical.shelf import Item, Shelf, status_of_own
from carnac.ports import Clock, DeepStorage
from carnac.ports.loops import log_failure, reason_of
from carnac.ports.segment_files import blocks_of, check_file, find_damage

ATTEMPTS_MAX = 8
"""Maximum number of attempts at a load for which something does not answer."""
BACK_OFF_MS = 200
"""Before the second attempt; twice as long before each that follows."""
BACK_OFF_MAX_MS = 30_000


_log = logging.getLogger(__name__)


class Throttle:
    """Lets so many bytes a second pass, for all that take from it together.

    Args:
        bytes_per_s: 0: as many as come.
    """

    def __init__(self, bytes_per_s: int, clock: Clock) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._mutex = threading.Lock()
        self._free_at_ms = 0.0

    def take(self, size_bytes: int, stop: threading.Event) -> None:
        """Wait until so many bytes may pass, or `stop` is set."""
        if self._bytes_per_s <= 0:
            return
        with self._mutex:
            now_ms = self._clock.now_ms()
            begin_ms = min(max(self._free_at_ms, now_ms), now_ms + 60_000)  # clocks are set back
            self._free_at_ms = begin_ms + size_bytes * 1000 / self._bytes_per_s
        stop.wait((begin_ms - now_ms) / 1000)


class _Stopped(Exception):
    """The file that is fetched is not wanted any more."""


class Loader:
    """Loads items of a shelf, the first that were asked for first. Safe for threads.

    Args:
        folder: Folder of files that are half fetched; emptied at the start.
        threads: Loads at a time, at least 1.
        back_off_ms: `BACK_OFF_MS`, less in tests.
    """

    def __init__(
        self,
        shelf: Shelf,
        storage: DeepStorage,
        clock: Clock,
        folder: Path,
        *,
        threads: int,
        bytes_per_s: int = 0,
        back_off_ms: int = BACK_OFF_MS,
    ) -> None:
        self._shelf = shelf
        self._storage = storage
        self._clock = clock
        self._folder = folder
        self._throttle = Throttle(bytes_per_s, clock)
        self._back_off_ms = back_off_ms
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Item]] = []  # by when and in which order
        self._order = count()
        self._attempts: Counter[Item] = Counter()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"carnac-load-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Begin to load."""
        make_folders(self._folder)
        for left in self._folder.iterdir():
            left.unlink()
        for thread in self._threads:
            thread.start()

    def add(self, items: Iterable[Item]) -> None:
        """Load items after those that wait already."""
        with self._changed:
            for item in items:
                heapq.heappush(self._waiting, (0, next(self._order), item))
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, also in the middle of a file; it is fetched anew after a restart. Idempotent."""
        with self._changed:
            self._stop.set()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            try:
                self._load(item)
            except _Stopped:
                self._attempts.pop(item, None)
            except (CarnacError, OSError, MemoryError) as error:
                self._fail_or_wait(item, error)
            except Exception as error:
                log_failure(_log, f"loading segment {item.record.segment_id}", error)
                self._shelf.fail(item, reason_of(error))
            else:
                self._attempts.pop(item, None)

    def _next(self) -> Item | None:
        """Return what is to be loaded next, waiting for it; None: nothing any more."""
        with self._changed:
            while not self._stop.is_set():
                if not self._waiting:
                    self._changed.wait()
                    continue
                pause_ms = self._waiting[0][0] - self._clock.now_ms()
                if not 0 < pause_ms <= BACK_OFF_MAX_MS:  # longer than any: the clock was set back
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(pause_ms / 1000)
        return None

    def _load(self, item: Item) -> None:
        if not self._shelf.is_wanted(item) or self._is_there(item):
            return
        handle, name = tempfile.mkstemp(suffix=".tmp", dir=self._folder)
        fetched = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                self._fetch(item, file)
            self._shelf.commit_load(item, fetched)
        except OSError as error:
            raise _local_error(self._folder, error) from error
        finally:
            fetched.unlink(missing_ok=True)

    def _is_there(self, item: Item) -> bool:
        """Count a file as loaded that was put in its place by a process that died before it could say so."""
        place = self._shelf.place_of(item.record.segment_id)
        try:
            status_of_own(place)
            with place.open("rb") as file:
                damage = find_damage(item.record, self._passed(item, blocks_of(file)))
        except OSError:
            return False
        return damage is None and self._shelf.commit_load(item, None)

    def _fetch(self, item: Item, file: BinaryIO) -> None:
        with self._storage.open_read(item.record.path) as source:
            check_file(item.record, self._copied(item, _source_blocks(source, item), file))
        file.flush()
        os.fsync(file.fileno())

    def _copied(self, item: Item, blocks: Iterable[bytes], file: BinaryIO) -> Iterator[bytes]:
        for block in self._passed(item, blocks):
            self._throttle.take(len(block), self._stop)
            file.write(block)
            yield block

    def _passed(self, item: Item, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield blocks until nobody wants them any more."""
        for block in blocks:
            if self._stop.is_set() or not self._shelf.is_wanted(item):
                raise _Stopped
            yield block

    def _fail_or_wait(self, item: Item, error: Exception) -> None:
        self._attempts[item] += 1
        attempts = self._attempts[item]
        is_hopeless = isinstance(error, CarnacError) and not error.retryable
        if is_hopeless or attempts >= ATTEMPTS_MAX:
            del self._attempts[item]
            tried = "" if is_hopeless else f" (tried {attempts} times)"
            _log.warning(
                "segment %s cannot be loaded%s: %s", item.record.segment_id, tried, reason_of(error)
            )
            self._shelf.fail(item, reason_of(error) + tried)
            return
        pause_ms = min(self._back_off_ms * 2 ** (attempts - 1), BACK_OFF_MAX_MS)
        with self._changed:
            entry = (self._clock.now_ms() + pause_ms, next(self._order), item)
            heapq.heappush(self._waiting, entry)
            self._changed.notify()


def _source_blocks(source: BinaryIO, item: Item) -> Iterator[bytes]:
    """Yield the blocks of a file in deep storage, hardly more than were recorded, even if the file has grown."""
    left_bytes = item.record.size_bytes
    blocks = blocks_of(source)
    while left_bytes >= 0:
        try:
            block = next(blocks, b"")
        except Exception as error:
            raise Unavailable(
                f"deep storage stopped in the middle of '{item.record.path}': {error}",
                path=item.record.path,
            ) from error
        if not block:
            return
        left_bytes -= len(block)
        yield block


def _local_error(folder: Path, error: OSError) -> CarnacError:
    if error.errno in FULL:
        return DiskFull(
            f"the disk of {folder} of this historical is full; make room, or give it a smaller capacity"
        )
    return cannot("write to", Path(error.filename2 or folder), error)
