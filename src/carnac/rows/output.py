"""Where segment files go: a file appears under its name wholly or not at all, and is hashed while it is written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from carnac.core.segments.blocks import UnitSums
from carnac.durable import make_folders, sync
from carnac.errors import CarnacError, DiskFull, Unavailable
from carnac.ports.far_files import client_errors, reason_of

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for "no room": on the disk, in a quota, in the largest file allowed."""
MAKE_ROOM = "make room and run the job again"
NO_TEMPORARY_ROOM = (
    f"the disk of the temporary folder {{}} is full; name another one (TMPDIR), or {MAKE_ROOM}"
)
WASTE = "bytes_wasted"
BUFFER_BYTES = 1 << 20
"""Written at once; each of the small pieces that Arrow hands over costs about 10 µs, and a small file has dozens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file that is in its place, durably.

    Attributes:
        checksum: `sha256:<hex>` over its bytes.
        blocks: See `core.segments.blocks`.
    """

    size_bytes: int
    checksum: str
    blocks: str


@lru_cache
def local_root(url: str) -> Path | None:
    """Return the folder that a URL (or a plain path) means on this machine; None if it is elsewhere."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in url else Path(url)


@lru_cache
def _folder_of(root_url: str, below: str) -> Path | None:
    """Return a folder below the root, if it is on this machine; appends ask for one again and again."""
    root = local_root(root_url)
    return None if root is None else root / below


class HashingFile(io.RawIOBase):
    """A file to write from start to end, that hashes and counts its bytes. Not buffered: write large pieces."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("wb", buffering=0)
        self._hash = hashlib.sha256()
        self._units = UnitSums()
        self.size_bytes = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self._units.add(view)
        at = 0
        while at < view.nbytes:
            at += self._file.write(view[at:])
        self.size_bytes += at
        return at

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self.size_bytes

    def sync(self) -> None:
        """Make what was written durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. Idempotent."""
        if not self.closed:
            self._file.close()
        super().close()

    def checksum(self) -> str:
        """Return `sha256:<hex>` of what was written so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def blocks(self) -> str:
        """Return the checksums of the blocks of what was written so far."""
        return self._units.text()


class OutputFile:
    """One file on its way into deep storage.

    It is written beside its place (or, if that is not on this machine, in `temp_dir` and then sent in one upload).

    Attributes:
        stream: Stream to write to.

    Args:
        root_url: Root of deep storage, an fsspec URL.
        path: Below that root, `/`-separated. No other file ever has it.
    """

    def __init__(self, root_url: str, path: str, *, temp_dir: str) -> None:
        import pyarrow as pa

        self._url, self._path = root_url, path
        below, _, name = path.rpartition("/")
        place = _folder_of(root_url, below)
        self._folder = Path(temp_dir) if place is None else place
        self._final = None if place is None else place / name
        self._written = self._folder / f".{name}.part"
        self._is_placed = False
        try:
            make_folders(self._folder)  # durably: a synced file is lost with the name of its folder
            self._file = HashingFile(self._written)
        except OSError as error:
            raise self.failure(error) from error
        raw = pa.PythonFile(self._file, mode="w")
        self.stream = pa.BufferedOutputStream(raw, BUFFER_BYTES)

    def place(self) -> PlacedFile:
        """Make the file durable and put it in its place.

        It gets its name before it is synced: journalling file systems then write its bytes, its size and its name in
        one go, and the sync of the folder finds that done. A power cut in between may leave a torn file under the
        name. Nobody has heard of that name yet, as a path is used once and published after this; so it is an orphan.

        Raises:
            Unavailable: Deep storage is full or does not answer.
        """
        try:
            self.stream.flush()
            if self._final is None:
                self._file.close()
                self._upload()
            else:
                self._written.replace(self._final)
                self._written = self._final
                self._file.sync()
                self._file.close()
                sync(self._folder)
        except OSError as error:
            raise self.failure(error) from error
        self._is_placed = True
        return PlacedFile(
            size_bytes=self._file.size_bytes,
            checksum=self._file.checksum(),
            blocks=self._file.blocks(),
        )

    def failure(self, error: OSError) -> CarnacError:
        """Return the error for the caller when this file cannot be written.

        Where there is no room, the words are the same for every file, because many files fail for that at once.
        """
        if error.errno in NO_SPACE:
            if self._final is None:
                return Unavailable(NO_TEMPORARY_ROOM.format(tempfile.gettempdir()), path=self._path)
            return no_room(f"deep storage {local_root(self._url)}", path=self._path)
        return Unavailable(
            f"segment file {self._path} cannot be written: {reason_of(error)}; run the job again once it can",
            path=self._path,
        )

    def discard(self) -> int:
        """Remove what was written, unless it was placed; return its bytes. Idempotent."""
        with contextlib.suppress(OSError, ValueError):
            self.stream.close()
        with contextlib.suppress(OSError):
            self._file.close()
        if self._is_placed:
            return 0
        size_bytes = size_of(self._written)
        with contextlib.suppress(OSError):
            self._written.unlink(missing_ok=True)
        return size_bytes

    def _upload(self) -> None:
        import fsspec

        with client_errors():
            filesystem, root = fsspec.core.url_to_fs(self._url)
            filesystem.put_file(str(self._written), f"{root.rstrip('/')}/{self._path}")
        self._written.unlink()


def remove_file(root_url: str, path: str) -> None:
    """Remove a placed file. Idempotent."""
    root = local_root(root_url)
    if root is not None:
        (root / path).unlink(missing_ok=True)
        return
    import fsspec

    with contextlib.suppress(FileNotFoundError), client_errors():
        filesystem, base = fsspec.core.url_to_fs(root_url)
        filesystem.rm_file(f"{base.rstrip('/')}/{path}")


def no_room(where: str, **ids: object) -> DiskFull:
    """Return what to raise where the disk of deep storage, or of a folder in it, is full."""
    return DiskFull(
        f"the disk of {where} is full; {MAKE_ROOM} (carnac gc deletes what is garbage)", **ids
    )


@contextlib.contextmanager
def room_in(folder_url: str) -> Iterator[None]:
    """Say of a full disk which one it is, while files of a job's folder are written: Arrow does not.

    Raises:
        DiskFull: In place of its `OSError`.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise no_room(str((local_root(folder_url) or Path(folder_url)).parent)) from error


def note_waste(size_bytes: int) -> None:
    """Add bytes that are removed while an error of ours is handled to what it says of itself: its job reports them."""
    error = sys.exception()
    if isinstance(error, CarnacError) and size_bytes:
        error.ids[WASTE] = int(str(error.ids.get(WASTE, 0))) + size_bytes


def take_waste(error: CarnacError) -> int:
    """Return the bytes that an error says were written for nothing, each once."""
    return int(str(error.ids.pop(WASTE, 0)))


def size_of(path: Path) -> int:
    """Return the bytes of a file; 0 of a folder, or if it is gone."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
