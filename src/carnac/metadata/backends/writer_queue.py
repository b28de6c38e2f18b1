"""The queue of SQLite's writers: an advisory lock on a file. It ends with the process that holds it, however that dies.

A writer that finds the lock taken stands in the kernel's queue of those that wait for a `flock`. The kernel lets them
wait for ever, and a process that is stopped (SIGSTOP) inside a transaction holds the lock for as long. So a wait has an
end here, and says which process it was for.

Passing the lock from process to process takes longer than a commit does, since the process that takes it reads again
what others have written. So a process that had to wait keeps the lock between its commits, some of them
(`TURN_COMMITS`) and for a while (`TURN_MS`), if it came back at once after each of the last (`FOLLOWED_MIN`). Others
it would keep waiting for nothing: an append writes a file between its two commits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from _thread import start_new_thread  # without waiting until it has begun
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from carnac.errors import Unavailable

NAME_BYTES = 300
"""Size of the line that names the writer; a host's name has at most 253."""

TURN_COMMITS = 7
"""How many times a process may write in its turn. It ends the turn by itself: a thread beside it would have to wait for
Python's lock, several times as long as a turn."""
TURN_MS = 4
"""How long a process may keep the lock between its commits while others wait. Nobody looks earlier whether it is used:
a thread that looks has to wait for Python's lock, and the thread that commits then for that one."""
FOLLOWED_MIN = 2
"""After so many commits that each followed at once, within `AT_ONCE_MS`, the next one is expected to."""
AT_ONCE_MS = 1


class WriterQueue:
    """One process's place in the queue. For one thread at a time.

    Args:
        path: Path of the lock file; it is made if it is not there.
        patience_ms: Time that `enter` waits.
        now_ms: Tells the time.
    """

    def __init__(self, path: Path, *, patience_ms: int, now_ms: Callable[[], int]) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._patience_ms = patience_ms
        self._name = f"{socket.gethostname()}/{os.getpid()}".ljust(NAME_BYTES).encode()
        self._mutex = threading.Lock()
        self._waiter: _Waiter | None = None
        self._keeper: _Waiter | None = None  # while we keep the lock between commits
        self._is_inside = False
        self._now_ms = now_ms
        self._left_at_ms = 0
        self._followed = 0  # commits
        self._to_come = 0  # commits of this turn; negative outside of turns
        _queues.add(self)

    def enter(self) -> None:
        """Wait for our turn; however it ends, `leave` is to be called.

        Raises:
            Unavailable: The turn did not come in time; `ids["writer"]` is the `host/pid` of the process that writes.
        """
        came_at_once = self._now_ms() - self._left_at_ms <= AT_ONCE_MS
        self._followed = self._followed + 1 if came_at_once else 0
        if self._goes_on():
            return
        if not self._is_free_at_once() and not self._wait():
            writer = os.pread(self._file, NAME_BYTES, 0).decode(errors="replace").strip()
            host, _, pid = writer.rpartition("/")
            raise Unavailable(
                f"process {pid} on {host} has kept all other writers waiting for "
                f"{self._patience_ms / 1000:g} s; retry, or end that process if it hangs",
                writer=writer,
            )
        self._begin()

    def leave(self) -> None:
        """Let the next one in, unless our turn goes on. Idempotent."""
        with self._mutex:
            self._is_inside = False
            self._left_at_ms = self._now_ms()
            self._to_come -= 1
            if not self._to_come:
                self._keeper = None
            if self._keeper is None:
                self._release()

    def close(self) -> None:
        """Give up the file, and with it our turn."""
        _queues.discard(self)
        with self._mutex:
            self._keeper = None
            if self._waiter is None:
                os.close(self._file)
            else:
                self._waiter.closes = True

    def let_go(self) -> None:
        """Give up a forked child's share of the file: else its parent's turn would last as long as the child does."""
        os.close(self._file)
        self._file = -1

    def _begin(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk nobody is named
            os.pwrite(self._file, self._name, 0)

    def _release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _goes_on(self) -> bool:
        with self._mutex:
            self._is_inside = self._keeper is not None
            return self._is_inside

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
                # there may be no thread to be had: then nobody stands there
                start_new_thread(self._stand, (waiter,))
                self._waiter = waiter
            waiter.is_wanted = True
        try:
            waiter.turn.acquire(timeout=self._patience_ms / 1000)
        finally:  # Ctrl-C, too
            with self._mutex:
                waiter.is_wanted = False
        return waiter.has_lock

    def _stand(self, waiter: _Waiter) -> None:
        is_locked = False
        with contextlib.suppress(
            OSError
        ):  # a waiter hears that it was in vain, and the next one stands there anew
            fcntl.flock(self._file, fcntl.LOCK_EX)
            is_locked = True
        with self._mutex:
            self._waiter = None
            waiter.has_lock = self._is_inside = is_locked and waiter.is_wanted
            keeps = waiter.has_lock and self._followed >= FOLLOWED_MIN
            if keeps:
                self._keeper, self._to_come = waiter, TURN_COMMITS
            elif is_locked and not waiter.has_lock:
                self._release()
            if waiter.closes:
                os.close(self._file)
        waiter.turn.release()
        if keeps:
            self._keep(waiter)

    def _keep(self, waiter: _Waiter) -> None:
        """Keep the lock until the turn that a waiter got is over."""
        _taken().acquire(timeout=TURN_MS / 1000)
        with self._mutex:
            if self._keeper is waiter:
                self._keeper = None
                if not self._is_inside:
                    self._release()


class _Waiter:
    """A thread that stands in the queue.

    Attributes:
        turn: Lock that is released when the thread has its turn, or had it and nobody needed it.
        is_wanted: Whether somebody waits for the turn.
        has_lock: Whether the turn came while somebody waited.
        closes: Whether the queue was closed meanwhile.
    """

    __slots__ = ("closes", "has_lock", "is_wanted", "turn")

    def __init__(self) -> None:
        self.turn = _taken()
        self.is_wanted = False
        self.has_lock = False
        self.closes = False


def _taken() -> threading.Lock:
    """Return a lock that is taken: to wait for it costs less than for an event."""
    lock = threading.Lock()
    lock.acquire()
    return lock


_queues: WeakSet[WriterQueue] = WeakSet()
"""Those that are open."""


def _let_go() -> None:
    for queue in _queues:
        queue.let_go()


os.register_at_fork(after_in_child=_let_go)
