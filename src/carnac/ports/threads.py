"""Daemon threads that are used again, and one that watches how long everything takes.

A thread that is started waits until it runs, and so does whoever has started it: among many that want the interpreter
that takes longer than most of what a light query does.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from math import ceil
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from carnac.errors import CarnacError, TimedOut
from carnac.ports.loops import safely

T = TypeVar("T")
FindStop: TypeAlias = Callable[[], CarnacError | None]
"""Called now and then while something runs: an error that it returns stops that, and is raised."""

INTERRUPT_S = 0.05
"""Between two looks at what takes too long, which is stopped again at each: DuckDB forgets what comes between two
statements.
"""
GRACE_MS = 2_000
"""How long what was stopped may take to end. Then nobody waits for it any more."""
IDLE_LOOKS = 100
"""After so many looks at nothing nobody looks any more."""
IDLE_S = 10.0
"""After so long without work a thread ends."""

_log = logging.getLogger(__name__)


def never() -> None:
    """Return no error: what runs is never stopped."""


class DaemonThreads:
    """Threads that do what they are given, as many as there is to do at a time. Safe for threads.

    Nobody waits for them when the process ends.

    Args:
        name: Of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # threads stay with the parent

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._free = 0
        self._unfinished: set[Future[Any]] = set()

    @property
    def free(self) -> int:
        """How many have nothing to do."""
        return self._free

    def submit(self, do: Callable[[], T]) -> Future[T]:
        """Have something done; return what will be its outcome."""
        done: Future[T] = Future()

        def work() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(do())
            except BaseException as error:
                done.set_exception(error)

        with self._mutex:
            self._unfinished.add(done)
        done.add_done_callback(self._unfinished.discard)
        self.run(work)
        return done

    def wait(self) -> None:
        """Wait until the submitted work is done, `GRACE_MS` at most; unfinished work is noted as left."""
        with self._mutex:
            unfinished = list(self._unfinished)
        if wait(unfinished, GRACE_MS / 1000).not_done:
            note_left()

    def run(self, do: Callable[[], object]) -> None:
        """Have something done that raises nothing; returns at once."""
        with self._mutex:
            is_taken = self._free > 0
            if is_taken:
                self._free -= 1
            self._work.put(do)  # a thread would keep what it is started with
        if not is_taken:
            threading.Thread(target=self._serve, name=f"carnac-{self._name}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                do = self._work.get(timeout=IDLE_S)
            except Empty:
                with self._mutex:
                    if self._work.empty():
                        self._free -= 1
                        return
                do = self._work.get()
            do()
            del do  # its objects may go while nothing is to be done
            with self._mutex:
                self._free += 1


class Beside:
    """Work that is done now and then in a thread beside those who need its outcome. Safe for threads.

    One round of it is under way at a time. One that hangs is waited for once, by those who came in time.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._under_way: Future[None] | None = None
        self._late: Future[None] | None = None

    @property
    def is_late(self) -> bool:
        """Whether the round that is under way was waited for in vain."""
        under_way = self._under_way
        return under_way is not None and under_way is self._late

    def run(self, do: Callable[[], None], *, wait_s: float) -> Future[None]:
        """Begin a round unless one is under way, and wait for it; return it, done or not."""
        with self._mutex:
            if self._under_way is None:
                self._under_way = _rounds.submit(lambda: self._do(do))
            under_way = self._under_way
        wait([under_way], wait_s)
        if not under_way.done():
            self._late = under_way
        return under_way

    def _do(self, do: Callable[[], None]) -> None:
        try:
            do()
        finally:
            with self._mutex:
                self._under_way = None


_rounds = DaemonThreads("beside")


class _Watch:
    """Something that may take so many looks."""

    def __init__(self, looks: int, stop: Callable[[], object]) -> None:
        self.is_late = threading.Event()
        self._looks = looks
        self._stop: Callable[[], object] | None = stop
        self._turn = threading.Lock()

    def look(self) -> None:
        """Stop it if its time is over."""
        self._looks -= 1
        if self._looks > 0:
            return
        with self._turn:
            if self._stop is not None:
                self.is_late.set()
                safely(_log, "stopping what takes too long", self._stop)

    def end(self) -> None:
        """Note that it is over: it is not stopped any more when this returns."""
        with self._turn:
            self._stop = None


class _Watcher:
    """Looks at all watches again and again, from one thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._watches: set[_Watch] = set()
        self._is_looking = False
        self._pause = threading.Event()  # never set

    def add(self, watch: _Watch) -> None:
        """Look at a watch from now on."""
        with self._mutex:
            self._watches.add(watch)
            is_new, self._is_looking = not self._is_looking, True
        if is_new:
            threading.Thread(target=self._look_on, name="carnac-limits", daemon=True).start()

    def remove(self, watch: _Watch) -> None:
        """Look at it no more."""
        with self._mutex:
            self._watches.discard(watch)

    def _look_on(self) -> None:
        idle = 0
        while True:
            self._pause.wait(INTERRUPT_S)
            with self._mutex:
                watches = list(self._watches)
                idle = 0 if watches else idle + 1
                if idle > IDLE_LOOKS:
                    self._is_looking = False
                    return
            for watch in watches:
                watch.look()


def outlived(limit_ms: int | None) -> TimedOut:
    """Return the error for a query that nobody waits for any more."""
    took = "was stopped" if limit_ms is None else f"took longer than {limit_ms} ms"
    return TimedOut(
        f"the query {took} and has not ended since: it is in a step that cannot be stopped, such as one function over "
        "one huge value, and goes on until that is done; give it smaller values, or ask for less at a time"
    )


_left = threading.Event()


def note_left() -> None:
    """Note that something goes on in this process that nobody waits for any more."""
    _left.set()


def has_left() -> bool:
    """Whether threads go on that nobody waits for: the process ends beneath them then, with nothing torn down."""
    return _left.is_set() or any(one.name.startswith("carnac-") for one in threading.enumerate())


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.__init__)  # type: ignore[misc]  # threads stay with the parent


@contextmanager
def stopped_after(limit_ms: int | None, stop: Callable[[], object]) -> Iterator[threading.Event]:
    """Call `stop` again and again once the time is over; give what is set from then on.

    `stop` returns at once. It is called up to two times `INTERRUPT_S` late; a limit below that has its own timer.

    Args:
        limit_ms: None: never.
    """
    if limit_ms is None:
        yield threading.Event()
        return
    watch = _Watch(ceil(limit_ms / 1000 / INTERRUPT_S) + 1, stop)
    timer = None
    if limit_ms < INTERRUPT_S * 1000:
        watch = _Watch(1, stop)

        def look() -> None:
            _watcher.add(watch)
            watch.look()

        if limit_ms:
            timer = threading.Timer(limit_ms / 1000, look)
            timer.start()
        else:
            look()
    else:
        _watcher.add(watch)
    try:
        yield watch.is_late
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
        watch.end()
        _watcher.remove(watch)
