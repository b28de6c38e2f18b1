"""Requests to whoever holds the writers' lock: between processes of one user on one machine, through files.

In a folder of the temporary directory, one for each database, there is a pipe, the inbox, which only the holder of the
lock reads, and of each process a file that it maps into memory, its box, and a pipe, its bell. Who wants something done
writes it into its box and says so in the inbox; the holder does it, writes the answer into the box and rings the bell.
Nothing here is ever waited for without an end, and nothing is relied upon: a process that hears nothing does its work
by itself, as do those that do not see the same temporary directory.

A box belongs to the process that holds a lock on its file, and is removed by others when that is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import select
import struct
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from carnac.ports.temporary import require_own

FORMAT = 2
"""Processes that write requests in different forms must not meet: it is part of the folder's name."""
BOX_BYTES = 1 << 18
OPEN_BOXES_MAX = 256
"""Of other processes, kept open from one request to the next."""

_HEADER = struct.Struct("<Q")  # number of the request that waits; 0: none does
_REQUEST_AT = _HEADER.size
_ANSWER_AT = BOX_BYTES // 2
_NOTICE = struct.Struct("<8sQQ")  # whose box, number and bytes of the request
_RING = struct.Struct("<QQQQ")  # number, what, bytes and CRC-32 of the answer


class Ring(IntEnum):
    """What a bell says of a request."""

    ANSWERED = 1
    LOOK = 2
    """It waits, and the lock is free."""
    BY_YOURSELF = 3
    """It was done, and the answer is too long, or it failed: take the lock, and see."""


class Request(NamedTuple):
    """A request as the holder of the lock finds it."""

    owner: bytes
    number: int
    text: bytes


class Mailboxes:
    """One process's place in the folder. For one thread at a time.

    Args:
        database: The file that the lock is about; of a database elsewhere, a text that is no other's. The folder is
            made, for this user alone, when it is first needed.
    """

    def __init__(self, database: Path | str) -> None:
        self._database = database
        self._inbox: _Inbox | None = None
        self._own: _OwnBox | None = None
        self._others: OrderedDict[bytes, _OtherBox] = OrderedDict()
        self._number = 0
        self._has_folder = False

    def close(self) -> None:
        """Remove what is ours. Idempotent."""
        if self._own is not None:
            self._own.close()
            self._own = None
        if self._has_folder:
            self._has_folder = False
            with contextlib.suppress(OSError):  # who has the inbox open sees that it is gone
                if next(self.folder.glob("*.box"), None) is None:
                    for name in ("inbox", "lock"):
                        (self.folder / name).unlink(missing_ok=True)
                    self.folder.rmdir()
        while self._others:
            self._others.popitem()[1].close()
        self._close_inbox()

    @cached_property
    def folder(self) -> Path:
        """Where the requests to write this file, or this database, are.

        Raises:
            OSError: There is no such file.
        """
        if isinstance(self._database, str):
            name = hashlib.blake2b(self._database.encode(), digest_size=16).hexdigest()
        else:
            found = self._database.stat()
            name = f"{found.st_dev:x}-{found.st_ino:x}"
        return Path(tempfile.gettempdir()) / f"carnac-{os.geteuid()}" / f"{name}-{FORMAT}"

    def make_folder(self) -> Path:
        """Return the folder, made if it is not there.

        Raises:
            OSError: That is not possible, or others than this user could write into it.
        """
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        require_own(self.folder.parent)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._has_folder = True
        return self.folder

    # --------------------------------------------------------------------------------------- who asks

    def post(self, text: bytes) -> bool:
        """Ask for something; False if there is no way to, or the text is too long."""
        if len(text) > _ANSWER_AT - _REQUEST_AT:
            return False
        try:
            inbox, own = self._find_inbox(), self._own
            if inbox is None or own is None:
                self._settle()
                inbox, own = self._inbox, self._own
            if inbox is None or own is None:
                return False
            self._number += 1
            own.put(self._number, text)
            inbox.put(_NOTICE.pack(own.name, self._number, len(text)))
        except OSError:  # no pipes, another user's folder, a full disk or inbox
            self.withdraw()
            return False
        return True

    def wait(self, timeout_ms: int) -> tuple[Ring, bytes] | None:
        """Wait for the bell; None if it does not ring in time. An answer comes with `ANSWERED`."""
        if self._own is None:
            return None
        while (ring := self._own.hear(timeout_ms)) is not None:
            number, what, length, checksum = ring
            if number != self._number:
                continue  # of a request that was withdrawn
            answer = self._own.answer(length)
            if zlib.crc32(answer) != checksum:  # overwritten by one who answers such a request
                return Ring.BY_YOURSELF, b""
            return Ring(what), answer
        return None

    def withdraw(self) -> None:
        """Ask for nothing any more. Who has read the request already may do it all the same."""
        if self._own is not None:
            self._own.put(0, b"")

    # ------------------------------------------------------------------------------- who holds the lock

    def has_requests(self) -> bool:
        """Whether somebody asks for something, once the inbox was found by one of the other methods."""
        return self._inbox is not None and self._inbox.is_filled()

    def collect(self, limit: int) -> list[Request]:
        """Take at most so many requests out of the inbox, the oldest first; for the holder of the lock only."""
        inbox = self._find_inbox() if limit > 0 else None
        if inbox is None or not inbox.is_filled():
            return []
        try:
            notices = inbox.take(_NOTICE.size * limit)
        except OSError:
            return []
        found = (self._read(*notice) for notice in _NOTICE.iter_unpack(notices))
        return [request for request in found if request is not None]

    def ring(self, request: Request, what: Ring, answer: bytes = b"") -> None:
        """Tell who asked; nothing happens if that is gone."""
        box = self._box(request.owner)
        if box is None:
            return
        try:
            if len(answer) > BOX_BYTES - _ANSWER_AT:
                what, answer = Ring.BY_YOURSELF, b""
            box.answer(request.number, what, answer)
        except OSError:
            self._others.pop(request.owner).close()

    def wake_one(self) -> None:
        """Tell one of those who ask that the lock is free; its request waits on, behind the others."""
        for request in self.collect(1):
            if self._inbox is not None:
                with contextlib.suppress(OSError):
                    self._inbox.put(_NOTICE.pack(request.owner, request.number, len(request.text)))
            self.ring(request, Ring.LOOK)

    def _read(self, owner: bytes, number: int, length: int) -> Request | None:
        box = self._box(owner)
        text = None if box is None else box.request(number, length)
        return None if text is None else Request(owner, number, text)

    def _box(self, owner: bytes) -> _OtherBox | None:
        box = self._others.get(owner)
        if box is None:
            try:
                box = _OtherBox(self.folder, owner)
            except OSError:  # its process is gone
                return None
            self._others[owner] = box
            if len(self._others) > OPEN_BOXES_MAX:
                self._others.popitem(last=False)[1].close()
        return box

    # ------------------------------------------------------------------------------------------ the folder

    def _settle(self) -> None:
        """Make what is missing of folder, inbox and our box, and remove the boxes of those who are gone."""
        self.make_folder()
        if self._find_inbox() is None:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self.folder / "inbox", 0o600)
            if self._find_inbox() is None:
                return
        if self._own is None:
            self._own = _OwnBox(self.folder)
        for path in self.folder.glob("*.box"):
            _remove_if_left(path)

    def _find_inbox(self) -> _Inbox | None:
        """Return the inbox if it is there, the same that others find: they may have removed it and made another."""
        if self._inbox is None or self._inbox.is_removed():
            self._close_inbox()
            with contextlib.suppress(OSError):
                self._inbox = _Inbox(self.folder)
        return self._inbox

    def _close_inbox(self) -> None:
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None


