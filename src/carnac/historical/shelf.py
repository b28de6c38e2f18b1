"""The holdings of a historical: assigned segments, their files, their readers, and numbered changes."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from carnac.core.words import counted
from carnac.durable import make_folders, sync
from carnac.errors import Conflict, DiskFull, Revoked
from carnac.historical.journal import Assigned, Fenced, Journal, Line, Loaded, Unassigned
from carnac.ports.segment_files import Recorded, local_name
from carnac.ports.serving import Holding, HoldState, Inventory

PLACES_MAX = 16_384
"""Segments whose places are remembered: to make a path takes longer than to look at a file."""
REMOVED_MAX = 100_000
"""Removals that are remembered for callers that ask for changes; with more, a caller gets the whole inventory."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Item:
    """A segment that is assigned.

    Attributes:
        record: Record of the assignment, which names the file.
        state: How it is held.
        error: One sentence if it failed.
        checked: Identity of the file that had the right bytes when it was read; None: no file was read.
    """

    record: Assigned
    state: HoldState
    error: str = ""
    checked: Loaded | None = None

    def is_intact(self, found: os.stat_result) -> bool:
        """Whether a file is the one whose bytes were right, and nobody has written to it since."""
        checked = self.checked
        return checked is not None and (checked.inode, checked.changed_ns) == _identity(found)

    def holding(self) -> Holding:
        """Return it as inventories have it."""
        return Holding(
            segment_id=self.record.segment_id,
            datasource=self.record.datasource,
            size_bytes=self.record.size_bytes,
            state=self.state,
            error=self.error,
        )


