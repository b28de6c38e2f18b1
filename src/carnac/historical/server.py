"""A historical: holds what is assigned to it, and answers leaf requests for any segment of the log."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.segments.segment import Segment
from carnac.durable import make_folders, sync
from carnac.errors import Busy, Invalid, Unavailable
from carnac.historical.journal import Journal, cannot
from carnac.historical.leaves import Leaf, Sources
from carnac.historical.loading import BACK_OFF_MS, Loader
from carnac.historical.shelf import Item, Shelf, status_of_own
from carnac.ports import Clock, DeepStorage, IdSource
from carnac.ports.loops import safely
from carnac.ports.queries import LeafReport, LeafRequest
from carnac.ports.segment_files import blocks_of, find_damage
from carnac.ports.serving import Inventory

if TYPE_CHECKING:
    from carnac.query.engine import QueryEngine
    from carnac.query.intact import IntactFiles

WAIT_MAX_MS = 60_000
"""For a change of the inventory."""
LEAVES_MAX = 64
"""Statements that run at a time. Brokers admit fewer; this is for too many brokers."""
IDLE_LOOK_MS = 100
"""Between two looks whether a statement still runs."""
LOAD_THREADS = 4
SEGMENTS_FOLDER = "segments"
LOADING_FOLDER = "loading"
JOURNAL_NAME = "journal"
ID_NAME = "server-id"
ID_MAX = 100
LOCK_NAME = "lock"

_log = logging.getLogger(__name__)


class Historical:
    """A historical in this process (port `SegmentServer`). Safe for threads.

    Its folder holds the files that it has loaded, a journal of its assigned segments, and its id. So a process that
    starts over the folder, however the one before ended, is the same server with the same segments.

    Args:
        folder: Folder of one process at a time; made if it is not there.
        storage: Where segment files are.
        engine: Runs the statements.
        store_id: Store of the segments.
        checks: Checks of files that this process has not read yet; None: their sizes are trusted.
        capacity_bytes: Capacity for the files that it holds. Segments assigned beyond that are refused, one by one.
        load_threads: Segments that are loaded at a time.
        load_bytes_per_s: Limit of all loads together; 0: no limit.
        back_off_ms: Pause before the second attempt at a load; less in tests.

    Attributes:
        server_id: Id of the server, which its folder holds.
        capacity_bytes: Capacity as it was given.

    Raises:
        Invalid: Another process serves from the folder, or it holds segments of another store.
        Corrupt: A newer Carnac has written its journal.
        Unavailable: Its disk does not do its part.
    """

    def __init__(
        self,
        folder: Path,
        storage: DeepStorage,
        engine: QueryEngine,
        *,
        clock: Clock,
        ids: IdSource,
        store_id: str,
        capacity_bytes: int,
        checks: IntactFiles | None = None,
        load_threads: int = LOAD_THREADS,
        load_bytes_per_s: int = 0,
        back_off_ms: int = BACK_OFF_MS,
    ) -> None:
        folder = folder.absolute()
        if folder.exists() and not folder.is_dir():
            raise Invalid(f"{folder} is a file; a historical keeps its segments in a folder")
        self._engine = engine
        self.capacity_bytes = capacity_bytes
        self._running: weakref.WeakSet[Leaf] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._is_draining = False
        self._scrubbed = ""
        self._lock: int | None = None
        with ExitStack() as opened:
            try:
                make_folders(folder)
                self._lock = _lock(folder)
                opened.callback(self._unlock)
                self.server_id = _identity(folder, ids)
                journal = Journal(folder / JOURNAL_NAME, store_id)
                opened.callback(journal.close)
                self._shelf = Shelf(
                    folder / SEGMENTS_FOLDER,
                    journal,
                    capacity_bytes=capacity_bytes,
                    server_id=self.server_id,
                    epoch=ids.new_id(),
                )
                self._loader = Loader(
                    self._shelf,
                    storage,
                    clock,
                    folder / LOADING_FOLDER,
                    threads=load_threads,
                    bytes_per_s=load_bytes_per_s,
                    back_off_ms=back_off_ms,
                )
                opened.callback(self._loader.close)
                self._loader.add(self._shelf.loading())
                self._loader.start()
            except OSError as error:
                raise cannot("use", folder, error) from error
            opened.pop_all()
        self._sources = Sources(
            shelf=self._shelf, storage=storage, checks=checks, mistrust=self._load_again
        )

    @property
    def running(self) -> int:
        """Leaf statements that run."""
        return len(self._running)

    @property
    def used_bytes(self) -> int:
        """On its disk, what is loading included."""
        return self._shelf.used_bytes

    @property
    def segments(self) -> int:
        """Segments that are assigned to it, however they are held."""
        return self._shelf.segments

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments in this order; returns when that is on the disk.

        Raises:
            Revoked: A coordinator with a higher fence has spoken.
            Conflict: An order of this fence with a higher number was taken.
            Unavailable: It drains, or its disk does not take what is to be remembered.
        """
        self._refuse_if_draining()
        self._loader.add(self._shelf.assign(segments, fence=fence, number=number))

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments; files go when no running query reads them.

        Raises:
            Revoked, Conflict, Unavailable: As `assign`, but for draining.
        """
        self._shelf.unassign(segment_ids, fence=fence, number=number)

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return what it holds, or what changed since a number of an epoch; wait `WAIT_MAX_MS` at most."""
        return self._shelf.inventory(
            epoch=epoch, since=since, wait_ms=min(wait_ms, WAIT_MAX_MS), running=self.running
        )

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """Run one leaf's part of a statement; return its batches, one at least, and what they rest on.

        The batches have a `close`, which ends it early, from any thread.

        Raises:
            Invalid, Corrupt, NotFound: As `QueryEngine.run_query`.
            Unavailable: It drains, or runs `LEAVES_MAX` statements already (Busy).
        """
        leaf = Leaf(request, self._sources, self._engine, self.server_id, self._forget)
        with self._changed:
            self._refuse_if_draining()
            if len(self._running) >= LEAVES_MAX:
                raise Busy(
                    f"historical {self.server_id} runs {LEAVES_MAX} statements at a time; ask another one, or later",
                    retry_after_s=1,
                    server_id=self.server_id,
                )
            self._running.add(leaf)
        leaf.begin()
        return leaf, leaf.report

    def cancel(self, query_id: str) -> None:
        """Stop the leaf statements of a query. Idempotent."""
        with self._changed:
            leaves = [leaf for leaf in self._running if leaf.request.query_id == query_id]
        for leaf in leaves:
            leaf.stop()
        self._engine.cancel(query_id)

    def scrub(self, bytes_max: int) -> None:
        """Read some of the files that it holds, the next ones after those of the last time, to find rotted ones.

        Damaged files are loaded again.

        Args:
            bytes_max: Number of bytes to read, in one file at least; 0: nothing is read.
        """
        for segment_id in self._shelf.loaded_after(self._scrubbed):
            if bytes_max <= 0 or self._is_draining:
                return
            self._scrubbed = segment_id
            item = self._shelf.hold(segment_id)
            if item is None:
                continue
            try:
                bytes_max -= item.record.size_bytes
                if self._is_damaged(item):
                    self._load_again(item)
            finally:
                self._shelf.let_go([segment_id])

    def _is_damaged(self, item: Item) -> bool:
        place = self._shelf.place_of(item.record.segment_id)
        try:
            status_of_own(place)
            with place.open("rb") as file:
                return find_damage(item.record, blocks_of(file)) is not None
        except OSError:
            return True

    def drain(self) -> None:
        """Take nothing new from now on; running statements go on. Idempotent."""
        with self._changed:
            self._is_draining = True

    def wait_until_idle(self, timeout_ms: int) -> bool:
        """Wait until no leaf statement runs; return whether that is so."""
        with self._changed:
            for _ in range(max(1, timeout_ms // IDLE_LOOK_MS)):  # an abandoned leaf notifies nobody
                if self._changed.wait_for(lambda: not self._running, IDLE_LOOK_MS / 1000):
                    return True
        return False

    def close(self) -> None:
        """Stop what runs and loads, and let go of the folder. Idempotent."""
        self.drain()
        with self._changed:
            leaves = list(self._running)
        for leaf in leaves:
            self.cancel(leaf.request.query_id)
            leaf.close()
        self._loader.close()
        self._shelf.close()
        self._unlock()

    def _unlock(self) -> None:
        """Let others have the folder. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _refuse_if_draining(self) -> None:
        if self._is_draining:
            raise Unavailable(
                f"historical {self.server_id} is about to stop and takes nothing new; ask another one",
                server_id=self.server_id,
            )

    def _forget(self, leaf: Leaf) -> None:
        with self._changed:
            self._running.discard(leaf)
            self._changed.notify_all()

    def _load_again(self, item: Item) -> None:
        def load() -> None:
            again = self._shelf.mistrust(item)
            self._loader.add([] if again is None else [again])

        safely(_log, f"loading segment {item.record.segment_id} again", load)


def _lock(folder: Path) -> int:
    """Keep other processes out of the folder, until the file is closed.

    Raises:
        Invalid: One is there already.
    """
    file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise Invalid(
            f"another historical serves from {folder}; give this one a folder of its own (--folder)"
        ) from None
    return file


def _identity(folder: Path, ids: IdSource) -> str:
    """Return the id of the server whose folder it is; a new one if it is nobody's yet."""
    place = folder / ID_NAME
    if place.is_file():
        known = place.read_text(encoding="utf-8", errors="replace").strip()
        if 0 < len(known) <= ID_MAX and known.isascii() and known.isalnum():
            return known
    made = ids.new_id()
    fresh = place.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(f"{made}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(place)
    sync(folder)
    return made