class _Inbox:
    """The inbox, opened.

    Raises:
        OSError: There is none, or others than this user can write into its folder: whatever is asked there is done.
    """

    def __init__(self, folder: Path) -> None:
        require_own(folder.parent)
        self._pipe = os.open(folder / "inbox", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)

    def is_removed(self) -> bool:
        return os.fstat(self._pipe).st_nlink == 0

    def is_filled(self) -> bool:
        return bool(self._poll.poll(0))

    def put(self, notice: bytes) -> None:
        os.write(self._pipe, notice)

    def take(self, size: int) -> bytes:
        return os.read(self._pipe, size)

    def close(self) -> None:
        os.close(self._pipe)


class _OwnBox:
    """Our box and our bell."""

    def __init__(self, folder: Path) -> None:
        self._file, made = tempfile.mkstemp(dir=folder, prefix="", suffix=".new")
        name = Path(made).stem
        self.name = name.encode()
        self._path, self._bell_path = folder / f"{name}.box", folder / f"{name}.bell"
        os.mkfifo(self._bell_path, 0o600)
        self._bell = os.open(self._bell_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(self._file, fcntl.LOCK_EX)  # before others see it under its name
        os.pwrite(self._file, bytes(BOX_BYTES), 0)  # a full disk is noticed here, not by SIGBUS
        Path(made).rename(self._path)
        self._memory = mmap.mmap(self._file, BOX_BYTES)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def put(self, number: int, text: bytes) -> None:
        _HEADER.pack_into(self._memory, 0, 0)
        self._memory[_REQUEST_AT : _REQUEST_AT + len(text)] = text
        _HEADER.pack_into(self._memory, 0, number)

    def hear(self, timeout_ms: int) -> tuple[int, int, int, int] | None:
        if not self._poll.poll(timeout_ms):
            return None
        number, what, length, checksum = _RING.unpack(os.read(self._bell, _RING.size))
        return number, what, length, checksum

    def answer(self, length: int) -> bytes:
        return self._memory[_ANSWER_AT : _ANSWER_AT + length]

    def close(self) -> None:
        for path in (self._path, self._bell_path):
            path.unlink(missing_ok=True)
        self._memory.close()
        os.close(self._bell)
        os.close(self._file)


class _OtherBox:
    """The box and the bell of another process.

    Raises:
        OSError: It is gone.
    """

    def __init__(self, folder: Path, owner: bytes) -> None:
        name = owner.decode()
        self._bell = os.open(folder / f"{name}.bell", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with _opened(folder / f"{name}.box") as file:
                self._memory = mmap.mmap(file, BOX_BYTES)
        except (OSError, ValueError) as error:
            os.close(self._bell)
            raise OSError(f"box {name} is gone") from error

    def request(self, number: int, length: int) -> bytes | None:
        """Return the text of a request; None if it was withdrawn."""
        text = self._memory[_REQUEST_AT : _REQUEST_AT + length]
        return text if _HEADER.unpack_from(self._memory)[0] == number else None

    def answer(self, number: int, what: Ring, text: bytes) -> None:
        if _HEADER.unpack_from(self._memory)[0] != number:
            return  # it was withdrawn; the place may be another request's by now
        self._memory[_ANSWER_AT : _ANSWER_AT + len(text)] = text
        os.write(self._bell, _RING.pack(number, what, len(text), zlib.crc32(text)))

    def close(self) -> None:
        self._memory.close()
        os.close(self._bell)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _remove_if_left(path: Path) -> None:
    """Remove a box whose process is gone."""
    with contextlib.suppress(OSError), _opened(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        path.with_suffix(".bell").unlink(missing_ok=True)
