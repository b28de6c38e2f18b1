"""The journal of a historical's folder: which segments are assigned to it, and whose files were checked.

One file, which a start reads at once, has a line for each event, with a checksum before it. A line counts from when it
is on the disk. A line that a power cut has torn, or that has rotted, is passed over. The coordinator orders its content
again, since it compares the segments that are held with those that are wanted.
"""

from __future__ import annotations

import errno
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from carnac.durable import sync
from carnac.errors import Corrupt, DiskFull, Invalid, Unavailable

FORMAT: Final = 1
"""Raised when a line changes so that an older reader would misread it."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Numbers of errors that say that there is no room."""
SLACK_LINES = 1_000
"""The journal is written anew when it has as many lines more than twice those that are needed."""

_log = logging.getLogger(__name__)


class Format(Struct, array_like=True, tag="format", gc=False):
    """The first line: how the others are written."""

    number: int


class Store(Struct, array_like=True, tag="store", gc=False):
    """The folder has segments of this store, and of no other."""

    store_id: str


class Assigned(Struct, array_like=True, tag="assigned", frozen=True, gc=False):
    """A segment is to be held; the fields of its record name its file and the content of that."""

    segment_id: str
    datasource: str
    path: str
    size_bytes: int
    checksum: str


class Loaded(Struct, array_like=True, tag="loaded", gc=False):
    """The file of a segment is in the folder, and its bytes were checked.

    Inode and time of its last change (nanoseconds) are those that it had then: as long as they are the same, nobody has
    written to it.
    """

    segment_id: str
    inode: int = 0
    changed_ns: int = 0


class Unassigned(Struct, array_like=True, tag="unassigned", gc=False):
    """A segment is not to be held any more."""

    segment_id: str


class Fenced(Struct, array_like=True, tag="fenced", gc=False):
    """A coordinator has given an order: its fence, and its number within that."""

    fence: int
    number: int = 0


Line = Format | Store | Assigned | Loaded | Unassigned | Fenced

_ENCODER = Encoder()
_DECODER: Decoder[Line] = Decoder(Line)


@dataclass(slots=True)
class Contents:
    """The state that the lines of a journal add up to.

    Attributes:
        assigned: Assigned segments by id, in the order in which they were assigned.
        loaded: Loaded segments by id.
        store_id: Store of the segments; empty: no line says.
        order: Fence and number of the newest order that was taken.
        format: Format of the lines.
        lines: Number of lines in the journal.
        is_damaged: Some lines are torn or have rotted, and were passed over.
    """

    assigned: dict[str, Assigned] = field(default_factory=dict)
    loaded: dict[str, Loaded] = field(default_factory=dict)
    store_id: str = ""
    order: tuple[int, int] = (0, 0)
    format: int = FORMAT
    lines: int = 0
    is_damaged: bool = False

    def lines_needed(self) -> Iterator[Line]:
        """Yield the lines that say all of it."""
        yield Format(FORMAT)
        yield Store(self.store_id)
        yield Fenced(*self.order)
        yield from self.assigned.values()
        yield from self.loaded.values()

    def add(self, line: Line) -> None:
        """Take in one more line.

        By exact types: to ask a class of msgspec for its instances costs more than to read the line.
        """
        if type(line) is Assigned:
            self.assigned[line.segment_id] = line
            self.loaded.pop(line.segment_id, None)
        elif type(line) is Loaded:
            if line.segment_id in self.assigned:
                self.loaded[line.segment_id] = line
        elif type(line) is Unassigned:
            self.assigned.pop(line.segment_id, None)
            self.loaded.pop(line.segment_id, None)
        elif type(line) is Fenced:
            self.order = max(self.order, (line.fence, line.number))
        elif type(line) is Store:
            self.store_id = line.store_id
        elif type(line) is Format:
            self.format = line.number


class Journal:
    """The journal at a path. Its callers make sure that one at a time writes.

    Args:
        store_id: Store of the segments in the folder; a new folder belongs to this store from now on.

    Raises:
        Invalid: The folder has segments of another store.
        Corrupt: A newer Carnac has written it.
        Unavailable: The disk does not do its part.
    """

    def __init__(self, path: Path, store_id: str) -> None:
        self._path = path
        self._is_torn = False
        try:
            self.contents = _read(path)
            is_new = self._take(store_id)
            if is_new or self.contents.is_damaged or _has_slack(self.contents):
                self._write_anew()
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise cannot("read", path, error) from error

    def _take(self, store_id: str) -> bool:
        """Note whose segments the folder has; return whether it was nobody's."""
        known = self.contents.store_id
        if known and known != store_id:
            raise Invalid(
                f"{self._path.parent} has segments of store {known}, and this historical serves store {store_id}; "
                "give it a folder of its own (--folder)",
                store_id=known,
            )
        self.contents.store_id = store_id
        return not known

    def append(self, lines: Sequence[Line]) -> None:
        """Write lines, all on the disk when it returns.

        Raises:
            Unavailable: The disk does not take them; they do not count.
        """
        text = b"".join(map(_line, lines))
        try:
            _write_all(self._file, b"\n" + text if self._is_torn else text)
            self._is_torn = False
            os.fdatasync(self._file)
        except OSError as error:
            self._is_torn = True  # the next write begins a line of its own
            raise cannot("write", self._path, error) from error
        self.contents.lines += len(lines)
        for line in lines:
            self.contents.add(line)
        if _has_slack(self.contents):
            with suppress(OSError):  # it is as good as before, and longer
                self._replace()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _replace(self) -> None:
        self._write_anew()
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._file, before = file, self._file
        os.close(before)

    def _write_anew(self) -> None:
        fresh = self._path.with_suffix(".new")
        lines = list(map(_line, self.contents.lines_needed()))
        with fresh.open("wb") as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync(self._path.parent)
        self._is_torn = False
        self.contents.lines = len(lines)


def cannot(action: str, path: Path, error: OSError) -> Unavailable:
    """Return what to raise where a historical's folder does not do its part: DiskFull if it has no room."""
    reason = (error.strerror or str(error)).lower()
    kind = DiskFull if error.errno in FULL else Unavailable
    return kind(f"cannot {action} {path} of this historical: {reason}")


def _has_slack(contents: Contents) -> bool:
    needed = 3 + len(contents.assigned) + len(contents.loaded)
    return contents.lines > 2 * needed + SLACK_LINES


def _line(line: Line) -> bytes:
    text = _ENCODER.encode(line)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(path: Path) -> Contents:
    contents, passed_over = Contents(), 0
    try:
        texts = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return contents
    contents.is_damaged = texts[-1] != b""
    contents.lines = len(texts) - texts.count(b"")
    for line in _decoded(texts):
        if line is None:
            passed_over += 1
        else:
            contents.add(line)
    if contents.format > FORMAT:
        raise Corrupt(
            f"{path} has format {contents.format}, newer than {FORMAT} which this Carnac reads; "
            "use the version that wrote it, or give this historical an empty folder"
        )
    if passed_over:
        contents.is_damaged = True
        _log.warning("%s: %d damaged lines are passed over", path, passed_over)
    return contents


def _decoded(texts: Iterable[bytes]) -> Iterator[Line | None]:
    """Yield what each line says; None of one that is damaged."""
    decode, crc32 = _DECODER.decode, zlib.crc32
    for text in texts:
        if not text:
            continue
        body = text[9:]
        if text[:9] != b"%08x " % crc32(body):
            yield None
            continue
        try:
            yield decode(body)
        except MsgspecError:
            yield None


def _write_all(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]
