"""Deep storage in a local directory (or a mounted one that all machines share)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from carnac.durable import make_folders, sync
from carnac.errors import Invalid
from carnac.ports import StoredFile
from carnac.ports.far_files import clear_errors
from carnac.ports.segment_files import require_file

PLACES_KEPT = 16_384
"""Paths whose places are remembered: a statement asks for those of all its segments each time."""


class LocalDeepStorage:
    """Files below a directory (port `DeepStorage`).

    A write goes to a hidden file beside its place (`.<name>.<random>.tmp`), is flushed to the disk, renamed, and the
    folder flushed: after a crash the file is there wholly or not at all. A file that a crash leaves half-written is
    listed under its hidden name, so that garbage collection finds and removes it.
    """

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100 - absolute, without following links

    @property
    def url(self) -> str:
        """The directory as `file:///…`."""
        return self._root.as_uri()

    def list_files(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files below a folder, in order of path."""
        folder = checked_prefix(prefix)
        found: list[StoredFile] = []
        with clear_errors(f"list folder '{folder or '.'}'", str(self._root)):
            for directory, _, names in os.walk(self._root / folder, onerror=_refuse):
                for name in names:
                    path = Path(directory, name)
                    with suppress(FileNotFoundError):  # deleted or renamed since it was listed
                        found.append(
                            self._stored(path.relative_to(self._root).as_posix(), path.stat())
                        )
        yield from sorted(found, key=lambda file: file.path)

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        place = self._place(path)
        with clear_errors(f"look up '{path}'", str(self._root)):
            try:
                status = place.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return self._stored(path, status) if place.is_file() else None

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading."""
        with clear_errors(f"read '{path}'", str(self._root)):
            return require_file(self._place(path)).open("rb")

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file."""
        with (
            clear_errors(f"read '{path}'", str(self._root)),
            require_file(self._place(path)).open("rb", buffering=0) as file,
        ):
            return os.pread(file.fileno(), end - start, start)

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, durably."""
        place = self._place(path)
        with clear_errors(f"write '{path}' ({len(data):,} bytes)", str(self._root)):
            try:
                make_folders(place.parent)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise Invalid(
                    f"folder {place.parent} of deep storage cannot be made ({str(error.strerror).lower()}); name "
                    "another place"
                ) from error
            handle, temporary = tempfile.mkstemp(
                prefix=f".{place.name[:100]}.", suffix=".tmp", dir=place.parent
            )
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(file.fileno(), 0o644)
                    os.fsync(file.fileno())
                Path(temporary).replace(place)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            sync(place.parent)

    def delete(self, path: str) -> None:
        """Delete a file. Idempotent."""
        with clear_errors(f"delete '{path}'", str(self._root)), suppress(NotADirectoryError):
            self._place(path).unlink(missing_ok=True)

    def local_path(self, path: str) -> Path | None:
        """Return where the file is, whether or not it exists."""
        return self._place(path)

    def free_bytes(self) -> int | None:
        """Return the free space of the disk that holds the directory."""
        place = self._root
        while not place.exists() and place != place.parent:
            place = place.parent
        with clear_errors("measure the free space", str(self._root)):
            return shutil.disk_usage(place).free

    def _place(self, path: str) -> Path:
        return _place_in(self._root, path)

    @staticmethod
    def _stored(path: str, status: os.stat_result) -> StoredFile:
        return StoredFile(
            path=path, size_bytes=status.st_size, modified_at_ms=status.st_mtime_ns // 1_000_000
        )


def _refuse(error: OSError) -> None:
    """Raise what is wrong with a folder, unless it is not there: what cannot be listed is not empty."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@lru_cache(PLACES_KEPT)
def _place_in(root: Path, path: str) -> Path:
    return root / checked_path(path)


def checked_path(path: str) -> str:
    """Return the path of a file as it is.

    Raises:
        Invalid: It is absolute, empty, or could leave the root.
    """
    parts = path.split("/")
    if "\\" in path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise Invalid(
            f"'{path}' is not a path inside deep storage; write it like folder/file.parquet",
            path=path,
        )
    return path


def checked_prefix(prefix: str) -> str:
    """Return the path of a folder without its trailing slash; empty means the root.

    Raises:
        Invalid: It is absolute or could leave the root.
    """
    trimmed = prefix.removesuffix("/")
    return checked_path(trimmed) if trimmed else ""
