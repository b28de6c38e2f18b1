"""A file system that forgets: the operations of a process on a folder, and the folders that a power cut may leave.

Promised is what POSIX promises: the bytes of a file that was synced, and the names in a folder that was. Of everything
else any part may be there: of names the first so many operations on their folder, of bytes any of those written since
the last sync, in any order and torn at sectors.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from carnac.metadata.backends import sqlite_driver

SECTOR = 512
RECORDER = "recorder"


@dataclass(frozen=True)
class Named:
    """A name appeared (`file` is its number; None: a folder) or, with `is_gone`, went away."""

    path: str
    file: int | None = None
    is_gone: bool = False


@dataclass(frozen=True)
class Renamed:
    """A file got another name in its folder."""

    old: str
    path: str
    file: int


@dataclass(frozen=True)
class Wrote:
    """Bytes of a file; None: the file has `offset` bytes from now on."""

    file: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class Synced:
    """A file's bytes; `content` is all of them, where its writes were not seen."""

    file: int
    content: bytes | None = None


@dataclass(frozen=True)
class FolderSynced:
    """A folder's names."""

    path: str


Event = Named | Renamed | Wrote | Synced | FolderSynced


class Recording:
    """A record of all operations below a folder, in order; for one process."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.layer = sqlite_driver.CHECKED
        self.events: list[Event] = []
        self._files: dict[str, int] = {}
        self._count = 0
        self._unsynced_names: set[str] = set()

    def has(self, path: object) -> str | None:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        inside = isinstance(text, str) and (text == self.root or text.startswith(self.root + "/"))
        return text if inside else None

    def created(self, path: str) -> None:
        if not os.path.exists(path):  # noqa: PTH110 - inside an audit hook
            self._count += 1
            self._files[path] = self._count
            self.events.append(Named(path, self._count))

    def renamed(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)
        self.events.append(Renamed(old, new, self._files[new]))

    def removed(self, path: str) -> None:
        if os.path.lexists(path):
            self._files.pop(path, None)
            self.events.append(Named(path, is_gone=True))

    def made_folder(self, path: str) -> None:
        if not os.path.exists(path):  # noqa: PTH110
            self.events.append(Named(path))

    def synced(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115
        if os.path.isdir(path):  # noqa: PTH112
            self.events.append(FolderSynced(path))
        elif path in self._files:
            self.events.append(Synced(self._files[path], Path(path).read_bytes()))

    # ------------------------------------------------------------------------------------------- SQLite's files

    def opened(self, path: str) -> None:
        if not os.path.exists(path):  # noqa: PTH110
            self._unsynced_names.add(path)
            self.created(path)

    def wrote(self, path: str, offset: int, data: bytes) -> None:
        self.events.append(Wrote(self._files[path], offset, data))

    def truncated(self, path: str, size: int) -> None:
        self.events.append(Wrote(self._files[path], size, None))

    def synced_database(self, path: str) -> None:
        """SQLite syncs the folder of a log that it has made, too, when it first syncs the log."""
        self.events.append(Synced(self._files[path]))
        if path in self._unsynced_names and not path.endswith(".db"):
            self.events.append(FolderSynced(os.path.dirname(path)))  # noqa: PTH120
        self._unsynced_names.discard(path)


_current: list[Recording] = []


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if not _current or event not in {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}:
        return
    one = _current[0]
    path = one.has(args[0])
    if path is None:
        return
    if event == "open":
        if args[2] & os.O_CREAT:
            one.created(path)
    elif event == "os.rename":
        one.renamed(path, os.fspath(args[1]))
    elif event == "os.mkdir":
        one.made_folder(path)
    else:
        one.removed(path)


class _RecordingVFS(apsw.VFS):
    """SQLite's files as they are, with the layer of checksums below."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        super().__init__(RECORDER, base=recording.layer)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's names
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is not None:
            self.recording.opened(path)
        return _RecordingFile(self.recording, path, name, flags)

    def xDelete(self, path: str, syncdir: bool) -> None:  # noqa: N802
        self.recording.removed(path)
        super().xDelete(path, syncdir)
        if syncdir:
            self.recording.events.append(FolderSynced(os.path.dirname(path)))  # noqa: PTH120


