"""Ctrl-C and its kin while Python waits for Spark: written down, and acted on once the call is over.

A signal handler that raises in the middle of a call of py4j leaves the job running and closes the connections of other
threads, and the caller may see another error than the one that was raised. Spark's own handler calls the JVM from
inside of such a call, on the connection that is in use. So nothing is raised while we talk to Spark: the signal is
written down, the watch of the job cancels it, and when the call is over the handler that was there is called.

Source: py4j/py4j pull request 440. Departs from Spark, whose `SparkContext` sets a handler of its own for good.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from carnac.errors import Unavailable
from carnac.unbroken import SignalHolder


class Held(SignalHolder):
    """The signals that one `hold_signals` keeps back."""

    def __init__(self, hasten: Callable[[], bool] | None) -> None:
        super().__init__()
        self.hasten = hasten

    @property
    def failure(self) -> Unavailable | None:
        """The error that ends the block after a signal, or after all were given up; the signal goes before it."""
        if self.arrived is None and not _given_up.is_set():
            return None
        return Unavailable("the Spark job was interrupted")

    def _again(self, number: int, frame: FrameType | None) -> None:
        if self.hasten is None or not self.hasten():
            super()._again(number, frame)


_current: Held | None = None
"""The block of the main thread; Python calls handlers in no other."""
_others: set[Held] = set()
"""Blocks of other threads, which hear of no signal: the main thread tells them, by `give_up`."""
_mutex = threading.Lock()
_given_up = threading.Event()


def give_up() -> None:
    """Have the work of other threads with Spark end soon, since the process is to end. From the main thread."""
    _given_up.set()
    with _mutex:
        others = list(_others)
    for held in others:
        if held.hasten is not None:
            held.hasten()


def go_on() -> None:
    """Let threads use Spark again, where the process does not end after all."""
    _given_up.clear()


@contextlib.contextmanager
def hold_signals(hasten: Callable[[], bool] | None = None) -> Iterator[Held]:
    """Keep signals back while the block talks to Spark; inside of another one it is the same.

    The exception of the signal goes before any outcome of the block, as a job that was cancelled fails.

    Args:
        hasten: Makes the block end soon, called at the second signal; returns whether there was something to do. If
            not, or if it is None, the second signal does at once what it did before.
    """
    global _current  # noqa: PLW0603 - there is one main thread
    if threading.current_thread() is not threading.main_thread():
        other = Held(hasten)
        with _mutex:
            _others.add(other)
        try:
            yield other
        finally:
            with _mutex:
                _others.discard(other)
        return
    if _current is not None:
        yield _current
        return
    held = Held(hasten)
    _current = held
    held.begin()
    try:
        yield held
    finally:
        _current = None
        held.release()


def interruption_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that an error came of, as py4j's that was interrupted in the middle of a call."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen
