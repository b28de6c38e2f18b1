"""The substitute for `threading` in a simulation: the same names, on strands of a kernel."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import ModuleType, SimpleNamespace
from typing import Any

from carnac.ports.threads import DaemonThreads, stopped_after
from carnac.simulation.cluster.kernel import Kernel, Killed, Strand


class _Waiters:
    """Strands that wait for one thing."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._strands: deque[Strand] = deque()

    def wait(self, until_ms: int | None) -> bool:
        strand = self._kernel.require()
        self._strands.append(strand)
        try:
            return self._kernel.wait(until_ms)
        finally:
            if strand in self._strands:
                self._strands.remove(strand)

    def wake(self, count: int | None = None) -> None:
        left = len(self._strands) if count is None else count
        while self._strands and left:
            self._kernel.wake(self._strands.popleft())
            left -= 1


class Threads:
    """The names of `threading` that services use, for one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def deadline(self, timeout_s: float | None) -> int | None:
        """Return when a wait of so many seconds is over."""
        if timeout_s is None or timeout_s < 0:
            return None
        return self.kernel.now_ms + max(1, round(timeout_s * 1000))

    @contextmanager
    def stopped_after(self, limit_ms: int | None, stop: Callable[[], object]) -> Iterator[SimEvent]:
        """Call `stop` once the time is over: `carnac.ports.threads.stopped_after`."""
        is_late = SimEvent(self)

        def ring() -> None:
            is_late.set()
            stop()

        timer = SimTimer(self, (limit_ms or 0) / 1000, ring)
        if limit_ms is not None:
            timer.start()
        try:
            yield is_late
        finally:
            timer.cancel()

    def namespace(self) -> Any:
        """Return what takes the place of the module."""
        kernel = self.kernel

        def made(kind: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args, **named: kind(self, *args, **named)

        def current() -> Any:
            strand = kernel.here()
            return None if strand is None else (strand.thread or strand)

        return SimpleNamespace(
            Lock=made(SimLock),
            RLock=made(SimRLock),
            Event=made(SimEvent),
            Condition=made(SimCondition),
            Thread=made(SimThread),
            Timer=made(SimTimer),
            current_thread=current,
            main_thread=lambda: None,
            get_ident=lambda: id(kernel.here()),
        )


class _Held:
    """The lock that a `with` block takes and releases."""

    acquire: Callable[..., bool]
    release: Callable[..., None]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimLock(_Held):
    """`threading.Lock`."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiters = _Waiters(threads.kernel)
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it."""
        deadline_ms = self._threads.deadline(timeout)
        while self._is_held:
            if not blocking or not self._waiters.wait(deadline_ms):
                return False
        self._is_held = True
        return True

    def release(self) -> None:
        """Give it back."""
        self._is_held = False
        self._waiters.wake(1)

    def locked(self) -> bool:
        """Whether anybody has it."""
        return self._is_held


class SimRLock(SimLock):
    """`threading.RLock`."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(threads)
        self._owner: Strand | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, once more if it is ours."""
        here = self._threads.kernel.here()
        if self._depth and self._owner is here:
            self._depth += 1
            return True
        if not super().acquire(blocking, timeout):
            return False
        self._owner, self._depth = here, 1
        return True

    def release(self) -> None:
        """Give it back once."""
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            super().release()


class SimEvent:
    """`threading.Event`."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiters = _Waiters(threads.kernel)
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def set(self) -> None:
        """Let all threads that wait for it go on."""
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        """Let them wait again."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        if not self._is_set:
            self._waiters.wait(self._threads.deadline(timeout))
        return self._is_set


class SimCondition(_Held):
    """`threading.Condition`."""

    def __init__(self, threads: Threads, lock: SimLock | None = None) -> None:
        self._threads = threads
        self._lock = lock or SimRLock(threads)
        self._waiters = _Waiters(threads.kernel)
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        """Let go of the lock until somebody notifies."""
        self._lock.release()
        try:
            return self._waiters.wait(self._threads.deadline(timeout))
        finally:
            if not self._threads.kernel.is_closing:
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until something is so."""
        deadline_ms = self._threads.deadline(timeout)
        while not predicate():
            if deadline_ms is None:
                self.wait()
                continue
            left_ms = deadline_ms - self._threads.kernel.now_ms
            if left_ms <= 0:
                return predicate()
            self.wait(left_ms / 1000)
        return True

    def notify(self, n: int = 1) -> None:
        """Let some go on."""
        self._waiters.wake(n)

    def notify_all(self) -> None:
        """Let all go on."""
        self._waiters.wake()


