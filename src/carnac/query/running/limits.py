"""Limits of a query's memory and time.

DuckDB counts what it holds in buffers, not what one expression makes: `repeat('x', 900000000)` took 3.5 GB of 200 MB.
So while queries run, the kernel itself refuses the process more memory than the limit and a little more
(`RLIMIT_DATA`, Linux), and DuckDB says of a refused allocation what it says of its own limit. Nothing in an expression
can go around that. Elsewhere DuckDB's own limit is all there is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

from carnac.ports.threads import INTERRUPT_S, DaemonThreads, note_left, outlived

T = TypeVar("T")

OVERHEAD_BYTES = 64 << 20
"""Room in a limit for memory that is not the query's: threads, plans, the interpreter."""
OVERHEAD_PART = 4
"""A limit is exceeded by this part of it at most, besides: for what DuckDB does not count of honest queries."""
LOOK_S = 0.5
"""Between two looks whether a query is stuck."""
_threads = DaemonThreads("query")
_STATM = Path("/proc/self/statm")


def default_memory_bytes() -> int:
    """Return DuckDB's own limit of memory: 80 % of the machine's."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 5


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


class Stoppable(Protocol):
    """A query that runs."""

    @property
    def limit_ms(self) -> int | None:
        """After which it is stopped; None: never."""
        ...

    @property
    def is_stuck(self) -> bool:
        """Whether it does not heed that it is stopped."""
        ...

    def interrupt(self) -> None:
        """Stop it."""
        ...


def apart(work: Callable[[], T], running: Callable[[int], Sequence[Stoppable]]) -> T:
    """Do something that runs queries in a thread of its own, which is left to itself if one of them does not end.

    Python hands signals to its main thread, between two steps of it; while DuckDB looks for the next rows there is
    none. And DuckDB heeds no interrupt while one function computes one value. So whoever asks only waits, and neither
    Ctrl-C nor a time limit has to be heeded by what runs. A thread that was left ends with its query, or its process;
    others are used again, as a new one costs more than a light statement.

    Args:
        running: Returns the queries that a thread has begun.

    Raises:
        TimedOut: A query was stopped and goes on.
    """
    begun: list[int] = []

    def run() -> T:
        begun.append(threading.get_ident())
        return work()

    done = _threads.submit(run)
    queries: Sequence[Stoppable] = ()
    try:
        while not done.done():
            wait([done], LOOK_S)
            queries = [one for thread in begun for one in running(thread)]
            for one in queries:
                if one.is_stuck:
                    raise outlived(one.limit_ms)
        return done.result()
    finally:
        while not done.done() and not any(one.is_stuck for one in queries):
            queries = [one for thread in begun for one in running(thread)]
            for one in queries:
                one.interrupt()
            wait([done], INTERRUPT_S)
        if not done.done():
            note_left()


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
