"""Deep storage of a simulation: a file system of fsspec in memory that is slow, fails, tears reads and lists late.

The product reaches it as it reaches any object store, by a URL.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.spec import AbstractFileSystem

from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.simulation.cluster.faults import Faults
    from carnac.simulation.cluster.kernel import Kernel

PROTOCOL = "carnac-simulated"
URL = f"{PROTOCOL}://bucket/store"
ROOT = "bucket/store"
LAG_MS = 4_000
"""How far listings may lag behind."""


@dataclass
class Disk:
    """The files, and the listeners that are notified of changes to them.

    Attributes:
        files: Bytes of each file, the time when it was written, and that time by the clock of deep storage.
        deleted: Paths that were there once.
        on_delete: Takes each path that is about to go.
        ahead_ms: Returns how far its clock is ahead.
    """

    kernel: Kernel
    faults: Faults
    files: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    on_delete: Callable[[str], object] = lambda _path: None
    ahead_ms: Callable[[], int] = lambda: 0

    def turn(self, what: str, path: str) -> None:
        """Let others run, then maybe fail before anything is done."""
        kernel = self.kernel
        if kernel.here() is None:
            return
        if self.faults.happens("storage", "slow"):
            kernel.pause(200, 6_000)
        else:
            kernel.pause(1, 15)
        if self.faults.happens("storage", "failing"):
            kernel.note(f"storage: {what} {name_of(path)} fails")
            raise OSError(5, "the object store does not answer")

    def after(self, what: str, path: str) -> None:
        """Maybe fail when the work is done."""
        if self.kernel.here() is not None and self.faults.happens("storage", "half"):
            self.kernel.note(f"storage: {what} {name_of(path)} is done, and fails")
            raise OSError(5, "the object store does not answer")

    def write(self, path: str, data: bytes) -> None:
        """Put a file."""
        self.turn("write", path)
        now_ms = self.kernel.now_ms
        self.files[path] = (data, now_ms, now_ms + self.ahead_ms())
        self.kernel.note(f"storage: write {name_of(path)}, {len(data)} bytes")
        self.after("write", path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, sometimes too few."""
        self.turn("read", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path][0]
        if self.kernel.here() is not None and self.faults.happens("storage", "torn"):
            self.kernel.note(f"storage: read of {name_of(path)} ends early")
            return data[: self.faults.rng.randrange(len(data) + 1)]
        return data

    def delete(self, path: str) -> None:
        """Remove a file."""
        self.turn("delete", path)
        if path in self.files:
            self.on_delete(path)
            del self.files[path]
            self.deleted[path] = self.kernel.now_ms
            self.kernel.note(f"storage: delete {name_of(path)}")
        self.after("delete", path)

    def listed(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the files below a folder, sometimes as they were a while ago."""
        self.turn("list", prefix)
        lags = self.kernel.here() is not None and self.faults.happens("storage", "late")
        since_ms = self.kernel.now_ms - (LAG_MS if lags else -1)
        return {
            path: info_of(path, data, at_ms, stamp_ms)
            for path, (data, at_ms, stamp_ms) in sorted(self.files.items())
            if path.startswith(f"{prefix.rstrip('/')}/") and at_ms < since_ms
        }


def name_of(path: str) -> str:
    """Return the end of a path, for the trace."""
    return path.removeprefix(f"{ROOT}/")


def info_of(path: str, data: bytes, _at_ms: int, stamp_ms: int) -> dict[str, Any]:
    """Return what a file system says of a file."""
    return {"name": path, "size": len(data), "type": "file", "mtime": stamp_ms / 1000}


class SimulatedFiles(AbstractFileSystem):  # type: ignore[misc]
    """The file system, over the disk of the simulation that runs."""

    protocol = PROTOCOL
    cachable = False
    disk: Disk

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.disk = type(self).disk  # strands left over from a simulation keep its own disk

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix(f"{PROTOCOL}://").rstrip("/")

    def find(self, path: str, detail: bool = False, **_: Any) -> Any:
        """Return the files below a folder."""
        found = self.disk.listed(self._strip_protocol(path))
        return found if detail else list(found)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return what is known of a file."""
        path = self._strip_protocol(path)
        self.disk.turn("look at", path)
        if path not in self.disk.files:
            raise FileNotFoundError(path)
        return info_of(path, *self.disk.files[path])

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode != "rb":
            raise Invalid(f"{name_of(path)} opens for reading only, not as {mode!r}; use pipe_file")
        return io.BytesIO(self.disk.read(self._strip_protocol(path)))

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        """Open for reading."""
        return self._open(path, mode)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return bytes of a file."""
        return self.disk.read(self._strip_protocol(path))[start:end]

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        """Write a file."""
        self.disk.write(self._strip_protocol(path), bytes(value))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        """Write a copy of a local file."""
        self.disk.write(self._strip_protocol(rpath), Path(lpath).read_bytes())

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        """Make a local copy of a file."""
        Path(lpath).write_bytes(self.disk.read(self._strip_protocol(rpath)))

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self.disk.delete(self._strip_protocol(path))

    def rm(self, path: Any, **_: Any) -> None:
        """Remove files."""
        for one in [path] if isinstance(path, str) else path:
            for name in list(self.disk.listed(self._strip_protocol(one))):
                self.disk.delete(name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing: there are no folders."""


@contextmanager
def mounted(disk: Disk) -> Iterator[None]:
    """Have the URL mean a disk until the block ends."""
    SimulatedFiles.disk = disk
    fsspec.register_implementation(PROTOCOL, SimulatedFiles, clobber=True)
    try:
        yield
    finally:
        del SimulatedFiles.disk
