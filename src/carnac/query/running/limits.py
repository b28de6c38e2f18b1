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
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from carnac.ports.threads import INTERRUPT_S, DaemonThreads, FindStop, never, note_left, outlived

if TYPE_CHECKING:
    from carnac.query.running.query import RunningQuery

T = TypeVar("T")

OVERHEAD_BYTES = 64 << 20
"""Room in a limit for memory that is not the query's: threads, plans, the interpreter."""
OVERHEAD_PART = 4
"""A limit is exceeded by this part of it at most, besides: for memory of honest queries that DuckDB does not count."""
LOOK_S = 0.5
"""Between two looks whether a query is stuck, or is to stop."""
_threads = DaemonThreads("query")
_DEFAULT_STACK_BYTES = 2 << 20
"""Of a thread where stacks have no limit, as glibc has it on most machines."""
STATM_MAX_BYTES = 256
_STATM = Path("/proc/self/statm")
_THREADS = Path("/proc/self/task")


def default_memory_bytes() -> int:
    """Return DuckDB's own limit of memory: 80 % of the machine's."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 5


def may_grow_bytes(memory_limit_bytes: int) -> int:
    """Return by how much a process may grow while queries with that limit run."""
    return memory_limit_bytes + memory_limit_bytes // OVERHEAD_PART + OVERHEAD_BYTES


class _Usage(NamedTuple):
    """The data of a process without the stacks of its threads, whose number grows beside queries and not by them.

    Attributes:
        data_bytes: Mapped bytes.
        unused_bytes: Those of them that are not in memory.
        stacks_bytes: Mapped bytes of the stacks of all threads.
    """

    data_bytes: int
    unused_bytes: int
    stacks_bytes: int


@dataclass(slots=True)
class _Ceilings:
    """The process's limit of data, lowered while somebody holds a ceiling: to the highest one.

    Attributes:
        held: Ceilings in bytes, without stacks, and the owner of each.
        before: The limits to return to; None: nobody holds a ceiling.
        unused_bytes: Of the process's data, before the first ceiling: mapped, but not in memory.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[object, tuple[int, set[object]]] = field(default_factory=dict)
    before: tuple[int, int] | None = None
    unused_bytes: int | None = None

    def enter(self, owner: object, holder: object, grow_bytes: int) -> None:
        """Hold a ceiling; an owner that has one already keeps it."""
        import resource

        with self.lock:
            now = _usage()
            if self.unused_bytes is None:
                self.unused_bytes = now.unused_bytes
            if self.before is None:
                self.before = resource.getrlimit(resource.RLIMIT_DATA)
            if owner not in self.held:
                # memory that earlier queries gave back to the allocator is used again without new mappings
                spare = min(max(0, now.unused_bytes - self.unused_bytes), grow_bytes * 3 // 4)
                self.held[owner] = (now.data_bytes + grow_bytes - spare, set())
            self.held[owner][1].add(holder)
            self._set(now.stacks_bytes)

    def leave(self, owner: object, holder: object) -> None:
        """End what `enter` began. Idempotent."""
        with self.lock:
            if owner not in self.held:
                return
            self.held[owner][1].discard(holder)
            if self.held[owner][1]:
                return
            del self.held[owner]
            now = _usage() if self.held else _Usage(0, 0, 0)
            # memory that it leaves mapped takes no room of queries that go on, nor of the process
            for other, (ceiling, holders) in self.held.items():
                self.held[other] = max(ceiling, now.data_bytes + OVERHEAD_BYTES), holders
            self._set(now.stacks_bytes)

    def _set(self, stacks_bytes: int) -> None:
        import resource

        if self.before is None:
            return
        soft, hard = self.before
        if self.held:
            highest = max(ceiling for ceiling, _ in self.held.values()) + stacks_bytes
            soft = highest if soft == resource.RLIM_INFINITY else min(soft, highest)
            soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        else:
            self.before = None
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


_CEILINGS = _Ceilings()


@contextmanager
def memory_held(owner: object, grow_bytes: int) -> Iterator[Callable[[], None]]:
    """Let the process grow by no more than that until the block ends, also if it is entered several times at once.

    Give a function that ends the limit earlier, for a query that goes on unattended: else nothing in the process could
    grow meanwhile.

    Args:
        owner: Owner of the limit.
    """
    if not _is_enforced():
        yield lambda: None
        return
    holder = object()
    _CEILINGS.enter(owner, holder, grow_bytes)
    leave = partial(_CEILINGS.leave, owner, holder)
    try:
        yield leave
    finally:
        leave()


def apart(
    work: Callable[[], T],
    running: Callable[[int], Sequence[RunningQuery]],
    find_stop: FindStop = never,
) -> T:
    """Do something that runs queries in a thread of its own, which is left to itself if one of them does not end.

    Python hands signals to its main thread, between two steps of it; while DuckDB looks for the next rows there is
    none. And DuckDB heeds no interrupt while one function computes one value. So whoever asks only waits, and neither
    Ctrl-C nor a time limit has to be heeded by what runs. A thread that was left ends with its query, or its process;
    others are used again, as a new one costs more than a light statement.

    Args:
        running: Returns the queries that a thread has begun.

    Raises:
        TimedOut: A query was stopped and goes on.
        CarnacError: As `find_stop` returns.
    """
    begun: list[int] = []

    def run() -> T:
        begun.append(threading.get_ident())
        return work()

    done = _threads.submit(run)
    queries: Sequence[RunningQuery] = ()
    try:
        while not done.done():
            wait([done], LOOK_S)
            queries = [one for thread in begun for one in running(thread)]
            for one in queries:
                if one.is_stuck:
                    raise outlived(one.limit_ms)
            if not done.done() and (error := find_stop()) is not None:
                raise error
        return done.result()
    finally:
        while not done.done() and not any(one.is_stuck for one in queries):
            queries = [one for thread in begun for one in running(thread)]
            for one in queries:
                one.interrupt()
            wait([done], INTERRUPT_S)
        if not done.done():
            note_left()


def _usage() -> _Usage:
    file = os.open(_STATM, os.O_RDONLY)
    try:
        _, resident, shared, _, _, data, *_ = map(int, os.read(file, STATM_MAX_BYTES).split())
    finally:
        os.close(file)
    page = _page_bytes()
    stacks_bytes = (_THREADS.stat().st_nlink - 2) * _stack_bytes()  # a folder for each thread
    data_bytes = data * page - stacks_bytes
    return _Usage(data_bytes, max(0, data_bytes - (resident - shared) * page), stacks_bytes)


@cache
def _is_enforced() -> bool:
    return _STATM.exists()


@cache
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


@cache
def _stack_bytes() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _DEFAULT_STACK_BYTES if soft == resource.RLIM_INFINITY else soft
