"""Where segment files go: a file appears under its name wholly or not at all, and is hashed while it is written."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from carnac.errors import CarnacError, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file that is in its place, durably.

    Attributes:
        checksum: `sha256:<hex>` over its bytes.
    """

    size_bytes: int
    checksum: str


def local_root(url: str) -> Path | None:
    """Return the folder that a URL (or a plain path) means on this machine; None if it is elsewhere."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in url else Path(url)


class HashingFile(io.RawIOBase):
    """A file to write from start to end, that hashes and counts its bytes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("wb")
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        view = memoryview(data)
        self._hash.update(view)
        self._file.write(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self.size_bytes

    def sync(self) -> None:
        """Make what was written durable."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. Idempotent."""
        if not self.closed:
            self._file.close()
        super().close()

    def checksum(self) -> str:
        """Return `sha256:<hex>` of what was written so far."""
        return f"sha256:{self._hash.hexdigest()}"


class OutputFile:
    """One file on its way into deep storage.

    It is written beside its place (or, if that is not on this machine, in `temp_dir` and then sent in one upload).

    Args:
        root_url: Root of deep storage, an fsspec URL.
        path: Below that root, `/`-separated.
    """

    def __init__(self, root_url: str, path: str, *, temp_dir: str) -> None:
        self._url, self._path = root_url, path
        root = local_root(root_url)
        name = path.rsplit("/", 1)[-1]
        self._final = None if root is None else root / path
        folder = Path(temp_dir) if self._final is None else self._final.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._temporary = folder / f".{name}.part"
            self.file = HashingFile(self._temporary)
        except OSError as error:
            raise unavailable(error, path) from error

    def place(self) -> PlacedFile:
        """Make the file durable and put it in its place.

        Raises:
            Unavailable: Deep storage is full or does not answer.
        """
        try:
            if self._final is None:
                self.file.close()
                self._upload()
            else:
                self.file.sync()
                self.file.close()
                self._temporary.replace(self._final)
                _sync_folder(self._final.parent)
        except OSError as error:
            raise unavailable(error, self._path) from error
        return PlacedFile(size_bytes=self.file.size_bytes, checksum=self.file.checksum())

    def discard(self) -> None:
        """Remove what was written, before it was placed. Idempotent."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def _upload(self) -> None:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(self._url)
        filesystem.put_file(str(self._temporary), f"{root.rstrip('/')}/{self._path}")
        self._temporary.unlink()


def remove_file(root_url: str, path: str) -> None:
    """Remove a placed file. Idempotent."""
    root = local_root(root_url)
    if root is not None:
        (root / path).unlink(missing_ok=True)
        return
    import fsspec

    filesystem, base = fsspec.core.url_to_fs(root_url)
    with contextlib.suppress(FileNotFoundError):
        filesystem.rm_file(f"{base.rstrip('/')}/{path}")


def unavailable(error: OSError, path: str) -> CarnacError:
    """Return what a failure to write `path` means to the caller."""
    reason = error.strerror or str(error) or type(error).__name__
    return Unavailable(f"segment file {path} cannot be written: {reason}", path=path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(path: Path) -> int:
    """Return the bytes of a file; 0 of a folder, or if it is gone."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
