"""Deep storage: where segment files live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from carnac.core.redaction import show_url
from carnac.errors import Unavailable

METADATA_FILE = "metadata.db"
"""Name of the file in the folder of a store whose metadata is in SQLite."""
OWNER_FILE = "carnac-store"
"""Name of the file in the root of deep storage that holds the id of the store whose files lie there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in deep storage."""

    path: str
    size_bytes: int
    modified_at_ms: int


class DeepStorage(Protocol):
    """Where segment files live. Paths are relative to the root and `/`-separated."""

    @property
    def url(self) -> str:
        """The root as a URL that executors can open with fsspec (`file:///…`, `s3://…`)."""
        ...

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        """Yield the files below the folder `prefix`, in order of path."""
        ...

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        ...

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading.

        Raises:
            NotFound: There is no such file.
        """
        ...

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file, fewer if it ends before. Safe for threads.

        Raises:
            NotFound: There is no such file.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, durably: it is there wholly or not at all."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file. Idempotent."""
        ...

    def local_path(self, path: str) -> Path | None:
        """Return where the file is on this machine; None if it is not on it."""
        ...

    def free_bytes(self) -> int | None:
        """Return the free space; None if there is no such limit."""
        ...


def require_there(storage: DeepStorage) -> None:
    """Tell deep storage that is away from one whose files are gone: each has its owner's file from the beginning.

    Raises:
        Unavailable: It is away, or does not answer.
    """
    if storage.find_file(OWNER_FILE) is None:
        raise away(storage.url)


def away(url: str) -> Unavailable:
    """Return the error where deep storage has not even its owner's file."""
    return Unavailable(
        f"deep storage {show_url(url)} has no file '{OWNER_FILE}', as if it were not mounted, or emptied: mount it, or "
        "put its files back, and try again"
    )


def require_mounted(storage: DeepStorage) -> None:
    """Refuse to write where a folder is not mounted: files would go below it, and out of sight when it is.

    An object store is not asked: it says so of each file.

    Raises:
        Unavailable: As `require_there`.
    """
    if storage.local_path(OWNER_FILE) is not None:
        require_there(storage)
