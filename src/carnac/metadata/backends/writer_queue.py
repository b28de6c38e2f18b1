"""The queue of SQLite's writers: an advisory lock on a file. It ends with the process that holds it, however that dies.

A writer that finds the lock taken looks again a few times (`LOOK_AGAIN_MS`): passing the lock from process to process
takes longer than a commit does, and whoever has it makes its next commits meanwhile. A writer that was passed by for so
long stands in the kernel's queue of those who wait for a `flock`, where nobody is passed by for long. But the kernel
lets them wait for ever, and a process that is stopped (SIGSTOP) inside a transaction holds the lock for as long. So a
wait has an end here, and says which process it was for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from pathlib import Path

from carnac.errors import Unavailable

NAME_BYTES = 300
"""Size of the line that names the writer; a host's name has at most 253."""

LOOK_AGAIN_MS = (1, 2, 4, 8, 8, 8, 8, 8)
"""The pauses before a writer stands in the kernel's queue.

Each process that takes the lock reads again what others have written, so turns of one commit each are slow. Where many
wait, pauses that are too short make all turns such.
"""


class WriterQueue:
    """One process's place in the queue. For one thread at a time.

    Args:
        path: Of the lock file; it is made if it is not there.
        patience_ms: How long `enter` waits.
    """

    def __init__(self, path: Path, *, patience_ms: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._patience_ms = patience_ms
        self._name = f"{socket.gethostname()}/{os.getpid()}".ljust(NAME_BYTES).encode()
        self._mutex = threading.Lock()
        self._waiter: _Waiter | None = None
        self._pause = threading.Event()  # never set

    def enter(self) -> None:
        """Wait for our turn.

        Raises:
            Unavailable: It did not come in time; `ids["writer"]` is the `host/pid` of the process that writes.
        """
        if not self._is_free_soon() and not self._wait():
            writer = os.pread(self._file, NAME_BYTES, 0).decode(errors="replace").strip()
            host, _, pid = writer.rpartition("/")
            raise Unavailable(
                f"process {pid} on {host} has kept all other writers waiting for "
                f"{self._patience_ms / 1000:g} s; retry, or end that process if it hangs",
                writer=writer,
            )
        self._begin()

    def leave(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give up the file, and with it our turn."""
        with self._mutex:
            if self._waiter is None:
                os.close(self._file)
            else:
                self._waiter.closes = True

    def _begin(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk nobody is named
            os.pwrite(self._file, self._name, 0)

    def _is_free_soon(self) -> bool:
        for pause_ms in LOOK_AGAIN_MS:
            if self._is_free_at_once():
                return True
            if self._waiter is not None:  # stands there from last time
                return False
            self._pause.wait(pause_ms / 1000)
        return self._is_free_at_once()

    def _is_free_at_once(self) -> bool:
        if self._waiter is not None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self) -> bool:
        """Stand in the queue; False if we had to give up.

        Nothing ends a wait for `flock` but the lock, so a thread stands there for us. After we gave up it stands on,
        for the next time; if its turn comes when nobody wants it, it lets the next one in.
        """
        with self._mutex:
            waiter = self._waiter or _Waiter()
            if self._waiter is None:
                threading.Thread(  # there may be none to be had: then nobody stands there
                    target=self._stand, args=(waiter,), name="carnac-queue", daemon=True
                ).start()
                self._waiter = waiter
            waiter.is_wanted = True
        try:
            waiter.turn.wait(self._patience_ms / 1000)
        except BaseException:  # Ctrl-C
            if self._give_up(waiter):
                self.leave()
            raise
        return self._give_up(waiter)

    def _give_up(self, waiter: _Waiter) -> bool:
        """Wait no longer; True if our turn had come."""
        with self._mutex:
            waiter.is_wanted = False
            return waiter.has_lock

    def _stand(self, waiter: _Waiter) -> None:
        is_locked = False
        with contextlib.suppress(
            OSError
        ):  # who waits hears that it was in vain, and the next one stands there anew
            fcntl.flock(self._file, fcntl.LOCK_EX)
            is_locked = True
        with self._mutex:
            self._waiter = None
            waiter.has_lock = is_locked and waiter.is_wanted
            if is_locked and not waiter.is_wanted:
                self.leave()
            if waiter.closes:
                os.close(self._file)
        waiter.turn.set()


class _Waiter:
    """Somebody who stands in the queue.

    Attributes:
        turn: Set when it has the lock, or had it and nobody wanted it.
        is_wanted: Somebody waits for it.
        has_lock: Its turn came while somebody waited.
        closes: The queue was closed behind its back.
    """

    __slots__ = ("closes", "has_lock", "is_wanted", "turn")

    def __init__(self) -> None:
        self.turn = threading.Event()
        self.is_wanted = False
        self.has_lock = False
        self.closes = False
