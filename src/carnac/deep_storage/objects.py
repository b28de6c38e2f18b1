"""Deep storage in an object store, through fsspec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, BinaryIO, cast

from carnac.core.redaction import hide_secrets, show_url
from carnac.deep_storage.local import checked_path, checked_prefix
from carnac.errors import Invalid, NotFound
from carnac.ports import StoredFile
from carnac.ports.far_files import FarFile, clear_errors, storage_error


class ObjectDeepStorage:
    """Objects below a prefix of a bucket (port `DeepStorage`).

    A write is one upload: object stores show it wholly or not at all, and keep it before they answer. Listings are
    not cached, so files of another process are seen at once.
    """

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        import fsspec

        self._url = url.rstrip("/")
        self._shown = show_url(self._url)
        settings: dict[str, Any] = {
            "use_listings_cache": False,
            "skip_instance_cache": True,
            **options,
        }
        try:
            self._fs, root = fsspec.core.url_to_fs(self._url, **settings)
        except (ValueError, ImportError) as error:
            raise Invalid(
                f"cannot open deep storage {self._shown}: {hide_secrets(str(error), url).rstrip('.')}",
                url=self._shown,
            ) from error
        except OSError as error:  # some kinds connect at once
            raise storage_error(error, "connect", self._shown) from error
        self._root = str(root).rstrip("/")

    @property
    def url(self) -> str:
        """The URL it was opened with."""
        return self._url

    def list_files(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files below a folder, in order of path."""
        folder = checked_prefix(prefix)
        place = f"{self._root}/{folder}" if folder else self._root
        with self._clear_errors(f"list folder '{folder or '.'}'"):
            try:
                found = self._fs.find(place, detail=True)
            except FileNotFoundError:
                return
        below = f"{self._root}/"
        for path in sorted(found):
            if path.startswith(f"{place}/"):
                yield _stored(path.removeprefix(below), found[path])

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        with self._clear_errors(f"look up '{path}'"):
            try:
                info = self._fs.info(self._place(path))
            except FileNotFoundError:
                return None
        return _stored(path, info) if info["type"] == "file" else None

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading; blocks are fetched as they are asked for."""
        if self.find_file(path) is None:
            raise NotFound(
                f"cannot read '{path}': there is no such file in deep storage {self._shown}",
                path=path,
            )
        action = f"read '{path}'"
        with self._clear_errors(action):
            file = self._fs.open(self._place(path), "rb")
        return cast("BinaryIO", FarFile(file, action, self._shown))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file, by one request."""
        if start >= end:
            return b""
        with self._clear_errors(f"read '{path}'"):
            return cast("bytes", self._fs.cat_file(self._place(path), start=start, end=end))

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, durably."""
        with self._clear_errors(f"write '{path}' ({len(data):,} bytes)"):
            try:
                self._fs.pipe_file(self._place(path), data)
            except FileNotFoundError as error:
                raise NotFound(
                    f"cannot write '{path}' to deep storage {self._shown}: {str(error).lower()}; make it, or correct "
                    "the URL",
                    url=self._shown,
                ) from error

    def delete(self, path: str) -> None:
        """Delete a file. Idempotent."""
        with self._clear_errors(f"delete '{path}'"):
            try:
                self._fs.rm_file(self._place(path))
            except FileNotFoundError:
                return

    def local_path(self, path: str) -> None:
        """Return None: an object is on no disk of this machine."""
        checked_path(path)

    def free_bytes(self) -> None:
        """Return None: an object store has no such limit."""

    def _place(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _clear_errors(self, action: str) -> AbstractContextManager[None]:
        return clear_errors(action, self._shown)


def _stored(path: str, info: Mapping[str, Any]) -> StoredFile:
    modified = (
        info.get("LastModified")
        or info.get("mtime")
        or info.get("last_modified")
        or info.get("updated")
    )
    if isinstance(modified, datetime):
        modified_at_ms = int(modified.timestamp() * 1000)
    else:
        modified_at_ms = int(float(modified or 0) * 1000)
    return StoredFile(path=path, size_bytes=int(info["size"]), modified_at_ms=modified_at_ms)
