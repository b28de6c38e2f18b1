"""Deep storage in memory: stands for an object store, of which nothing is on a disk here."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from carnac.deep_storage.local import checked_path, checked_prefix
from carnac.errors import NotFound, Unavailable
from carnac.ports import StoredFile


class MemoryDeepStorage:
    """Files in a dictionary (port `DeepStorage`). Safe for threads; other processes do not see them.

    Args:
        url: Value of the property `url`.
        capacity_bytes: A write that would exceed it fails as on a full disk; None: no limit.
    """

    def __init__(self, url: str = "memory://", *, capacity_bytes: int | None = None) -> None:
        self._url = url
        self._capacity_bytes = capacity_bytes
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The URL it was opened with; nothing else can open it."""
        return self._url

    def list_files(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files below a folder, in order of path."""
        folder = checked_prefix(prefix)
        with self._lock:
            files = sorted(self._files.items())
        for path, (data, modified_at_ms) in files:
            if not folder or path.startswith(f"{folder}/"):
                yield StoredFile(path=path, size_bytes=len(data), modified_at_ms=modified_at_ms)

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        with self._lock:
            found = self._files.get(checked_path(path))
        return (
            None
            if found is None
            else StoredFile(path=path, size_bytes=len(found[0]), modified_at_ms=found[1])
        )

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading."""
        return io.BytesIO(self._bytes_of(path))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file."""
        return self._bytes_of(path)[start:end]

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file."""
        checked_path(path)
        with self._lock:
            used = sum(len(held) for other, (held, _) in self._files.items() if other != path)
            if self._capacity_bytes is not None and used + len(data) > self._capacity_bytes:
                raise Unavailable(
                    f"cannot write '{path}' ({len(data):,} bytes): deep storage {self._url} is full;"
                    " free some space and retry"
                )
            self._files[path] = (bytes(data), _now_ms())

    def delete(self, path: str) -> None:
        """Delete a file. Idempotent."""
        with self._lock:
            self._files.pop(checked_path(path), None)

    def local_path(self, path: str) -> None:
        """Return None: nothing is on a disk."""
        checked_path(path)

    def free_bytes(self) -> int | None:
        """Return what is left of the capacity; None if there is none."""
        if self._capacity_bytes is None:
            return None
        with self._lock:
            return self._capacity_bytes - sum(len(data) for data, _ in self._files.values())

    def _bytes_of(self, path: str) -> bytes:
        with self._lock:
            found = self._files.get(checked_path(path))
        if found is None:
            raise NotFound(
                f"cannot read '{path}': there is no such file in deep storage {self._url}",
                path=path,
            )
        return found[0]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