class _RecordingFile(apsw.VFSFile):
    def __init__(self, recording: Recording, path: str | None, name: Any, flags: list[int]) -> None:
        super().__init__(recording.layer, name, flags)
        self._recording, self._path = recording, path
        self._handle = -1  # stays open: to close it would end SQLite's locks

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        if self._path is None:
            return
        if self._handle < 0:  # the layer below adds the checksum: read the bytes of the file
            self._handle = os.open(self._path, os.O_RDONLY)
        self._recording.wrote(self._path, offset, os.pread(self._handle, len(data), offset))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        if self._path is not None:
            self._recording.truncated(self._path, size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if self._path is not None:
            self._recording.synced_database(self._path)


@contextmanager
def recorded(root: Path) -> Iterator[Recording]:
    """Record what this process does below a folder that is not there yet, by Python and by SQLite."""
    if not _hooked:
        sys.addaudithook(_listen)
        _hooked.append(True)
    recording = Recording(root)
    sqlite_driver.register()
    vfs = _RecordingVFS(recording)
    with pytest.MonkeyPatch.context() as patch:
        real = os.fsync

        def fsync(handle: int) -> None:
            real(handle)
            recording.synced(handle)

        patch.setattr(os, "fsync", fsync)
        patch.setattr(sqlite_driver, "CHECKED", RECORDER)
        _current.append(recording)
        try:
            yield recording
        finally:
            _current.clear()
            vfs.unregister()


_hooked: list[bool] = []


@dataclass
class Disk:
    """The names and bytes that are surely there after the events so far, and those that may be."""

    root: str
    contents: dict[int, bytes]
    names: dict[str, int | None] = field(default_factory=dict)
    waiting: dict[str, list[Named | Renamed]] = field(default_factory=dict)
    bytes_of: dict[int, bytes] = field(default_factory=dict)
    unsynced: dict[int, list[Wrote]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Let an event happen."""
        match event:
            case Named() | Renamed():
                self.waiting.setdefault(os.path.dirname(event.path), []).append(event)  # noqa: PTH120
            case FolderSynced(path):
                for one in self.waiting.pop(path, []):
                    _rename(self.names, one)
            case Wrote():
                self.unsynced.setdefault(event.file, []).append(event)
            case Synced(file, content):
                after = _written(self.bytes_of.get(file, b""), self.unsynced.pop(file, []))
                self.bytes_of[file] = after if content is None else content

    def crash(self, rng: random.Random, into: Path) -> None:
        """Put what a power cut might leave now into a folder, in place of the recorded one."""
        names = dict(self.names)
        for waiting in self.waiting.values():
            for one in waiting[: rng.randint(0, len(waiting))]:
                _rename(names, one)
        if self.root not in names:
            return
        into.mkdir()
        for path, file in sorted(names.items()):  # folders before what is in them
            place = into / os.path.relpath(path, self.root)
            if path == self.root or not place.parent.is_dir():
                continue
            if file is None:
                place.mkdir(exist_ok=True)
            else:
                place.write_bytes(self._bytes(file, rng))

    def _bytes(self, file: int, rng: random.Random) -> bytes:
        if file in self.contents and file not in self.bytes_of:  # written by Python, not synced yet
            whole = self.contents[file]
            part = whole[: rng.randint(0, len(whole))]
            return rng.choice([b"", part, part.ljust(len(whole), b"\0"), whole])
        before, waiting = self.bytes_of.get(file, b""), self.unsynced.get(file, [])
        kept = waiting[: rng.randint(0, len(waiting))]
        if rng.random() < 0.5:  # in any order, and torn
            kept = [_torn(one, rng) for one in waiting if rng.random() < 0.7]
        return _written(before, kept)


def disk_of(recording: Recording) -> Disk:
    """Return the disk before the first event."""
    contents = {
        one.file: one.content
        for one in recording.events
        if isinstance(one, Synced) and one.content is not None
    }
    return Disk(recording.root, contents)


def _rename(names: dict[str, int | None], one: Named | Renamed) -> None:
    if isinstance(one, Renamed):
        names.pop(one.old, None)
        names[one.path] = one.file
    elif one.is_gone:
        names.pop(one.path, None)
    else:
        names[one.path] = one.file


def _written(before: bytes, writes: list[Wrote]) -> bytes:
    after = bytearray(before)
    for one in writes:
        if one.data is None:
            after = after[: one.offset].ljust(one.offset, b"\0")
            continue
        after = after.ljust(one.offset, b"\0")
        after[one.offset : one.offset + len(one.data)] = one.data
    return bytes(after)


def _torn(one: Wrote, rng: random.Random) -> Wrote:
    if one.data is None or len(one.data) <= SECTOR or rng.random() < 0.5:
        return one
    first = -one.offset % SECTOR + SECTOR * rng.randint(0, len(one.data) // SECTOR - 1)
    if rng.random() < 0.5:
        return Wrote(one.file, one.offset, one.data[:first])
    return Wrote(one.file, one.offset + first, one.data[first:])