class Shelf:
    """The segments of a historical, in memory and in its folder. Safe for threads.

    Promises are on the disk before they are made: assignments and removals when the calls return, a file before it
    counts as loaded. A file that a query reads stays until the query has ended, even if it is unassigned meanwhile.

    Args:
        folder: Folder of the segment files; made if it is not there.
        capacity_bytes: Capacity for all files that are held or on their way.
        epoch: Epoch of the numbers of its inventories.

    Raises:
        Unavailable, Corrupt: As `Journal`.
    """

    def __init__(
        self, folder: Path, journal: Journal, *, capacity_bytes: int, server_id: str, epoch: str
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._capacity_bytes = capacity_bytes
        self._server_id = server_id
        self._epoch = epoch
        # the first is held over a change and its line; the other one never over I/O
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._items: dict[str, Item] = {}
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._removed: deque[tuple[int, str]] = deque()
        self._forgotten = 0  # removals up to this number are not remembered
        self._number = 0
        self._used_bytes = 0
        self._readers: Counter[str] = Counter()
        self._doomed: dict[str, Item] = {}
        self._abandoned: deque[list[str]] = deque()
        self._is_closed = False
        self._restore()

    def _restore(self) -> None:
        make_folders(self._folder)
        there = _files(self._folder)
        contents = self._journal.contents
        for segment_id, record in contents.assigned.items():
            loaded = contents.loaded.get(segment_id)
            name = local_name(segment_id)
            if loaded is not None and name in there:
                item = Item(record, HoldState.LOADED, checked=loaded)
            else:
                item = Item(record, HoldState.LOADING)
            there.discard(name)
            self._items[segment_id] = item
            self._used_bytes += record.size_bytes
        self._number = len(self._items)  # nobody has an earlier number of this epoch: none is noted
        for stranger in there:
            with suppress(OSError):  # the next start finds it again
                (self._folder / stranger).unlink()

    @property
    def fence(self) -> int:
        """The highest fence of a coordinator that has spoken."""
        return self._journal.contents.order[0]

    @property
    def used_bytes(self) -> int:
        """Bytes of all files that are held or on their way."""
        return self._used_bytes

    @property
    def segments(self) -> int:
        """Segments that are assigned."""
        return len(self._items)

    def place_of(self, segment_id: str) -> Path:
        """Return where a segment's file is, or would be."""
        return _place_in(self._folder, segment_id)

    def loading(self) -> list[Item]:
        """Return what is to be loaded, in the order in which it was assigned."""
        with self._changed:
            return [item for item in self._items.values() if item.state is HoldState.LOADING]

    def assign(self, segments: Iterable[Recorded], *, fence: int, number: int) -> list[Item]:
        """Take segments; return those that are to be loaded now, in order.

        Raises:
            Revoked: A coordinator with a higher fence has spoken.
            Conflict: An order of this fence with a higher number was taken.
            Unavailable: The disk does not take the journal's lines; nothing has changed.
        """
        with self._writing:
            lines = self._fenced(fence, number)
            taken: list[Item] = []
            used_bytes = self._used_bytes
            for record in {one.segment_id: _record_of(one) for one in segments}.values():
                before = self._items.get(record.segment_id)
                if before is not None and before.state is not HoldState.FAILED:
                    continue
                item = self._decide(record, used_bytes)
                taken.append(item)
                if item.state is HoldState.FAILED:
                    continue
                lines.append(record)
                if item.checked is not None:
                    lines.append(item.checked)
                if record.segment_id not in self._doomed:  # else its bytes still count
                    used_bytes += record.size_bytes
            if lines:
                self._journal.append(lines)
            with self._changed:
                for item in taken:
                    self._put(item)
                self._changed.notify_all()
        return [item for item in taken if item.state is HoldState.LOADING]

    def _decide(self, record: Assigned, used_bytes: int) -> Item:
        """Return how a segment that is assigned now is held."""
        doomed = self._doomed.get(record.segment_id)
        if doomed is not None and doomed.record == record:
            return Item(record, doomed.state, checked=doomed.checked)
        if doomed is not None:
            error = f"another file of segment {record.segment_id} is still being read; assign it again later"
            return Item(record, HoldState.FAILED, error)
        free_bytes = self._capacity_bytes - used_bytes
        if record.size_bytes > free_bytes:
            error = (
                f"segment {record.segment_id} has {counted(record.size_bytes, 'byte')}, and of the "
                f"{counted(self._capacity_bytes, 'byte')} that this historical may hold {max(free_bytes, 0):,} are free"
            )
            return Item(record, HoldState.FAILED, error)
        return Item(record, HoldState.LOADING)

    def unassign(self, segment_ids: Iterable[str], *, fence: int, number: int) -> None:
        """Forget segments; files go when nobody reads them.

        On a full disk, which has no room for the journal's lines, files go before their lines are written.

        Raises:
            Revoked, Conflict, Unavailable: As `assign`.
        """
        with self._writing:
            lines = self._fenced(fence, number)
            gone = [one for one in dict.fromkeys(segment_ids) if one in self._items]
            lines += map(Unassigned, gone)
            if lines:
                self._append_with_room_of(gone, lines)
            with self._changed:
                files = [item.record for item in map(self._take, gone) if item is not None]
                self._changed.notify_all()
            for record in files:
                self._remove_file(record)

    def _append_with_room_of(self, gone: Sequence[str], lines: Sequence[Line]) -> None:
        """Write lines that let segments go. If there is no room, let those fail whose files nobody reads, and retry.

        A file that goes without a line is missed by the next start, which loads it again; the coordinator has it
        forgotten again.
        """
        try:
            self._journal.append(lines)
        except DiskFull:
            with self._changed:
                unread = [self._items[one] for one in gone if not self._readers[one]]
                for item in unread:
                    if item.state is not HoldState.FAILED:
                        item.state, item.error = (
                            HoldState.FAILED,
                            "its file made room on a full disk",
                        )
                        self._used_bytes -= item.record.size_bytes
                        self._note(item.record.segment_id)
                self._changed.notify_all()
            for item in unread:
                self._remove_file(item.record)
            self._journal.append(lines)

    def _take(self, segment_id: str) -> Item | None:
        """Forget a segment; return it if its file is to go now."""
        item = self._items.pop(segment_id)
        self._numbers.pop(segment_id, None)
        self._number += 1
        self._removed.append((self._number, segment_id))
        if len(self._removed) > REMOVED_MAX:
            self._forgotten, _ = self._removed.popleft()
        if item.state is HoldState.FAILED:
            return None
        if self._readers[segment_id]:
            self._doomed[segment_id] = item
            return None
        self._used_bytes -= item.record.size_bytes
        return item

    def commit_load(self, item: Item, fetched: Path | None) -> bool:
        """Count a segment as loaded; return False if nobody wants it any more.

        Args:
            fetched: Its file, checked and on the disk, which gets its place now; None: it is there already.

        Raises:
            Unavailable: The disk does not do its part; it is not loaded.
        """
        segment_id = item.record.segment_id
        with self._writing:
            if not self._is_wanted(item):
                return False
            if fetched is not None:
                fetched.replace(self.place_of(segment_id))
                sync(self._folder)
            line = self._line_of_loaded(segment_id)
            self._journal.append([line])
            with self._changed:
                item.state, item.error, item.checked = HoldState.LOADED, "", line
                self._note(segment_id)
                self._changed.notify_all()
            return True

    def know(self, items: Iterable[Item]) -> None:
        """Note that the bytes of files are right.

        Raises:
            Unavailable: The disk does not take the journal's lines; the next process checks them again.
        """
        with self._writing:
            held = [item for item in items if self._items.get(item.record.segment_id) is item]
            lines = [self._line_of_loaded(item.record.segment_id) for item in held]
            for item, line in zip(held, lines, strict=True):
                item.checked = line
            if lines:
                self._journal.append(lines)

    def _line_of_loaded(self, segment_id: str) -> Loaded:
        with suppress(OSError):
            return Loaded(segment_id, *_identity(self.place_of(segment_id).stat()))
        return Loaded(segment_id)

    def fail(self, item: Item, error: str) -> None:
        """Give up loading a segment, and say why. Its bytes are free again."""
        with self._writing, self._changed:
            if self._is_wanted(item):
                item.state, item.error = HoldState.FAILED, error
                self._used_bytes -= item.record.size_bytes
                self._note(item.record.segment_id)
                self._changed.notify_all()

    def is_wanted(self, item: Item) -> bool:
        """Whether a segment is still to be loaded."""
        with self._changed:
            return self._is_wanted(item)

    def _is_wanted(self, item: Item) -> bool:
        is_held = self._items.get(item.record.segment_id) is item
        return is_held and item.state is HoldState.LOADING

    def hold(self, segment_id: str) -> Item | None:
        """Keep the file of a segment until `let_go`; None: it is not here."""
        self._let_go_abandoned()
        with self._changed:
            item = self._items.get(segment_id)
            if item is None or item.state is not HoldState.LOADED:
                return None
            self._readers[segment_id] += 1
            return item

    def let_go(self, segment_ids: Iterable[str]) -> None:
        """End what `hold` began; files that are not wanted any more go with their last reader."""
        over: list[str] = []
        with self._changed:
            for segment_id in segment_ids:
                self._readers[segment_id] -= 1
                if not self._readers[segment_id]:
                    del self._readers[segment_id]
                    if segment_id in self._doomed:
                        over.append(segment_id)
        for segment_id in over:
            with self._writing:  # somebody may have assigned it again, and read it
                with self._changed:
                    if self._readers[segment_id] or segment_id in self._items:
                        continue
                    item = self._doomed.pop(segment_id, None)
                    if item is None:
                        continue
                    self._used_bytes -= item.record.size_bytes
                    self._changed.notify_all()
                self._remove_file(item.record)

    def abandon(self, segment_ids: list[str]) -> None:
        """Let go of files soon: for readers collected as garbage, at a time when anybody may have the locks."""
        self._abandoned.append(segment_ids)

    def _let_go_abandoned(self) -> None:
        while self._abandoned:
            with suppress(IndexError):  # another thread was faster
                self.let_go(self._abandoned.popleft())

    def mistrust(self, item: Item) -> Item | None:
        """Let a file that is not what was loaded be loaded again; return what is to be loaded."""
        with self._writing:
            if self._items.get(item.record.segment_id) is not item:
                return None
            if item.state is not HoldState.LOADED:
                return None
            self._journal.append([item.record])
            with self._changed:
                again = Item(item.record, HoldState.LOADING)
                self._items[item.record.segment_id] = again
                self._note(item.record.segment_id)
                self._changed.notify_all()
        _log.warning("segment %s is loaded again: its file was damaged", item.record.segment_id)
        return again

    def inventory(self, *, epoch: str, since: int, wait_ms: int, running: int) -> Inventory:
        """Return what is held, or what has changed since a number of this epoch."""
        self._let_go_abandoned()
        with self._changed:
            is_whole = epoch != self._epoch or since > self._number or since < self._forgotten
            if not is_whole and wait_ms > 0:
                self._changed.wait_for(
                    lambda: self._number > since or self._is_closed, wait_ms / 1000
                )
            is_whole = is_whole or since < self._forgotten
            if is_whole:
                holdings = [item.holding() for item in self._items.values()]
                removed: list[str] = []
            else:
                changed = takewhile(
                    lambda one: self._numbers[one] > since, reversed(self._numbers.keys())
                )
                holdings = [self._items[one].holding() for one in changed]
                recent = takewhile(lambda one: one[0] > since, reversed(self._removed))
                removed = [one for _, one in recent if one not in self._items]
            return Inventory(
                server_id=self._server_id,
                epoch=self._epoch,
                number=self._number,
                is_whole=is_whole,
                holdings=sorted(holdings, key=lambda one: one.segment_id),
                removed=sorted(set(removed)),
                used_bytes=self._used_bytes,
                capacity_bytes=self._capacity_bytes,
                running=running,
            )

    def loaded_after(self, segment_id: str) -> list[str]:
        """Return the ids of loaded segments beyond one, in order; beyond the last come all."""
        with self._changed:
            loaded = sorted(
                one for one, item in self._items.items() if item.state is HoldState.LOADED
            )
        return loaded[bisect_right(loaded, segment_id) :] or loaded

    def close(self) -> None:
        """Let callers that wait for a change go, and let go of the journal."""
        with self._writing, self._changed:
            if not self._is_closed:
                self._is_closed = True
                self._journal.close()
                self._changed.notify_all()

    def _fenced(self, fence: int, number: int) -> list[Line]:
        """Return the line that notes an order, none if it has come before; an older one is refused.

        An order that has nothing to change is noted too: it contradicts older ones all the same.
        """
        newest = self._journal.contents.order
        if fence < self.fence:
            raise Revoked(
                f"a coordinator with fence {self.fence} leads; the one with fence {fence} does not any more",
                fence=fence,
                leading=self.fence,
            )
        if (fence, number) < newest:
            raise Conflict(
                f"order {number} of fence {fence} comes after order {newest[1]} was taken; decide anew",
                number=number,
            )
        return [Fenced(fence, number)] if (fence, number) > newest else []

    def _put(self, item: Item) -> None:
        segment_id = item.record.segment_id
        self._items[segment_id] = item
        if item.state is not HoldState.FAILED and self._doomed.pop(segment_id, None) is None:
            self._used_bytes += item.record.size_bytes
        self._note(segment_id)

    def _note(self, segment_id: str) -> None:
        self._number += 1
        self._numbers[segment_id] = self._number
        self._numbers.move_to_end(segment_id)

    def _remove_file(self, record: Assigned) -> None:
        with suppress(OSError):  # the next start finds it, a stranger
            self.place_of(record.segment_id).unlink(missing_ok=True)


@lru_cache(maxsize=PLACES_MAX)
def _place_in(folder: Path, segment_id: str) -> Path:
    return folder / local_name(segment_id)


def _files(folder: Path) -> set[str]:
    """Return the names of the files of a folder.

    None is asked for its size or its inode: for 100,000 that would take as long as everything else that a start does,
    and a query that reads a file asks for both.
    """
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}


def status_of_own(place: Path) -> os.stat_result:
    """Return the status of the file at a place where loading puts one.

    Raises:
        OSError: There is none. A link, a pipe or a folder there is nothing that was loaded.
    """
    found = os.lstat(place)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
    return found


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from another one in its place: its inode and the time of its last change."""
    return found.st_ino, found.st_mtime_ns


def _record_of(segment: Recorded) -> Assigned:
    return Assigned(
        segment_id=segment.segment_id,
        datasource=segment.datasource,
        path=segment.path,
        size_bytes=segment.size_bytes,
        checksum=segment.checksum,
    )
