"""What a query may take of its process's memory, and of time.

DuckDB counts what it holds in buffers, not what one expression makes: `repeat('x', 900000000)` took 3.5 GB of 200 MB.
So while queries run, the kernel itself refuses the process more memory than the limit and a little more
(`RLIMIT_DATA`, Linux), and DuckDB says of a refused allocation what it says of its own limit. Nothing in an expression
can go around that. Elsewhere DuckDB's own limit is all there is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from carnac.ports.threads import INTERRUPT_S

T = TypeVar("T")

OVERHEAD_BYTES = 64 << 20
"""Of a limit, for what is not the query's: threads, plans, the interpreter."""
OVERHEAD_PART = 4
"""A limit is exceeded by this part of it at most, besides: for what DuckDB does not count of honest queries."""
_STATM = Path("/proc/self/statm")


def may_grow_bytes(memory_limit_bytes: int) -> int:
    """Return by how much a process may grow while queries with that limit run."""
    return memory_limit_bytes + memory_limit_bytes // OVERHEAD_PART + OVERHEAD_BYTES


@dataclass(slots=True)
class _Ceilings:
    """The process's limit of data, lowered while somebody holds a ceiling: to the highest one.

    Attributes:
        held: Ceilings in bytes, and how many hold each.
        before: The limits to return to; None: nobody holds a ceiling.
        unused_bytes: Of the process's data, before the first ceiling: mapped, but not in memory.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[object, list[int]] = field(default_factory=dict)
    before: tuple[int, int] | None = None
    unused_bytes: int | None = None

    def enter(self, owner: object, grow_bytes: int) -> None:
        """Hold a ceiling; an owner that holds one already keeps it."""
        import resource

        with self.lock:
            data_bytes, unused_bytes = _usage()
            if self.unused_bytes is None:
                self.unused_bytes = unused_bytes
            if self.before is None:
                self.before = resource.getrlimit(resource.RLIMIT_DATA)
            if owner in self.held:
                self.held[owner][1] += 1
                return
            # what earlier queries gave back to the allocator is used again without being asked for
            spare = min(max(0, unused_bytes - self.unused_bytes), grow_bytes * 3 // 4)
            self.held[owner] = [data_bytes + grow_bytes - spare, 1]
            self._set()

    def leave(self, owner: object) -> None:
        """End what `enter` began."""
        with self.lock:
            self.held[owner][1] -= 1
            if not self.held[owner][1]:
                del self.held[owner]
                self._set()

    def _set(self) -> None:
        import resource

        if self.before is None:
            return
        soft, hard = self.before
        if self.held:
            highest = max(ceiling for ceiling, _ in self.held.values())
            soft = highest if soft == resource.RLIM_INFINITY else min(soft, highest)
            soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        else:
            self.before = None
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


_CEILINGS = _Ceilings()


@contextmanager
def memory_held(owner: object, grow_bytes: int) -> Iterator[None]:
    """Let the process grow by no more than that until the block ends, also if it is entered several times at once.

    Args:
        owner: Whose limit it is.
    """
    if not _is_enforced():
        yield
        return
    _CEILINGS.enter(owner, grow_bytes)
    try:
        yield
    finally:
        _CEILINGS.leave(owner)


def heeding_signals(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Do something that looks at no signal for as long as it takes, so that Ctrl-C and SIGTERM end it none the less.

    Python hands signals to its main thread, between two steps of it; while DuckDB looks for the next rows there is
    none. So the work goes to a thread of its own and the main thread waits for it.

    Args:
        stop: Has the work end soon; called again and again until it has.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="carnac-query", daemon=True).start()
    try:
        return done.result()
    finally:
        while not done.done():
            stop()
            wait([done], INTERRUPT_S)


def _usage() -> tuple[int, int]:
    """Return the bytes of the process's data, and how much of them is not in memory."""
    _, resident, shared, _, _, data, *_ = map(int, _STATM.read_bytes().split())
    page = _page_bytes()
    return data * page, max(0, data - (resident - shared)) * page


@cache
def _is_enforced() -> bool:
    return _STATM.exists()


@cache
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")
