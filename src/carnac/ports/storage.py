"""Deep storage: where segment files live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

METADATA_FILE = "metadata.db"
"""Name of the file in the folder of a store whose metadata is in SQLite."""


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