class SimThread:
    """`threading.Thread`: a strand of the process that makes it."""

    def __init__(
        self,
        threads: Threads,
        *,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = daemon
        self._threads = threads
        self._work: Callable[[], object] = lambda: None if target is None else target(*args)
        self._over = SimEvent(threads)
        self._strand: Strand | None = None

    def start(self) -> None:
        """Let it run."""
        strand = self._threads.kernel.require()
        self._strand = self._threads.kernel.spawn(strand.process, self.name, self._run)
        self._strand.thread = self

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it is over."""
        if self._strand is not None:
            self._over.wait(timeout)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._strand is not None and not self._strand.is_over


class SimTimer(SimThread):
    """`threading.Timer`."""

    def __init__(self, threads: Threads, interval: float, function: Callable[[], object]) -> None:
        self._rung = SimEvent(threads)
        self._interval = interval
        self._function = function
        super().__init__(threads, target=self._wait, name="timer")

    def _wait(self) -> None:
        if not self._rung.wait(self._interval):
            self._function()

    def cancel(self) -> None:
        """Let it not happen."""
        self._rung.set()


class SimQueue:
    """`queue.SimpleQueue`."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiters = _Waiters(threads.kernel)
        self._things: deque[Any] = deque()

    def put(self, thing: Any) -> None:
        """Add something."""
        self._things.append(thing)
        self._waiters.wake(1)

    def get(self, timeout: float | None = None) -> Any:
        """Take the oldest.

        Raises:
            Empty: None has come in time.
        """
        deadline_ms = self._threads.deadline(timeout)
        while not self._things:
            if not self._waiters.wait(deadline_ms):
                raise Empty
        return self._things.popleft()


class SimPool:
    """`concurrent.futures.ThreadPoolExecutor` whose work is done by the strand that submits it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any, **named: Any) -> Future[Any]:
        """Do it now."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **named))
        except Killed:
            raise
        except BaseException as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *things: Iterable[Any]) -> Iterator[Any]:
        """Do it for each."""
        return iter([work(*one) for one in zip(*things, strict=False)])

    def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
        """Nothing is left to be done."""
        del wait, cancel_futures

    def __enter__(self) -> SimPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class SimDaemonThreads:
    """`carnac.ports.threads.DaemonThreads`: a strand for each thing to do."""

    free = 0

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    def run(self, do: Callable[[], object]) -> None:
        """Have something done."""
        kernel = self._threads.kernel
        kernel.spawn(kernel.require().process, "daemon", do)


@contextmanager
def simulated(kernel: Kernel, packages: Iterable[str]) -> Iterator[Threads]:
    """Have modules below some packages that were imported take strands for threads until the block ends."""
    threads = Threads(kernel)
    namespace = threads.namespace()
    taken: dict[int, Any] = {
        id(threading): namespace,
        id(threading.Lock): namespace.Lock,
        id(threading.Thread): namespace.Thread,
        id(SimpleQueue): lambda: SimQueue(threads),
        id(ThreadPoolExecutor): SimPool,
        id(stopped_after): threads.stopped_after,
    }
    swapped: list[tuple[ModuleType, str, Any]] = []
    below = tuple(f"{one}." for one in packages)
    for key, module in list(sys.modules.items()):
        if not f"{key}.".startswith(below):
            continue
        for name, value in list(vars(module).items()):
            other = taken.get(id(value))
            if isinstance(value, DaemonThreads):
                other = SimDaemonThreads(threads)
            if other is not None:
                swapped.append((module, name, value))
                setattr(module, name, other)
    try:
        yield threads
    finally:
        for module, name, was in swapped:
            setattr(module, name, was)
