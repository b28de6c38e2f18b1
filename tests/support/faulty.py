"""Adapters that fail on purpose: a store must come out of any failure, at any call, in a state that it can explain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from carnac.errors import Unavailable
from carnac.metadata.store import MetadataStore
from carnac.ports import DeepStorage, StoredFile


class Crash(BaseException):
    """The process ends here, as far as the code under test can tell: no handler of ours may catch it."""


class Faults:
    """Decides which calls fail. Share one between wrappers to count over all of them. Safe for threads.

    Args:
        make: Makes the exception to raise; default: `Crash`.
    """

    def __init__(self, make: Callable[[str], BaseException] = Crash) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._left: int | None = None
        self._only: frozenset[str] | None = None
        self._is_after = False
        self._dies = False
        self.is_dead = False
        self.calls: list[str] = []

    def arm(
        self,
        nth: int,
        *,
        only: Iterable[str] | None = None,
        after: bool = False,
        dies: bool = False,
    ) -> None:
        """Let the n-th call from now on fail, counted from 1.

        Args:
            only: Count calls of these methods and no others; None: of all.
            after: Fail when the call has done its work, not before.
            dies: All calls after that one fail too, as those of a process that is gone, until `disarm`.
        """
        with self._lock:
            self._left = nth
            self._only = None if only is None else frozenset(only)
            self._is_after = after
            self._dies = dies

    def disarm(self) -> None:
        """Let no call fail."""
        with self._lock:
            self._left = None
            self.is_dead = False

    def die(self, name: str) -> None:
        """Fail now, and let all calls fail until `disarm`."""
        self.is_dead = True
        raise self._make(name)

    @property
    def is_armed(self) -> bool:
        """Whether a failure is still to come."""
        return self._left is not None

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Run one call, which may fail."""
        with self._lock:
            self.calls.append(name)
            if self.is_dead:
                raise self._make(name)
            fails = False
            if self._left is not None and (self._only is None or name in self._only):
                self._left -= 1
                fails = self._left == 0
                if fails:
                    self._left = None
                    self.is_dead = self._dies
        if fails and not self._is_after:
            raise self._make(name)
        result = work()
        if fails:
            raise self._make(name)
        return result


def unavailable(name: str) -> BaseException:
    """Return what an adapter raises when what it stands for does not answer."""
    return Unavailable(f"cannot {name}: it does not answer; retry later")


class FaultyDeepStorage:
    """Deep storage whose calls fail when `faults` says so (port `DeepStorage`)."""

    def __init__(self, inner: DeepStorage, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def url(self) -> str:
        """The root of what is wrapped."""
        return self._inner.url

    def list_files(self, prefix: str) -> Sequence[StoredFile]:
        """Return the files below a folder, in order of path."""
        found: list[StoredFile] = self._faults.run(
            "list_files", lambda: list(self._inner.list_files(prefix))
        )
        return found

    def find_file(self, path: str) -> StoredFile | None:
        """Return a file's size and time; None if there is none."""
        found: StoredFile | None = self._faults.run(
            "find_file", lambda: self._inner.find_file(path)
        )
        return found

    def open_read(self, path: str) -> BinaryIO:
        """Open for reading."""
        with ExitStack() as opened:
            stream: BinaryIO = self._faults.run(
                "open_read", lambda: opened.enter_context(self._inner.open_read(path))
            )
            opened.pop_all()
            return stream

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of a file."""
        found: bytes = self._faults.run(
            "read_range", lambda: self._inner.read_range(path, start, end)
        )
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file."""
        self._faults.run("write", lambda: self._inner.write(path, data))

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._faults.run("delete", lambda: self._inner.delete(path))

    def local_path(self, path: str) -> Path | None:
        """Return where the file is on this machine."""
        return self._inner.local_path(path)

    def free_bytes(self) -> int | None:
        """Return the free space."""
        return self._inner.free_bytes()


class _FaultyMetadata:
    def __init__(self, inner: MetadataStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not callable(method):
            return method
        return lambda *args, **named: self._faults.run(name, lambda: method(*args, **named))


def faulty_metadata(inner: MetadataStore, faults: Faults) -> MetadataStore:
    """Return a metadata store whose calls fail when `faults` says so."""
    return cast("MetadataStore", _FaultyMetadata(inner, faults))
